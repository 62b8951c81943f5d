package tools

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
)

// machine is this one with a PATH that begins with dir, and a cache of its own.
func machine(tb testing.TB, dir, cacheDir string) *session.Machine {
	tb.Helper()
	h := hosttest.Must(local.Host())(tb)
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
		root + "/bin/nvcc": nvcc, root + "/include/cuda.h": "#define CUDA_VERSION 12040\n", bin + "/nvcc": "#!/bin/sh\nexec '" + root + "/bin/nvcc' \"$@\"\n",
	} {
		hosttest.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		hosttest.OK(t, os.WriteFile(path, []byte(text), 0o755))
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

// TestSameDirectoryByAnotherName: a directory that is the repository's under another name counts as it.
func TestSameDirectoryByAnotherName(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	top := t.TempDir()
	repository, other := filepath.Join(top, "r"), filepath.Join(top, "other")
	hosttest.OK(t, errors.Join(os.Mkdir(repository, 0o755), os.Mkdir(filepath.Join(top, "else"), 0o755)))
	hosttest.OK(t, os.Symlink(repository, other))
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{{filepath.Join(other, "gcc"), repository, true}, {filepath.Join(top, "else", "gcc"), repository, false}, {filepath.Join(top, "gone", "gcc"), repository, false},
		{filepath.Join(other, "gcc"), filepath.Join(top, "nowhere"), false}} {
		hosttest.Equal(t, inside(h, tt.path, tt.dir), tt.want, tt.path, tt.dir)
	}
}

// BenchmarkDiscovery finds everything on this machine, GPUs included, as a build whose crates need all of it does. One compiler must be
// asked for its version. CUDA_HOME and CUDNN_LIB add what a user would have.
func BenchmarkDiscovery(b *testing.B) {
	dir := need.CompilerWithoutNumber(b)
	needs := toolchain.Needs{CUDA: true, NVCC: true, Libraries: true, CUDNN: true, ROCm: true, HostCompiler: true}
	b.Run("everything", func(b *testing.B) {
		for range b.N {
			m := machine(b, dir, b.TempDir())
			m.Self, _ = proc.Self()
			if f, _ := (discovery{machine: m, host: m.Host, needs: needs}).run(context.Background()); len(f.Compilers) == 0 {
				b.Fatal("no compiler")
			}
		}
	})
	b.Run("driver", func(b *testing.B) {
		m := machine(b, dir, b.TempDir())
		for range b.N {
			m.Driver().Inventory(context.Background())
		}
	})
}
