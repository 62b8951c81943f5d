package cuda

import (
	_ "embed"
	"sync"

	"github.com/BurntSushi/toml"

	"gpubuild/gpu"
)

//go:embed releases.toml
var releasesText string

// Release is a published CUDA release, the architectures that it compiles for, and the host compilers that it takes; 0 is not known.
type Release struct {
	Version  gpu.Version `toml:"version"`
	SM       [2]int      `toml:"sm"` // oldest and newest arch, such as 75 and 121
	GCCMax   int         `toml:"gcc_max"`
	ClangMax int         `toml:"clang_max"`
	MSC      [2]int      `toml:"msc"` // oldest _MSC_VER, and the first that is refused
}

// Releases lists the published releases, the oldest first. The caller changes nothing in the list.
var Releases = sync.OnceValue(func() []Release {
	var file struct {
		Release []Release `toml:"release"`
	}
	_ = toml.Unmarshal([]byte(releasesText), &file) // a test reads it; without it no arch is known
	return file.Release
})

// Published is a toolkit as far as it is known before it is installed: what it compiles for, and the host compilers that it takes.
func Published(v gpu.Version) Toolkit {
	t := Toolkit{Version: v}
	t.MinArch, t.MaxArch = archs(v)
	for _, r := range Releases() {
		if r.Version == v {
			t.Bounds = Bounds{GCCMax: r.GCCMax, ClangMax: r.ClangMax, MSCMin: r.MSC[0], MSCMax: r.MSC[1]}
		}
	}
	return t
}

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
