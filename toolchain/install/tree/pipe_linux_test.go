package tree

import (
	"path/filepath"
	"syscall"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
)

// TestReadOpensNoPipe: a named pipe in place of the marker file is a damaged toolkit, and nobody waits for its writer.
func TestReadOpensNoPipe(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	root := t.TempDir()
	hosttest.OK(t, syscall.Mkfifo(filepath.Join(root, MarkerFile), 0o600))
	if in := Read(h, root); in.Problem == "" {
		t.Error("a named pipe was taken for a marker file")
	}
}
