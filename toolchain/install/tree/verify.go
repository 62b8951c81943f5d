package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"gpubuild/buildenv"
)

// Problem is one file that is not as it was installed.
type Problem struct {
	Path string `json:"path"` // from the root
	What string `json:"what"`
}

func (p Problem) String() string { return p.Path + ": " + p.What }

// Verify reads every file of a toolkit and compares it with what was installed. Files that no installation listed do not count. Without
// problems, the toolkit is whole. If it is interrupted, it returns ctx's error.
func Verify(ctx context.Context, h buildenv.Host, in Installation) ([]Problem, error) {
	if in.Schema == 0 {
		return []Problem{{Path: MarkerFile, What: in.Problem + "; no build uses this toolkit"}}, nil
	}
	files, err := in.Files(h)
	if err != nil {
		return []Problem{{in.listFile(), err.Error()}}, nil
	}
	var out []Problem
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if what := f.differs(h, in.Root); what != "" {
			out = append(out, Problem{f.Path, what})
		}
	}
	return out, nil
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
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
