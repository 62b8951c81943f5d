//go:build unix

package local

import "golang.org/x/sys/unix"

// FreeSpace answers the bytes that this user may still write to the file system of path; 0 when that is not known.
func FreeSpace(path string) uint64 {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return 0
	}
	return uint64(s.Bavail) * uint64(s.Bsize)
}
