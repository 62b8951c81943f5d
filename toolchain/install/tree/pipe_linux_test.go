package tree

import (
	"path/filepath"
	"syscall"
	"testing"

	"gpubuild/buildenv/local"
)

// TestReadOpensNoPipe: a named pipe in place of the marker file is a damaged toolkit, and nobody waits for its writer.
func TestReadOpensNoPipe(t *testing.T) {
	t.Parallel()
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, MarkerFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if in := Read(h, root); in.Problem == "" {
		t.Error("a named pipe was taken for a marker file")
	}
}
