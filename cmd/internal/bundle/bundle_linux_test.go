package bundle

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestFullDisk: where the files do not fit, nothing of the bundle is left, and the error names the directory.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		need.Missing(t, "mount", "only root may mount a small file system")
	}
	dir := t.TempDir()
	m := machine(t, dir)
	lib := library(t, m, dir, "libcublas.so.13", "char much[4 << 20] = {1}; int f(void) { return much[0]; }")
	app := program(t, m, "extern int f(void); int main(void) { return f(); }", lib)
	small := t.TempDir()
	if err := syscall.Mount("gpubuild-test", small, "tmpfs", 0, "size=1m,mode=700"); err != nil {
		need.Missing(t, "mount", "mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	_, err := Make(context.Background(), m, Options{Programs: []string{app}, Dir: filepath.Join(small, "out")})
	if err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "is not made") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(small); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
