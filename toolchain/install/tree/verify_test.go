package tree

import (
	"encoding/json"
	"testing"
)

func TestVersionJSON(t *testing.T) {
	data, err := versionJSON(Installation{Release: "13.4.3", Parts: []InstalledPart{
		{Package: "nvidia-cuda-nvcc", Version: "13.4.92"}, {Package: "nvidia-nvvm", Version: "13.4.92"}, {Package: "cuda_cudart", Version: "12.4.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]struct{ Name, Version string }
	if err := json.Unmarshal(data, &got); err != nil || got["cuda"].Version != "13.4.3" || got["cuda_nvcc"].Version != "13.4.92" ||
		got["nvvm"].Name != "nvvm" || got["cuda_cudart"].Version != "12.4.1" {
		t.Errorf("%s, %v", data, err)
	}
}
