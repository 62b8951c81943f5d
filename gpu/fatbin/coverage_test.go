package fatbin

import (
	"strings"
	"testing"

	"gpubuild/gpu"
)

func TestCoverage(t *testing.T) {
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
		runs   bool
		why    string
	}{
		{"no device code", nil, "9.0", gpu.Version{}, false, "the file holds no device code"},
		{"code for the very device", []Image{image(Cubin, "sm_90a", "13.4.92")}, "9.0", gpu.Version{Major: 13, Minor: 0}, true, "cubin for sm_90a runs on 9.0"},
		{"only code for another device", []Image{image(Cubin, "sm_90a", "13.4.92")}, "8.6", gpu.Version{}, false, "sm_90a code runs on 9.0 only"},
		{"a newer minor capability", []Image{image(Cubin, "sm_80", "12.8.1")}, "8.9", gpu.Version{Major: 12, Minor: 2}, true, "cubin for sm_80 runs on 8.9"},
		{"PTX helps a newer device", []Image{image(Cubin, "sm_80", "12.8.1"), image(PTX, "sm_80", "8.7")}, "9.0", gpu.Version{Major: 12, Minor: 8}, true, "PTX 8.7 for compute_80 is compiled by the driver for 9.0"},
		{"PTX that the driver does not know", []Image{image(PTXText, "sm_90", "9.4")}, "9.0", gpu.Version{Major: 12, Minor: 8}, false, "PTX 9.4 needs a driver for CUDA 13.4, this one supports 12.8"},
		{"PTX, and the driver is not known", []Image{image(PTXText, "sm_90", "9.4")}, "9.0", gpu.Version{}, true, "compiled by the driver for 9.0"},
		{"PTX from the future", []Image{image(PTXText, "sm_90", "11.0")}, "9.0", gpu.Version{Major: 13, Minor: 4}, true, "which driver PTX 11.0 needs is not known"},
		{"a cubin of a newer major toolkit", []Image{image(Cubin, "sm_90", "13.4.92")}, "9.0", gpu.Version{Major: 12, Minor: 8}, true, "may refuse it"},
		{"what has no doubt is named first", []Image{image(Cubin, "sm_90", "13.4.92"), image(PTX, "sm_80", "8.7")}, "9.0", gpu.Version{Major: 12, Minor: 8}, true, "PTX 8.7"},
		{"code that must be linked first", []Image{image(LTO, "sm_90", "")}, "9.0", gpu.Version{}, false, "lto-ir needs a link step"},
		{"a damaged image", []Image{{Kind: Cubin}}, "9.0", gpu.Version{}, false, "without a known architecture"},
		{"many reasons are cut short", []Image{image(Cubin, "sm_75", ""), image(Cubin, "sm_80", ""), image(Cubin, "sm_86", ""), image(Cubin, "sm_100", ""), image(Cubin, "sm_110", ""), image(Cubin, "sm_120", "")}, "9.0", gpu.Version{}, false, "and 2 more"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			c, err := gpu.ParseCapability(tt.device)
			if err != nil {
				t.Fatal(err)
			}
			got := Coverage(tt.images, c, tt.driver)
			if got.Runs != tt.runs || !strings.Contains(got.Why, tt.why) || len(got.Rulings) != len(tt.images) {
				t.Errorf("got %v %q, want %v %q", got.Runs, got.Why, tt.runs, tt.why)
			}
		})
	}
}

func TestWrittenBy(t *testing.T) {
	for toolkit, want := range map[string]string{"13.4": "9.4", "13.3": "9.3", "12.6": "8.5", "12.8": "8.7", "11.0": "7.0", "13.5": "", "8.0": ""} {
		v, err := gpu.ParseVersion(toolkit)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := WrittenBy(v); got != want || ok != (want != "") {
			t.Errorf("CUDA %s writes PTX %q (%v), want %q", toolkit, got, ok, want)
		}
	}
}

func TestSignature(t *testing.T) {
	const line = "Cuda compilation tools, release 13.4, V13.4.92"
	tests := []struct{ story, data, want string }{
		{"a tool", "ELF…\x00" + line + "\x00Build cuda_13.4", "13.4.92"},
		{"the line lies across two pieces", strings.Repeat("x", chunkSize+64-20) + line + "\x00", "13.4.92"},
		{"its number lies across two pieces", strings.Repeat("x", chunkSize+64-len(line)+1) + line + "\x00", "13.4.92"},
		{"the line ends the file", strings.Repeat("x", 2*chunkSize) + line, "13.4.92"},
		{"a script that calls the tool", "#!/bin/sh\nexec /usr/lib/nvidia-cuda-toolkit/bin/nvcc \"$@\"\n", ""},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		if got, err := Signature(strings.NewReader(tt.data)); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.story, got, err, tt.want)
		}
	}
}
