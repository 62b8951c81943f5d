package probe

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
)

// counting counts what is run.
type counting struct {
	mu   sync.Mutex
	runs int
}

func (c *counting) Run(ctx context.Context, cmd buildenv.Cmd) (buildenv.Result, error) {
	c.mu.Lock()
	c.runs++
	c.mu.Unlock()
	return proc.Runner{}.Run(ctx, cmd)
}

func machine(t *testing.T) (buildenv.Host, string) {
	t.Helper()
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	gcc, err := exec.LookPath("gcc")
	if h.OS != buildenv.Linux || err != nil {
		t.Skip("needs Linux and gcc to build the probe")
	}
	return h, gcc
}

func TestBuildOnceAndAgainWhenDamaged(t *testing.T) {
	h, gcc := machine(t)
	cache := t.TempDir()
	run := &counting{}
	build := func(want int) Probe {
		t.Helper()
		p, err := Build(context.Background(), h, run, cache, gcc)
		if err != nil {
			t.Fatal(err)
		}
		if run.runs != want {
			t.Fatalf("%d compilations, want %d", run.runs, want)
		}
		return p
	}
	p := build(3)
	if p.Digest == "" || p.SourceHash != SourceHash() || !strings.Contains(p.Origin, h.Real(gcc)) {
		t.Errorf("%+v", p)
	}
	if q := build(3); q != p {
		t.Errorf("%+v is not %+v", q, p)
	}
	if err := os.WriteFile(p.Library, []byte("something else"), 0o700); err != nil {
		t.Fatal(err)
	}
	if q := build(6); q.Library != p.Library {
		t.Errorf("%+v", q)
	}
	if err := os.Remove(p.Watch); err != nil {
		t.Fatal(err)
	}
	build(9)
	if err := os.Chmod(filepath.Dir(p.Library), 0o777); err != nil {
		t.Fatal(err)
	}
	build(9)
	if fi, err := os.Stat(filepath.Dir(p.Library)); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Join(cache, "probe"))
	if err != nil || len(entries) != 1 {
		t.Errorf("left beside: %v %v", entries, err)
	}
	// A library that was built elsewhere brings its control and its watcher along.
	given, err := FromFile(h, p.Library)
	if err != nil || given.Control != p.Control || given.Watch == "" || given.Digest == "" || given.Origin != "given" {
		t.Errorf("%+v %v", given, err)
	}
}

func TestTwoBuildAtOnce(t *testing.T) {
	h, gcc := machine(t)
	cache := t.TempDir()
	var all sync.WaitGroup
	for range 3 {
		all.Add(1)
		go func() {
			defer all.Done()
			if _, err := Build(context.Background(), h, proc.Runner{}, cache, gcc); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
}

func TestBuildErrors(t *testing.T) {
	h, gcc := machine(t)
	type hinted interface{ Hint() string }
	t.Run("no compiler", func(t *testing.T) {
		_, err := Build(context.Background(), h, proc.Runner{}, t.TempDir(), "")
		var none *NoCompilerError
		if !errors.As(err, &none) || !strings.Contains(none.Hint(), "--probe") {
			t.Error(err)
		}
	})
	t.Run("windows", func(t *testing.T) {
		_, err := Build(context.Background(), buildenv.Host{OS: buildenv.Windows}, proc.Runner{}, t.TempDir(), `C:\cl.exe`)
		var none *NoCompilerError
		if !errors.As(err, &none) || !strings.Contains(none.Error(), "windows") {
			t.Error(err)
		}
	})
	t.Run("a compiler that fails", func(t *testing.T) {
		cache := t.TempDir()
		_, err := Build(context.Background(), h, proc.Runner{}, cache, "/bin/false")
		var bad *BuildError
		var hint hinted
		if !errors.As(err, &bad) || bad.Source != "probe.c" || !errors.As(err, &hint) {
			t.Error(err)
		}
		if entries, err := os.ReadDir(filepath.Join(cache, "probe")); err != nil || len(entries) != 0 {
			t.Errorf("left behind: %v %v", entries, err)
		}
	})
	t.Run("a compiler that makes nothing", func(t *testing.T) {
		_, err := Build(context.Background(), h, proc.Runner{}, t.TempDir(), "/bin/true")
		var bad *BuildError
		if !errors.As(err, &bad) {
			t.Error(err)
		}
	})
	t.Run("the cache is a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "cache")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Build(context.Background(), h, proc.Runner{}, file, gcc)
		var cache *CacheError
		if !errors.As(err, &cache) || !strings.Contains(cache.Hint(), "GPUBUILD_CACHE") {
			t.Error(err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := Build(ctx, h, proc.Runner{}, t.TempDir(), gcc); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("a library that is not there", func(t *testing.T) {
		if _, err := FromFile(h, filepath.Join(t.TempDir(), "none.so")); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}

func TestSourcesCompileWithoutWarnings(t *testing.T) {
	_, gcc := machine(t)
	for _, p := range parts() {
		args := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-fsyntax-only", filepath.Join("csrc", p.source)}
		if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", p.source, err, out)
		}
	}
	for name := range Sources() {
		if data, err := os.ReadFile(filepath.Join("csrc", name)); err != nil || string(data) != Sources()[name] {
			t.Errorf("%s is not what is carried: %v", name, err)
		}
	}
}
