package session

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestTemporaryDirectoriesAreRemoved: when the verb ends them, when gpubuild ends, and when nobody reads what is printed: there, gpubuild
// still ends by SIGPIPE.
func TestTemporaryDirectoriesAreRemoved(t *testing.T) {
	t.Parallel()
	gone := func(dir string) {
		t.Helper()
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	temp, parent := &Temporary{}, t.TempDir()
	var dirs []string
	for range 2 {
		dir, remove := hosttest.Must2(temp.MkdirTemp(parent, "x-"))(t)
		if dirs = append(dirs, dir); len(dirs) == 1 {
			remove()
			gone(dir)
		}
	}
	temp.Remove()
	gone(dirs[1])

	child := exec.Command(os.Args[0], "-test.run=^TestWritesToAClosedPipe$")
	child.Env = append(os.Environ(), "TEMPORARY_PARENT="+parent)
	out := hosttest.Must(child.StdoutPipe())(t)
	said := hosttest.Must(child.StderrPipe())(t)
	hosttest.OK(t, child.Start())
	_ = out.Close()
	dir := hosttest.Must(io.ReadAll(said))(t)
	_ = child.Wait()
	if s, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGPIPE {
		t.Errorf("the child ended with %v", child.ProcessState)
	}
	if !strings.HasPrefix(string(dir), parent) {
		t.Fatalf("the child said %q", dir)
	}
	gone(string(dir))
}

// TestWritesToAClosedPipe is the child of TestTemporaryDirectoriesAreRemoved.
func TestWritesToAClosedPipe(t *testing.T) {
	parent := os.Getenv("TEMPORARY_PARENT")
	if parent == "" {
		return
	}
	dir, _ := hosttest.Must2(new(Temporary).MkdirTemp(parent, "child-"))(t)
	_, _ = os.Stderr.WriteString(dir)
	for {
		_, _ = os.Stdout.WriteString("x")
	}
}
