package fatbin

import (
	"strings"
	"testing"

	"gpubuild/gpu"
)

func TestUncovered(t *testing.T) {
	image := func(kind, arch, version string) Image {
		a, err := gpu.ParseArch(arch)
		if err != nil {
			t.Fatal(err)
		}
		im := Image{Kind: kind, Arch: a}
		if kind == Cubin {
			im.Toolkit = version
		} else {
			im.PTXVersion, im.Arch.Virtual = version, true
		}
		return im
	}
	tests := []struct {
		story  string
		images []Image
		device string
		driver gpu.Version
		why    string // empty: one of the images runs
	}{
		{"code for the very device", []Image{image(Cubin, "sm_90a", "13.4.92")}, "9.0", gpu.Version{Major: 13, Minor: 0}, ""},
		{"only code for another device", []Image{image(Cubin, "sm_90a", "13.4.92")}, "8.6", gpu.Version{}, "sm_90a code runs on 9.0 only"},
		{"a newer minor capability", []Image{image(Cubin, "sm_80", "12.8.1")}, "8.9", gpu.Version{Major: 12, Minor: 2}, ""},
		{"PTX helps a newer device", []Image{image(Cubin, "sm_80", "12.8.1"), image(PTX, "sm_80", "8.7")}, "9.0", gpu.Version{Major: 12, Minor: 8}, ""},
		{"PTX that the driver does not know", []Image{image(PTXText, "sm_90", "9.4")}, "9.0", gpu.Version{Major: 12, Minor: 8}, "PTX 9.4 needs a driver for CUDA 13.4, this one supports 12.8"},
		{"PTX, and the driver is not known", []Image{image(PTXText, "sm_90", "9.4")}, "9.0", gpu.Version{}, ""},
		{"PTX from the future", []Image{image(PTXText, "sm_90", "11.0")}, "9.0", gpu.Version{Major: 13, Minor: 4}, ""},
		{"a cubin of a newer major toolkit", []Image{image(Cubin, "sm_90", "13.4.92")}, "9.0", gpu.Version{Major: 12, Minor: 8}, ""},
		{"what has no doubt is named first", []Image{image(Cubin, "sm_90", "13.4.92"), image(PTX, "sm_80", "8.7")}, "9.0", gpu.Version{Major: 12, Minor: 8}, ""},
		{"code that must be linked first", []Image{image(LTO, "sm_90", "")}, "9.0", gpu.Version{}, "lto-ir needs a link step"},
		{"a damaged image", []Image{{Kind: Cubin}}, "9.0", gpu.Version{}, "without a known architecture"},
		{"many reasons are cut short", []Image{image(Cubin, "sm_75", ""), image(Cubin, "sm_80", ""), image(Cubin, "sm_86", ""), image(Cubin, "sm_100", ""), image(Cubin, "sm_110", ""), image(Cubin, "sm_120", "")}, "9.0", gpu.Version{}, "and 2 more"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			c, err := gpu.ParseCapability(tt.device)
			if err != nil {
				t.Fatal(err)
			}
			if got := Uncovered(tt.images, c, tt.driver); (got == "") != (tt.why == "") || !strings.Contains(got, tt.why) {
				t.Errorf("got %q, want %q", got, tt.why)
			}
		})
	}
}
