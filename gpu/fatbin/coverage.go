package fatbin

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/gpu"
)

// Uncovered says why a device of a capability can run none of a file's images, where the driver supports CUDA up to a version (zero: not
// known); empty: it can run one. It speaks of what the file holds; a program can still bring code from elsewhere.
func Uncovered(images []Image, c gpu.Capability, driver gpu.Version) string {
	var why []string
	for _, im := range images {
		reason := im.refused(c, driver)
		if reason == "" {
			return ""
		}
		if !slices.Contains(why, reason) {
			why = append(why, reason)
		}
	}
	if len(why) > 4 {
		why = append(why[:4], fmt.Sprintf("and %d more", len(why)-4))
	}
	return strings.Join(why, "; ")
}

// refused says why a device cannot run an image; empty: it can.
func (im Image) refused(c gpu.Capability, driver gpu.Version) string {
	switch {
	case im.Kind == LTO:
		return "lto-ir needs a link step before it runs anywhere"
	case im.Kind != Cubin && im.Kind != PTX && im.Kind != PTXText:
		return im.Kind + " is not known"
	case im.Arch == (gpu.Arch{}):
		return "an image without a known architecture"
	}
	if runs, why := im.Arch.Runs(c); !runs {
		return why
	}
	need, known := neededBy(im.PTXVersion)
	if im.Arch.Virtual && known && !driver.IsZero() && need.Compare(driver) > 0 {
		return fmt.Sprintf("PTX %s needs a driver for CUDA %s, this one supports %s", im.PTXVersion, need, driver)
	}
	return ""
}

// ptxReleases says with which CUDA version a PTX version came, and so what a driver must support to compile it: the next minor versions of
// both go together. Source: PTX ISA release history; for 11.0–13.4 llvm/llvm-project clang/lib/Driver/ToolChains/Cuda.cpp and
// NVIDIA/cuda-python _ptx_utils.py. 8.6 is CUDA 12.7's number, which was never released.
var ptxReleases = []struct {
	ptx, cuda gpu.Version
	count     int
}{
	{gpu.Version{Major: 6, Minor: 0}, gpu.Version{Major: 9, Minor: 0}, 3},
	{gpu.Version{Major: 6, Minor: 3}, gpu.Version{Major: 10, Minor: 0}, 3},
	{gpu.Version{Major: 7, Minor: 0}, gpu.Version{Major: 11, Minor: 0}, 9},
	{gpu.Version{Major: 8, Minor: 0}, gpu.Version{Major: 12, Minor: 0}, 6},
	{gpu.Version{Major: 8, Minor: 6}, gpu.Version{Major: 12, Minor: 7}, 3},
	{gpu.Version{Major: 9, Minor: 0}, gpu.Version{Major: 13, Minor: 0}, 5},
}

// neededBy says which CUDA version a driver must support to compile PTX of a version, such as "9.4"; false when it is not known.
func neededBy(ptx string) (gpu.Version, bool) {
	v, err := gpu.ParseVersion(ptx)
	if err != nil {
		return gpu.Version{}, false
	}
	for _, r := range ptxReleases {
		if minor := v.Minor - r.ptx.Minor; v.Major == r.ptx.Major && minor >= 0 && minor < r.count {
			return gpu.Version{Major: r.cuda.Major, Minor: r.cuda.Minor + minor}, true
		}
	}
	return gpu.Version{}, false
}
