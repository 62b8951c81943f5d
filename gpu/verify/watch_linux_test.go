package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/gpu/probe"
)

// becomer turns into itself as often as it is told; the last one sleeps. With "bare" behind, the last one has no environment.
const becomer = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int n, char **a) {
    int left = atoi(a[1]); char text[16], *none[] = { NULL };
    if (left == 0) { pause(); return 0; }
    snprintf(text, sizeof text, "%d", left - 1);
    char *next[] = { a[0], text, n > 2 ? a[2] : NULL, NULL };
    execve("/proc/self/exe", next, n > 2 && left == 1 ? none : environ);
    return 9;
}
`

// TestLooksAmongExecs: a process that became another program many times is not said to have lost its environment, and one that did lose it is.
func TestLooksAmongExecs(t *testing.T) {
	need.CC(t)
	dir := t.TempDir()
	source, program := filepath.Join(dir, "becomer.c"), filepath.Join(dir, "becomer")
	hosttest.OK(t, os.WriteFile(source, []byte(becomer), 0o600))
	if out, err := exec.Command("gcc", "-O1", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h := hosttest.Must(local.Host())(t)
	for _, bare := range []bool{false, true} {
		c := exec.Command(program, "200")
		if bare {
			c.Args = append(c.Args, "bare")
		}
		c.Env = []string{"PATH=/bin", "LONG=" + strings.Repeat("x", 60<<10), probe.InjectionVariable + "=/p.so", probe.DirVariable + "=/run"}
		hosttest.OK(t, c.Start())
		s := newSampler(h, probe.CUDA, "/run")
		look := func() bool {
			st, _ := s.stat(c.Process.Pid)
			s.one(c.Process.Pid, st, true, true)
			return s.seen[processID{c.Process.Pid, st.Started}].NoInjection
		}
		for ended := false; !ended; {
			look()
			line, err := os.ReadFile("/proc/" + strconv.Itoa(c.Process.Pid) + "/cmdline")
			ended = err != nil || strings.Contains(string(line), "\x000\x00")
		}
		look()
		hosttest.Equal(t, look(), bare, "bare", "said to be")
		hosttest.Equal(t, c.Process.Kill(), nil)
		c.Wait() // killed: its error is that
	}
}

// What a program sends to its own process group does not reach who started the watcher. Without a terminal: in a session of its own.
func TestProgramSignalsItsGroup(t *testing.T) {
	l := newLab(t)
	z := newZooKeeper(t, l)
	script := `trap "echo shot; exit 9" TERM; "$0" "$1" "" "$2" cpu group; echo "ended with $?"`
	c := exec.Command("/bin/sh", "-c", script, l.probe.Watch, filepath.Join(t.TempDir(), "record"), z.get("acts"))
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\nended with 0\n") || strings.Contains(string(out), "shot") {
		t.Errorf("%v: %s", err, out)
	}
}

// Who kills the watcher leaves no program on the GPU.
func TestProgramEndsWithItsWatcher(t *testing.T) {
	l := newLab(t)
	c := exec.Command(l.probe.Watch, filepath.Join(t.TempDir(), "record"), "", need.Program(t, "sh", "sh"), "-c", "echo $$; exec sleep 600")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 16)
	n, err := out.Read(buffer)
	pid, bad := strconv.Atoi(strings.TrimSpace(string(buffer[:n])))
	if err != nil || bad != nil {
		t.Fatal(err, bad)
	}
	hosttest.Equal(t, c.Process.Kill(), nil)
	// the program holds the pipe's other end until it ends
	ended := make(chan struct{})
	go func() {
		for err == nil {
			_, err = out.Read(buffer)
		}
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the program runs on")
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	c.Wait() // killed: its error is that
}
