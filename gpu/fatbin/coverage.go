package fatbin

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/gpu"
)

// Ruling says whether a device can run one image.
type Ruling struct {
	Image Image  `json:"image"`
	Runs  bool   `json:"runs"`
	Why   string `json:"why,omitempty"` // why not, or what may yet stand in its way
}

// Cover says what of a file's device code a device can run.
type Cover struct {
	Runs    bool     `json:"runs"` // at least one image does
	Why     string   `json:"why"`  // in one line, for a person
	Rulings []Ruling `json:"rulings"`
}

// Coverage holds images against a device's capability and the newest CUDA version that its driver supports (zero: not known). It speaks
// of what the file holds; a program can still bring code from elsewhere.
func Coverage(images []Image, c gpu.Capability, driver gpu.Version) Cover {
	cover := Cover{Rulings: []Ruling{}}
	best, why := Ruling{}, []string{}
	for _, im := range images {
		r := rule(im, c, driver)
		cover.Rulings = append(cover.Rulings, r)
		if !r.Runs && !slices.Contains(why, r.Why) {
			why = append(why, r.Why)
		}
		// Machine code is what the driver takes first, and what has no doubt is what we name first.
		if r.Runs && (!cover.Runs || better(r, best)) {
			best, cover.Runs = r, true
		}
	}
	switch {
	case len(images) == 0:
		cover.Why = "the file holds no device code"
	case cover.Runs:
		cover.Why = fmt.Sprintf("%s for %s runs on %s", best.Image.what(), best.Image.Arch, c)
		if best.Image.Arch.Virtual {
			cover.Why = fmt.Sprintf("%s for %s is compiled by the driver for %s", best.Image.what(), best.Image.Arch, c)
		}
		if best.Why != "" {
			cover.Why += "; " + best.Why
		}
	default:
		if len(why) > 4 {
			why = append(why[:4], fmt.Sprintf("and %d more", len(why)-4))
		}
		cover.Why = strings.Join(why, "; ")
	}
	return cover
}

func better(a, b Ruling) bool {
	if (a.Why == "") != (b.Why == "") {
		return a.Why == ""
	}
	return a.Image.Kind == Cubin && b.Image.Kind != Cubin
}

func (im Image) what() string {
	switch im.Kind {
	case PTX, PTXText:
		return strings.TrimSpace("PTX " + im.PTXVersion)
	}
	return im.Kind
}

func rule(im Image, c gpu.Capability, driver gpu.Version) Ruling {
	r := Ruling{Image: im}
	switch im.Kind {
	case Cubin, PTX, PTXText:
	case LTO:
		r.Why = "lto-ir needs a link step before it runs anywhere"
		return r
	default:
		r.Why = im.Kind + " is not known"
		return r
	}
	if im.Arch == (gpu.Arch{}) {
		r.Why = "an image without a known architecture"
		return r
	}
	if r.Runs, r.Why = im.Arch.Runs(c); !r.Runs || driver.IsZero() {
		return r
	}
	if im.Arch.Virtual {
		need, known := NeededBy(im.PTXVersion)
		switch {
		case !known:
			r.Why = fmt.Sprintf("which driver PTX %s needs is not known", im.PTXVersion)
		case need.Compare(driver) > 0:
			r.Runs = false
			r.Why = fmt.Sprintf("PTX %s needs a driver for CUDA %s, this one supports %s", im.PTXVersion, need, driver)
		}
		return r
	}
	// Within a major version every driver runs the cubins of every toolkit; across one only the newer driver the older cubin
	// (NVIDIA CUDA compatibility guide, "Minor version compatibility").
	if built, err := gpu.ParseVersion(im.Toolkit); err == nil && built.Major > driver.Major {
		r.Why = fmt.Sprintf("made by nvcc %s, and a driver for CUDA %s may refuse it", im.Toolkit, driver)
	}
	return r
}

// ptxVersions says with which CUDA version a PTX version came, and so what a driver must support to compile it.
// Source: PTX ISA release history; for 11.0–13.4 llvm/llvm-project clang/lib/Driver/ToolChains/Cuda.cpp and NVIDIA/cuda-python
// _ptx_utils.py. 8.6 is CUDA 12.7's number, which was never released.
var ptxVersions = [...]struct{ ptx, cuda gpu.Version }{
	{gpu.Version{Major: 6, Minor: 0}, gpu.Version{Major: 9, Minor: 0}},
	{gpu.Version{Major: 6, Minor: 1}, gpu.Version{Major: 9, Minor: 1}},
	{gpu.Version{Major: 6, Minor: 2}, gpu.Version{Major: 9, Minor: 2}},
	{gpu.Version{Major: 6, Minor: 3}, gpu.Version{Major: 10, Minor: 0}},
	{gpu.Version{Major: 6, Minor: 4}, gpu.Version{Major: 10, Minor: 1}},
	{gpu.Version{Major: 6, Minor: 5}, gpu.Version{Major: 10, Minor: 2}},
	{gpu.Version{Major: 7, Minor: 0}, gpu.Version{Major: 11, Minor: 0}},
	{gpu.Version{Major: 7, Minor: 1}, gpu.Version{Major: 11, Minor: 1}},
	{gpu.Version{Major: 7, Minor: 2}, gpu.Version{Major: 11, Minor: 2}},
	{gpu.Version{Major: 7, Minor: 3}, gpu.Version{Major: 11, Minor: 3}},
	{gpu.Version{Major: 7, Minor: 4}, gpu.Version{Major: 11, Minor: 4}},
	{gpu.Version{Major: 7, Minor: 5}, gpu.Version{Major: 11, Minor: 5}},
	{gpu.Version{Major: 7, Minor: 6}, gpu.Version{Major: 11, Minor: 6}},
	{gpu.Version{Major: 7, Minor: 7}, gpu.Version{Major: 11, Minor: 7}},
	{gpu.Version{Major: 7, Minor: 8}, gpu.Version{Major: 11, Minor: 8}},
	{gpu.Version{Major: 8, Minor: 0}, gpu.Version{Major: 12, Minor: 0}},
	{gpu.Version{Major: 8, Minor: 1}, gpu.Version{Major: 12, Minor: 1}},
	{gpu.Version{Major: 8, Minor: 2}, gpu.Version{Major: 12, Minor: 2}},
	{gpu.Version{Major: 8, Minor: 3}, gpu.Version{Major: 12, Minor: 3}},
	{gpu.Version{Major: 8, Minor: 4}, gpu.Version{Major: 12, Minor: 4}},
	{gpu.Version{Major: 8, Minor: 5}, gpu.Version{Major: 12, Minor: 5}},
	{gpu.Version{Major: 8, Minor: 6}, gpu.Version{Major: 12, Minor: 7}},
	{gpu.Version{Major: 8, Minor: 7}, gpu.Version{Major: 12, Minor: 8}},
	{gpu.Version{Major: 8, Minor: 8}, gpu.Version{Major: 12, Minor: 9}},
	{gpu.Version{Major: 9, Minor: 0}, gpu.Version{Major: 13, Minor: 0}},
	{gpu.Version{Major: 9, Minor: 1}, gpu.Version{Major: 13, Minor: 1}},
	{gpu.Version{Major: 9, Minor: 2}, gpu.Version{Major: 13, Minor: 2}},
	{gpu.Version{Major: 9, Minor: 3}, gpu.Version{Major: 13, Minor: 3}},
	{gpu.Version{Major: 9, Minor: 4}, gpu.Version{Major: 13, Minor: 4}},
}

// NeededBy says which CUDA version a driver must support to compile PTX of a version, such as "9.4"; false when it is not known.
func NeededBy(ptx string) (gpu.Version, bool) {
	v, err := gpu.ParseVersion(ptx)
	if err != nil {
		return gpu.Version{}, false
	}
	if v.Major < 6 {
		return gpu.Version{Major: 9}, true // older than every driver that is still about
	}
	for _, e := range ptxVersions {
		if e.ptx == v {
			return e.cuda, true
		}
	}
	return gpu.Version{}, false
}

// WrittenBy answers the PTX version that a toolkit's compiler writes: the newest one that its release knows (each of 11.0–13.4 raised it
// or kept the one before). It is false for releases that the table does not reach, whose PTX may be newer.
func WrittenBy(toolkit gpu.Version) (string, bool) {
	last := len(ptxVersions) - 1
	if toolkit.Compare(ptxVersions[0].cuda) < 0 || toolkit.Compare(ptxVersions[last].cuda) > 0 {
		return "", false
	}
	for last > 0 && ptxVersions[last].cuda.Compare(toolkit) > 0 {
		last--
	}
	return ptxVersions[last].ptx.String(), true
}
