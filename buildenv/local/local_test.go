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
		cpus   int
		memory uint64
	}{
		{"no control groups", nil, 0, 0},
		{"version 2, no limit", map[string]string{
			"/proc/self/cgroup": "0::/user.slice\n", "/sys/fs/cgroup/user.slice/cpu.max": "max 100000\n", "/sys/fs/cgroup/user.slice/memory.max": "max\n"}, 0, 0},
		{"version 2, one and a half processors", map[string]string{
			"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/cpu.max": "150000 100000\n", "/sys/fs/cgroup/a/b/memory.max": "1000\n", "/sys/fs/cgroup/a/b/memory.current": "400\n"}, 2, 600},
		{"version 2, the group above is smaller", map[string]string{
			"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/cpu.max": "800000 100000\n", "/sys/fs/cgroup/a/cpu.max": "400000 100000\n"}, 4, 0},
		{"a container that sees the host's path", map[string]string{
			"/proc/self/cgroup": "0::/docker/4711\n", "/sys/fs/cgroup/cpu.max": "50000 100000\n", "/sys/fs/cgroup/memory.max": "2000"}, 1, 2000},
		{"cached files can be dropped", map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1000", "/sys/fs/cgroup/memory.current": "900", "/sys/fs/cgroup/memory.stat": "anon 100\ninactive_file 800\n"}, 0, 900},
		{"nothing is left", map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1000", "/sys/fs/cgroup/memory.current": "1000"}, 0, 1},
		{"version 1", map[string]string{
			"/proc/self/cgroup":                             "9:name=systemd:/\n4:cpu,cpuacct:/x\n3:memory:/x\n",
			"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us":         "300000",
			"/sys/fs/cgroup/cpu/x/cpu.cfs_period_us":        "100000",
			"/sys/fs/cgroup/cpu/cpu.cfs_quota_us":           "-1",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712",
			"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "5000"}, 3, 5000},
		{"nonsense", map[string]string{"/proc/self/cgroup": "\n::\n0:x\n0::/\n", "/sys/fs/cgroup/cpu.max": "a b c", "/sys/fs/cgroup/memory.max": "-"}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cpus, memory := limits(func(p string) string { return tt.files[p] })
			if cpus != tt.cpus || memory != tt.memory {
				t.Errorf("got %d, %d, want %d, %d", cpus, memory, tt.cpus, tt.memory)
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
	f.Add("0::/a\n", "150000 100000", "1000")
	f.Add("4:cpu,memory:/../..\n", "-1", "9223372036854771712")
	f.Fuzz(func(t *testing.T, groups, cpu, mem string) {
		cpus, _ := limits(func(p string) string {
			switch filepath.Base(p) {
			case "cgroup":
				return groups
			case "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us":
				return cpu
			}
			return mem
		})
		if cpus < 0 {
			t.Errorf("%d processors", cpus)
		}
	})
}
