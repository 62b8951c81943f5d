package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestHost(t *testing.T) {
	t.Setenv("GPUBUILD_SOMETHING", "set")
	h, err := Host()
	if err != nil {
		t.Fatal(err)
	}
	if h.OS != runtime.GOOS || h.Arch != runtime.GOARCH || h.Env.Get("GPUBUILD_SOMETHING") != "set" {
		t.Errorf("got %s %s %q", h.OS, h.Arch, h.Env.Get("GPUBUILD_SOMETHING"))
	}
	if h.CPUs < 1 || h.CPUs > runtime.NumCPU() {
		t.Errorf("%d processors of %d", h.CPUs, runtime.NumCPU())
	}
	if h.Kernel == "" || !filepath.IsAbs(h.Home) || !filepath.IsAbs(h.Cwd) || h.Memory == 0 && runtime.GOOS != "darwin" {
		t.Errorf("kernel %q, home %q, cwd %q, memory %d", h.Kernel, h.Home, h.Cwd, h.Memory)
	}
	if !h.IsFile(h.Join(h.Cwd, "local_test.go")) {
		t.Error("this file is not there")
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := files{}.Open(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := make([]byte, 4)
	if _, err := f.(io.ReaderAt).ReadAt(at, 3); err != nil || string(at) != "tent" {
		t.Errorf("got %q, %v", at, err)
	}
	none := filepath.Join(dir, "none")
	if f, err := (files{}).Open(none); f != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, %v", f, err)
	}
	if _, err := (files{}).EvalSymlinks(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestNoRegistryElsewhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // there is one
	}
	_, a := registry{}.String(`HKLM\SOFTWARE`, "x", 64)
	_, b := registry{}.Keys(`HKLM\SOFTWARE`, 64)
	_, c := registry{}.Values(`HKLM\SOFTWARE`, 32)
	for _, err := range []error{a, b, c} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}

func TestNoTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if Terminal(f) || Terminal(nil) {
		t.Error("a file is a terminal")
	}
}

func TestLimits(t *testing.T) {
	tests := []struct {
		name   string
		files  map[string]string
		memory uint64
	}{
		{"no control groups", nil, 0},
		{"version 2, no limit", map[string]string{
			"/proc/self/cgroup": "0::/user.slice\n", "/sys/fs/cgroup/user.slice/memory.max": "max\n"}, 0},
		{"the group above is smaller", map[string]string{
			"/proc/self/cgroup": "9:name=systemd:/\n0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "1000\n", "/sys/fs/cgroup/a/memory.max": "900\n",
			"/sys/fs/cgroup/a/memory.current": "300\n"}, 600},
		{"a container that sees the host's path", map[string]string{
			"/proc/self/cgroup": "0::/docker/4711\n", "/sys/fs/cgroup/memory.max": "2000"}, 2000},
		{"cached files can be dropped", map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1000", "/sys/fs/cgroup/memory.current": "900", "/sys/fs/cgroup/memory.stat": "anon 100\ninactive_file 800\n"}, 900},
		{"nothing is left", map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1000", "/sys/fs/cgroup/memory.current": "1000"}, 1},
		{"nonsense", map[string]string{"/proc/self/cgroup": "\n::\n0:x\n0::/\n", "/sys/fs/cgroup/memory.max": "-"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			memory := limits(func(p string) string { return tt.files[p] })
			if memory != tt.memory {
				t.Errorf("got %d, want %d", memory, tt.memory)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	if got := available("MemTotal:       16 kB\nMemAvailable:   8 kB\n"); got != 8192 {
		t.Errorf("got %d", got)
	}
	if got := available("nothing"); got != 0 {
		t.Errorf("got %d", got)
	}
	for _, tt := range []struct{ have, limit, want uint64 }{{4, 0, 4}, {4, 8, 4}, {4, 2, 2}, {0, 8, 8}} {
		if got := bounded(tt.have, tt.limit); got != tt.want {
			t.Errorf("bounded(%d, %d) = %d", tt.have, tt.limit, got)
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add("0::/a\n", "1000")
	f.Add("4:cpu,memory:/../..\n0::/../..\n", "9223372036854771712")
	f.Fuzz(func(t *testing.T, groups, mem string) {
		_ = limits(func(p string) string {
			if filepath.Base(p) == "cgroup" {
				return groups
			}
			return mem
		})
	})
}
