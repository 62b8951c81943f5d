package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

// MarkerFile says that a toolkit is complete, and what is in it.
const MarkerFile = "gpubuild-toolkit.json"

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
	Bytes     int64           `json:"bytes"`

	Installing bool `json:"-"` // another process is at work in the cache: it may soon be complete

	Problem string `json:"-"` // why no build takes it; all but Root and Name may be unknown then
}

// InstalledPart is an archive that went into a toolkit.
type InstalledPart struct {
	Name    string `json:"name"`
	Package string `json:"package"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Licence string `json:"licence"`
	Bytes   int64  `json:"bytes,omitempty"`
}

// Read returns the toolkit in a directory, with its Problem where it is incomplete, damaged or of a later gpubuild.
func Read(h buildenv.Host, root string) Installation {
	var in Installation
	data, err := h.ReadFile(h.Join(root, MarkerFile), buildenv.Record)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		in.Problem = "it is incomplete: it has no " + MarkerFile
	case err != nil:
		in.Problem = MarkerFile + " cannot be read: " + err.Error()
	default:
		if err := json.Unmarshal(data, &in); err != nil {
			in.Problem = MarkerFile + " is damaged: " + err.Error()
		} else if in.Schema > 2 {
			in.Problem = MarkerFile + " was written by a later gpubuild"
		} else if in.Schema < 2 || in.CUDA.IsZero() || len(in.Parts) == 0 {
			in.Problem = MarkerFile + " is damaged: it names no version or no parts"
		} else if lost := in.lost(h, root); lost != "" {
			in.Problem = "it is damaged: " + lost
		}
	}
	if in.Problem != "" {
		in = Installation{Problem: in.Problem}
	}
	in.Root, in.Name = root, h.Base(root)
	return in
}

// lost says which program of a build is missing or empty, as after the loss of power; empty: none.
func (in Installation) lost(h buildenv.Host, root string) string {
	for _, p := range []string{"bin/nvcc", "bin/ptxas", "bin/fatbinary", "nvvm/bin/cicc"} {
		fi, err := h.Files.Stat(h.Join(root, h.Exe(p)))
		switch {
		case err == nil && fi.Size() == 0:
			return p + " is empty"
		case err != nil && p == "bin/nvcc" && in.Has("nvcc"):
			return p + " is missing"
		}
	}
	return ""
}

// Unusable says that no build takes this toolkit, why, and how to get rid of it.
func (in Installation) Unusable() string {
	if in.Installing {
		return fmt.Sprintf("toolkit %s is not used: %s", in.Root, in.Problem)
	}
	return fmt.Sprintf("toolkit %s is not used: %s; `gpubuild toolchain remove %s` removes it", in.Root, in.Problem, in.Name)
}

// Contents says what is in the toolkit, for people.
func (in Installation) Contents() string {
	var names []string
	for _, p := range in.Parts {
		names = append(names, p.Name)
	}
	s := strings.Join(names, ", ")
	if stubs := in.Stubs(); len(stubs) > 0 {
		s += "; to link only: " + strings.Join(stubs, ", ")
	}
	return s
}

// Has reports whether a part is in the toolkit.
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
