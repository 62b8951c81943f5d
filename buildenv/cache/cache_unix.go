//go:build unix

package cache

import (
	"errors"
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

func openToAll(fi fs.FileInfo) bool { return fi.Mode().Perm()&0o002 != 0 }
