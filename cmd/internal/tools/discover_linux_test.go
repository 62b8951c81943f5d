package tools

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain"
)

// machine is this one with a PATH that begins with dir, and a cache of its own.
func machine(tb testing.TB, dir, cacheDir string) *session.Machine {
	tb.Helper()
	h, err := local.Host()
	if err != nil {
		tb.Fatal(err)
	}
	h.Env = h.Env.Set("PATH", dir+string(filepath.ListSeparator)+h.Env.Get("PATH"))
	shell := &console.Shell{Out: io.Discard, Err: io.Discard}
	return &session.Machine{Host: h, Runner: proc.Runner{}, Shell: shell, CacheDir: cacheDir, Began: time.Now()}
}

// TestScriptOnPath: a script that is called nvcc leads to the toolkit that it starts, and a broken one to none.
func TestScriptOnPath(t *testing.T) {
	t.Parallel()
	root, bin := filepath.Join(t.TempDir(), "cuda"), filepath.Join(t.TempDir(), "bin") // a parent that looks like a toolkit's
	nvcc := "#!/bin/sh\necho '#$ TOP=" + root + "/bin/..' >&2\n"
	for path, text := range map[string]string{
		root + "/bin/nvcc": nvcc, root + "/include/cuda.h": "#define CUDA_VERSION 12040\n", bin + "/nvcc": "#!/bin/sh\nexec " + root + "/bin/nvcc \"$@\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := machine(t, bin, t.TempDir())
	m.Host.Env = m.Host.Env.Set("PATH", bin+":/usr/bin:/bin")
	var has bool
	for _, tk := range findToolkits(context.Background(), m.Host, m.Runner, nil) {
		has = has || tk.Root == root && tk.Problem == "" && strings.Contains(tk.Origin, "the script "+bin)
	}
	if !has {
		t.Error("the script's toolkit is not found")
	}
}

// BenchmarkDiscovery finds everything on this machine, GPUs included, as a build whose crates need all of it does: cold with an empty
// cache, warm with a full one. One compiler must be asked for its version. CUDA_HOME and CUDNN_LIB add what a user would have.
func BenchmarkDiscovery(b *testing.B) {
	dir := need.CompilerWithoutNumber(b)
	needs := toolchain.Needs{CUDA: true, NVCC: true, Libraries: true, CUDNN: true, ROCm: true, HostCompiler: true}
	find := func(cacheDir string) toolchain.Facts {
		m := machine(b, dir, cacheDir)
		m.Self, _ = proc.Self()
		f, _ := discovery{machine: m, host: m.Host, needs: needs}.run(context.Background())
		return f
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
			if f := find(cacheDir); len(f.Compilers) == 0 {
				b.Fatal("no compiler")
			}
		}
	})
	b.Run("driver", func(b *testing.B) {
		m := machine(b, dir, b.TempDir())
		for range b.N {
			driver.Inventory(context.Background(), m.Host, m.Runner)
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

// TestACompilerIsAskedOnce holds what a build finds against what it would find without a cache.
func TestACompilerIsAskedOnce(t *testing.T) {
	t.Parallel()
	dir, cacheDir := need.CompilerWithoutNumber(t), t.TempDir()
	other := t.TempDir()
	find := func(variables ...string) (string, int) {
		m := machine(t, dir, cacheDir)
		for _, v := range variables {
			name, value, _ := strings.Cut(v, "=")
			m.Host.Env = m.Host.Env.Set(name, value)
		}
		count := &counting{Runner: m.Runner}
		m.Runner = count
		list, _ := compilers(context.Background(), m, m.Host, commandCache{m, m.Host})
		asked := 0
		for _, path := range count.started {
			if filepath.Dir(path) == dir {
				asked++
			}
		}
		for _, c := range list {
			if filepath.Dir(c.Path) == dir {
				return c.Version + c.Problem, asked
			}
		}
		t.Fatal("the compiler is not found")
		return "", 0
	}
	first, asked := find()
	if asked != 1 || !strings.Contains(first, ".") {
		t.Fatalf("%s; asked %d times", first, asked)
	}
	for _, tt := range []struct {
		story     string
		variables []string
		asked     int
	}{
		{"nothing changed", nil, 0},
		{"a variable that does not count", []string{"EDITOR=vi"}, 0},
		{"a variable that counts", []string{"GCC_EXEC_PREFIX="}, 1},
		{"a PATH that another program may be found on", []string{"PATH=" + dir + ":" + other + ":/usr/bin:/bin"}, 1},
	} {
		if again, asked := find(tt.variables...); again != first || asked != tt.asked {
			t.Errorf("%s: %s, not %s; asked %d times", tt.story, again, first, asked)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "gcc"), []byte("#!/bin/sh\necho 'gcc (GCC) 99.1.0'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a script may call anything
		if third, asked := find(); third != "99.1.0" || asked != 1 {
			t.Errorf("another compiler in its place: %s; asked %d times", third, asked)
		}
	}
}
