package cuda

import (
	_ "embed"
	"fmt"

	"github.com/BurntSushi/toml"

	"gpubuild/gpu"
)

//go:embed releases.toml
var releasesText string

// Release is what is published of a CUDA release. A number that is 0 is not known.
type Release struct {
	Version gpu.Version `toml:"version"`
	SM      [2]int      `toml:"sm"`     // oldest and newest arch, such as 75 and 121
	GCC     int         `toml:"gcc"`    // newest gcc; the installed header decides
	Clang   int         `toml:"clang"`  // newest clang; the installed header decides
	Driver  string      `toml:"driver"` // the oldest driver on which its programs start, on Linux
}

// Releases lists the published releases, the oldest first.
func Releases() ([]Release, error) {
	var file struct {
		Release []Release `toml:"release"`
	}
	if err := toml.Unmarshal([]byte(releasesText), &file); err != nil {
		return nil, fmt.Errorf("releases.toml: %w", err)
	}
	return file.Release, nil
}

// archs says which archs a version compiles for. A version between or after the known ones has the floor of the newest older one of its
// major, because architectures go only with a major; its newest arch is not known then.
func archs(known []Release, v gpu.Version) (lo, hi gpu.Arch) {
	for _, r := range known {
		if r.Version.Major != v.Major || r.Version.Compare(v) > 0 {
			continue
		}
		lo, hi = arch(r.SM[0]), gpu.Arch{}
		if r.Version == v {
			hi = arch(r.SM[1])
		}
	}
	return lo, hi
}

func arch(n int) gpu.Arch {
	return gpu.Arch{Capability: gpu.Capability{Major: n / 10, Minor: n % 10}}
}
