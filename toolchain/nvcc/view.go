package nvcc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
)

// Views is the directory of gpubuild's cache that holds the views.
const Views = "views"

// view is what a program of a view has to know, kept at its own end. So two views differ in their bytes where their toolkits do, as a
// user's ccache expects of two compilers.
type view struct {
	NVCC    string `json:"nvcc"`  // the toolkit's; empty in a stand-in
	Cache   string `json:"cache"` // gpubuild's
	Release string `json:"release,omitempty"`
	Made    string `json:"made"` // of which gpubuild, and for which state of the toolkit
}

const mark = "gpubuild-nvcc-view"

// readView reads the end of a program.
func readView(self string) (v view, err error) {
	f, err := os.Open(self)
	if err != nil {
		return v, err
	}
	defer f.Close()
	tail := make([]byte, len(mark)+4)
	size, err := f.Seek(-int64(len(tail)), io.SeekEnd)
	if err == nil {
		_, err = io.ReadFull(f, tail)
	}
	if err != nil || string(tail[4:]) != mark {
		return v, errors.New(self + " is no view of a toolkit: start gpubuild by its own name")
	}
	data := make([]byte, binary.LittleEndian.Uint32(tail))
	if _, err := f.ReadAt(data, size-int64(len(data))); err != nil {
		return v, err
	}
	return v, json.Unmarshal(data, &v)
}

// View makes or updates a toolkit's view in gpubuild's cache, and returns the directory of its nvcc: links to everything in the root, and
// in the place of nvcc a copy of the program self. On Windows the links are junctions to the root's
// directories.
func View(h buildenv.Host, cacheDir, root, nvcc, self string) (bin string, err error) {
	if h.OS != buildenv.Windows {
		if err := isELF(h.Real(nvcc)); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(cacheDir, Views, cache.Name(root+"\n"+nvcc))
	inBin := h.Names(filepath.Dir(nvcc))
	if len(inBin) > 200 || h.OS == buildenv.Windows { // a distribution's /usr/bin; both are on PATH
		inBin = nil
	}
	was, _ := state(nvcc)
	is, _ := state(self)
	made := strings.Join(slices.Concat([]string{is, was}, h.Names(root), inBin), " ")
	want := view{NVCC: nvcc, Cache: cacheDir, Made: made}
	bin = filepath.Join(dir, "bin")
	if is, err := readView(filepath.Join(bin, h.Exe("nvcc"))); err == nil && is == want {
		return bin, nil
	}
	if err := os.MkdirAll(bin, 0o777); err != nil {
		return "", err
	}
	if err := link(root, dir, h.Names(root), "bin"); err != nil {
		return "", err
	}
	if err := link(filepath.Dir(nvcc), bin, inBin, h.Exe("nvcc")); err != nil {
		return "", err
	}
	program := filepath.Join(bin, h.Exe("nvcc"))
	if err := want.program(self, program); err != nil {
		return "", err
	}
	fi, err := os.Stat(nvcc)
	if err != nil {
		return "", err
	}
	return bin, os.Chtimes(program, time.Time{}, fi.ModTime())
}

// program writes a copy of self that knows the view.
func (v view) program(self, path string) error {
	data, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	end, err := json.Marshal(v)
	if err != nil {
		return err
	}
	data = append(data, end...)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(end)))
	return cache.WriteFile(path, append(data, mark...), 0o755)
}

// link has dir hold links to the names of from, except one, and no other link.
func link(from, dir string, names []string, except string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&(os.ModeSymlink|os.ModeIrregular) != 0 && !slices.Contains(names, e.Name()) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	for _, name := range names {
		if name == except {
			continue
		}
		to, at := filepath.Join(from, name), filepath.Join(dir, name)
		if is, err := os.Readlink(at); err == nil && is == to || sameDir(at, to) {
			continue
		}
		if err := linkTo(to, at); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("view of %s: %w", from, err)
		}
	}
	return nil
}

// sameDir reports whether a junction leads to a directory already: what Readlink says of one differs between versions of Windows and Go.
func sameDir(at, to string) bool {
	is, err := os.Stat(at)
	want, failed := os.Stat(to)
	return err == nil && failed == nil && is.IsDir() && os.SameFile(is, want)
}

// Launcher says what the user has put in front of nvcc, which then stays in charge; empty: nothing.
func Launcher(h buildenv.Host, nvcc string) string {
	same := func(path string) bool { return h.SamePath(h.Real(path), h.Real(nvcc)) }
	if v := h.Env.Get("CMAKE_CUDA_COMPILER_LAUNCHER"); v != "" {
		return "CMAKE_CUDA_COMPILER_LAUNCHER=" + v
	}
	for _, name := range []string{"NVCC", "CUDACXX"} {
		if v := h.Env.Get(name); v != "" && !same(v) {
			return name + "=" + v
		}
	}
	if first, err := h.LookPath("nvcc"); err == nil && !same(first) {
		return first + " is first on PATH"
	}
	return ""
}
