package verify

import (
	"os"
	"syscall"
)

// makeNode makes a device node, or a file where that is not allowed.
func makeNode(path string) error {
	const memNull = 1<<8 | 3
	if syscall.Mknod(path, syscall.S_IFCHR|0o666, memNull) == nil {
		if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			f.Close()
			return os.Chmod(path, 0o666)
		}
		os.Remove(path)
	}
	return os.WriteFile(path, nil, 0o666)
}
