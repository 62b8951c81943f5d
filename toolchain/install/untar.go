package install

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ulikunitz/xz"
)

func tooLarge(w Wheel) string {
	if w.Path != "" {
		return "more than " + size(int64(w.bound())) + ", which no archive of " + size(w.Size) + " honestly holds"
	}
	return "more than the " + size(w.Unpacked) + " that the pin says"
}

// placeRedist says where an entry of a redistributable goes. All of an archive lies below one directory
// (cuda_nvcc-linux-x86_64-12.9.86-archive/); its licence is kept under the component's name. Left out is what no build reads: samples and
// documents of CUPTI, and static libraries of what programs load, which are larger than all the rest.
func placeRedist(w Wheel, entry string) (string, error) {
	_, rel, below := strings.Cut(entry, "/")
	if !below {
		return "", errors.New("it is not below <component>-archive/")
	}
	first, _, deeper := strings.Cut(rel, "/")
	switch {
	case !deeper:
		return "licenses/" + w.Package + "-" + w.Version + "/" + rel, nil
	case first == "samples" || first == "doc" || first == "docs":
		return "", nil
	case strings.HasSuffix(rel, ".a") && w.Part != "runtime" && w.Part != "nvcc":
		return "", nil
	}
	return rel, nil
}

// unpackTar adds the files of a .tar.xz to the tree. It is one stream, so its entries come one after another.
func (t *tree) unpackTar(ctx context.Context, archive string, w Wheel) error {
	bad := func(entry, why string, err error) error {
		return &ArchiveError{Wheel: w.File, Entry: entry, Why: why, Err: err}
	}
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := xz.NewReader(bufio.NewReaderSize(f, bufferSize))
	if err != nil {
		return bad("", "cannot be read", err)
	}
	buffer := make([]byte, bufferSize)
	stream := &io.LimitedReader{R: bufio.NewReaderSize(z, bufferSize), N: int64(w.bound())}
	entries := tar.NewReader(stream)
	var total uint64
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := entries.Next()
		switch {
		case err == io.EOF && stream.N > 0:
			return nil
		case err != nil && stream.N <= 0:
			return bad("", tooLarge(w), nil)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return bad("", "cannot be read", err)
		case n > maxEntries:
			return bad("", fmt.Sprintf("holds more than %d entries", maxEntries), nil)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		entry := strings.TrimPrefix(h.Name, "./")
		if h.Typeflag == tar.TypeDir {
			if entry = strings.TrimSuffix(entry, "/") + "/"; entry == "/" {
				continue
			}
		}
		rel, err := place(w, entry)
		if err != nil {
			return bad(h.Name, err.Error(), nil)
		}
		if rel != "" && t.belowLink(rel) {
			return bad(h.Name, "it lies below a link", nil)
		}
		why := func(why string, err error) error { return bad(h.Name, why, err) }
		switch h.Typeflag {
		case tar.TypeDir:
		case tar.TypeReg:
			if rel == "" {
				continue
			}
			if total += uint64(h.Size); h.Size < 0 || total > w.bound() { // of a sparse file the stream holds less than is written
				return bad(h.Name, tooLarge(w), nil)
			}
			err = t.put(File{Path: rel, Size: h.Size, Exec: h.Mode&0o100 != 0}, entries, buffer, why)
		case tar.TypeSymlink:
			if rel != "" {
				err = t.linkWithin(rel, h.Linkname, why)
			}
		default:
			return bad(h.Name, fmt.Sprintf("it is neither a file nor a directory nor a symbolic link (type %q)", h.Typeflag), nil)
		}
		if err != nil {
			return err
		}
	}
}

// belowLink says whether one of a path's directories is a symbolic link: then writing there would write elsewhere.
func (t *tree) belowLink(rel string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for dir := path.Dir(strings.ToLower(rel)); dir != "."; dir = path.Dir(dir) {
		if _, taken := t.files[dir]; taken { // a file, too, can hold nothing
			return true
		}
	}
	return false
}

// linkWithin makes a link that an archive holds. Its target is a path from the link's own directory: some "..", then names, and never
// above the root. Nothing is ever written through a link, so the directories above it are real and the ".." mean what they say.
func (t *tree) linkWithin(rel, target string, bad func(string, error) error) error {
	words := func(why string) error { return bad(fmt.Sprintf("a link to %q, which %s", target, why), nil) }
	if target == "" || strings.ContainsAny(target, "\\:\x00") || strings.HasPrefix(target, "/") {
		return words("is not a path from the link's own place")
	}
	names := false
	for _, e := range strings.Split(strings.TrimSuffix(target, "/"), "/") {
		switch {
		case e == "" || e == "." || e == ".." && names:
			return words("is not a plain path")
		case e != "..":
			names = true
		}
	}
	if to := path.Join(path.Dir(rel), target); to == ".." || strings.HasPrefix(to, "../") {
		return words("leaves the archive's root")
	}
	if err := t.mkdir(filepath.Join(t.root, filepath.FromSlash(path.Dir(rel)))); err != nil {
		return err
	}
	old, taken := t.reserve(rel)
	switch {
	case taken && old.Link == target && old.Path == rel:
		return nil
	case taken:
		return bad("another archive of this toolkit holds another file of that name", nil)
	}
	err := os.Symlink(target, filepath.Join(t.root, filepath.FromSlash(rel)))
	if errors.Is(err, fs.ErrExist) {
		return bad("a directory has that name already", nil)
	}
	if err != nil {
		return err
	}
	t.record(File{Path: rel, Link: target})
	return nil
}
