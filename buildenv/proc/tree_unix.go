//go:build linux || darwin

package proc

import (
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"gpubuild/buildenv"
)

// process is one line of the system's table of processes.
type process struct {
	pid, ppid int
	start     uint64 // when it began, in the system's own unit: with pid it names a process for good
	dead      bool   // it has ended and its parent has not asked yet
}

// tree is a child and all that came of it.
type tree struct {
	root  *os.Process
	known map[int]uint64 // pid → start of all that were ever seen in it
}

func startTree(cmd *exec.Cmd) (*tree, error) {
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &tree{root: cmd.Process, known: map[int]uint64{}}
	// The child cannot have been waited for, so that its pid is still its own.
	if p, ok := look(t.root.Pid); ok {
		t.known[p.pid] = p.start
	}
	return t, nil
}

// leave is called when the child ended by itself: what it left running is none of ours.
func (t *tree) leave() {}

// members lists the living processes of the tree. An empty list is made twice: a process that started another one and ended while the list
// was made is on it as dead, and the other one, younger than the list, is not.
func (t *tree) members() []int {
	for range 2 {
		if alive := family(processes(), t.known, os.Getpid()); len(alive) > 0 {
			return alive
		}
	}
	return nil
}

// family finds the living processes that were known before or descend from such, and adds them to known.
func family(all []process, known map[int]uint64, self int) []int {
	children := map[int][]process{}
	var queue []process
	for _, p := range all {
		children[p.ppid] = append(children[p.ppid], p)
		if start, ok := known[p.pid]; ok && start == p.start {
			queue = append(queue, p)
		}
	}
	seen := map[int]bool{self: true}
	var alive []int
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if seen[p.pid] {
			continue
		}
		seen[p.pid] = true
		known[p.pid] = p.start
		if !p.dead {
			alive = append(alive, p.pid)
		}
		queue = append(queue, children[p.pid]...)
	}
	return alive
}

// ask sends the signal to the whole tree, less our process group where the terminal has delivered it there, and says whether it could.
func (t *tree) ask(sig os.Signal, delivered bool) bool {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return false
	}
	ours := 0
	if delivered {
		ours = unix.Getpgrp()
	}
	t.signal(s, ours)
	return true
}

func (t *tree) kill() { t.signal(syscall.SIGKILL, 0) }

// signal sends a signal to the tree, less the members of one process group; 0: to all. An error means that a process is gone already, or
// that it is no longer ours to end (setuid).
func (t *tree) signal(s syscall.Signal, less int) {
	spared := func(pid int) bool {
		group, err := unix.Getpgid(pid)
		return less != 0 && err == nil && group == less
	}
	members := t.members() // before the child ends: nobody knows whose its children were then
	if !spared(t.root.Pid) {
		_ = t.root.Signal(s) // knows whether the child was waited for; a pid alone does not
	}
	for _, pid := range members {
		if p, ok := look(pid); ok && pid != t.root.Pid && p.start == t.known[pid] && !spared(pid) {
			_ = syscall.Kill(pid, s)
		}
	}
}

func (t *tree) alive() bool { return len(t.members()) > 0 }

// fromTerminal reports whether the terminal has sent a signal to all of our process group by itself: it does so for Ctrl-C.
func fromTerminal(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func status(s *os.ProcessState) (code int, signal string) {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), unix.SignalName(ws.Signal())
	}
	return s.ExitCode(), ""
}

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
