package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Tag is the file by which Adopted knows a cache: https://bford.info/cachedir/. Other programs leave its directory out of a backup.
const Tag = "CACHEDIR.TAG"

const tagText = "Signature: 8a477f597d28d172789f06886806bc55\n# gpubuild: `gpubuild cache clean` empties this directory.\n"

// Adopt makes a cache that is not there yet, or is empty, and tags it. Where that cannot be written, Make says so later.
func Adopt(dir string) {
	if list, err := os.ReadDir(dir); len(list) == 0 && (err == nil || os.IsNotExist(err)) && os.MkdirAll(dir, 0o700) == nil {
		_ = os.WriteFile(filepath.Join(dir, Tag), []byte(tagText), 0o600)
	}
}

// Adopted reports whether gpubuild made a directory or found it empty, so that all of it is gpubuild's.
func Adopted(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, Tag))
	return err == nil && string(data) == tagText
}

// Nowhere is a directory that never exists and cannot be made: what is looked for in it is not found.
var Nowhere = filepath.Join(os.DevNull, "gpubuild")

// Private is the directory that is used of one that may be the cache: itself, or one of this user's own in it where it is everybody's, as
// Kubernetes' emptyDir. Programs of the cache are run, so the error is an *OpenError where others may have written to it or to what is
// directly in it. A directory that is not there yet may be used.
func Private(dir string) (string, error) {
	if fi, err := os.Lstat(dir); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		if why, fix := writable(dir, fi); why != "" { // whoever planted it chooses where it leads, and can change that later
			return dir, &OpenError{Path: dir, Why: why, Fix: fix}
		}
	}
	fi, err := os.Stat(dir)
	if err == nil && fi.IsDir() {
		dir = filepath.Join(dir, shared(fi))
		fi, err = os.Stat(dir)
	}
	if err == nil && !fi.IsDir() { // a hint to change the mode of /dev/null would do harm
		return dir, &ReadOnlyError{Dir: dir, Err: errors.New("it is not a directory")}
	}
	if err := Trusted(dir); err != nil {
		return dir, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return dir, nil // not there, or none: Make says so
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			continue // data: programs are in directories
		}
		if err := Trusted(filepath.Join(dir, e.Name())); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// Trusted returns an *OpenError unless only this user or an administrator may have written to each file or directory, and to what a link
// leads to. It says nothing of the directories above them. What is not there is trusted.
func Trusted(paths ...string) error {
	for _, path := range paths {
		for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
			fi, err := look(path)
			if errors.Is(err, fs.ErrNotExist) {
				break
			} else if err != nil {
				return &ReadOnlyError{Dir: path, Err: reason(err)}
			}
			if why, fix := writable(path, fi); why != "" {
				return &OpenError{Path: path, Why: why, Fix: fix}
			}
			if fi.Mode()&fs.ModeSymlink == 0 {
				break // a link leads to another file, which counts, too
			}
		}
	}
	return nil
}

// TrustedDir is Trusted of a directory and of everything directly in it: programs that are run and libraries that are loaded from it.
func TrustedDir(dir string) error {
	if err := Trusted(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &ReadOnlyError{Dir: dir, Err: reason(err)}
	}
	for _, e := range entries {
		if err := Trusted(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// OpenError says that others may have written to a part of the cache.
type OpenError struct{ Path, Why, Fix string }

func (e *OpenError) Error() string {
	return fmt.Sprintf("cache: %s %s: programs in it would be run", e.Path, e.Why)
}

func (e *OpenError) Hint() string {
	return fmt.Sprintf("%s, or set %s to a directory of your own", e.Fix, Variable)
}
