//go:build unix

package proc

import (
	"io"
	"os"
	"syscall"

	"gpubuild/buildenv"
)

// Become replaces this program with the command, so that its signals, exit status and cost are those of the command alone. It returns only
// if that is not possible: the command would not have our own streams, or cannot be started, which Run reports.
func Become(c buildenv.Cmd) {
	if c.Stdin != io.Reader(os.Stdin) || c.Stdout != io.Writer(os.Stdout) || c.Stderr != io.Writer(os.Stderr) {
		return
	}
	if c.Dir != "" && os.Chdir(c.Dir) != nil {
		return
	}
	_ = syscall.Exec(c.Path, append([]string{c.Path}, c.Args...), c.Env)
}
