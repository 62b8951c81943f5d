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

const (
	// MarkerFile says that a toolkit is complete, and what is in it.
	MarkerFile = "gpubuild-toolkit.json"

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
	Bytes     int64           `json:"bytes"`
	List      string          `json:"list_sha256"`

	Installing bool `json:"-"` // another process is at work in the cache: it may soon be complete

	Problem string `json:"-"` // why no build takes it; all but Root and Name may be unknown then
}

// listFile lists the files. It has another name after each installation: the marker is replaced at once, and until then the old list holds.
func (in Installation) listFile() string {
	return "gpubuild-files-" + in.List[:min(16, len(in.List))] + ".json"
}

// Files reads the list; the error is the list's problem.
func (in Installation) Files(h buildenv.Host) ([]File, error) {
	data, err := h.ReadFile(h.Join(in.Root, in.listFile()), maxList)
	if err != nil {
		return nil, errors.New("cannot be read: " + reason(err))
	}
	if hash(data) != in.List {
		return nil, errors.New("is not the one that was written")
	}
	var files []File
	err = json.Unmarshal(data, &files)
	return files, err
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
	data, err := h.ReadFile(h.Join(root, MarkerFile), maxMarker)
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
		}
	}
	if in.Problem != "" {
		in = Installation{Problem: in.Problem}
	}
	in.Root, in.Name = root, h.Base(root)
	return in
}

// programs are those that a build runs, each below the root of a toolkit.
var programs = []string{"bin/nvcc", "bin/ptxas", "bin/fatbinary", "nvvm/bin/cicc"}

// Lost says which program of a build was installed and is missing or empty; empty: none. Verify compares everything.
func (in Installation) Lost(h buildenv.Host) string {
	var listed []File
	for _, p := range programs {
		p = h.Exe(p)
		what := " is missing"
		if fi, err := h.Files.Stat(h.Join(in.Root, p)); err == nil && !fi.IsDir() {
			if fi.Size() > 0 {
				continue
			}
			what = " is empty"
		}
		if listed == nil {
			var err error
			if listed, err = in.Files(h); err != nil {
				return in.listFile() + " " + err.Error() // without which nothing is known of the program
			}
		}
		if slices.ContainsFunc(listed, func(f File) bool { return f.Path == p && f.Size > 0 }) {
			return p + what
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

// Holds says what is in the toolkit, for people.
func (in Installation) Holds() string {
	s := strings.Join(in.Names(), ", ")
	if stubs := in.Stubs(); len(stubs) > 0 {
		s += "; to link only: " + strings.Join(stubs, ", ")
	}
	return s
}

// Names lists the parts.
func (in Installation) Names() (all []string) {
	for _, p := range in.Parts {
		all = append(all, p.Name)
	}
	return all
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
