//go:build linux || darwin

package local

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

func terminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

func width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// registry is none.
type registry struct{}

func (registry) String(key, value string, _ int) (string, error) {
	return "", &fs.PathError{Op: "read value", Path: key + `\` + value, Err: fs.ErrNotExist}
}

func (registry) Keys(key string, _ int) ([]string, error) {
	return nil, &fs.PathError{Op: "open key", Path: key, Err: fs.ErrNotExist}
}

func (registry) Values(key string, _ int) ([]string, error) {
	return nil, &fs.PathError{Op: "open key", Path: key, Err: fs.ErrNotExist}
}
