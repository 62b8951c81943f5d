//go:build unix

package nvcc

import "os"

func linkTo(target, at string) error { return os.Symlink(target, at) }
