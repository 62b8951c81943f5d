package buildenv

import (
	"errors"
	"io/fs"
)

// Bounds of a walk: an ordinary OUT_DIR has some dozens of files, a CMake build some thousands.
const (
	MostEntries = 50_000
	MostDepth   = 16
)

// Walk calls with each entry below a directory and its path from there; with answers whether to go into it, if it is a directory. What
// may not be read, or is gone meanwhile since another program is at work, is left out. It ends at MostEntries, and then is not complete.
func (h Host) Walk(dir string, with func(path, rel string, e fs.DirEntry, isDir bool) bool) (complete bool, err error) {
	sep, left := "/", MostEntries
	if h.OS == Windows {
		sep = `\`
	}
	var walk func(dir, rel string, depth int) error
	walk = func(dir, rel string, depth int) error {
		entries, err := h.Files.ReadDir(dir)
		for _, e := range entries { // thousands, in every build: this costs no more than the system's own answers
			if left--; left < 0 {
				break
			}
			path := dir + sep + e.Name()
			isDir := e.IsDir() || e.Type()&fs.ModeSymlink != 0 && h.IsDir(path)
			if with(path, rel+e.Name(), e, isDir) && isDir && depth < MostDepth {
				_ = walk(path, rel+e.Name()+"/", depth+1)
			}
		}
		return err
	}
	if err = walk(h.Clean(dir), "", 0); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return left >= 0, err
}
