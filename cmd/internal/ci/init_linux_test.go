package ci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/initfile"
	"gpubuild/cmd/internal/session"
)

// TestFullDisk: where a file or one of its directories does not fit, nothing is left of them, and the error says what to do.
func TestFullDisk(t *testing.T) {
	provider := Providers()[0]
	for _, tt := range []struct {
		story  string
		inodes int // of the disk, with that of its root
		theirs bool
	}{
		{"the first directory", 1, false}, {"the second directory", 2, false}, {"the file", 3, false}, {"its text", 9, false},
		{"its text, and .github was there", 9, true},
	} {
		dir := t.TempDir()
		if err := syscall.Mount("gpubuild-test", dir, "tmpfs", 0, fmt.Sprintf("size=16k,nr_inodes=%d,mode=700", tt.inodes)); err != nil {
			need.Missing(t, "mount", "%v", err)
		}
		defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
		if tt.theirs {
			hosttest.OK(t, os.Mkdir(filepath.Join(dir, ".github"), 0o755))
		}
		made := Init{Text: make([]byte, 1<<20), provider: provider, root: dir}
		err := made.Write(&session.Machine{Host: buildenv.Host{OS: buildenv.Linux, Cwd: dir}}, false)
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(exit.Hint(err), "free some space") {
			t.Errorf("%s: %v, hint %q", tt.story, err, exit.Hint(err))
		}
		if left := hosttest.Must(os.ReadDir(dir))(t); len(left) > 0 != tt.theirs {
			t.Errorf("%s: left behind: %v", tt.story, left)
		}
		for _, force := range []bool{false, true} {
			err := initfile.Write(filepath.Join(dir, "gpubuild.toml"), strings.Repeat("x", 1<<20), force)
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(exit.Hint(err), "free some space") || strings.Count(err.Error(), "gpubuild.toml") > 1 {
				t.Errorf("%s: gpubuild.toml: %v, hint %q", tt.story, err, exit.Hint(err))
			}
		}
		if left := hosttest.Must(os.ReadDir(dir))(t); len(left) > 0 != tt.theirs {
			t.Errorf("%s: left behind: %v", tt.story, left)
		}
	}
}
