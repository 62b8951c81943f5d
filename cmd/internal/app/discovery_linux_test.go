package app

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/need"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain"
)

// discoverer is this machine with a PATH that begins with dir, and a cache of its own.
func discoverer(tb testing.TB, dir, cacheDir string) *journey {
	tb.Helper()
	h, err := local.Host()
	if err != nil {
		tb.Fatal(err)
	}
	if dir != "" {
		h.Env = h.Env.Set("PATH", dir+string(filepath.ListSeparator)+h.Env.Get("PATH"))
	}
	a := &app{Machine: &session.Machine{Host: h, Runner: proc.Runner{}, Shell: &console.Shell{Out: io.Discard, Err: io.Discard}, CacheDir: cacheDir}}
	return &journey{app: a, reach: &features.Answer{}, Tools: tools.Tools{Needs: toolchain.Needs{CUDA: true, NVCC: true, Libraries: true, CUDNN: true, ROCm: true, HostCompiler: true}}}
}

// compilerWithoutNumber puts a copy of this machine's gcc into a directory: by its name nothing tells its version, as on Fedora and in conda.
func compilerWithoutNumber(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	for _, name := range []string{"gcc", "g++"} {
		real, err := filepath.EvalSymlinks("/usr/bin/" + name)
		if err != nil {
			need.Missing(tb, "cc", "no gcc in /usr/bin")
		}
		data, err := os.ReadFile(real)
		if err != nil {
			tb.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// BenchmarkDiscovery finds everything on this machine, GPUs included, as a build whose crates need all of it does: cold with an empty cache, warm with
// a full one. One compiler must be asked for its version. CUDA_HOME and CUDNN_LIB add what a user would have.
func BenchmarkDiscovery(b *testing.B) {
	dir := compilerWithoutNumber(b)
	time.Sleep(2100 * time.Millisecond) // a program that was just written is not remembered
	find := func(cacheDir string) *journey {
		j := discoverer(b, dir, cacheDir)
		j.Self, _ = proc.Self()
		j.gather(context.Background(), toolchain.Wish{}, nil)
		return j
	}
	b.Run("cold", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			cacheDir := b.TempDir()
			b.StartTimer()
			find(cacheDir)
		}
	})
	b.Run("warm", func(b *testing.B) {
		cacheDir := b.TempDir()
		find(cacheDir)
		b.ResetTimer()
		for range b.N {
			if j := find(cacheDir); len(j.Facts.Compilers) == 0 {
				b.Fatal("no compiler")
			}
		}
	})
	b.Run("driver", func(b *testing.B) {
		j := discoverer(b, dir, b.TempDir())
		self, _ := proc.Self()
		for range b.N {
			driver.Inventory(context.Background(), j.Host, j.Runner, self)
		}
	})
}

// counting counts the processes that are started.
type counting struct {
	session.Runner
	started []string
}

func (c *counting) Run(ctx context.Context, cmd buildenv.Cmd) (buildenv.Result, error) {
	c.started = append(c.started, cmd.Path)
	return c.Runner.Run(ctx, cmd)
}

// TestACompilerIsAskedOnce holds what a build finds against what it would find without memory.
func TestACompilerIsAskedOnce(t *testing.T) {
	t.Parallel()
	dir, cacheDir := compilerWithoutNumber(t), t.TempDir()
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{"gcc", "g++"} {
		if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2100 * time.Millisecond) // the time of its state cannot be set
	find := func() (string, []string) {
		j := discoverer(t, dir, cacheDir)
		count := &counting{Runner: j.Runner}
		j.Runner = count
		j.findCompilers(context.Background(), &j.Facts)
		var asked []string
		for _, path := range count.started {
			if filepath.Dir(path) == dir {
				asked = append(asked, path)
			}
		}
		for _, c := range j.Facts.Compilers {
			if filepath.Dir(c.Path) == dir {
				return c.Version + c.Problem, asked
			}
		}
		t.Fatal("the compiler is not found")
		return "", nil
	}
	first, asked := find()
	if len(asked) != 1 || !strings.Contains(first, ".") {
		t.Fatalf("%s; asked %v", first, asked)
	}
	if second, asked := find(); second != first || len(asked) != 0 {
		t.Errorf("%s, not %s; asked %v", second, first, asked)
	}
	if err := os.WriteFile(filepath.Join(dir, "gcc"), []byte("#!/bin/sh\necho 'gcc (GCC) 99.1.0'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if third, asked := find(); third != "99.1.0" || len(asked) != 1 {
		t.Errorf("another compiler in its place: %s; asked %v", third, asked)
	}
}
