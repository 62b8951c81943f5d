package session

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
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
		dir, remove, err := temp.MkdirTemp(parent, "x-")
		if err != nil {
			t.Fatal(err)
		}
		if dirs = append(dirs, dir); len(dirs) == 1 {
			remove()
			gone(dir)
		}
	}
	temp.Remove()
	gone(dirs[1])

	child := exec.Command(os.Args[0], "-test.run=^TestWritesToAClosedPipe$")
	child.Env = append(os.Environ(), "TEMPORARY_PARENT="+parent)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := child.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	dir, err := io.ReadAll(said)
	if err != nil {
		t.Fatal(err)
	}
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
	dir, _, err := new(Temporary).MkdirTemp(parent, "child-")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stderr.WriteString(dir)
	for {
		_, _ = os.Stdout.WriteString("x")
	}
}
