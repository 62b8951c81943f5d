package hosttest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"sort"
	"strings"
	"time"

	"gpubuild/buildenv"
)

// files is a tree in memory with the path rules of one host: letter case does not count on Windows.
type files struct {
	host  buildenv.Host
	roots map[string]*node
}

type node struct {
	name       string
	mode       fs.FileMode
	data       []byte
	target     string // of a link
	unreadable bool
	children   map[string]*node // by folded name; of a directory
}

func newFiles(h buildenv.Host) *files {
	f := &files{host: h, roots: map[string]*node{}}
	if h.OS != buildenv.Windows {
		f.roots["/"] = newDir("/")
	}
	return f
}

func newDir(name string) *node {
	return &node{name: name, mode: fs.ModeDir | 0o755, children: map[string]*node{}}
}

func (f *files) fold(s string) string {
	if f.host.OS == buildenv.Windows {
		return strings.ToUpper(s)
	}
	return s
}

// split returns the root of an absolute path ("/", `C:\`, `\\server\share`) and the names below it. Dots are taken out by name, as Windows
// does; on the other systems walk does it, because a link may stand before "..".
func (f *files) split(path string) (root string, names []string, ok bool) {
	if !f.host.IsAbs(path) {
		return "", nil, false
	}
	if f.host.OS != buildenv.Windows {
		return "/", strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), true
	}
	p := strings.ReplaceAll(f.host.Clean(path), "/", `\`)
	names = strings.FieldsFunc(p, func(r rune) bool { return r == '\\' })
	if strings.HasPrefix(p, `\\`) {
		if len(names) < 2 {
			return "", nil, false
		}
		return `\\` + names[0] + `\` + names[1], names[2:], true
	}
	return strings.ToUpper(names[0]) + `\`, names[1:], true
}

// make returns the directory that holds path's last name, made with all above it, and that name.
func (f *files) make(path string) (*node, string, error) {
	root, names, ok := f.split(f.host.Clean(path))
	if !ok {
		return nil, "", fmt.Errorf("%q is no absolute path by the rules of %s", path, f.host.OS)
	}
	at := f.roots[f.fold(root)]
	if at == nil {
		at = newDir(root)
		f.roots[f.fold(root)] = at
	}
	if len(names) == 0 {
		return at, "", nil
	}
	for _, n := range names[:len(names)-1] {
		next := at.children[f.fold(n)]
		if next == nil {
			next = newDir(n)
			at.children[f.fold(n)] = next
		}
		if !next.mode.IsDir() {
			return nil, "", fmt.Errorf("%s: %s is given as a file or link, too", path, n)
		}
		at = next
	}
	return at, names[len(names)-1], nil
}

func (f *files) addDir(path string, attrs []string) error {
	_, perm, unreadable, err := content(nil, attrs)
	if err != nil {
		return err
	}
	up, name, err := f.make(path)
	if err != nil {
		return err
	}
	at := up
	if name != "" {
		if at = up.children[f.fold(name)]; at == nil {
			at = newDir(name)
			up.children[f.fold(name)] = at
		}
	}
	if !at.mode.IsDir() {
		return fmt.Errorf("%s: given as a file, too", path)
	}
	at.unreadable = unreadable
	if perm != 0o644 {
		at.mode = fs.ModeDir | perm
	}
	return nil
}

func (f *files) addFile(path string, data []byte, attrs []string) error {
	data, perm, unreadable, err := content(data, attrs)
	if err != nil {
		return err
	}
	return f.add(path, &node{mode: perm, data: data, unreadable: unreadable})
}

func (f *files) addLink(path, target string) error {
	if target == "" {
		return fmt.Errorf("%s: a link to nothing", path)
	}
	return f.add(path, &node{mode: fs.ModeSymlink | 0o777, target: target})
}

func (f *files) add(path string, n *node) error {
	up, name, err := f.make(path)
	if err != nil {
		return err
	}
	if name == "" || up.children[f.fold(name)] != nil {
		return fmt.Errorf("%s: given twice", path)
	}
	n.name = name
	up.children[f.fold(name)] = n
	return nil
}

const maxLinks = 40 // as Linux counts (MAXSYMLINKS)

// walk follows a path, links included, and answers what is there and its name without links.
func (f *files) walk(op, path string) (*node, string, error) {
	fail := func(err error) (*node, string, error) { return nil, "", &fs.PathError{Op: op, Path: path, Err: err} }
	root, names, ok := f.split(path)
	if !ok {
		return fail(fs.ErrNotExist)
	}
	var trail []*node
	start := func(root string) bool {
		at := f.roots[f.fold(root)]
		trail = append(trail[:0], at)
		return at != nil
	}
	if !start(root) {
		return fail(fs.ErrNotExist)
	}
	for links := 0; len(names) > 0; {
		name, rest := names[0], names[1:]
		at := trail[len(trail)-1]
		switch {
		case name == ".":
			names = rest
			continue
		case name == "..":
			trail = trail[:max(1, len(trail)-1)]
			names = rest
			continue
		case !at.mode.IsDir():
			return fail(errNotDir)
		}
		next := at.children[f.fold(name)]
		if next == nil {
			return fail(fs.ErrNotExist)
		}
		if next.mode&fs.ModeSymlink == 0 {
			trail, names = append(trail, next), rest
			continue
		}
		if links++; links > maxLinks {
			return fail(fmt.Errorf("too many levels of symbolic links"))
		}
		if f.host.IsAbs(next.target) {
			r, n, ok := f.split(next.target)
			if !ok || !start(r) {
				return fail(fs.ErrNotExist)
			}
			names = append(n[:len(n):len(n)], rest...)
			continue
		}
		n := strings.FieldsFunc(next.target, func(r rune) bool { return r == '/' || f.host.OS == buildenv.Windows && r == '\\' })
		names = append(n, rest...)
	}
	real := make([]string, len(trail))
	for i, n := range trail {
		real[i] = n.name
	}
	return trail[len(trail)-1], f.host.Join(real...), nil
}

// errNotDir is what stands below a file: nothing exists there.
var errNotDir = fmt.Errorf("not a directory: %w", fs.ErrNotExist)

func (f *files) Stat(path string) (fs.FileInfo, error) {
	n, _, err := f.walk("stat", path)
	if err != nil {
		return nil, err
	}
	return info{n}, nil
}

func (f *files) EvalSymlinks(path string) (string, error) {
	_, real, err := f.walk("lstat", path)
	return real, err
}

func (f *files) ReadDir(path string) ([]fs.DirEntry, error) {
	n, _, err := f.walk("open", path)
	if err != nil {
		return nil, err
	}
	if !n.mode.IsDir() {
		return nil, &fs.PathError{Op: "readdirent", Path: path, Err: errNotDir}
	}
	if n.unreadable {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}
	var out []fs.DirEntry
	for _, c := range n.children {
		out = append(out, fs.FileInfoToDirEntry(info{c}))
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name() < out[j].Name() })
	return out, nil
}

// Open returns a file that can also be read at an offset, as a real one.
func (f *files) Open(path string) (fs.File, error) {
	n, _, err := f.walk("open", path)
	if err != nil {
		return nil, err
	}
	if n.unreadable {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}
	if n.mode.IsDir() {
		return dir{n, path}, nil
	}
	return struct {
		*bytes.Reader
		opened
	}{bytes.NewReader(n.data), opened{n}}, nil
}

type opened struct{ n *node }

func (o opened) Stat() (fs.FileInfo, error) { return info(o), nil }
func (o opened) Close() error               { return nil }

type dir struct {
	n    *node
	path string
}

func (d dir) Stat() (fs.FileInfo, error) { return info{d.n}, nil }
func (d dir) Close() error               { return nil }
func (d dir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.path, Err: fmt.Errorf("is a directory")}
}

type info struct{ n *node }

func (i info) Name() string      { return i.n.name }
func (i info) Size() int64       { return int64(len(i.n.data)) }
func (i info) Mode() fs.FileMode { return i.n.mode }
func (i info) IsDir() bool       { return i.n.mode.IsDir() }
func (i info) Sys() any          { return nil }

// ModTime is the same for all: a stored machine has no clock.
func (i info) ModTime() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

var (
	_ buildenv.Files = (*files)(nil)
	_ io.ReaderAt    = (*bytes.Reader)(nil)
)
