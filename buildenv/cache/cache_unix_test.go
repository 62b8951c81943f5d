//go:build unix

package cache

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/need"
)

func TestACacheThatEveryoneMayWriteTo(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	err := Make(dir)
	var open *OpenError
	if !errors.As(err, &open) || !strings.Contains(open.Hint(), "chmod 700") {
		t.Errorf("got %v", err)
	}
}

func TestHintsByTheCause(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{&WriteError{Path: "/d/f", Err: syscall.ENOSPC}, "free some space on the disk that holds /d"},
		{&WriteError{Path: "/d/f", Err: syscall.EDQUOT}, "free some space on the disk that holds /d"},
		{&WriteError{Path: "/d/f", Err: syscall.EROFS}, "/d is on a file system that is mounted read-only: use a directory on another one"},
		{&WriteError{Path: "/d/f", Err: syscall.EACCES}, "make /d one that you may write to"},
		{&ReadOnlyError{Dir: "/d", Err: syscall.EROFS}, "set GPUBUILD_CACHE to a directory that can be written to"},
		{&ReadOnlyError{Dir: "/d", Err: syscall.ENOSPC}, "free some space there, or set GPUBUILD_CACHE to a directory with more"},
	}
	for _, tt := range tests {
		if got := tt.err.(interface{ Hint() string }).Hint(); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}

// TestDirectoriesWithoutWriting is the case of a user who is not root; root may write anywhere, and starts this test as somebody else.
func TestDirectoriesWithoutWriting(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t)
		return
	}
	dir := filepath.Join(t.TempDir(), "ro")
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	var ro *ReadOnlyError
	if err := Make(dir); !errors.As(err, &ro) {
		t.Errorf("got %v", err)
	}
	var w *WriteError
	if err := WriteFile(filepath.Join(dir, "f"), nil, 0o600); !errors.As(err, &w) || !strings.HasPrefix(w.Hint(), "make ") {
		t.Errorf("got %v", err)
	}
}

// asNobody runs a copy of this test binary, which root alone may reach where it is, for the same test as a user without any rights.
func asNobody(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "gpubuild-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "test")
	if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(program, data, 0o755)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-test.run", "^"+t.Name()+"$", "-test.v")
	c.Dir, c.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		need.Missing(t, "user", "nobody may not run it: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}
