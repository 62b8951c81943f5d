package probe

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
)

// counting counts what is run. A compilation that it ran before, into a file of the same name, it does not run again: it takes what was made.
type counting struct {
	mu   sync.Mutex
	runs int
	made map[string][]byte
}

func (c *counting) Run(ctx context.Context, cmd buildenv.Cmd) (buildenv.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	at := slices.Index(cmd.Args, "-o") + 1
	if at == 0 {
		return proc.Runner{}.Run(ctx, cmd)
	}
	out := cmd.Args[at]
	name := filepath.Base(out)
	if data, has := c.made[name]; has {
		return buildenv.Result{}, os.WriteFile(out, data, 0o700)
	}
	res, err := proc.Runner{}.Run(ctx, cmd)
	if data, read := os.ReadFile(out); err == nil && read == nil {
		if c.made == nil {
			c.made = map[string][]byte{}
		}
		c.made[name] = data
	}
	return res, err
}

func machine(t *testing.T) (buildenv.Host, string) {
	t.Helper()
	h := hosttest.Must(local.Host())(t)
	if h.OS != buildenv.Linux {
		need.Missing(t, "linux", "the probe is built there")
	}
	return h, need.CC(t)
}

func TestBuildOnceAndAgainWhenDamaged(t *testing.T) {
	h, gcc := machine(t)
	home := filepath.Join(t.TempDir(), "a [cache")
	run := &counting{}
	build := func(want int) Probe {
		t.Helper()
		p := hosttest.Must(Build(context.Background(), h, run, home, Compiler{Path: gcc}, CUDA))(t)
		if run.runs != want {
			t.Fatalf("%d compilations, want %d", run.runs, want)
		}
		return p
	}
	left := filepath.Join(home, "probe", ".build-killed") // two hours ago; an hour is what another gpubuild may take
	hosttest.OK(t, errors.Join(os.MkdirAll(left, 0o700), os.Chmod(filepath.Dir(left), 0o700),
		os.Chtimes(left, time.Time{}, time.Now().Add(-2*time.Hour))))
	p := build(3)
	if p.Digest == "" || p.SourceHash != SourceHash() {
		t.Errorf("%+v", p)
	}
	hosttest.Equal(t, build(3), p, "is not")
	hosttest.OK(t, os.WriteFile(p.Library, []byte("something else"), 0o700))
	if q := build(6); q.Library != p.Library {
		t.Errorf("%+v", q)
	}
	hosttest.OK(t, os.Remove(p.Watch))
	build(9)
	hosttest.OK(t, os.Chmod(filepath.Dir(p.Library), 0o777))
	build(12) // others may have written to it
	if fi, err := os.Stat(filepath.Dir(p.Library)); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Join(home, "probe"))
	if err != nil || len(entries) != 1 {
		t.Errorf("left beside: %v %v", entries, err)
	}
	// A library that was built elsewhere brings its control and its watcher along.
	given, err := FromFile(h, p.Library, CUDA)
	if err != nil || given.Control != p.Control || given.Watch == "" || given.Digest == "" {
		t.Errorf("%+v %v", given, err)
	}
	// Two that want it at once: each may compile it, and both get it.
	home = t.TempDir()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if _, err := Build(context.Background(), h, run, home, Compiler{Path: gcc}, CUDA); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestBuildErrors(t *testing.T) {
	h, gcc := machine(t)
	t.Run("no compiler", func(t *testing.T) {
		_, err := Build(context.Background(), h, proc.Runner{}, t.TempDir(), Compiler{}, CUDA)
		if exit.Of(err) != exit.Missing || !strings.Contains(exit.Hint(err), "--probe") {
			t.Error(err)
		}
	})
	t.Run("machines without a probe", func(t *testing.T) {
		for _, h := range []buildenv.Host{{OS: buildenv.Windows, Arch: "arm64"}, {OS: buildenv.Darwin, Arch: "arm64"}} {
			_, err := Build(context.Background(), h, proc.Runner{}, t.TempDir(), Compiler{Path: `C:\cl.exe`, CL: true}, CUDA)
			if exit.Of(err) != exit.Missing || !strings.Contains(err.Error(), h.OS+" arm64") || !strings.Contains(exit.Hint(err), "prove on Linux") {
				t.Error(err)
			}
		}
	})
	t.Run("no compiler on Windows", func(t *testing.T) {
		_, err := Build(context.Background(), buildenv.Host{OS: buildenv.Windows, Arch: "amd64"}, proc.Runner{}, t.TempDir(), Compiler{}, CUDA)
		if exit.Of(err) != exit.Missing || !strings.Contains(err.Error(), "cl, gcc or clang") || !strings.Contains(exit.Hint(err), "BuildTools") {
			t.Error(err)
		}
	})
	t.Run("a compiler that fails", func(t *testing.T) {
		home := t.TempDir()
		_, err := Build(context.Background(), h, proc.Runner{}, home, Compiler{Path: "/bin/false"}, CUDA)
		if !strings.HasPrefix(err.Error(), "building the probe's probe.c: ") || exit.Hint(err) == "" {
			t.Error(err)
		}
		if entries, err := os.ReadDir(filepath.Join(home, "probe")); err != nil || len(entries) != 0 {
			t.Errorf("left behind: %v %v", entries, err)
		}
	})
	t.Run("a compiler that makes nothing", func(t *testing.T) {
		_, err := Build(context.Background(), h, proc.Runner{}, t.TempDir(), Compiler{Path: "/bin/true"}, CUDA)
		if err == nil || !strings.HasPrefix(err.Error(), "building the probe's ") {
			t.Error(err)
		}
	})
	t.Run("a compiler without room", func(t *testing.T) {
		bad := buildError("watch.c", errors.New("gcc: exit status 1:\n/usr/bin/ld: final link failed: No space left on device"))
		if !strings.Contains(exit.Hint(bad), "make room") {
			t.Error(exit.Hint(bad))
		}
	})
	t.Run("the cache is a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "cache")
		hosttest.OK(t, os.WriteFile(file, nil, 0o600))
		_, err := Build(context.Background(), h, proc.Runner{}, file, Compiler{Path: gcc}, CUDA)
		var unwritable *cache.ReadOnlyError
		if !errors.As(err, &unwritable) || !strings.Contains(unwritable.Hint(), "GPUBUILD_CACHE") {
			t.Error(err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := Build(ctx, h, proc.Runner{}, t.TempDir(), Compiler{Path: gcc}, CUDA); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("a library that is not there", func(t *testing.T) {
		if _, err := FromFile(h, filepath.Join(t.TempDir(), "none.so"), CUDA); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}

// A node counts as open only if it can be used: a descriptor of O_PATH needs no driver behind the node.
func TestUsableDescriptors(t *testing.T) {
	t.Parallel()
	_, gcc := machine(t)
	program := filepath.Join(t.TempDir(), "usable")
	source := `#include "os_linux.h"
int main(void) {
    printf("%d %d %d %d", usable(open("/dev/null", O_RDWR)), usable(open("/dev/null", O_RDONLY)), usable(open("/dev/null", O_PATH)), usable(999));
}`
	c := exec.Command(gcc, "-xc", "-w", "-I", "csrc", "-o", program, "-", "-pthread", "-ldl")
	c.Stdin = strings.NewReader(source)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(program).Output(); err != nil || string(out) != "1 1 0 0" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSourcesCompileWithoutWarnings(t *testing.T) {
	_, gcc := machine(t)
	strict := func(compiler, os string) {
		for _, p := range parts(os, CUDA) {
			args := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-fsyntax-only", filepath.Join("csrc", p.source)}
			if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v\n%s", compiler, p.source, err, out)
			}
		}
	}
	strict(gcc, buildenv.Linux)
	for _, cross := range []struct{ compiler, os, need string }{
		{"x86_64-w64-mingw32-gcc", buildenv.Windows, "mingw"}, {"aarch64-linux-gnu-gcc", buildenv.Linux, "arm64"},
	} {
		t.Run(cross.compiler, func(t *testing.T) {
			need.Asked(t, cross.need)
			strict(cross.compiler, cross.os)
		})
	}
	for name := range Sources() {
		if data, err := os.ReadFile(filepath.Join("csrc", name)); err != nil || string(data) != Sources()[name] {
			t.Errorf("%s is not what is carried: %v", name, err)
		}
	}
}

func TestCompile(t *testing.T) {
	linux := buildenv.Host{OS: buildenv.Linux, Env: buildenv.NewEnv(buildenv.Linux, []string{"PATH=/bin"})}
	windows := buildenv.Host{OS: buildenv.Windows, Env: buildenv.NewEnv(buildenv.Windows, []string{"Path=C:\\bin", "Cl=/DNDEBUG", "_LINK_=/DEBUG"})}
	prompt := windows.Env.Set("INCLUDE", `C:\inc`)
	for _, tt := range []struct {
		story    string
		host     buildenv.Host
		compiler Compiler
		part     int
		want     string // the words
		env      string // the variables, sorted
	}{
		{"gcc, the library", linux, Compiler{Path: "/bin/gcc"}, 0, "/bin/gcc -std=c11 -O2 -pthread -o /out/libgpubuild_probe.so -shared -fPIC -fvisibility=hidden -Wl,-z,nodelete /src/probe.c -ldl", "LC_ALL=C PATH=/bin"},
		{"gcc, the watcher", linux, Compiler{Path: "/bin/gcc"}, 2, "/bin/gcc -std=c11 -O2 -pthread -o /out/gpubuild-watch /src/watch.c -ldl", "LC_ALL=C PATH=/bin"},
		{"cl, the library", windows, Compiler{Path: `C:\cl.exe`, CL: true, Env: prompt}, 0, `C:\cl.exe /nologo /TC /utf-8 /W3 /O2 /MT /LD /Fo:C:\out\gpubuild_probe.dll.obj /Fe:C:\out\gpubuild_probe.dll C:\src\probe.c`, `INCLUDE=C:\inc LC_ALL=C Path=C:\bin`},
		{"cl, the control", windows, Compiler{Path: `C:\cl.exe`, CL: true, Env: prompt}, 1, `C:\cl.exe /nologo /TC /utf-8 /W3 /O2 /MT /Fo:C:\out\gpubuild-control.exe.obj /Fe:C:\out\gpubuild-control.exe C:\src\control.c`, `INCLUDE=C:\inc LC_ALL=C Path=C:\bin`},
		{"cl, the watcher", windows, Compiler{Path: `C:\cl.exe`, CL: true, Env: prompt}, 2, `C:\cl.exe /nologo /TC /utf-8 /W3 /O2 /MT /Fo:C:\out\gpubuild-watch.exe.obj /Fe:C:\out\gpubuild-watch.exe C:\src\watch_windows.c`, `INCLUDE=C:\inc LC_ALL=C Path=C:\bin`},
		{"mingw, the library", windows, Compiler{Path: `C:\gcc.exe`}, 0, `C:\gcc.exe -std=c11 -O2 -static -o C:\out\gpubuild_probe.dll -shared C:\src\probe.c`, `Cl=/DNDEBUG LC_ALL=C Path=C:\bin _LINK_=/DEBUG`},
	} {
		t.Run(tt.story, func(t *testing.T) {
			src, out := "/src", "/out"
			if tt.host.OS == buildenv.Windows {
				src, out = `C:\src`, `C:\out`
			}
			p := parts(tt.host.OS, CUDA)[tt.part]
			c := Compile(tt.host, tt.compiler, src, tt.host.Join(src, p.source), tt.host.Join(out, p.name), p.shared)
			hosttest.Equal(t, c.String(), tt.want, c)
			slices.Sort(c.Env)
			if env := strings.Join(c.Env, " "); env != tt.env {
				t.Errorf("got %s, want %s", env, tt.env)
			}
		})
	}
}

// TestArm64 builds the probe, its control and the stand-in driver for Linux on arm64 and runs them there, on a processor that qemu plays.
func TestArm64(t *testing.T) {
	const gcc, qemu, root = "aarch64-linux-gnu-gcc", "qemu-aarch64-static", "/usr/aarch64-linux-gnu"
	if h, err := local.Host(); err != nil || h.OS != buildenv.Linux {
		need.Missing(t, "linux", "qemu's user mode needs it")
	}
	need.Asked(t, "arm64", "qemu")
	dir, records := t.TempDir(), t.TempDir()
	strict := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread"}
	library := append(strict[:len(strict):len(strict)], "-shared", "-fPIC", "-fvisibility=hidden")
	standin := func(name string) string { return filepath.Join("..", "..", "testdata", "standin", name) }
	at := func(name string) string { return filepath.Join(dir, name) }
	builds := [][]string{
		append(library[:len(library):len(library)], "-Wl,-soname,libcuda.so.1", standin("cuda.c"), "-o", at("libcuda.so.1"), "-ldl"),
		append(library[:len(library):len(library)], "-Wl,-soname,libcupti.so.13", standin("cupti.c"), "-o", at("libcupti.so.13"), "-ldl"),
	}
	for _, p := range parts(buildenv.Linux, CUDA) {
		c := Compile(buildenv.Host{OS: buildenv.Linux}, Compiler{Path: gcc}, "csrc", "csrc/"+p.source, filepath.Join(dir, p.name), p.shared)
		builds = append(builds, append(c.Args, "-Wall", "-Wextra", "-Werror"))
	}
	for _, args := range builds {
		if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", gcc, strings.Join(args, " "), err, out)
		}
	}
	control := at("gpubuild-control")
	c := exec.Command(qemu, "-L", root, "-E", "LD_LIBRARY_PATH="+dir, control)
	c.Env = append(os.Environ(), InjectionVariable+"="+at("libgpubuild_probe.so"), DirVariable+"="+records, CUPTIVariable+"="+at("libcupti.so.13"))
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"ok":true`) {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := ReadDir(records)
	if err != nil || r.Bad != 0 || r.Cut != 0 || len(r.Processes) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	p := r.Processes[0]
	if len(p.Kernels) != 1 || p.Kernels[0].Name != "gpubuild_control" || p.End == nil || p.End.Accepted != 1 || p.End.Flush != 0 || len(p.Devices) != 1 || p.LibCUDA != at("libcuda.so.1") || p.Exe != control {
		t.Errorf("%+v", p)
	}
}

// noRunner fails: a release compiles nothing.
type noRunner struct{}

func (noRunner) Run(context.Context, buildenv.Cmd) (buildenv.Result, error) {
	return buildenv.Result{}, errors.New("a compiler was started")
}

// TestAReleaseNeedsNoCompiler: what a release carries is written out, hashed and used; of a part alone nothing is.
func TestAReleaseNeedsNoCompiler(t *testing.T) {
	h := hosttest.Must(local.Host())(t)
	for _, release := range []struct {
		os      string
		backend Backend
	}{{buildenv.Linux, CUDA}, {buildenv.Linux, Vulkan}, {buildenv.Windows, CUDA}} {
		h.OS = release.os
		backend, carried := release.backend, fstest.MapFS{}
		for _, p := range parts(h.OS, backend) {
			if carriedIn(carried, h.OS, backend) != nil {
				t.Fatalf("%s is missing, and the others are taken", p.name)
			}
			carried["released/"+p.name] = &fstest.MapFile{Data: []byte("program " + p.name)}
		}
		p := hosttest.Must(build(t.Context(), h, noRunner{}, t.TempDir(), Compiler{}, backend, carriedIn(carried, h.OS, backend)))(t)
		for _, file := range []string{p.Library, p.Control, p.Watch} {
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", file, info, err)
			}
		}
		if p.SourceHash != SourceHash() || p.Digest == "" {
			t.Errorf("%+v", p)
		}
		if _, err := build(t.Context(), h, noRunner{}, t.TempDir(), Compiler{}, backend, nil); err == nil || !strings.Contains(err.Error(), "no host compiler") {
			t.Errorf("without them: %v", err)
		}
	}
}
