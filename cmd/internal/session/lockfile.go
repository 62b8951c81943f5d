package session

import (
	"bytes"
	"errors"
	"io/fs"
	"os"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
)

// KeepLock does something that lets cargo write Cargo.lock, and puts that back as it was, or takes it away again.
func (s *Session) KeepLock(do func() error) error {
	h := s.Machine.Host
	path := h.Real(s.Project.LockPath)
	old, missing := h.ReadFile(path, buildenv.Lock)
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
		return missing
	}
	mode := fs.FileMode(0o644)
	if fi, err := h.Files.Stat(path); err == nil {
		mode = fi.Mode().Perm()
	}
	err := do()
	switch now, gone := h.ReadFile(path, buildenv.Lock); {
	case missing != nil && gone == nil:
		err = errors.Join(err, os.Remove(path))
	case missing == nil && !bytes.Equal(old, now):
		err = errors.Join(err, cache.WriteFile(path, old, mode))
	}
	return err
}
