package elsewhere

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv/cache"
)

// store keeps files by their SHA-256. A file counts only after its content was hashed; then its identity is noted, so that a large library
// is not read for each of many programs.
type store struct{ dir string }

func (s store) path(sum string) string { return filepath.Join(s.dir, "files", sum) }

// has reports whether a file is there with its content, and marks it as used.
func (s store) has(sum string) bool {
	path := s.path(sum)
	if !isSum(sum) || !checked(path, sum) {
		return false
	}
	return os.Chtimes(path+".seen", time.Time{}, time.Now()) == nil
}

// checked reports whether a file has the content of its name.
func checked(path, sum string) bool {
	_, is, err := hashOf(path, path+".seen")
	return err == nil && is == sum
}

func isSum(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*sha256.Size
}

// receive takes in a file that comes as it is, as long as the request said; a damaged one is an error.
func (s store) receive(from io.Reader, sum string, size int64) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "files"), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Join(s.dir, "files"), "receiving-*")
	if err != nil {
		return &cache.WriteError{Path: s.path(sum), Err: err}
	}
	defer os.Remove(f.Name()) // a whole one has its own name by then
	came := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(f, came), from, size); err != nil {
		return errors.Join(&cache.WriteError{Path: f.Name(), Err: err}, f.Close()) // says what to do about a full disk
	}
	if is := hex.EncodeToString(came.Sum(nil)); is != sum {
		return errors.Join(fmt.Errorf("a file arrived damaged: its SHA-256 is %s, not %s", is, sum), f.Close())
	}
	if err := errors.Join(f.Chmod(0o700), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.path(sum))
}

// place gives a file of the store a name: a second name of the same file, or a copy on another file system.
func (s store) place(f file, dir string) error {
	to := filepath.Join(dir, filepath.FromSlash(f.Name))
	if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
		return fmt.Errorf("%.80q leads out of the run's directory", f.Name)
	}
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

// ours reports whether a file in a directory of the store has a name that only we give.
func ours(dir, name string) bool {
	return dir == "files" && (isSum(name) || strings.HasPrefix(name, "receiving-")) || isSum(dir) && strings.HasPrefix(name, "gpubuild")
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
	for _, lock := range locks {
		info, gone := os.Stat(lock)
		if gone != nil || now.Sub(info.ModTime()) < time.Hour {
			continue
		}
		if _, alive := cache.Held(lock); !alive {
			err = errors.Join(err, os.RemoveAll(filepath.Dir(lock)))
		}
	}
	type kept struct {
		path string
		size int64
		used time.Time
	}
	var files []kept
	total := int64(0)
	paths, bad := filepath.Glob(filepath.Join(s.dir, "*", "*")) // other gpubuilds are among them
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil || !ours(filepath.Base(filepath.Dir(path)), strings.TrimSuffix(info.Name(), ".seen")) || !info.Mode().IsRegular() {
			continue // another run removed it, or it is the user's, whose directory the store may be in
		}
		f := kept{path, info.Size(), info.ModTime()}
		if seen, err := os.Stat(strings.TrimSuffix(path, ".seen") + ".seen"); err == nil {
			f.used = seen.ModTime()
		}
		total, files = total+f.size, append(files, f)
	}
	slices.SortStableFunc(files, func(a, b kept) int { return a.used.Compare(b.used) })
	for _, f := range files {
		if total > cmp.Or(limit, 20e9) && now.Sub(f.used) >= time.Hour {
			err, total = errors.Join(err, os.RemoveAll(f.path)), total-f.size // another run may have removed it
		}
	}
	return errors.Join(err, bad)
}
