// Package local is the machine that this process runs on, as a buildenv.Host. With buildenv/proc it is the only room that reads the
// operating system's environment; it decides nothing about a build.
//
// The snapshot is taken once; Files and Registry read when they are asked.
package local

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/regular"
)

// Host looks at the machine. The only error is a current directory that is gone.
func Host() (buildenv.Host, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return buildenv.Host{}, exit.Errorf(0, "it was removed or may not be entered: change to another directory",
			"current directory: %w", err)
	}
	return buildenv.Host{
		OS:       runtime.GOOS,
		Arch:     runtime.GOARCH,
		Kernel:   kernel(),
		Env:      buildenv.NewEnv(runtime.GOOS, os.Environ()),
		Files:    files{},
		Registry: registry{},
		Home:     home(),
		Cwd:      cwd,
		CPUs:     runtime.GOMAXPROCS(0), // affinity and the quota of a control group are in it
	}, nil
}

func home() string {
	if dir, err := os.UserHomeDir(); err == nil && filepath.IsAbs(dir) {
		return dir
	}
	// cargo asks the system, too, when HOME is not set.
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}

// Terminal reports whether f is a terminal (on Windows: a console).
func Terminal(f *os.File) bool { return f != nil && terminal(f) }

// Width is the number of columns of a terminal; 0 where that cannot be known.
func Width(f *os.File) int { return width(f) }

// files reads the disk. A file that it opens can also be read at an offset: it is an *os.File.
type files struct{}

func (files) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (files) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (files) EvalSymlinks(path string) (string, error)   { return filepath.EvalSymlinks(path) }

// Open opens no device and no pipe, whoever asks: the paths are found, not named by the user.
func (f files) Open(path string) (fs.File, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err // a nil *os.File in an interface would not be nil
	}
	return file, nil
}

// OpenNamed opens a file that the user's command line names: a pipe, of which the end is waited for, or a regular file.
func OpenNamed(h buildenv.Host, path string, kind buildenv.Kind) (io.ReadCloser, error) {
	if fi, err := os.Stat(path); err == nil && fi.Mode()&fs.ModeNamedPipe != 0 {
		return os.Open(path)
	}
	return h.Open(path, kind)
}

// ReadNamed reads such a file, a pipe, too, only up to a limit.
func ReadNamed(h buildenv.Host, path string, limit int64) ([]byte, error) {
	f, err := OpenNamed(h, path, buildenv.Kind{Most: limit})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &buildenv.UnboundedError{Path: path, Why: fmt.Sprintf("larger than %d bytes", limit)}
	}
	return data, err
}
