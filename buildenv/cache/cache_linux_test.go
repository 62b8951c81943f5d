package cache

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// TestRealDisks mounts a small one and a read-only one, where that is allowed.
func TestRealDisks(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("gpubuild-test", dir, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		need.Missing(t, "mount", "%v", err)
	}
	defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
	path := filepath.Join(dir, "file")
	hosttest.OK(t, WriteFile(path, []byte("old"), 0o600))
	err := WriteFile(path, bytes.Repeat([]byte("x"), 1<<20), 0o600)
	var w *WriteError
	if !errors.As(err, &w) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the old file is now %d bytes", len(got))
	}
	alone(t, path)

	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		need.Missing(t, "mount", "cannot be made read-only: %v", err)
	}
	var ro *ReadOnlyError
	if err := Make(dir); !errors.As(err, &ro) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("got %v", err)
	}
	if err := WriteFile(path, nil, 0o600); !errors.As(err, &w) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("got %v", err)
	}
}
