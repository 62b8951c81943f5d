package catalog

import (
	"slices"
	"strconv"
	"strings"

	"gpubuild/gpu"
)

// Cudarc is one cudarc of the graph.
type Cudarc struct {
	Version string      `json:"version"`
	Max     gpu.Version `json:"max"`     // newest CUDA version it knows; zero: its manifest was not found
	Pin     gpu.Version `json:"pin"`     // version that a feature sets
	Asks    bool        `json:"asks"`    // it asks nvcc for the version
	Linking string      `json:"linking"` // dynamic-loading, dynamic-linking, static-linking
	Latest  bool        `json:"latest"`  // fallback-latest: without nvcc it takes the newest version that it knows
	// Rootless says that its build script takes nothing from a toolkit's root, whatever the variables say: it only declares them.
	Rootless bool `json:"rootless"`

	Pins []string `json:"-"` // its version features that are on
}

// CudarcOf reads the features of a cudarc.
func CudarcOf(features []string) Cudarc {
	c := Cudarc{Linking: "dynamic-loading", Latest: slices.Contains(features, "fallback-latest")}
	for _, f := range features {
		if v, ok := CudarcVersion(f); ok {
			if c.Pins = append(c.Pins, f); v.Compare(c.Pin) > 0 {
				c.Pin = v
			}
		} else if f == "dynamic-linking" || f == "static-linking" {
			c.Linking = f
		}
	}
	c.Asks = c.Pin.IsZero() && slices.Contains(features, "cuda-version-from-build-system")
	c.Rootless = c.Linking == "dynamic-loading" && Overlap(features, []string{"dynamic-loading", "fallback-dynamic-loading"}) &&
		!slices.ContainsFunc(features, func(f string) bool { return strings.HasSuffix(f, "-version-from-build-system") })
	return c
}

// CudarcVersion reads a feature such as cuda-13040.
func CudarcVersion(feature string) (gpu.Version, bool) {
	digits, ok := strings.CutPrefix(feature, "cuda-")
	if !ok || len(digits) != 5 {
		return gpu.Version{}, false
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return gpu.Version{}, false
	}
	return gpu.VersionOf(n), true
}

// How says when a program with this cudarc needs the libraries.
func (c Cudarc) How() string {
	switch c.Linking {
	case "dynamic-linking":
		return "to start"
	case "static-linking":
		return "built in, but for the driver"
	}
	return "when they are first used"
}
