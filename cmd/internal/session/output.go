package session

import (
	"io/fs"
	"os"
	"path/filepath"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
)

// WriteFile writes a file that the command line names: its directory is made, and the file is whole or as it was. The error's exit code is
// exit.Usage. All files of the user's flags are written here.
func (m *Machine) WriteFile(file string, data []byte, mode fs.FileMode) error {
	path := m.Host.Abs(file)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = cache.WriteFile(path, data, mode)
	} else {
		err = &cache.WriteError{Path: path, Err: err}
	}
	if err != nil {
		return &fileError{err}
	}
	return nil
}

// fileError says that a file that the command line names cannot be written.
type fileError struct{ err error }

func (e *fileError) Error() string { return e.err.Error() }

// ExitCode is exit.Usage.
func (e *fileError) ExitCode() int { return exit.Usage }

func (e *fileError) Unwrap() error { return e.err }
