package verify

import (
	"errors"
	"syscall"
)

// capable says whether a file carries capabilities, which a process that runs it gains. Source: capabilities(7), "File capabilities".
func capable(path string) (bool, error) {
	n, err := syscall.Getxattr(path, "security.capability", nil)
	if errors.Is(err, syscall.ENODATA) || errors.Is(err, syscall.ENOTSUP) {
		return false, nil
	}
	return err == nil && n > 0, err
}
