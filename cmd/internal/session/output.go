package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
)

// WriteFile writes a file that the command line names. Links are followed. A regular file is whole or as it was; a device, a FIFO or a
// descriptor gets the data and stays what it is. The error's exit code is exit.Usage. All files of the user's flags are written here.
func (m *Machine) WriteFile(file string, data []byte, mode fs.FileMode) error {
	if err := m.HasDir(file); err != nil {
		return err
	}
	path := m.Host.Abs(file)
	to, direct := destination(path)
	var err error
	if direct {
		err = writeInto(path, data)
	} else {
		err = cache.WriteFile(to, data, mode)
	}
	if err != nil {
		return exit.Errorf(exit.Usage, "", "%w", err)
	}
	return nil
}

// HasDir says that the directory of a file that the command line names is missing: a mistyped path must not make a new one.
func (m *Machine) HasDir(file string) error {
	path := m.Host.Abs(file)
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.Usage, "", "%w", &cache.WriteError{Path: path, Err: missingDir(filepath.Dir(path))})
	}
	return nil
}

// Replaces reports whether a file that the command line names for a result is one of its inputs, or one that cargo or gpubuild reads.
func (m *Machine) Replaces(file string, inputs []string) bool {
	path, _ := destination(m.Host.Abs(file))
	if slices.Contains([]string{"cargo.toml", "cargo.lock", "gpubuild.toml"}, strings.ToLower(filepath.Base(path))) {
		return true
	}
	to, err := os.Stat(path)
	return err == nil && to.Mode().IsRegular() && slices.ContainsFunc(inputs, func(input string) bool {
		from, err := os.Stat(m.Host.Abs(input))
		return err == nil && os.SameFile(from, to)
	})
}

type missingDir string

func (d missingDir) Error() string        { return "there is no directory " + string(d) }
func (d missingDir) Is(target error) bool { return target == fs.ErrNotExist }

// MakeDir makes a directory that the command line names for several files.
func (m *Machine) MakeDir(dir string) error {
	path := m.Host.Abs(dir)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return exit.Errorf(exit.Usage, "", "%w", &cache.WriteError{Path: path, Err: err})
	}
	return nil
}

// destination is the file that a path leads to over its links; direct: it is there and cannot be replaced by a rename. What /proc lists is
// open already (/dev/stdout): whoever opened it would not see a new file.
func destination(path string) (to string, direct bool) {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() && !fi.IsDir() {
		return path, true
	}
	for range 40 { // as many as Linux follows
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return path, false
		}
		if strings.HasPrefix(dir, "/proc/") {
			return path, true
		}
		next, err := os.Readlink(path)
		if err != nil {
			return path, false
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(dir, next)
		}
		path = next
	}
	return path, false
}

// writeInto writes to what is there, behind what it holds.
func writeInto(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return &cache.WriteError{Path: path, Err: err}
	}
	return nil
}
