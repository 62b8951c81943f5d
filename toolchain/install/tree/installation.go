package tree

import (
	"encoding/json"
	"slices"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

const (
	// MarkerFile says that a toolkit is complete, and what is in it.
	MarkerFile = "gpubuild-toolkit.json"
	listFile   = "gpubuild-files.json"

	maxMarker, maxList = 1 << 20, 64 << 20
)

// Installation is a complete toolkit, as its marker says.
type Installation struct {
	Schema    int             `json:"schema"`
	Root      string          `json:"-"`
	Name      string          `json:"-"` // its directory's name
	CUDA      gpu.Version     `json:"cuda"`
	Release   string          `json:"release"`
	Platform  string          `json:"platform"`
	Parts     []InstalledPart `json:"parts"`
	LinkStubs bool            `json:"link_stubs"`
	Files     int             `json:"files"`
	Bytes     int64           `json:"bytes"`
	List      string          `json:"list_sha256"`
}

// InstalledPart is an archive that went into a toolkit.
type InstalledPart struct {
	Name    string `json:"name"`
	Package string `json:"package"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Licence string `json:"licence"`
}

// Read returns the toolkit in a directory; false: there is no complete one, or it is of a later gpubuild.
func Read(h buildenv.Host, root string) (Installation, bool) {
	data, err := h.ReadFile(h.Join(root, MarkerFile), maxMarker)
	if err != nil {
		return Installation{}, false
	}
	var in Installation
	if json.Unmarshal(data, &in) != nil || in.Schema != 1 || in.CUDA.IsZero() || len(in.Parts) == 0 {
		return Installation{}, false
	}
	in.Root, in.Name = root, h.Base(root)
	return in, true
}

// Has says whether a part is in the toolkit.
func (in Installation) Has(part string) bool {
	return slices.ContainsFunc(in.Parts, func(p InstalledPart) bool { return p.Name == part })
}

// Stubs lists the libraries of which the toolkit has a link stub in place of the real one: programs link against it, and to run they need
// the real ones from elsewhere.
func (in Installation) Stubs() []string {
	if !in.LinkStubs {
		return nil
	}
	var out []string
	for _, s := range stubs {
		if !in.Has(s.part) {
			out = append(out, s.library)
		}
	}
	return out
}
