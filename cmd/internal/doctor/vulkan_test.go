package doctor

import (
	"strings"
	"testing"

	"gpubuild/gpu/probe"
)

func TestCheckVulkan(t *testing.T) {
	llvmpipe := probe.Device{Name: "llvmpipe (LLVM 15)", Type: "cpu"}
	h200 := probe.Device{Name: "NVIDIA H200", Type: "discrete"}
	for _, tt := range []struct {
		story string
		facts *Vulkan
		state State
		says  string
	}{
		{"a GPU and a rasteriser", &Vulkan{Devices: []probe.Device{h200, llvmpipe}}, OK, "NVIDIA H200 (discrete); llvmpipe (LLVM 15) " +
			"(software)"},
		{"a rasteriser only", &Vulkan{Devices: []probe.Device{llvmpipe}}, Warning, "Vulkan has only software devices; llvmpipe"},
		{"no loader", &Vulkan{Why: "libvulkan.so.1: cannot open shared object file"}, Missing, "no Vulkan device: libvulkan.so.1"},
	} {
		if c := checkVulkan(*tt.facts); c.State != tt.state || !strings.Contains(c.Says, tt.says) ||
			(c.State == OK) != (c.Fix == "") {
			t.Errorf("%s: %+v", tt.story, c)
		}
	}
	for _, c := range Run(Facts{}) {
		if c.ID == "vulkan" {
			t.Errorf("a project without Vulkan: %+v", c)
		}
	}
}

// A project that uses Vulkan is not told of NVIDIA's driver and libcupti.
func TestVerdictOfVulkan(t *testing.T) {
	checks := Run(Facts{Prove: true, Compiler: "gcc", Cargo: "/bin/cargo",
		Vulkan: &Vulkan{Devices: []probe.Device{{Name: "llvmpipe (LLVM 15)", Type: "cpu", DriverID: 13}}}})
	got := Verdict(checks)
	if _, prove, _ := strings.Cut(got, "ready to prove: "); !strings.HasSuffix(prove, "Vulkan has only software devices.") ||
		strings.Contains(prove, "cupti") || strings.Contains(prove, "driver") {
		t.Error(got)
	}
}
