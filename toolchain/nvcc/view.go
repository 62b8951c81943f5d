package nvcc

import (
	"bytes"
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
	"gpubuild/buildenv/memo"
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

const (
	mark = "gpubuild-nvcc-view"
	// tail is how much of the end of a program holds the mark and what follows it.
	tail = 16 << 10
)

// readView reads the end of a program, which nobody else may have written.
func readView(self string) (v view, err error) {
	bin := filepath.Dir(self)
	if err := cache.Trusted(filepath.Dir(bin), bin, self); err != nil {
		return v, err
	}
	f, err := os.Open(self)
	if err != nil {
		return v, err
	}
	defer f.Close()
	if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
		return v, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return v, err
	}
	at := bytes.LastIndex(data, []byte(mark))
	if at < 0 {
		return v, errors.New(self + " is no view of a toolkit: start gpubuild by its own name")
	}
	return v, json.Unmarshal(data[at+len(mark):], &v)
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
	states := memo.Open(h, cacheDir, time.Now())
	made := slices.Concat([]string{states.Identity(self), states.Identity(nvcc)}, h.Names(root), inBin)
	want := view{NVCC: nvcc, Cache: cacheDir, Made: cache.Name(strings.Join(made, " "))}
	bin = filepath.Join(dir, "bin")
	if is, err := readView(filepath.Join(bin, h.Exe("nvcc"))); err == nil && is == want {
		return bin, nil
	}
	if err := cache.Make(bin); err != nil {
		return "", err
	}
	if err := link(h, root, dir, h.Names(root), "bin"); err != nil {
		return "", err
	}
	if err := link(h, filepath.Dir(nvcc), bin, inBin, h.Exe("nvcc")); err != nil {
		return "", err
	}
	return bin, want.program(self, filepath.Join(bin, h.Exe("nvcc")))
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
	return cache.WriteFile(path, slices.Concat(data, []byte(mark), end), 0o755)
}

// link has dir hold links to the names of from, except one.
func link(h buildenv.Host, from, dir string, names []string, except string) error {
	for _, name := range names {
		if name == except {
			continue
		}
		to, at := filepath.Join(from, name), filepath.Join(dir, name)
		if same(at, to) {
			continue
		}
		if err := linkTo(h, to, at); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("view of %s: %w", from, err)
		}
	}
	return nil
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
