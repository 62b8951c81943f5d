// Package tree puts a toolkit's directory together: it unpacks archives into one root, adds what no archive has (links, version.json, link
// stubs).
//
// It owns the marker gpubuild-toolkit.json and stubs/*.txt. The marker is renamed into place last: a directory without one is not a
// toolkit. It never fetches anything and does not know where toolkits are kept. Trees for Windows get no link stubs: the runtime's wheel
// has the import libraries.
package tree

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
)

// File is one file of a toolkit that is being installed.
type File struct {
	Path   string // from the root, with slashes
	Size   int64
	SHA256 string
	Exec   bool
	Link   string // target of a symbolic link, which has no size and no hash
	Part   string // whose archive it came from; empty: gpubuild made it
}

// Tree is a toolkit that files are added to. Several archives may be unpacked into it at once. It writes nothing outside its root.
type Tree struct {
	root *os.Root

	mu      sync.Mutex
	files   map[string]File // by lower-case path: two names that differ in case would be one file on Windows
	repeats []repeat        // checked when all is unpacked: the other file may still be being written
	added   []string        // what was not there before
}

// repeat is a file that a second archive holds, too.
type repeat struct {
	path, sha256 string
	differs      error
}

// Open makes the directory of a toolkit if it is not there. What it holds is overwritten where a file of that name is added.
func Open(dir string) (*Tree, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Tree{root: root, files: map[string]File{}}, nil
}

// Undo removes what was added.
func (t *Tree) Undo() {
	for _, rel := range t.added {
		_ = t.root.Remove(rel) // the marker says nothing of it
	}
}

// Close releases the directory.
func (t *Tree) Close() error { return t.root.Close() }

// reserve claims a path. If it is taken already, the second result is true and the first is what has it.
func (t *Tree) reserve(rel string) (File, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := strings.ToLower(rel)
	old, taken := t.files[key]
	if !taken {
		t.files[key] = File{Path: rel}
	}
	return old, taken
}

// record notes a file that was written; isNew: none of that name was there.
func (t *Tree) record(f File, isNew bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files[strings.ToLower(f.Path)] = f
	if isNew {
		t.added = append(t.added, f.Path)
	}
}

// there reports whether the toolkit has a file of a name, whoever wrote it.
func (t *Tree) there(rel string) bool {
	_, err := t.root.Lstat(rel)
	return err == nil
}

// checkRepeats returns an error if two archives hold different files of one name.
func (t *Tree) checkRepeats() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.repeats {
		if old := t.files[strings.ToLower(r.path)]; old.Path != r.path || old.SHA256 != r.sha256 {
			return r.differs
		}
	}
	return nil
}

// put writes a file whose path and size are known, and hashes it on the way. bad makes an error about the archive's entry.
func (t *Tree) put(f File, r io.Reader, bad func(string, error) error) error {
	h := sha256.New()
	if _, taken := t.reserve(f.Path); taken {
		if _, err := io.Copy(h, r); err != nil {
			return bad("cannot be read", err)
		}
		differs := bad("another archive of this toolkit holds another file of that name", nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.repeats = append(t.repeats, repeat{f.Path, hex.EncodeToString(h.Sum(nil)), differs})
		return nil
	}
	if err := t.root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if f.Exec {
		mode = 0o755 // the wheels say 0744; other users may run the compiler, too
	}
	// Whoever reads the tree meanwhile finds the whole file or none.
	partial := f.Path + ".gpubuild-new"
	if err := t.root.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := t.root.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	isNew := !t.there(f.Path)
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(r, f.Size+1))
	err = cmp.Or(err, out.Close())
	switch _, disk := errors.AsType[*fs.PathError](err); {
	case disk:
	case err != nil:
		err = bad("cannot be read", err)
	case n != f.Size:
		err = bad("it is not as large as it says", nil)
	default:
		err = t.root.Rename(partial, f.Path)
	}
	if err != nil {
		_ = t.root.Remove(partial)
		return err
	}
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	t.record(f, isNew)
	return nil
}

// link adds a symbolic link of ours, unless a file is there.
func (t *Tree) link(rel, target string) error {
	if t.there(rel) {
		return nil
	}
	return t.symlink(File{Path: rel, Link: target})
}

// symlink writes a link over whatever an interrupted installation left there.
func (t *Tree) symlink(f File) error {
	isNew := !t.there(f.Path)
	_ = t.root.Remove(f.Path) // where that fails, Symlink says why
	if err := t.root.Symlink(f.Link, f.Path); err != nil {
		return err
	}
	t.record(f, isNew)
	return nil
}

// write adds a file of ours, in place of one that an earlier installation wrote.
func (t *Tree) write(rel string, data []byte) error {
	t.mu.Lock()
	delete(t.files, strings.ToLower(rel))
	t.mu.Unlock()
	return t.put(File{Path: rel, Size: int64(len(data))}, bytes.NewReader(data), func(why string, err error) error {
		return archiveError(rel, "", why, err)
	})
}

// Event is what an installation does now: a step, or a file of which some bytes are here.
type Event struct {
	Text        string // the step, or the file
	Done, Total int64  // bytes; Total is 0 for a step
}

// Progress is called for each event; the first one of a file has no bytes.
type Progress func(Event)

// Step reports a step.
func (p Progress) Step(text string) { p(Event{Text: text}) }
