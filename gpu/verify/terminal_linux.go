package verify

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"gpubuild/buildenv/fault"
)

// terminal is a second terminal in front of the user's. Only what the program writes goes through it: it reads from the user's own, which
// stays the one that sends its signals, so that Ctrl-C and job control are as before.
type terminal struct {
	Program *os.File // what the program writes to
	ours    *os.File
	resized chan os.Signal
	done    chan struct{}
}

// relay makes a terminal that passes on to a writer. It has the size and the modes of the user's, but changes nothing of what is written:
// the user's does that.
func relay(user *os.File, to io.Writer) (*terminal, error) {
	modes, err := unix.IoctlGetTermios(int(user.Fd()), unix.TCGETS)
	if err != nil {
		return nil, errNoTerminal
	}
	ours, theirs, err := pty.Open()
	if err != nil {
		return nil, err
	}
	modes.Oflag &^= unix.OPOST
	modes.Lflag &^= unix.ECHO
	_ = unix.IoctlSetTermios(int(theirs.Fd()), unix.TCSETS, modes) // one that was just made takes any
	t := &terminal{Program: theirs, ours: ours, resized: make(chan os.Signal, 1), done: make(chan struct{})}
	signal.Notify(t.resized, syscall.SIGWINCH) // before the size is read, so that no change is lost
	_ = pty.InheritSize(user, ours)            // before the program starts and asks; a terminal without a size has none
	fault.Go(func() {
		for range t.resized {
			_ = pty.InheritSize(user, ours)
		}
	})
	fault.Go(func() {
		_, _ = io.Copy(to, ours) // it ends with EIO when the program and what it left have closed theirs
		close(t.done)
	})
	return t, nil
}

// close waits for what the program has written to be passed on. What it left running may hold the terminal: that is not waited for long.
func (t *terminal) close() {
	t.Program.Close()
	timer := time.AfterFunc(time.Second, func() { t.ours.Close() })
	<-t.done
	timer.Stop()
	signal.Stop(t.resized)
	close(t.resized)
	t.ours.Close()
}
