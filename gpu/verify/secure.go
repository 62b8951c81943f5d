package verify

import (
	"fmt"
	"io/fs"
)

// privileged says how a program gains rights by being run, or nothing. Such a process is in secure mode (AT_SECURE, getauxval(3)): the
// loader drops LD_LIBRARY_PATH, a library may well ignore the variable that loads the probe, and the probe, as another user, cannot write
// its records. Nothing that is not seen of it means anything.
func privileged(path string, mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSetuid != 0:
		return "it is setuid"
	case mode&fs.ModeSetgid != 0:
		return "it is setgid"
	}
	if has, err := capable(path); err != nil {
		return fmt.Sprintf("whether it carries capabilities is not known (%v)", err)
	} else if has {
		return "it carries capabilities"
	}
	return ""
}
