package cuda

import (
	_ "embed"
	"sync"

	"github.com/BurntSushi/toml"

	"gpubuild/gpu"
)

//go:embed releases.toml
var releasesText string

// Release is a published CUDA release, and the architectures that it compiles for; 0 is not known.
type Release struct {
	Version gpu.Version `toml:"version"`
	SM      [2]int      `toml:"sm"` // oldest and newest arch, such as 75 and 121
}

// Releases lists the published releases, the oldest first. The caller changes nothing in the list.
var Releases = sync.OnceValue(func() []Release {
	var file struct {
		Release []Release `toml:"release"`
	}
	_ = toml.Unmarshal([]byte(releasesText), &file) // a test reads it; without it no arch is known
	return file.Release
})

// archs says which archs a version compiles for. A version between or after the known ones has the floor of the newest older one of its
// major, because architectures go only with a major; its newest arch is not known then.
func archs(v gpu.Version) (lo, hi gpu.Arch) {
	for _, r := range Releases() {
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
