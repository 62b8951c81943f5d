//go:build unix

package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func inode(_ string, fi fs.FileInfo) (inode, device uint64, err error) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino), uint64(st.Dev), nil
	}
	return 0, 0, nil
}

func rename(from, to string) error { return os.Rename(from, to) }

func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func readOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// shared is the subdirectory of a directory that is everybody's and not ours; empty: the directory itself is used.
func shared(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Geteuid() || fi.Mode().Perm()&0o002 == 0 {
		return ""
	}
	return fmt.Sprintf("user-%d", os.Geteuid())
}

// writable says why others may have written to a path, and what to do; empty if they cannot. root is trusted: it can do anything.
func writable(path string, fi fs.FileInfo) (why, fix string) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Sprintf("belongs to user %d, not to you (%d)", st.Uid, os.Geteuid()), "remove it"
	}
	mode := fi.Mode()
	switch perm := mode.Perm(); {
	case mode&fs.ModeSymlink != 0:
		return "", "" // what it leads to counts
	case perm&0o002 != 0:
		why = "every user"
	case perm&0o020 != 0:
		why = "its group"
	default:
		return "", ""
	}
	return fmt.Sprintf("may be written to by %s (mode %04o)", why, mode.Perm()), "chmod go-w " + path
}
