package features

import (
	"slices"
	"testing"
)

func TestBackends(t *testing.T) {
	on := func(backend string) CrateState { return CrateState{Backend: backend, On: true} }
	for _, tt := range []struct {
		story  string
		root   Root
		want   []string
		vulkan bool
	}{
		{"nothing", Root{}, []string{"cpu"}, false},
		{"off", Root{Crates: []CrateState{{Backend: "wgpu"}}}, []string{"cpu"}, false},
		{"wgpu", Root{Crates: []CrateState{on("own"), on("wgpu"), on("vulkan")}}, []string{"vulkan", "wgpu"}, true},
		{"ash alone", Root{Crates: []CrateState{on("vulkan")}}, []string{"vulkan"}, true},
		{"both", Root{Reached: true, Crates: []CrateState{on("cuda,wgpu")}}, []string{"cuda", "wgpu"}, false},
		{"wgpu where cuda is requested", Root{Asked: []string{"cuda"}, Crates: []CrateState{on("wgpu")}}, []string{"wgpu"}, false},
		{"several of burn", Root{Crates: []CrateState{on("rocm,wgpu")}}, []string{"rocm", "wgpu"}, true},
	} {
		if got := tt.root.Backends(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.story, got, tt.want)
		}
		if got := (&Reach{Roots: []Root{tt.root}}).UsesVulkan(); got != tt.vulkan {
			t.Errorf("%s: Vulkan is %v", tt.story, got)
		}
	}
}
