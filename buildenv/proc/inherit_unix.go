//go:build unix

package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Inheritance says whether open files can be handed through a process that knows nothing of them to one of its children.
const Inheritance = true

// FileMark names an open file so that a process that inherited it can recognise it; empty when that is not possible.
func FileMark(f *os.File) string { return mark(f.Fd()) }

func mark(fd uintptr) string {
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%d %d %d", st.Dev, st.Ino, st.Rdev)
}

// Inherited answers descriptor n if it is the file of that mark, and keeps it from this process's own children.
func Inherited(n int, is string) (*os.File, bool) {
	if is == "" || mark(uintptr(n)) != is {
		return nil, false
	}
	unix.CloseOnExec(n)
	return os.NewFile(uintptr(n), fmt.Sprintf("descriptor %d", n)), true
}
