package memo

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gpubuild/buildenv"
)

// Recorder reads a host's files and remembers each path that was looked at, as it was the first time.
type Recorder struct {
	files buildenv.Files
	store Store
	usr   string // below which only packages change a directory

	mu   sync.Mutex
	seen map[string]string
}

// Record returns the store's host with files that are recorded.
func (s Store) Record() (buildenv.Host, *Recorder) {
	r := &Recorder{files: s.host.Files, store: s, usr: "/usr/", seen: map[string]string{}}
	h := s.host
	h.Files = r
	return h, r
}

// Inputs are the paths that were looked at, without those below some directories; false where one had just been changed. In place of what
// is not in a directory below /usr stands the directory, which only packages change.
func (r *Recorder) Inputs(without ...string) ([]Input, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Input
	system := map[string]string{}
	for path, state := range r.seen {
		dir := filepath.Dir(path)
		if state == "" && strings.HasPrefix(dir, r.usr) { // hundreds of places where a compiler looked for headers
			is, known := system[dir]
			if !known {
				is = r.store.State(dir)
			}
			_, err := os.Lstat(path) // of a link that leads nowhere the directory says nothing
			if err != nil && is != "" && !strings.Contains(is, byContent) {
				system[dir] = is
				continue
			}
		}
		if !below(path, without) {
			if strings.Contains(state, byContent) {
				return nil, false
			}
			list = append(list, Input{path, state})
		}
	}
	for dir, state := range system {
		list = append(list, Input{dir, state})
	}
	return list, true
}

func below(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
	})
}

// look remembers a path: of a directory that is not listed, and where not even the content of a file matters, only that it is there.
func (r *Recorder) look(path string, fi fs.FileInfo, err error, content bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, known := r.seen[path]; known && !(content && strings.HasPrefix(was, there)) {
		return
	}
	if err != nil || !content {
		r.seen[path] = r.store.thereOf(path, fi, err)
	} else {
		r.seen[path] = r.store.stateOf(path, fi)
	}
}

// There is Stat for who asks only whether a path is there, and is a directory.
func (r *Recorder) There(path string) (fs.FileInfo, error) {
	fi, err := r.files.Stat(path)
	r.look(path, fi, err, false)
	return fi, err
}

// Stat, ReadDir, Open and EvalSymlinks are those of buildenv.Files.
func (r *Recorder) Stat(path string) (fs.FileInfo, error) {
	fi, err := r.files.Stat(path)
	r.look(path, fi, err, err == nil && !fi.IsDir())
	return fi, err
}

// ReadDir lists a directory.
func (r *Recorder) ReadDir(path string) ([]fs.DirEntry, error) {
	fi, err := r.files.Stat(path)
	r.look(path, fi, err, true)
	return r.files.ReadDir(path)
}

// Open opens a file.
func (r *Recorder) Open(path string) (fs.File, error) {
	fi, err := r.files.Stat(path)
	r.look(path, fi, err, true)
	return r.files.Open(path)
}

// EvalSymlinks follows links. Where a link leads shows in the file behind it and in its directory.
func (r *Recorder) EvalSymlinks(path string) (string, error) {
	for _, p := range []string{path, filepath.Dir(path)} {
		_, _ = r.Stat(p)
	}
	return r.files.EvalSymlinks(path)
}
