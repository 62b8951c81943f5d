package verify

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"gpubuild/buildenv"
)

// links is a machine of which only the links are known.
type links map[string]string

func (l links) Stat(string) (fs.FileInfo, error)      { return nil, fs.ErrNotExist }
func (l links) ReadDir(string) ([]fs.DirEntry, error) { return nil, fs.ErrNotExist }
func (l links) Open(string) (fs.File, error)          { return nil, fs.ErrNotExist }
func (l links) EvalSymlinks(path string) (string, error) {
	if to, ok := l[path]; ok {
		return to, nil
	}
	return "", fs.ErrNotExist
}

func TestDriversOfAMachine(t *testing.T) {
	const system, real = "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06"
	h := buildenv.Host{OS: buildenv.Linux, Files: links{system: real, "/usr/lib64/libcuda.so.1": real, "/compat/libcuda.so.1": "/compat/libcuda.so.590.1"}}
	for first, want := range map[string][]string{
		"/compat/libcuda.so.1": {"/compat/libcuda.so.590.1", real},
		system:                 {real},
		"/gone/libcuda.so.1":   {"/gone/libcuda.so.1", real}, // what cannot be watched makes the watcher say so
		"":                     {real},
	} {
		if got := drivers(h, first); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", first, got, want)
		}
	}
}

// The watcher tells that any of the drivers was opened, and where one of them cannot be watched that it does not know.
func TestWatcherOfSeveralDrivers(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	one, two, third := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "third")
	for _, p := range []string{one, two, third} {
		if err := os.WriteFile(p, []byte("driver\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip("no cat")
	}
	for i, tt := range []struct {
		drivers, opens string
		want           func(int) bool
	}{
		{one + "\n" + two, one, func(n int) bool { return n > 0 }},
		{one + "\n" + two, two, func(n int) bool { return n > 0 }},
		{one + "\n" + two, third, func(n int) bool { return n == 0 }},
		{one + "\n" + filepath.Join(dir, "none"), third, func(n int) bool { return n == -1 }},
		{"", third, func(n int) bool { return n == -1 }},
	} {
		record := filepath.Join(dir, "record"+string(rune('a'+i)))
		if out, err := exec.Command(l.probe.Watch, record, tt.drivers, cat, tt.opens).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		w, err := readWatch(l.host, record)
		if err != nil || w.ended == nil || !tt.want(w.ended.Opened) {
			t.Errorf("%q, and %s is opened: %+v, %v", tt.drivers, tt.opens, w.ended, err)
		}
	}
}
