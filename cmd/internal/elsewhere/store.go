package elsewhere

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpubuild/buildenv/cache"
)

// store keeps files by their SHA-256. A file counts only after its content was hashed; then its identity is noted, so that a large library
// is not read for each of many programs.
type store struct{ dir string }

// defaultLimit is how much a store keeps where nobody says.
const defaultLimit = 20e9

func (s store) path(sum string) string { return filepath.Join(s.dir, "files", sum) }

// has reports whether a file is there with its content, and marks it as used.
func (s store) has(sum string) bool {
	path := s.path(sum)
	if !isSum(sum) || !checked(path, sum) {
		return false
	}
	now := time.Now()
	return os.Chtimes(path+".seen", now, now) == nil
}

// checked reports whether a file has the content of its name.
func checked(path, sum string) bool {
	is, err := hashOf(path, path+".seen")
	return err == nil && is.Sum == sum
}

func isSum(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*sha256.Size
}

// incoming is a file that is being received.
type incoming struct {
	*os.File
	sum  string
	left int64 // bytes that are still to come
	hash hash.Hash
}

// receive begins a file of which as many bytes come as the request said.
func (s store) receive(sum string, size int64) (*incoming, error) {
	if err := os.MkdirAll(filepath.Join(s.dir, "files"), 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Join(s.dir, "files"), "receiving-*")
	if err != nil {
		return nil, &cache.WriteError{Path: s.path(sum), Err: err}
	}
	return &incoming{f, sum, size, sha256.New()}, nil
}

func (i *incoming) add(piece []byte) error {
	if i.left -= int64(len(piece)); i.left < 0 {
		return fmt.Errorf("more bytes came of the file %.12s than the request says", i.sum)
	}
	_, _ = i.hash.Write(piece) // never an error
	if _, err := i.Write(piece); err != nil {
		return &cache.WriteError{Path: i.Name(), Err: err} // says what to do about a full disk
	}
	return nil
}

// keep puts a whole file into the store; a damaged one is an error.
func (s store) keep(i *incoming) error {
	if is := hex.EncodeToString(i.hash.Sum(nil)); is != i.sum {
		return errors.Join(fmt.Errorf("a file arrived damaged: its SHA-256 is %s, not %s", is, i.sum), i.drop())
	}
	if err := errors.Join(i.Chmod(0o700), i.Close()); err != nil {
		return errors.Join(err, i.drop())
	}
	return os.Rename(i.Name(), s.path(i.sum))
}

func (i *incoming) drop() error {
	_ = i.Close() // it may be closed
	return os.Remove(i.Name())
}

// place gives a file of the store a name, which is bounded's: a second name of the same file, or a copy on another file system.
func (s store) place(f file, dir string) error {
	to := filepath.Join(dir, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if f.Run && os.Link(s.path(f.SHA256), to) == nil {
		return nil
	}
	in, err := os.Open(s.path(f.SHA256)) // a copy: a program may change its data
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700) // what exists may be another name of a file of the store
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(&cache.WriteError{Path: to, Err: err}, out.Close())
	}
	return out.Close()
}

// lockName is the file in a run's directory that is locked while the run is alive.
const lockName = "lock"

// runOf is how the directories of a host's runs begin: only that host may decide by the lock whether a run is alive, since not every file
// system locks between hosts.
func runOf(host string) string { return "run-" + host + "-" }

// prune removes what killed runs of this host left, and of the files what was not used for longest until limit bytes are left. Nothing of
// the last hour goes: another run may be about to use it.
func (s store) prune(limit int64, host string, now time.Time) error {
	locks, err := filepath.Glob(filepath.Join(s.dir, "runs", runOf(host)+"*", lockName))
	if err != nil {
		return err
	}
	for _, lock := range locks {
		info, err := os.Stat(lock)
		if err != nil || now.Sub(info.ModTime()) < time.Hour {
			continue
		}
		if _, alive := cache.Held(lock); !alive {
			if err := os.RemoveAll(filepath.Dir(lock)); err != nil {
				return err
			}
		}
	}
	if limit == 0 {
		limit = defaultLimit
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "files"))
	if err != nil {
		return err
	}
	type kept struct {
		path string
		size int64
		used time.Time
	}
	var all []kept
	total := int64(0)
	for _, e := range entries {
		path := filepath.Join(s.dir, "files", e.Name())
		if filepath.Ext(path) == ".seen" {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // another run removed it
		}
		used := info.ModTime()
		if seen, err := os.Stat(path + ".seen"); err == nil {
			used = seen.ModTime()
		}
		all, total = append(all, kept{path, info.Size(), used}), total+info.Size()
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	for _, k := range all {
		if total <= limit || now.Sub(k.used) < time.Hour {
			break
		}
		if err := os.Remove(k.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = os.Remove(k.path + ".seen") // without its file it says nothing
		total -= k.size
	}
	return nil
}
