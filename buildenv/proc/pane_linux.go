package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	paneQuiet = 100 * time.Millisecond // of something that still holds a pane of which the child is gone
	paneLast  = 2 * time.Second        // how long that may go on writing
)

// Pane is a terminal of our own that stands between a child's stderr and the user's terminal, so that what the child says can be read along while it
// still finds a terminal there: its progress bar, its colours and its width stay. Every byte goes on as it is.
//
// It is stderr alone. The user's terminal stays the controlling one, and the child stays in its foreground process group: Ctrl-C, Ctrl-Z, hanging up
// and background jobs work by the kernel's own hand, as without us (a pseudo-terminal with a session of its own, as script(1) makes it, would take all
// of that over). A child that asks who is in the foreground of its stderr (tcgetpgrp) is told ENOTTY, which git and others take for "yes".
// If we are killed with SIGKILL the child's writes fail from then on, as they would on a pipe.
type Pane struct {
	Stderr *os.File // what the child gets

	ours    *os.File
	done    chan struct{}
	closing atomic.Bool
	deaf    func()
}

// OpenPane makes a pane before a terminal; also gets a copy of what passes. The system's own calls are used, because creack/pty opens the terminal for
// blocking reads, which cannot be ended while a compile cache's server still holds the other side.
func OpenPane(terminal *os.File, also io.Writer) (*Pane, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/ptmx: %w", err)
	}
	ours := os.NewFile(uintptr(fd), "/dev/ptmx")
	theirs, err := otherSide(fd)
	if err == nil {
		err = plainOutput(int(theirs.Fd()))
	}
	if err != nil {
		ours.Close()
		if theirs != nil {
			theirs.Close()
		}
		return nil, err
	}
	p := &Pane{Stderr: theirs, ours: ours, done: make(chan struct{})}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	p.deaf = func() { signal.Stop(resized); close(resized) }
	p.copySize(terminal)
	go func() {
		for range resized {
			p.copySize(terminal)
		}
	}()
	go p.pass(terminal, also)
	return p, nil
}

func otherSide(fd int) (*os.File, error) {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlocking a pseudo-terminal: %w", err)
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, fmt.Errorf("the number of a pseudo-terminal: %w", err)
	}
	return os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
}

// plainOutput leaves every byte as it was written: line ends are turned by the user's terminal, once.
func plainOutput(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("the modes of a pseudo-terminal: %w", err)
	}
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return fmt.Errorf("the modes of a pseudo-terminal: %w", err)
	}
	return nil
}

// copySize is no reason to fail: a width that is not known is 0, and programs then take their own.
func (p *Pane) copySize(terminal *os.File) {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return
	}
	if c, err := p.ours.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) })
	}
}

func (p *Pane) pass(terminal *os.File, also io.Writer) {
	defer close(p.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := p.ours.Read(buf)
		if n > 0 {
			_, _ = terminal.Write(buf[:n]) // a terminal that is gone is the child's to notice by SIGHUP
			_, _ = also.Write(buf[:n])
			if p.closing.Load() {
				_ = p.ours.SetReadDeadline(time.Now().Add(paneQuiet))
			}
		}
		if err != nil && !errors.Is(err, unix.EINTR) { // EIO: nobody holds the other side any more
			return
		}
	}
}

// Close waits until everything that the child wrote has passed, and takes the pane away. What the child left running may hold it for ever and is not
// waited for.
func (p *Pane) Close() {
	p.closing.Store(true)
	_ = p.ours.SetReadDeadline(time.Now().Add(paneQuiet))
	p.Stderr.Close()
	late := time.AfterFunc(paneLast, func() { p.ours.Close() })
	<-p.done
	late.Stop()
	p.deaf()
	p.ours.Close()
}
