package cuda

import (
	_ "embed"
	"fmt"
	"slices"
	"sync"

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
	MSC     [2]int      `toml:"msc"`    // lowest _MSC_VER, and the first that is refused; the installed header decides
	Driver  string      `toml:"driver"` // the oldest driver on which its programs start, on Linux
}

// Releases lists the published releases, the oldest first.
func Releases() ([]Release, error) {
	known, err := releases()
	return slices.Clone(known), err
}

// releases reads the table once: the rows of a matrix ask for it a thousand times.
var releases = sync.OnceValues(func() ([]Release, error) {
	var file struct {
		Release []Release `toml:"release"`
	}
	if err := toml.Unmarshal([]byte(releasesText), &file); err != nil {
		return nil, fmt.Errorf("releases.toml: %w", err)
	}
	return file.Release, nil
})

// PublishedBy is given in place of a header's path where a toolkit is known only by what is published of it.
const PublishedBy = "the published table"

// Published is a toolkit that is not here, as far as its release is published: complete, with link stubs. CI's rows are judged by it,
// which run on machines that we do not see. ok is false for a release that is not known.
func Published(v gpu.Version) (t Toolkit, ok bool, err error) {
	known, err := Releases()
	if err != nil {
		return Toolkit{}, false, err
	}
	for _, r := range known {
		if r.Version != v {
			continue
		}
		lo, hi := archs(known, v)
		root := "CUDA " + v.String()
		return Toolkit{
			Root:    root,
			Real:    root,
			NVCC:    root + "/bin/nvcc",
			Version: v,
			Label:   v.String(),
			Lib:     root + "/lib64",
			Stubs:   root + "/lib64/stubs",
			Include: root + "/include",
			MinArch: lo,
			MaxArch: hi,
			Bounds:  Bounds{GCCMax: r.GCC, ClangMax: r.Clang, MSCMin: r.MSC[0], MSCMax: r.MSC[1], File: PublishedBy},
			Sources: []Source{{Kind: Usual, Name: PublishedBy}},
			Origin:  PublishedBy,
		}, true, nil
	}
	return Toolkit{}, false, nil
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
