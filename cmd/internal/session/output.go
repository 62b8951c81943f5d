package session

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
)

// WriteFile writes a file that the command line names. Links are followed. A regular file is whole or as it was; a device, a FIFO or a
// descriptor gets the data and stays what it is. The error's exit code is exit.Usage. All files of the user's flags are written here.
func (m *Machine) WriteFile(file string, data []byte, mode fs.FileMode) error {
	if err := m.CheckFile(file); err != nil {
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

// result matches the beginning of all that gpubuild writes into a file that a flag names, and of an empty file: answers and receipts,
// SARIF, JUnit, LCOV, the page of `report`, and what `receipt sign` makes.
var result = lazyregexp.New(`^(\s*$|\{\s*"schema":\s*"gpubuild/|\{\s*"\$schema":[^{]*"runs":[\s\[]*\{\s*"automationDetails":\s*\{\s*"id":\s*"gpubuild/|` +
	`<\?xml [^>]*>\s*<testsuites name="gpubuild"|TN:gpubuild\n|<!doctype html>\s<html lang="en">\s<head>\s<meta charset="utf-8">\s` +
	`<meta name="generator" content="gpubuild">|-----BEGIN SSH SIGNATURE-----|\{"_type":"https://in-toto.io/Statement/v1","subject":)`)

// CheckFile returns why a file that the command line names for a result cannot be written. A mistyped name must cost nobody a file: what is
// there is replaced only if gpubuild wrote it, and is not among the inputs, which the command reads.
func (m *Machine) CheckFile(file string, inputs ...string) error {
	path, direct := destination(m.Host.Abs(file))
	if direct || file == "" { // which is stdout
		return nil
	}
	dir := filepath.Dir(path)
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() { // a mistyped path must not make a new one
		return exit.Errorf(exit.Usage, "", "%w", &cache.WriteError{Path: path, Err: missingDir(dir)})
	}
	const fix = "name another file"
	to, err := os.Stat(path)
	isInput := func(input string) bool {
		from, wrong := os.Stat(m.Host.Abs(input))
		return err == nil && wrong == nil && os.SameFile(from, to)
	}
	if slices.Contains([]string{"cargo.toml", "cargo.lock", "gpubuild.toml"}, strings.ToLower(filepath.Base(path))) ||
		slices.ContainsFunc(inputs, isInput) {
		return exit.Usagef(fix, "%s is read by this command or by cargo, and would be replaced", file)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && to.IsDir():
		return exit.Errorf(exit.Usage, "", "%w", &cache.WriteError{Path: path, Err: fs.ErrExist})
	}
	begin := make([]byte, 4096)
	f, err := m.Host.Files.Open(path)
	if err == nil {
		n, _ := io.ReadFull(f, begin)
		begin = begin[:n]
		_ = f.Close()
	}
	if err != nil || !result.Match(begin) {
		return exit.Usagef("remove it, or "+fix, "%s exists and is not a result of gpubuild; it would be replaced", file)
	}
	return nil
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
