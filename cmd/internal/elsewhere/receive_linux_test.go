package elsewhere

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/exit"
	hostneed "gpubuild/buildenv/hosttest/need"
)

// TestFullDisk: a disk that is full when files come is called that, with what to do.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("gpubuild-test", dir, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		hostneed.Missing(t, "mount", "%v", err)
	}
	defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
	err := store{dir}.receive(bytes.NewReader(make([]byte, 1<<20)), sumOf("any"), 1<<20)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left") || !strings.Contains(exit.Hint(err), "free some space") {
		t.Errorf("got %v, hint %q", err, exit.Hint(err))
	}
}
