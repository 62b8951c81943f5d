// Package cache keeps files that gpubuild makes for itself: where they lie, how they are written whole or not at all, how two gpubuilds
// stay out of each other's way, and how to recognise that a file is still the same.
//
// It never decides what is cached and deletes nothing but its own temporary files. Limits: a file that was changed without a change of
// size, modification time and inode is the same to Identify (Hash finds the change); locks hold on one machine, on a network drive as far
// as the drive has them; WriteFile survives a crash of the program, and a loss of power as far as the file system keeps the order of a
// rename.
package cache

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/regular"
)

// Variable is the environment variable that moves the cache.
const Variable = "GPUBUILD_CACHE"

// Dir returns where the cache is: GPUBUILD_CACHE, else the platform's own place below the user's directory. It only decides.
func Dir(h buildenv.Host) (string, error) {
	if dir := h.Env.Get(Variable); dir != "" {
		if !h.IsAbs(dir) {
			return "", noPlace(fmt.Sprintf("%s=%s is not an absolute path", Variable, dir))
		}
		return h.Clean(dir), nil
	}
	switch h.OS {
	case buildenv.Windows:
		if dir := h.Env.Get("LOCALAPPDATA"); h.IsAbs(dir) {
			return h.Join(dir, "gpubuild"), nil
		}
		if h.Home != "" {
			return h.Join(h.Home, "AppData", "Local", "gpubuild"), nil
		}
	case buildenv.Darwin:
		if h.Home != "" {
			return h.Join(h.Home, "Library", "Caches", "gpubuild"), nil
		}
	default:
		// A relative path there is to be ignored: XDG Base Directory Specification, "Environment variables".
		if dir := h.Env.Get("XDG_CACHE_HOME"); h.IsAbs(dir) {
			return h.Join(dir, "gpubuild"), nil
		}
		if h.Home != "" {
			return h.Join(h.Home, ".cache", "gpubuild"), nil
		}
	}
	return "", noPlace("there is no home directory")
}

func noPlace(why string) error {
	return exit.Errorf(exit.Usage, "set "+Variable+" to an absolute path", "cache directory: %s", why)
}

// Make makes a directory of the cache, for its owner alone, and sees that it can be written to. One that was there before must be Trusted.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &ReadOnlyError{Dir: dir, Err: reason(err)}
	}
	if err := Trusted(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".writable.*")
	if err != nil {
		return &ReadOnlyError{Dir: dir, Err: reason(err)}
	}
	_, err = f.Write(make([]byte, 4096)) // a full disk takes an empty file
	if closed, removed := f.Close(), os.Remove(f.Name()); err == nil {
		return errors.Join(closed, removed)
	}
	return &ReadOnlyError{Dir: dir, Err: reason(err)}
}

// reason takes off the path that our own error names.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// ReadOnlyError says that the cache cannot be written to.
type ReadOnlyError struct {
	Dir string
	Err error
}

func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("cache %s cannot be written to: %v", e.Dir, e.Err)
}
func (e *ReadOnlyError) Unwrap() error { return e.Err }

func (e *ReadOnlyError) Hint() string {
	if diskFull(e.Err) {
		return "free some space there, or set " + Variable + " to a directory with more"
	}
	return "set " + Variable + " to a directory that can be written to"
}

// Identity shows quickly that a file is still the same.
type Identity struct {
	Size   int64  `json:"size"`
	MTime  int64  `json:"mtime"` // ns since 1970
	Inode  uint64 `json:"inode"`
	Device uint64 `json:"device"`
}

func (i Identity) String() string {
	return fmt.Sprintf("%d bytes, modified %d, file %d on %d", i.Size, i.MTime, i.Inode, i.Device)
}

// Identify looks at a file, through links.
func Identify(path string) (Identity, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return Identity{}, err
	}
	return IdentityOf(path, fi)
}

// IdentityOf is Identify of a path that was looked at already.
func IdentityOf(path string, fi fs.FileInfo) (id Identity, err error) {
	id = Identity{Size: fi.Size(), MTime: fi.ModTime().UnixNano()}
	id.Inode, id.Device, err = inode(path, fi)
	return id, err
}

// StateTimeOf returns when a file's state changed last, in ns since 1970: its content, mode, owner or number of names. No tool sets it
// back, as a copy with `cp -p` does with the time of the content. 0: the system does not say.
func StateTimeOf(fi fs.FileInfo) int64 { return stateTime(fi) }

// Hash returns the SHA-256 of a regular file's content in hexadecimal: of as many bytes as the file has when it is opened, which is none
// for a file of the kernel's. Anything else is a *buildenv.UnboundedError.
func Hash(path string) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if fi.IsDir() {
		return "", &buildenv.UnboundedError{Path: path, Why: "a directory"}
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, fi.Size())); err != nil {
		return "", fmt.Errorf("%s: %w", path, reason(err))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// WriteFile writes a file whole or not at all: next to it, flushed, then renamed over it. Its directory must exist. A link is replaced,
// not followed. The error is a *WriteError, and no temporary file is left.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, func(f *os.File) file { return f })
}

// Keep is WriteFile for what can be made again at any time: it does not wait for the disk. After a loss of power the file may be empty or
// damaged, which its reader must notice.
func Keep(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, func(f *os.File) file { return unflushed{f} })
}

func write(path string, data []byte, mode fs.FileMode, as func(*os.File) file) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err == nil {
		err = save(as(f), path, data, mode, nil)
	}
	if err != nil {
		return &WriteError{Path: path, Err: reason(err)}
	}
	return nil
}

type unflushed struct{ *os.File }

func (unflushed) Sync() error { return nil }

// Replace is WriteFile for a file of the user's: it is written only if it still holds old, which
// is looked at when all that is left to do is the rename; else the answer is a *ChangedError and
// the file is as the other left it. The new content has one name until the rename: what a killed Replace left is gone after the next.
// No other Replace of the file may be at work.
func Replace(path string, old, data []byte, mode fs.FileMode) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".gpubuild-new")
	err := os.Remove(tmp)
	var f *os.File
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return &WriteError{Path: path, Err: reason(err)}
	}
	err = save(f, path, data, mode, func() error {
		f, err := regular.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		is, err := io.ReadAll(io.LimitReader(f, int64(len(old))+1))
		if err == nil && !bytes.Equal(is, old) {
			err = &ChangedError{Path: path}
		}
		return err
	})
	var changed *ChangedError
	switch {
	case errors.As(err, &changed):
		return changed
	case err != nil:
		return &WriteError{Path: path, Err: reason(err)}
	}
	return nil
}

// ChangedError says that a file is no longer what was read of it.
type ChangedError struct{ Path string }

func (e *ChangedError) Error() string {
	return e.Path + " was changed by somebody else in the meantime: it is left as it is"
}

func (e *ChangedError) Hint() string {
	return "run the command once more, when nobody else writes the file"
}

// file is what save needs of an *os.File, so that a test can be a disk that is full.
type file interface {
	io.WriteCloser
	Name() string
	Chmod(fs.FileMode) error
	Sync() error
}

// save writes and renames; last, where it is given, has a veto before the rename.
func save(f file, path string, data []byte, mode fs.FileMode, last func() error) (err error) {
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is the one to return
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close()) // a network drive reports only here that it is full
	if err == nil && last != nil {
		err = last()
	}
	if err != nil {
		return err
	}
	return rename(f.Name(), path)
}

// WriteError says why a file could not be written.
type WriteError struct {
	Path string
	Err  error
}

func (e *WriteError) Error() string {
	err := reason(e.Err)
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		err = l.Err // it names the temporary file
	}
	return fmt.Sprintf("%s cannot be written: %v", e.Path, err)
}
func (e *WriteError) Unwrap() error { return e.Err }

func (e *WriteError) Hint() string {
	dir := filepath.Dir(e.Path)
	isDir := func(path string) bool {
		fi, err := os.Stat(path)
		return err == nil && fi.IsDir()
	}
	switch {
	case isDir(e.Path):
		return e.Path + " is a directory: name a file"
	case diskFull(e.Err):
		for !isDir(dir) && dir != filepath.Dir(dir) { // one that was made for the file is gone again
			dir = filepath.Dir(dir)
		}
		return "free some space on the disk that holds " + dir
	case errors.Is(e.Err, syscall.EFBIG):
		return "the limit on the size of a file (`ulimit -f`), or that of the file system of " + dir + ", is too low for it"
	case readOnly(e.Err):
		return dir + " is on a file system that is mounted read-only: use a directory on another one"
	case errors.Is(e.Err, fs.ErrPermission):
		return "make " + dir + " one that you may write to"
	case errors.Is(e.Err, fs.ErrNotExist) && isDir(dir):
		return "no file can be made in " + dir + ": name another directory"
	case errors.Is(e.Err, fs.ErrNotExist):
		return "make the directory " + dir
	}
	return "see that " + dir + " is a directory that you may write to"
}

// Name is a short name of a file for what has a long one, such as a path.
func Name(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}
