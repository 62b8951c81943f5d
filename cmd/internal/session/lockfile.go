package session

import (
	"bytes"
	"errors"
	"os"
	"slices"

	"gpubuild/buildenv/cache"
)

// KeepLock does something that lets cargo write Cargo.lock, and puts that back
// as it was, or takes it away again; changed says that it had to.
func (s *Session) KeepLock(do func() error) (changed bool, err error) {
	h := s.Machine.Host
	path := h.Real(s.Project.LockPath)
	mode := os.FileMode(0o644)
	read := func() ([]byte, bool, error) {
		fi, err := h.Files.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		mode = fi.Mode().Perm()
		data, err := h.ReadFile(path, sourceLimit)
		return data, true, err
	}
	old, there, err := read()
	if err != nil {
		return false, err
	}
	was := mode
	err = do()
	now, is, readErr := read()
	switch {
	case readErr == nil && there == is && bytes.Equal(old, now):
		return false, err
	case !there:
		return true, errors.Join(err, os.Remove(path))
	}
	return true, errors.Join(err, cache.WriteFile(path, slices.Clip(old), was))
}
