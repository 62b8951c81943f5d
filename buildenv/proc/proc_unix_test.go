//go:build linux || darwin

package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

func helperUnix(what string, _ []string) int {
	switch what {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		linger()
	case "slowend": // takes its time to shut down
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		<-asked
		time.Sleep(500 * time.Millisecond)
		return 7
	case "apart": // has a child in a session of its own, and leaves Ctrl-C to it
		signal.Ignore(syscall.SIGINT)
		cmd := exec.Command(os.Args[0], "__helper", "counts")
		cmd.Stdout, cmd.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Run() // its status says nothing
		return 0
	}
	return 99
}

// pids are those that the helpers printed.
func (w *watcher) pids(t *testing.T) []int {
	var out []int
	for _, l := range strings.Split(w.String(), "\n") {
		if s, ok := strings.CutPrefix(l, "ready "); ok {
			n := hosttest.Must(strconv.Atoi(strings.TrimSpace(s)))(t)
			out = append(out, n)
		}
	}
	return out
}

func gone(pid int) bool {
	p, ok := look(pid)
	return !ok || p.dead
}

func TestASignalIsACode(t *testing.T) {
	r, err := Runner{}.Run(context.Background(), command("kill"))
	var exit *buildenv.ExitError
	if !errors.As(err, &exit) || r.Code != 137 || r.Signal != "SIGKILL" || !strings.Contains(err.Error(), "ended by signal SIGKILL") {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestNothingOfTheTreeIsLeft: the child dies of SIGINT, its own child and grandchild ignore it.
func TestNothingOfTheTreeIsLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &watcher{n: 2, ready: cancel}
	c := command("tree")
	c.Stdout = w
	r, err := Runner{Grace: 3 * time.Second}.Run(ctx, c)
	if !errors.Is(err, context.Canceled) || r.Signal != "SIGINT" || r.Code != 130 {
		t.Errorf("got %+v, %v", r, err)
	}
	pids := w.pids(t)
	if len(pids) != 2 {
		t.Fatalf("got %q", w)
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// TestATimeoutEndsTheTree: the output is not waited for, though the grandchild held it.
func TestATimeoutEndsTheTree(t *testing.T) {
	c := command("tree")
	c.Timeout = time.Second
	r, err := Runner{Grace: 100 * time.Millisecond}.Run(context.Background(), c)
	var exit *buildenv.ExitError
	if !errors.As(err, &exit) || !r.TimedOut {
		t.Fatalf("got %+v, %v", r, err)
	}
	w := &watcher{}
	_, _ = w.Write(r.Stdout)
	for _, pid := range w.pids(t) {
		if !gone(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// TestAfterItsTimeAProgramHasItsGrace: a server that needs longer to shut down than the runner's own grace ends by itself.
func TestAfterItsTimeAProgramHasItsGrace(t *testing.T) {
	t.Parallel()
	c := command("slowend")
	c.Timeout, c.Grace, c.Stop = 3*time.Second, time.Minute, make(chan struct{})
	r, err := Runner{Grace: time.Millisecond}.Run(context.Background(), c)
	if !r.TimedOut || r.Code != 7 || r.Signal != "" {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestWhatGoesOnByItselfIsLeftAlone: a compile cache's server outlives the build that started it, and its open pipe is not waited for.
func TestWhatGoesOnByItselfIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := &watcher{}
	c := command("leave")
	c.Stdout = w
	if r := hosttest.Must((Runner{}).Run(context.Background(), c))(t); !r.Truncated {
		t.Error("nothing says that the end of the output was not waited for")
	}
	for _, pid := range w.pids(t) {
		if gone(pid) {
			t.Errorf("process %d is gone", pid)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestAProgramThatStopsInTimeKeepsItsCode(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &watcher{n: 1, ready: cancel}
	c := command("counts")
	c.Stdout = w
	r, err := Runner{}.Run(ctx, c)
	if !errors.Is(err, context.Canceled) || r.Code != 3 || w.String() != "ready\ngot interrupt\nbye\n" {
		t.Errorf("got %+v, %v, %q", r, err, w)
	}
}

// TestTheSameSignalIsPassedOn: what ends us with SIGTERM ends the children with it, once.
func TestTheSameSignalIsPassedOn(t *testing.T) {
	pid := make(chan int, 1)
	w := &watcher{n: 1, ready: func() { _ = syscall.Kill(<-pid, syscall.SIGTERM) }}
	c := command("runner", "counts")
	c.Stdout = w
	r := Runner{Started: func(_ buildenv.Cmd, p int) { pid <- p }}
	hosttest.Must(r.Run(context.Background(), c))(t)
	hosttest.Equal(t, w.String(), "ready\ngot terminated\nbye\ncode 3, cancelled true\n")
}

// TestAFurtherSignalEndsItAtOnce: a child that takes no notice has a minute, unless the user asks again.
func TestAFurtherSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	pid, ended := make(chan int, 1), make(chan struct{})
	w := &watcher{n: 1, ready: func() {
		go func() {
			for runner, again := <-pid, time.Tick(100*time.Millisecond); ; {
				_ = syscall.Kill(runner, syscall.SIGTERM)
				select {
				case <-again:
				case <-ended:
					return
				}
			}
		}()
	}}
	c := command("runner", "stubborn")
	c.Stdout = w
	_, err := Runner{Started: func(_ buildenv.Cmd, p int) { pid <- p }}.Run(ctx, c)
	close(ended)
	if err != nil || !strings.Contains(w.String(), "cancelled true") {
		t.Errorf("%v, %q", err, w)
	}
}

func TestWhatIsNoProgram(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want, hint string
	}{
		{"text", "hello\n", 0o755, "exec format error", "no program for this machine"},
		{"not-executable", "#!/bin/sh\n", 0o644, "permission denied", "make it executable"},
		{"no-interpreter", "#!/nonexistent/sh\n", 0o755, "no such file or directory", "the interpreter or loader"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, tt.name)
			hosttest.OK(t, os.WriteFile(path, []byte(tt.text), tt.mode))
			_, err := Runner{}.Run(context.Background(), buildenv.Cmd{Path: path})
			var start *StartError
			if !errors.As(err, &start) || err.Error() != path+": cannot be started: "+tt.want || !strings.Contains(start.Hint(), tt.hint) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestFamily is the choice of who belongs to a tree, without processes.
func TestFamily(t *testing.T) {
	all := []process{
		{pid: 1, start: 1},
		{pid: 10, ppid: 1, start: 5},              // ourselves
		{pid: 20, ppid: 10, start: 6},             // the child
		{pid: 21, ppid: 20, start: 7},             // its child
		{pid: 22, ppid: 21, start: 8, dead: true}, // a zombie
		{pid: 23, ppid: 22, start: 9},             // below it all the same
		{pid: 30, ppid: 1, start: 9},              // let go of its parents after it was seen
		{pid: 31, ppid: 30, start: 9},
		{pid: 40, ppid: 10, start: 9}, // another child of ours
		{pid: 50, ppid: 1, start: 99}, // a pid that was known once and came again
	}
	known := map[int]uint64{20: 6, 30: 9, 50: 2}
	got := map[int]bool{}
	for _, pid := range family(all, known, 10) {
		got[pid] = true
	}
	for _, p := range all {
		want := p.pid == 20 || p.pid == 21 || p.pid == 23 || p.pid == 30 || p.pid == 31
		hosttest.Equal(t, got[p.pid], want, "process", p.pid)
	}
}

// TestProgramsHaveTheirTime: after an interrupt a command's own Grace counts, after its Timeout the runner's.
func TestProgramsHaveTheirTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &watcher{n: 1, ready: cancel}
	c := command("counts")
	c.Stdout, c.Grace = w, time.Minute
	if r, err := (Runner{Grace: time.Millisecond}).Run(ctx, c); !errors.Is(err, context.Canceled) || r.Code != 3 {
		t.Errorf("interrupted: %+v, %v; it was to end with 3", r, err)
	}
	for timeout := 200 * time.Millisecond; ; timeout *= 2 {
		c = command("counts")
		c.Timeout, c.Grace = timeout, time.Minute
		r, err := (Runner{Grace: time.Millisecond}).Run(context.Background(), c)
		if !strings.Contains(string(r.Stdout), "ready") { // it had not begun yet
			continue
		}
		if err == nil || !r.TimedOut || r.Code != 3 {
			t.Errorf("out of time: %+v, %v; it was to end with 3", r, err)
		}
		return
	}
}
