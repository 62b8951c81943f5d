package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/tree"
)

func plan(t testing.TB, c *Catalog, h buildenv.Host, dir string, w Want) Plan {
	t.Helper()
	p, err := MakePlan(c, h, dir, w)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func linuxOnly(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "trees with links and stubs are made on Linux only")
	}
}

func TestInstallSmallToolkit(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	w := &fakeWorld{shelf: s}
	p := plan(t, c, h, dir, Want{})
	var said []string
	root, err := p.Run(context.Background(), w, func(e tree.Event) { said = append(said, e.Text) })
	if err != nil {
		t.Fatal(err)
	}
	targets := "targets/x86_64-linux"
	if h.Arch == "arm64" {
		targets = "targets/sbsa-linux"
	}
	for path, want := range map[string]string{
		"bin/nvcc":           "#!nvcc 13.4",
		"lib64/libcudart.so": "cudart 13.4",
		"bin/../" + targets + "/lib/libcudart.so":       "cudart 13.4",
		targets + "/include/cuda.h":                     "int cuInit(int);",
		"lib/libcupti.so":                               "cupti 13.4",
		"nvvm/lib64/libnvvm.so":                         "nvvm 13.4",
		"lib/stubs/libcuda.so":                          "int cuMemAlloc_v2(void){return 34;}",
		"lib/stubs/libcublas.so":                        "cublasCreate_v2",
		"version.json":                                  `"version": "13.4.1"`,
		"licenses/nvidia-cuda-nvcc-13.4.88/License.txt": "terms of nvidia-cuda-nvcc",
	} {
		if data, err := os.ReadFile(filepath.Join(root, path)); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %q, %v; want %q", path, data, err, want)
		}
	}
	for _, path := range []string{"__init__.py", "RECORD", "nvidia", "lib/libcublas.so"} {
		if _, err := os.Lstat(filepath.Join(root, path)); err == nil {
			t.Errorf("%s is there", path)
		}
	}
	if fi, err := os.Stat(filepath.Join(root, "bin/nvcc")); err != nil || fi.Mode().Perm()&0o111 == 0 {
		t.Errorf("nvcc cannot be executed: %v", err)
	}
	if got := leftovers(t, dir); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
	in := Installed(h, dir)
	if len(in) != 1 || in[0].Root != root || in[0].CUDA != p.CUDA || !in[0].Has("cupti") || in[0].Has("cublas") {
		t.Fatalf("installed: %+v", in)
	}
	if bad := partial(t, in[0]); len(bad) > 0 {
		t.Errorf("a new toolkit: %v", bad)
	}
	if len(said) == 0 || !strings.Contains(said[0], "using pip 23.2.1 of ") {
		t.Errorf("said %q", said)
	}

	// The same again, and a part of it, take no process at all.
	for _, want := range []Want{{}, {Parts: []string{"build"}}} {
		again := plan(t, c, h, dir, want)
		before := len(w.calls)
		if r, err := again.Run(context.Background(), w, nil); err != nil || r != root || !again.Installed || len(w.calls) != before {
			t.Errorf("%+v: %s, %v, %v", want, r, err, w.calls[before:])
		}
		if got := again.Lines(); len(got) != 1 || !strings.Contains(got[0], "is already in "+root) {
			t.Errorf("lines %q", got)
		}
	}
	// An older one is installed, too.
	old := plan(t, c, h, dir, Want{MaxVersion: gpu.Version{Major: 13, Minor: 2}})
	if _, err := old.Run(context.Background(), w, nil); err != nil {
		t.Fatal(err)
	}
	if in := Installed(h, dir); len(in) != 2 || in[0].Release != "13.4.1" || in[1].Release != "13.0.1" {
		t.Errorf("installed: %+v", in)
	}
	if err := Remove(context.Background(), h, dir, filepath.Base(root), nil); err != nil {
		t.Fatal(err)
	}
	if in := Installed(h, dir); len(in) != 1 || len(leftovers(t, dir)) > 0 {
		t.Errorf("after remove: %+v", in)
	}
	if err := Remove(context.Background(), h, dir, "../..", nil); !strings.Contains(exit.Hint(err), "cuda-13.0") {
		t.Errorf("removing what is not there: %v", err)
	}
}

// The user's environment must reach pip, and nothing of the directory he is in may.
func TestPipCommand(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	w := &fakeWorld{shelf: s}
	if _, err := plan(t, c, h, dir, Want{}).Run(context.Background(), w, nil); err != nil {
		t.Fatal(err)
	}
	for i, what := range w.calls {
		cmd := w.cmds[i]
		if !strings.HasPrefix(cmd.Dir, dir) {
			t.Errorf("%s starts in %s", what, cmd.Dir)
		}
		if what != "download" {
			continue
		}
		line := strings.Join(cmd.Args, " ")
		if !strings.HasPrefix(line, "-m pip download ") || !strings.Contains(line, "--no-deps --require-hashes --only-binary=:all: --platform manylinux2014_x86_64 --dest ") {
			t.Errorf("pip %s", line)
		}
		if env := strings.Join(cmd.Env, "\n"); !strings.Contains(env, "HTTPS_PROXY=proxy.example:3128") || !strings.Contains(env, "TMPDIR="+dir) {
			t.Errorf("environment\n%s", env)
		}
	}
}

func TestWhatGoesWrong(t *testing.T) {
	linuxOnly(t)
	pipSays := func(text string) func(string, buildenv.Cmd) error {
		return func(what string, c buildenv.Cmd) error {
			if what == "download" {
				return exitsWith1(c, text)
			}
			return nil
		}
	}
	tests := []struct {
		story     string
		fail      func(string, buildenv.Cmd) error
		change    func(shelf, *buildenv.Host)
		err, hint string
	}{
		{story: "pip finds another hash", fail: pipSays("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."), err: "not the pinned file", hint: "replaced by a mirror"},
		{story: "pip says something new", fail: pipSays("ERROR: the moon is in the way"), err: "the moon is in the way", hint: "run the same command again"},
		{story: "pip brings another file", change: func(s shelf, _ *buildenv.Host) {
			for f := range s {
				s[f] = append([]byte{}, s[f]...)
				s[f][len(s[f])/2] ^= 1
			}
		}, err: "pinned is", hint: "run the same command again"},
		{story: "pip brings nothing", change: func(s shelf, _ *buildenv.Host) { clear(s) }, err: "the file is not there", hint: "run the same command again"},
		{story: "an nvcc that does not start", fail: func(what string, c buildenv.Cmd) error {
			if strings.HasSuffix(c.Path, "/bin/nvcc") {
				return &fs.PathError{Op: "fork/exec", Path: c.Path, Err: syscall.ENOEXEC}
			}
			return nil
		}, err: "nothing was installed", hint: "toolchain list --available"},
		{story: "python without pip", fail: func(what string, c buildenv.Cmd) error {
			if what == "version" {
				return exitsWith1(c, "No module named pip")
			}
			return nil
		}, err: "no pip", hint: "python3-pip"},
		{story: "no python", change: func(_ shelf, h *buildenv.Host) {
			path, _ := h.LookPath("python3")
			_ = os.Remove(path)
		}, err: "none of them on PATH", hint: "python3-pip"},
		{story: "no C compiler", change: func(_ shelf, h *buildenv.Host) {
			path, _ := h.LookPath("cc")
			_ = os.Remove(path)
		}, err: "no C compiler", hint: "apt install g++"},
		{story: "a C compiler that cannot link", fail: func(what string, c buildenv.Cmd) error {
			if what == "stub" {
				return exitsWith1(c, "ld: cannot find")
			}
			return nil
		}, err: "link stub for lib", hint: "C compiler"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			c, s := small(t)
			h, dir := testHost(t), t.TempDir()
			if tt.change != nil {
				tt.change(s, &h)
			}
			p := plan(t, c, h, dir, Want{})
			root, err := p.Run(context.Background(), &fakeWorld{shelf: s, fail: tt.fail}, nil)
			var hinted interface{ Hint() string }
			if err == nil || root != "" || !strings.Contains(err.Error(), tt.err) || !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), tt.hint) {
				t.Fatalf("got %q, %v, %+v; want %q, hint %q", root, err, hinted, tt.err, tt.hint)
			}
			if in := Installed(h, dir); len(in) > 0 || len(leftovers(t, dir)) > 0 {
				t.Errorf("left behind: %+v %v", in, leftovers(t, dir))
			}
			// Mended, the same command works.
			c2, s2 := small(t)
			h2 := hostIn(t.TempDir())
			if _, err := plan(t, c2, h2, dir, Want{}).Run(context.Background(), &fakeWorld{shelf: s2}, nil); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestInterruptedAtEveryStep(t *testing.T) {
	linuxOnly(t)
	for _, step := range []string{"version", "download", "preprocess", "stub"} {
		t.Run(step, func(t *testing.T) {
			c, s := small(t)
			h, dir := testHost(t), t.TempDir()
			ctx, cancel := context.WithCancel(context.Background())
			w := &fakeWorld{shelf: s, fail: func(what string, cmd buildenv.Cmd) error {
				if what == step {
					cancel()
					return ctx.Err()
				}
				return nil
			}}
			if _, err := plan(t, c, h, dir, Want{}).Run(ctx, w, nil); !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
			if in := Installed(h, dir); len(in) > 0 || len(leftovers(t, dir)) > 0 {
				t.Errorf("left behind: %+v %v", in, leftovers(t, dir))
			}
		})
	}
}

func TestPanicLeavesNothing(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	func() {
		defer func() { _ = recover() }()
		w := &fakeWorld{shelf: s, fail: func(what string, _ buildenv.Cmd) error {
			if what == "version" {
				panic("a fault of ours")
			}
			return nil
		}}
		_, _ = plan(t, c, h, dir, Want{}).Run(context.Background(), w, nil)
		t.Error("no panic")
	}()
	if in := Installed(h, dir); len(in) > 0 || len(leftovers(t, dir)) > 0 {
		t.Errorf("left behind: %+v %v", in, leftovers(t, dir))
	}
	if _, err := plan(t, c, h, dir, Want{}).Run(context.Background(), &fakeWorld{shelf: s}, nil); err != nil {
		t.Errorf("again: %v", err)
	}
}

// Wheels that are complete are kept when a later step fails.
func TestNothingIsFetchedTwice(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	w := &fakeWorld{shelf: s, fail: func(what string, c buildenv.Cmd) error {
		if what == "stub" {
			return exitsWith1(c, "ld: no")
		}
		return nil
	}}
	if _, err := plan(t, c, h, dir, Want{}).Run(context.Background(), w, nil); err == nil {
		t.Fatal("no error")
	}
	again := plan(t, c, h, dir, Want{})
	if again.Fetch != 0 {
		t.Errorf("would fetch %d bytes", again.Fetch)
	}
	w2 := &fakeWorld{shelf: s}
	if _, err := again.Run(context.Background(), w2, nil); err != nil || strings.Contains(strings.Join(w2.calls, " "), "download") {
		t.Errorf("%v, %v", err, w2.calls)
	}
}

func TestDamagedWheelInTheCacheIsFetchedAgain(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	p := plan(t, c, h, dir, Want{})
	w := p.Items[0].Archive
	if err := os.MkdirAll(filepath.Join(dir, wheelsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.kept(w), make([]byte, w.Size), 0o600); err != nil {
		t.Fatal(err)
	}
	if root, err := plan(t, c, h, dir, Want{}).Run(context.Background(), &fakeWorld{shelf: s}, nil); err != nil || root != p.Root {
		t.Error(err)
	}
}

func TestTwoAtOnce(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	worlds := []*fakeWorld{{shelf: s}, {shelf: s}, {shelf: s}}
	errs := make([]error, len(worlds))
	var wg sync.WaitGroup
	for i, w := range worlds {
		p := plan(t, c, h, dir, Want{}) // before any of them has begun
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, errs[i] = p.Run(context.Background(), w, nil)
		}()
	}
	wg.Wait()
	downloads := 0
	for i, w := range worlds {
		if errs[i] != nil {
			t.Error(errs[i])
		}
		downloads += strings.Count(strings.Join(w.calls, " "), "download")
	}
	if downloads != 1 {
		t.Errorf("%d downloads", downloads)
	}
}

// What a killed run of another toolkit left is removed, too.
func TestLeftoversOfOthersAreSwept(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, toolkitsDir, removedPrefix+"x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := plan(t, c, h, dir, Want{}).Run(context.Background(), &fakeWorld{shelf: s}, nil); err != nil || len(leftovers(t, dir)) > 0 {
		t.Errorf("%v, left %v", err, leftovers(t, dir))
	}
}

// Two toolkits that share wheels, at the same time.
func TestDifferentToolkitsAtOnce(t *testing.T) {
	linuxOnly(t)
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	plans := []Plan{plan(t, c, h, dir, Want{}), plan(t, c, h, dir, Want{Parts: []string{"all"}}), plan(t, c, h, dir, Want{Parts: []string{"build"}})}
	var wg sync.WaitGroup
	for _, p := range plans {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := p.Run(context.Background(), &fakeWorld{shelf: s}, nil); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	for _, in := range Installed(h, dir) {
		if bad := partial(t, in); len(bad) > 0 {
			t.Errorf("%s: %v", in.Name, bad)
		}
	}
}

func TestReadOnlyCache(t *testing.T) {
	c, s := small(t)
	h, dir := testHost(t), t.TempDir()
	file := filepath.Join(dir, "file") // a file where a directory should be stops root, too
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := plan(t, c, h, filepath.Join(file, "cache"), Want{}).Run(context.Background(), &fakeWorld{shelf: s}, nil)
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), cache.Variable) {
		t.Errorf("got %v", err)
	}
}
