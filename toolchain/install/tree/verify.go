package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"gpubuild/buildenv"
)

// Problem is one file that is not as it was installed.
type Problem struct {
	Path string `json:"path"` // from the root
	What string `json:"what"`
}

func (p Problem) String() string { return p.Path + ": " + p.What }

// Verify reads every file of a toolkit and compares it with what was installed. A file that was added is a problem, too, for a header
// may hide another one. No problems: the toolkit is whole. If it is interrupted, it returns ctx's error.
func Verify(ctx context.Context, h buildenv.Host, in Installation) ([]Problem, error) {
	if in.Schema == 0 {
		return []Problem{{MarkerFile, "is missing, damaged or of a later gpubuild: no build takes this toolkit"}}, nil
	}
	data, err := h.ReadFile(h.Join(in.Root, listFile), maxList)
	if err != nil {
		return []Problem{{listFile, "cannot be read: " + reason(err)}}, nil
	}
	if hash(data) != in.List {
		return []Problem{{listFile, "is not the one that was written"}}, nil
	}
	var files []File
	if err := json.Unmarshal(data, &files); err != nil {
		return []Problem{{listFile, err.Error()}}, nil
	}
	var out []Problem
	known := map[string]bool{named(h, listFile): true, named(h, MarkerFile): true} // files and their directories
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

// named folds case on Windows: lib and Lib of two archives are one directory there, named as the first one was.
func named(h buildenv.Host, path string) string {
	if h.OS == buildenv.Windows {
		return strings.ToLower(path)
	}
	return path
}

// added lists what lies below dir and is not known; of an unknown directory, only the directory itself.
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

// differs says how a file is not the one that was installed; empty: it is.
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

// reason is an error without its path, which the message names already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
