package proof

import (
	"strings"
	"testing"

	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
)

// TestRemedies: what a user is told of a library that is nowhere.
func TestRemedies(t *testing.T) {
	here := []cuda.Toolkit{{Version: gpu.Version{Major: 13, Minor: 4}}}
	for name, want := range map[string]string{
		"libcuda.so.1": "NVIDIA's driver", "nvcuda.dll": "NVIDIA's driver", "VCRUNTIME140_1.dll": "Visual C++ Redistributable", "libcudnn.so.9": "--parts run,cudnn", "cudnn64_9.dll": "--parts run,cudnn",
		"libcurand.so.10": "--parts run`", "cublas64_13.dll": "--parts run`", "libcublas.so.13": "--parts run`", "libcublas.so.12": "linked to CUDA 12, here is 13.4", "cublasLt64_12.dll": "linked to CUDA 12",
		"libcurl.so.4": "", "user32.dll": "", "libcufft.so.11": "--parts run`", // cuFFT's own number
	} {
		got := Remedy(name, here)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", name, got, want)
		}
	}
	if got := Remedy("libcublas.so.12", nil); !strings.Contains(got, "toolchain install") {
		t.Errorf("without any toolkit: %q", got)
	}
	both := append(here, cuda.Toolkit{Version: gpu.Version{Major: 12, Minor: 9}})
	if got := Remedy("libcublas.so.12", both); strings.Contains(got, "linked to CUDA 12") {
		t.Errorf("with a toolkit of CUDA 12: %q", got)
	}
}
