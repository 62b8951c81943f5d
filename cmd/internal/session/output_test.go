//go:build unix

package session

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
)

// TestResultFilesReplaceNothingSpecial: a FIFO stays one and gets the data, a link leads to the file that is written.
func TestResultFilesReplaceNothingSpecial(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := &Machine{Host: buildenv.Host{Cwd: dir}}
	at := func(name string) string { return filepath.Join(dir, name) }
	hosttest.OK(t, syscall.Mkfifo(at("fifo"), 0o600))
	for link, to := range map[string]string{"tofifo": "fifo", "tofile": "deep/file", "tonew": "deep/new", "again": "tofile"} {
		hosttest.OK(t, os.Symlink(to, at(link)))
	}
	hosttest.OK(t, os.Mkdir(at("deep"), 0o755))
	hosttest.OK(t, os.WriteFile(at("deep/file"), []byte("old"), 0o600))
	// Open for reading and writing, so that nobody waits for the other end.
	reader, err := os.OpenFile(at("fifo"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, name := range []string{"fifo", "tofifo"} {
		if err := m.WriteFile(name, []byte("data"), 0o644); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Lstat(at("fifo"))
		if err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
			t.Fatalf("%s: the FIFO is now %v, %v", name, fi.Mode(), err)
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(reader, got); err != nil || string(got) != "data" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, to := range map[string]string{"tofile": "deep/file", "again": "deep/file", "tonew": "deep/new", "plain": "plain"} {
		if err := m.WriteFile(name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Lstat(at(name))
		if err != nil || name != to && fi.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link %s is now %v, %v", name, fi.Mode(), err)
		}
		if got, err := os.ReadFile(at(to)); err != nil || string(got) != name {
			t.Errorf("%s: %q, %v", to, got, err)
		}
	}
	// What another program holds open gets the data, too.
	if _, err := os.Stat("/proc/self/fd"); err == nil {
		open, err := os.Create(at("open"))
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		if err := m.WriteFile(filepath.Join("/proc/self/fd", strconv.Itoa(int(open.Fd()))), []byte("data"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(open); err != nil || string(got) != "data" {
			t.Errorf("the open file got %q, %v", got, err)
		}
	}
	err = m.WriteFile("nosuch/r.json", nil, 0o644)
	if err == nil || !strings.Contains(err.Error(), "no directory "+at("nosuch")) || exit.Hint(err) != "make the directory "+at("nosuch") {
		t.Errorf("a missing directory: %v; %s", err, exit.Hint(err))
	}
	if _, err := os.Stat(at("nosuch")); err == nil {
		t.Error("the missing directory was made")
	}
}
