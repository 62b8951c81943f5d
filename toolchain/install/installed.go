package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/gpu"
)

// Installation is a complete toolkit in the cache, as its marker says.
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

// InstalledPart is a wheel that went into a toolkit.
type InstalledPart struct {
	Name    string `json:"name"`
	Package string `json:"package"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Licence string `json:"licence"`
}

const maxMarker, maxList = 1 << 20, 64 << 20

// Installed lists the complete toolkits of a cache: newest CUDA first, and of one version the one with more parts first. It reads one
// small file for each.
func Installed(h buildenv.Host, cacheDir string) []Installation {
	out, _ := toolkitsIn(h, cacheDir)
	sort.SliceStable(out, func(i, j int) bool {
		if c := out[i].CUDA.Compare(out[j].CUDA); c != 0 {
			return c > 0
		}
		return len(out[i].Parts) > len(out[j].Parts)
	})
	return out
}

// Incomplete lists the directories among a cache's toolkits that are none, with no more than Root and Name: the marker is missing, damaged or of a later
// schema. No build takes one, and installing the same toolkit again replaces it.
func Incomplete(h buildenv.Host, cacheDir string) []Installation {
	_, rest := toolkitsIn(h, cacheDir)
	return rest
}

func toolkitsIn(h buildenv.Host, cacheDir string) (whole, rest []Installation) {
	dir := h.Join(cacheDir, toolkitsDir)
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil, nil
	}
	for _, e := range entries {
		root := h.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if in, ok := read(h, root); ok {
			whole = append(whole, in)
		} else if e.IsDir() {
			rest = append(rest, Installation{Root: root, Name: e.Name()})
		}
	}
	return whole, rest
}

func read(h buildenv.Host, root string) (Installation, bool) {
	data, err := h.ReadFile(h.Join(root, markerFile), maxMarker)
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
	for _, p := range in.Parts {
		if p.Name == part {
			return true
		}
	}
	return false
}

// Stubs lists the libraries of which the toolkit has a link stub in place of the real one: programs link against it, and to run they need
// the real ones from elsewhere.
func (in Installation) Stubs() []string {
	var out []string
	for _, s := range extraStubs {
		if in.LinkStubs && !in.Has(s.part) {
			out = append(out, s.library)
		}
	}
	return out
}

// satisfies says whether a toolkit holds all that a plan would put there, by hash; more does no harm.
func (in Installation) satisfies(p Plan) bool {
	if in.Release != p.Release || in.Platform != p.Platform || p.LinkStubs && !in.LinkStubs {
		return false
	}
	have := map[string]bool{}
	for _, part := range in.Parts {
		have[part.SHA256] = true
	}
	for _, it := range p.Items {
		if !have[it.SHA256] {
			return false
		}
	}
	return true
}

// Problem is one file that is not as it was put there.
type Problem struct {
	Path string `json:"path"` // from the root
	What string `json:"what"`
}

func (p Problem) String() string { return p.Path + ": " + p.What }

// Verify reads every file of a toolkit and compares it with what was put there; what was added to it is a problem, too, for a header may hide another one.
// No problems: it is whole. An interrupted Verify answers ctx's error.
func Verify(ctx context.Context, h buildenv.Host, in Installation) ([]Problem, error) {
	if in.Schema == 0 {
		return []Problem{{markerFile, "is missing, damaged or of a later gpubuild: no build takes this toolkit"}}, nil
	}
	data, err := h.ReadFile(h.Join(in.Root, listFile), maxList)
	if err != nil {
		return []Problem{{listFile, "cannot be read: " + reason(err)}}, nil
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != in.List {
		return []Problem{{listFile, "is not the one that was written"}}, nil
	}
	var files []File
	if err := json.Unmarshal(data, &files); err != nil {
		return []Problem{{listFile, err.Error()}}, nil
	}
	var out []Problem
	known := map[string]bool{named(h, listFile): true, named(h, markerFile): true} // and every directory that they lie in
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		for p := f.Path; p != "."; p = path.Dir(p) {
			known[named(h, p)] = true
		}
		if what := f.differs(h, in.Root); what != "" {
			out = append(out, Problem{f.Path, what})
		}
	}
	return append(out, added(h, in.Root, "", known)...), nil
}

// named is a path as the system tells it from others: on Windows lib and Lib of two archives are one directory, called as the first one was.
func named(h buildenv.Host, path string) string {
	if h.OS == buildenv.Windows {
		return strings.ToLower(path)
	}
	return path
}

// added lists what lies below dir and is not known; of a directory that is not known, no more than itself.
func added(h buildenv.Host, root, dir string, known map[string]bool) []Problem {
	entries, err := h.Files.ReadDir(h.Join(root, dir))
	if err != nil {
		return []Problem{{dir, "cannot be read: " + reason(err)}}
	}
	var out []Problem
	for _, e := range entries {
		switch rel := path.Join(dir, e.Name()); {
		case !known[named(h, rel)]:
			out = append(out, Problem{rel, "was not put there by gpubuild"})
		case e.IsDir():
			out = append(out, added(h, root, rel, known)...)
		}
	}
	return out
}

func (f File) differs(h buildenv.Host, root string) string {
	path := h.Join(root, f.Path)
	real, err := h.Files.EvalSymlinks(path)
	if f.Link != "" {
		switch {
		case err != nil:
			return "cannot be followed: " + reason(err)
		case !h.SamePath(real, h.Real(h.Join(h.Dir(path), f.Link))):
			return "leads to " + real
		}
		return ""
	}
	if err == nil && !h.SamePath(real, h.Join(h.Real(h.Dir(path)), h.Base(path))) { // a link has taken the file's place
		return "leads to " + real
	}
	fi, err := h.Files.Stat(path)
	switch {
	case err != nil:
		return "cannot be read: " + reason(err)
	case !fi.Mode().IsRegular():
		return "is not a file"
	case fi.Size() != f.Size:
		return fmt.Sprintf("has %d bytes, not %d", fi.Size(), f.Size)
	case f.Exec && h.OS != buildenv.Windows && fi.Mode()&0o100 == 0:
		return "cannot be executed"
	case h.OS != buildenv.Windows && fi.Mode()&0o002 != 0:
		return "can be written by everybody"
	}
	r, err := h.Files.Open(path)
	if err != nil {
		return "cannot be read: " + reason(err)
	}
	defer r.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return "cannot be read: " + reason(err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return "has another content"
	}
	return ""
}

// reason takes the path off an error that stands behind the path anyhow.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// NotInstalledError says that there is no toolkit of that name.
type NotInstalledError struct {
	Name string
	Have []string
}

func (e *NotInstalledError) Error() string { return "no toolkit " + e.Name + " in the cache" }

// Hint lists the ones that there are.
func (e *NotInstalledError) Hint() string {
	if len(e.Have) == 0 {
		return "gpubuild has fetched no toolkit yet"
	}
	return "these are there: " + strings.Join(e.Have, ", ")
}

// Remove takes a toolkit away, found by its directory's name: first out of sight by a rename, so that nobody finds half of one.
// While another gpubuild is at work in the cache it waits, and says so.
func Remove(ctx context.Context, h buildenv.Host, cacheDir, name string, waiting func(holder string)) error {
	var names []string
	for _, in := range append(Installed(h, cacheDir), Incomplete(h, cacheDir)...) {
		names = append(names, in.Name)
	}
	if i := sort.SearchStrings(sorted(names), name); i == len(names) || sorted(names)[i] != name {
		return &NotInstalledError{Name: name, Have: names}
	}
	release, err := cache.Lock(ctx, lockFile(cacheDir), waiting)
	if err != nil {
		return err
	}
	root, gone := filepath.Join(cacheDir, toolkitsDir, name), filepath.Join(cacheDir, toolkitsDir, removedPrefix+name)
	err = os.RemoveAll(gone)
	if err == nil {
		err = os.Rename(root, gone)
	}
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = &WriteError{Dir: root, Err: err}
	}
	return errors.Join(err, release())
}

func sorted(names []string) []string {
	out := append([]string{}, names...)
	sort.Strings(out)
	return out
}
