package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
)

// machine is this one, with an empty cache and the libraries of one directory on the loader's path.
func machine(t *testing.T, libraries string) *session.Machine {
	t.Helper()
	h := hosttest.Must(local.Host())(t)
	if h.OS != buildenv.Linux {
		need.Missing(t, "linux", "the libraries are made for Linux")
	}
	h.Env = h.Env.Set("LD_LIBRARY_PATH", libraries).Set("CUDA_PATH", "").Set("CUDA_HOME", "")
	return &session.Machine{Host: h, Runner: proc.Runner{}, CacheDir: t.TempDir(), Temp: &session.Temporary{},
		Shell: &console.Shell{Out: io.Discard, Err: io.Discard}}
}

// TestGraphicsStay: what must fit the machine's own driver is not copied, but named.
func TestGraphicsStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machine(t, dir)
	for _, name := range []string{"libGL.so.1", "libEGL.so.1", "libvulkan.so.1"} {
		app := program(t, m, "extern int f(void); int main(void) { return f(); }", library(t, m, dir, name, "int f(void) { return 7; }"))
		b, err := Make(context.Background(), m, Options{Programs: []string{app}, Dir: filepath.Join(t.TempDir(), "out")})
		if err != nil || len(copied(b)) != 1 || len(b.Needs) != 2 || b.Needs[1].Name != name {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
}

// has reports whether a bundle has a library.
func has(b Bundle, library string) bool {
	return slices.ContainsFunc(b.Files, func(f File) bool { return filepath.Base(f.Name) == library })
}

// copied are the files of a bundle that gpubuild did not write itself.
func copied(b Bundle) []File {
	return slices.DeleteFunc(slices.Clone(b.Files), func(f File) bool { return f.From == "" })
}

// run runs a program to its end and answers its exit status.
func run(t *testing.T, m *session.Machine, path string, args ...string) int {
	t.Helper()
	r, err := m.Runner.Run(context.Background(), buildenv.Cmd{Path: path, Args: args, Env: m.Host.Env.Unset("LD_LIBRARY_PATH").Entries()})
	if err != nil && r.Code == 0 {
		t.Fatal(err)
	}
	return r.Code
}

// library compiles a shared library of that name that needs others.
func library(t *testing.T, m *session.Machine, dir, name, source string, needs ...string) string {
	t.Helper()
	src, out := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
	hosttest.OK(t, os.WriteFile(src, []byte(source), 0o644))
	if code := run(t, m, need.CC(t), append([]string{"-shared", "-fPIC", "-Wl,-soname," + name, "-o", out, src}, needs...)...); code != 0 {
		t.Fatalf("cc ended with %d", code)
	}
	return out
}

// program compiles one that needs libraries.
func program(t *testing.T, m *session.Machine, source string, needs ...string) string {
	t.Helper()
	dir := t.TempDir()
	src, out := filepath.Join(dir, "app.c"), filepath.Join(dir, "app")
	hosttest.OK(t, os.WriteFile(src, []byte(source), 0o644))
	args := append([]string{"-o", out, src, "-Wl,--allow-shlib-undefined"}, needs...)
	if code := run(t, m, need.CC(t), args...); code != 0 {
		t.Fatalf("cc ended with %d", code)
	}
	return out
}

// TestProgramStartsFromItsBundle: with the CUDA that it was built with gone, the program runs from its bundle, and not without.
func TestProgramStartsFromItsBundle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machine(t, dir)
	lt := library(t, m, dir, "libcublasLt.so.13", "int lt(void) { return 7; }")
	blas := library(t, m, dir, "libcublas.so.13", "extern int lt(void); int blas(void) { return lt(); }", lt)
	library(t, m, dir, "libcuda.so.1", "int cuInit(int n) { return n; }")
	app := program(t, m, "extern int blas(void); int main(void) { return blas(); }", blas)
	out := filepath.Join(t.TempDir(), "out")

	if made, err := Make(context.Background(), m, Options{Programs: []string{app}, Dir: out}); err != nil || len(copied(made)) != 3 || made.Files[0].Size < 3000 {
		t.Fatalf("%+v, %v", made, err)
	}
	hosttest.OK(t, os.Rename(dir, dir+"-gone"))
	t.Cleanup(func() { _ = os.Rename(dir+"-gone", dir) })
	hosttest.Equal(t, run(t, m, app), 127, "without the bundle the program ends with", "nothing was shown")
	hosttest.Equal(t, run(t, m, filepath.Join(out, "app")), 7, "from the bundle it ends with")
	text := hosttest.Must(os.ReadFile(filepath.Join(out, manifestName)))(t)
	var b manifest
	if err := json.Unmarshal(text, &b); err != nil || b.Schema != Schema || strings.Contains(string(text), dir) {
		t.Errorf("%v; the manifest names a directory of this machine:\n%s", err, text)
	}
	for _, f := range b.Files {
		file := filepath.Join(out, filepath.FromSlash(f.Name))
		info := hosttest.Must(os.Stat(file))(t)
		if sum, err := cache.Hash(file); err != nil || sum != f.SHA256 || info.Size() != f.Size {
			t.Errorf("%s: %s, %v; %d bytes, not %d", f.Name, sum, err, info.Size(), f.Size)
		}
		if f.Licence != "" && f.Link == "" {
			t.Errorf("no link to %s is in the manifest", f.Name)
		}
	}
	if !strings.HasPrefix(b.Glibc, "2.") {
		t.Errorf("the oldest C library is %q", b.Glibc)
	}
	if text, err := os.ReadFile(filepath.Join(out, licenceName)); err != nil || !strings.Contains(string(text), "https://docs.nvidia.com/cuda/eula/\nlibcublas.so.13, libcublasLt.so.13\n") {
		t.Errorf("licences: %s, %v", text, err)
	}
}

// TestLibrariesOpenedByName: parts that a library loads by name, and a library that the program asks for by name, are in the bundle.
func TestLibrariesOpenedByName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machine(t, dir)
	dnn := library(t, m, dir, "libcudnn.so.9", "int dnn(void) { return 0; }")
	for _, part := range []string{"libcudnn_ops.so.9", "libcudnn_graph.so.9", "libcudnn_engines_runtime_compiled.so.9", "libcurand.so.10"} {
		library(t, m, dir, part, "int part(void) { return 0; }")
	}
	rtc := library(t, m, dir, "libnvrtc.so.13", `const char *name = "libnvrtc-builtins.so.13.4"; int rtc(void) { return 0; }`)
	library(t, m, dir, "libnvrtc-builtins.so.13.4", "int part(void) { return 0; }")
	hosttest.OK(t, os.Symlink("libnvrtc-builtins.so.13.4", filepath.Join(dir, "libnvrtc-builtins.so")))
	source := `extern int dnn(void), rtc(void); const char *f = "curandCreateGenerator";
		int main(void) { return dnn() + rtc() + (f[0] != 'c'); }`
	app := program(t, m, source, dnn, rtc)
	b := hosttest.Must(Make(context.Background(), m, Options{Programs: []string{app}, Dir: filepath.Join(t.TempDir(), "out")}))(t)
	for _, want := range []string{"lib/libcudnn_ops.so.9", "lib/libcudnn_graph.so.9", "lib/libnvrtc-builtins.so.13.4"} {
		if !slices.ContainsFunc(b.Files, func(f File) bool { return f.Name == want }) {
			t.Errorf("%s is not in %+v", want, b.Files)
		}
	}
	asked, err := known().asked(app, false)
	if err != nil || !slices.Contains(asked, "curand") || !has(b, "libcurand.so.10") {
		t.Errorf("asked for: %v, %v; bundled: %v", asked, err, b.Files)
	}
	o := Options{Programs: []string{app}, Dir: filepath.Join(t.TempDir(), "out"), With: []string{"libcurand.so.10"}}
	b, err = Make(context.Background(), m, o)
	if err != nil || !has(b, "libcurand.so.10") {
		t.Errorf("--with: %+v, %v", b.Files, err)
	}
}

// TestModes: a program in a bundle runs as the user who starts it; what the owner alone may read, everybody may.
func TestModes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machine(t, dir)
	lib := library(t, m, dir, "libmine.so.1", "int f(void) { return 3; }")
	app := program(t, m, "extern int f(void); int main(void) { return f(); }", lib)
	hosttest.OK(t, errors.Join(os.Chmod(app, 0o400|fs.ModeSetuid), os.Chmod(lib, 0o400)))
	out := filepath.Join(t.TempDir(), "out")
	hosttest.Must(Make(context.Background(), m, Options{Programs: []string{app}, Dir: out}))(t)
	for name, want := range map[string]fs.FileMode{"app": 0o755, "lib/libmine.so.1": 0o644} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestNoPrograms: []string{what} is no file is refused, and a FIFO is not waited for.
func TestNoProgram(t *testing.T) {
	t.Parallel()
	m, dir := machine(t, ""), t.TempDir()
	if run(t, m, need.Program(t, "sh", "mkfifo"), filepath.Join(dir, "fifo")) != 0 {
		t.Fatal("mkfifo")
	}
	if run(t, m, need.CC(t), "-c", "-x", "c", "-o", filepath.Join(dir, "object.o"), "/dev/null") != 0 {
		t.Fatal("cc -c")
	}
	for _, name := range []string{"fifo", "none", ".", "object.o"} {
		_, err := Make(context.Background(), m, Options{Programs: []string{filepath.Join(dir, name)}, Dir: filepath.Join(dir, "out")})
		if exit.Of(err) != exit.Usage || exit.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNames: what the files of libraries are called on Linux and Windows.
func TestNames(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"libcublasLt.so.13": "cublasLt", "cublasLt64_13.dll": "cublasLt", "libnvrtc-builtins.so.13.4": "nvrtc-builtins",
		"nvrtc-builtins64_134.dll": "nvrtc-builtins", "nvrtc64_130_0.dll": "nvrtc", "nvJitLink_130_0.dll": "nvJitLink",
		"cudnn_ops64_9.dll": "cudnn_ops", "libcudnn.so": "cudnn", "libc.so.6": "c", "libcuda.so.1": "cuda", "nvcuda.dll": "nvcuda",
	} {
		hosttest.Equal(t, nameOf(file), want, file)
	}
	for _, l := range known().Licence {
		for _, name := range l.Libraries {
			if !matches(known().Names["nvidia"], strings.TrimSuffix(name, "*")) || matches(known().Names["driver"], name) {
				t.Errorf("%s is in a list of NVIDIA's and not known as NVIDIA's, or the driver's", name)
			}
		}
	}
}

// TestWhatIsNeverShipped: parts of the driver are left to the machine, and NVIDIA's libraries that no list names are refused.
func TestWhatIsNeverShipped(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"libcuda.so.1", "libEGL_nvidia.so.0", "libGLX_nvidia.so.0", "libGLESv2_nvidia.so.2", "libvdpau_nvidia.so.1",
		"libnvidia-ml.so.1", "libnvcuvid.so.1", "libnvoptix.so.1", "nvcuda.dll"} {
		if !matches(known().Names["driver"], nameOf(file)) {
			t.Errorf("%s is not taken for the driver's", file)
		}
	}
	for _, file := range []string{"libaccinj64.so", "libaccinj64.so.13.0", "libcuinj64.so.13.0", "libcudla.so.1", "libcufile.so.0",
		"libcheckpoint.so", "libpcsamplingutil.so", "libsanitizer-public.so", "libcustatevec.so.1", "libcuquantum.so.2", "libcuobjclient.so.1",
		"libTreeLauncherTargetInjection.so"} {
		if _, allowed := known().permission(nameOf(file)); allowed || !matches(known().Names["nvidia"], nameOf(file)) {
			t.Errorf("%s would be copied", file)
		}
	}
}

// TestNothingIsReplaced: what has the name of the new directory stays as it is.
func TestNothingIsReplaced(t *testing.T) {
	t.Parallel()
	m, dir := machine(t, ""), t.TempDir()
	app := program(t, m, "int main(void) { return 0; }")
	hosttest.OK(t, errors.Join(os.Mkdir(filepath.Join(dir, "directory"), 0o755), os.Symlink("nothing", filepath.Join(dir, "link"))))
	for _, name := range []string{"directory", "link"} {
		before, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Make(context.Background(), m, Options{Programs: []string{app}, Dir: filepath.Join(dir, name)})
		if after, gone := os.Lstat(filepath.Join(dir, name)); exit.Of(err) != exit.Usage || gone != nil || !os.SameFile(before, after) {
			t.Errorf("%s: %v, %v", name, err, gone)
		}
	}
}

// TestLibraryWithItsOwnSearchPath: to the loader it is in place of the program's, so that a script sets one that comes before it.
func TestLibraryWithItsOwnSearchPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machine(t, "")
	inner := library(t, m, dir, "libinner.so.1", "int g(void) { return 7; }")
	outer := library(t, m, dir, "libouter.so.1", "extern int g(void); int f(void) { return g(); }", inner,
		"-Wl,--enable-new-dtags,-rpath,$ORIGIN/../"+filepath.Base(dir))
	app := program(t, m, "extern int f(void); int main(void) { return f(); }", outer, "-Wl,-rpath,"+dir)
	out := filepath.Join(t.TempDir(), "out")
	hosttest.Must(Make(context.Background(), m, Options{Programs: []string{app}, Dir: out}))(t)
	hosttest.OK(t, os.RemoveAll(dir))
	hosttest.Equal(t, run(t, m, filepath.Join(out, "app")), 7, "the program ended with")
}

// TestNamesThatCannotBe: a program cannot have the name of one of the bundle's own files, nor a library none.
func TestNamesThatCannotBe(t *testing.T) {
	t.Parallel()
	m := machine(t, "")
	app := program(t, m, "int main(void) { return 0; }")
	for _, name := range []string{"lib", "bin", "prove", licenceName, manifestName} {
		other := filepath.Join(t.TempDir(), name)
		hosttest.OK(t, os.Link(app, other))
		_, err := Make(context.Background(), m, Options{Programs: []string{other}, Dir: filepath.Join(t.TempDir(), "out")})
		hosttest.Equal(t, exit.Of(err), exit.Usage, name, err)
	}
}

// TestLauncher: the script starts a program of any name from any directory that LD_LIBRARY_PATH can hold, by any path to it, and refuses
// the others. Nothing is on PATH.
func TestLauncher(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machine(t, dir)
	lib := library(t, m, dir, "libmine.so.1", "int f(void) { return 7; }")
	app := program(t, m, "extern int f(void); int main(int n, char **a) { return f() + n; }", lib)
	bare := *m
	bare.Host.Env = m.Host.Env.Set("PATH", "")
	names := []string{"x`touch pwned`", "a$HOME", `a"b`, "a'b", "-x", "two words", "a\nb", "a;exit 0", "$(touch pwned)", "a:b", "%s", `a\`}
	for _, name := range names {
		named := filepath.Join(t.TempDir(), name)
		hosttest.OK(t, os.Link(app, named))
		out := filepath.Join(t.TempDir(), "out `x` 'y'")
		b, err := Make(context.Background(), &bare, Options{Programs: []string{named}, Dir: out})
		if err != nil || filepath.Base(b.Programs[0]) != name {
			t.Fatalf("%q: %v, %v", name, b.Programs, err)
		}
		start := filepath.Join(out, name)
		hosttest.Equal(t, run(t, &bare, start, "1", "2"), 10, name, "ended with")
		link := filepath.Join(t.TempDir(), "link")
		hosttest.OK(t, os.Symlink(start, link))
		hosttest.Equal(t, run(t, m, need.Program(t, "sh", "sh"), link), 8, name, "by a link ended with")
		r, err := bare.Runner.Run(context.Background(), buildenv.Cmd{Path: need.Program(t, "sh", "sh"), Args: []string{"./" + name}, Dir: out})
		hosttest.Equal(t, r.Code, 8, name, "by a relative path ended with", err)
		colon := filepath.Join(t.TempDir(), "a:b")
		hosttest.OK(t, os.Rename(out, colon))
		hosttest.Equal(t, run(t, &bare, filepath.Join(colon, name)), 126, name, "in a directory with a colon ended with")
		if left, err := os.ReadDir(colon); err != nil || len(left) != 4 {
			t.Errorf("%q: the bundle holds %v, %v", name, left, err)
		}
	}
}

// TestManifestIsComplete: every file of a bundle is in it with its size and hash, and what the other machine must have.
func TestManifestIsComplete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machine(t, dir)
	lib := library(t, m, dir, "libcudart.so.13", `const char *f(void) { return "libcuda.so.1"; }`)
	app := program(t, m, "extern char *f(void); int main(void) { return f()[0]; }", lib)
	m.Host.Env = m.Host.Env.Set("PATH", "")
	out := filepath.Join(t.TempDir(), "out")
	hosttest.Must(Make(context.Background(), m, Options{Programs: []string{app}, Dir: out}))(t)
	text, err := os.ReadFile(filepath.Join(out, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	var kept manifest
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(out, path)
		if d.Type().IsRegular() && rel != manifestName && !slices.ContainsFunc(kept.Files, func(f File) bool { return f.Name == filepath.ToSlash(rel) }) {
			t.Errorf("%s is not in the manifest", rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range kept.Files {
		if f.SHA256 == "" || f.Size == 0 {
			t.Errorf("%+v", f)
		}
	}
	for _, want := range []string{"libcuda.so.1", "/bin/sh"} {
		if !slices.ContainsFunc(kept.Needs, func(n Need) bool { return n.Name == want }) {
			t.Errorf("%s is not in %+v", want, kept.Needs)
		}
	}
}

// TestSeveralPrograms: programs share the libraries of one bundle; each is opened by its start script, and a bundle of one by its directory.
// What was changed since, or needs a newer C library than this machine has, is not opened.
func TestSeveralPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machine(t, dir)
	lib := library(t, m, dir, "libmine.so.1", "int f(void) { return 7; }")
	source := "extern int f(void); int main(void) { return f(); }"
	first, second := program(t, m, source, lib), filepath.Join(t.TempDir(), "second")
	hosttest.OK(t, os.Rename(program(t, m, source, lib), second))
	out := filepath.Join(t.TempDir(), "out")
	m.Self = filepath.Join(t.TempDir(), "cargo-gpubuild")
	if err := os.WriteFile(m.Self, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	prove := proof.Runtime{Probe: probe.Probe{Library: lib, Watch: first}, CUPTI: lib, Others: []string{lib}}
	b, err := Make(context.Background(), m, Options{Programs: []string{first, second}, Dir: out, Prove: prove})
	if err != nil || !slices.Equal(b.Programs, []string{"bin/app", "bin/second"}) || b.Prove == nil {
		t.Fatalf("%+v, %v", b, err)
	}
	if !has(b, "gpubuild") || has(b, "cargo-gpubuild") {
		t.Errorf("gpubuild is not called as it is printed: %+v", b.Files)
	}
	for _, name := range []string{"app", "second"} {
		hosttest.Equal(t, run(t, m, filepath.Join(out, name)), 7, name, "ended with")
		program, rt, err := Open(m.Host, filepath.Join(out, name))
		if err != nil || program != filepath.Join(out, "bin", name) || rt.Probe.Library != filepath.Join(out, "prove", "libmine.so.1") ||
			rt.CUPTI != filepath.Join(out, "prove", "0", "libmine.so.1") || len(rt.Others) != 1 ||
			!strings.HasPrefix(rt.Env.Get("LD_LIBRARY_PATH"), filepath.Join(out, "lib")+":") {
			t.Errorf("%s: %s %+v, %v", name, program, rt, err)
		}
	}
	if _, _, err := Open(m.Host, out); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "2 programs: bin/app, bin/second") {
		t.Errorf("%v", err)
	}
	if program, _, err := Open(m.Host, filepath.Join(out, "bin", "app")); program != "" || err != nil {
		t.Errorf("a program without its script was opened as a bundle: %v", err)
	}
	if _, err := Make(context.Background(), m, Options{Programs: []string{first, first}, Dir: out + "2"}); exit.Of(err) != exit.Usage {
		t.Errorf("two of one name: %v", err)
	}
	out += "3"
	hosttest.Must(Make(context.Background(), m, Options{Programs: []string{first}, Dir: out, Prove: prove}))(t)
	if program, _, err := Open(m.Host, out); err != nil || program != filepath.Join(out, "bin", "app") {
		t.Errorf("%s, %v", program, err)
	}
	if program, _, err := Open(m.Host, filepath.Join(out, manifestName)); program != "" || err != nil {
		t.Errorf("the manifest was opened as the program %s: %v", program, err)
	}
	text := hosttest.Must(os.ReadFile(filepath.Join(out, manifestName)))(t)
	added := filepath.Join(out, "lib", "libm.so.6")
	for what, add := range map[string]func() error{
		"lib/libm.so.6": func() error { return os.WriteFile(added, nil, 0o644) }, "lib/libm.so": func() error { return os.Symlink(lib, added[:len(added)-2]) },
		"../probe is none": func() error {
			other := strings.Replace(string(text), `"probe": "prove/libmine.so.1"`, `"probe": "../probe"`, 1)
			return os.WriteFile(filepath.Join(out, manifestName), []byte(other), 0o644)
		},
	} {
		hosttest.OK(t, add())
		if _, _, err := Open(m.Host, out); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		_, _ = os.Remove(added), os.Remove(added[:len(added)-2]) // one of them is there
		hosttest.OK(t, os.WriteFile(filepath.Join(out, manifestName), text, 0o644))
	}
	newer := strings.Replace(string(text), `"version": "2.`, `"version": "9.`, 1)
	if err := os.WriteFile(filepath.Join(out, manifestName), []byte(newer), 0o644); err != nil || newer == string(text) {
		t.Fatal(err)
	}
	if _, _, err := Open(m.Host, out); exit.Of(err) != exit.Misfit || !strings.Contains(err.Error(), "needs glibc 9.") ||
		!strings.Contains(err.Error(), "this machine has glibc 2.") {
		t.Errorf("%v", err)
	}
	hosttest.OK(t, os.Remove(filepath.Join(out, "lib", "libmine.so.1")))
	if _, _, err := Open(m.Host, out); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "lib/libmine.so.1") {
		t.Errorf("%v", err)
	}
}

// left is why a library is left to the other machine; empty: it is not.
func left(b Bundle, library string) string {
	for _, n := range b.Needs {
		if filepath.Base(n.Name) == library {
			return n.Why
		}
	}
	return ""
}

// TestWhatIsLeftToTheOtherMachine: what is not here, is damaged or may not be shipped is listed with the reason.
func TestWhatIsLeftToTheOtherMachine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		library string
		after   func(file string) error // what becomes of the library after the link
		want    string
		code    int
	}{
		"missing":         {library: "libcublas.so.13", after: os.Remove, want: "not found", code: exit.Missing},
		"cut off":         {library: "libmine.so.1", after: func(f string) error { return os.Truncate(f, 5000) }, want: "the loader gave no list"},
		"not on the list": {library: "libnvinfer.so.10", want: "none of the lists"},
		"not NVIDIA's":    {library: "libmine.so.1"},
		"the driver's":    {library: "libnvidia-ml.so.1", want: "comes with the driver"},
		"graphics":        {library: "libEGL.so.1", want: "comes with the driver"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			m := machine(t, dir)
			lib := library(t, m, dir, tt.library, "char much[1 << 20] = {1}; int f(void) { return 3; }")
			app := program(t, m, "extern int f(void); int main(void) { return f(); }", lib)
			if tt.after != nil {
				hosttest.OK(t, tt.after(lib))
			}
			b, err := Make(context.Background(), m, Options{Programs: []string{app}, Dir: filepath.Join(t.TempDir(), "out")})
			if why := left(b, tt.library); err != nil || (why == "") != (tt.want == "") || !strings.Contains(why, tt.want) || has(b, tt.library) != (why == "") {
				t.Errorf("%q, %v; %+v", why, err, b.Files)
			}
			if err := b.Incomplete(); exit.Of(err) != tt.code || tt.code != 0 && !strings.Contains(err.Error(), tt.library) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestLibraryNamedByItsPath: the loader takes no copy of it.
func TestLibraryNamedByItsPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machine(t, dir)
	file := filepath.Join(dir, "libmine.so.1")
	library(t, m, dir, "libmine.so.1", "int f(void) { return 3; }", "-Wl,-soname,"+file)
	app := program(t, m, "extern int f(void); int main(void) { return f(); }", file)
	b, err := Make(context.Background(), m, Options{Programs: []string{app}, Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil || left(b, "libmine.so.1") != "app names it by its path" {
		t.Errorf("%+v, %v", b.Needs, err)
	}
}

// TestLoadedByName: a library that a program holds the name of, or a function's of, and does not link is bundled, or listed.
func TestLoadedByName(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text, here, want, left string
	}{
		"a name with its version":       {text: "libcublas.so.13", here: "libcublas.so.13", want: "libcublas.so.13"},
		"a name without a version":      {text: "libcublas.so", here: "libcublas.so.13", want: "libcublas.so.13"},
		"a function, amid other words":  {text: "nvrtcVersioncublasCreate_v2lib", here: "libcublas.so.13", want: "libcublas.so.13"},
		"a function, the library not":   {text: "cublasCreate_v2", left: "libcublas.so"},
		"the runtime, linked in":        {text: "cudaGetDeviceCount"},
		"the driver's, and not CUDA's":  {text: "libcuda.so.1 libnvidia-ml.so.1 libcurl.so.4", left: "libcuda.so.1"},
		"the driver's, by its function": {text: "cuInit", left: "libcuda.so.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			m := machine(t, dir)
			if tt.here != "" {
				library(t, m, dir, tt.here, "int f(void) { return 3; }")
			}
			app := program(t, m, `const char *text = "`+tt.text+`"; int main(void) { return text[0]; }`)
			b, err := Make(context.Background(), m, Options{Programs: []string{app}, Dir: filepath.Join(t.TempDir(), "out")})
			if err != nil || has(b, tt.want) != (tt.want != "") || (left(b, tt.left) != "") != (tt.left != "") {
				t.Errorf("%v, %+v", err, b)
			}
		})
	}
}

// TestFunctionThatIsDefined: a program with a library of NVIDIA's linked in holds its functions' names, and loads nothing.
func TestFunctionThatIsDefined(t *testing.T) {
	t.Parallel()
	m := machine(t, "")
	app := program(t, m, `const char *cublasCreate_v2(void) { return "cublasCreate_v2"; } int main(void) { return cublasCreate_v2()[0]; }`)
	if asked, err := known().asked(app, false); err != nil || len(asked) > 0 {
		t.Errorf("%v, %v", asked, err)
	}
}

// TestBuiltinsOfAnotherVersion: NVRTC loads the builtins of its own version only, wherever they are.
func TestBuiltinsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	dir, right := t.TempDir(), t.TempDir()
	m := machine(t, dir+":"+right)
	rtc := library(t, m, dir, "libnvrtc.so.13", `const char *f(void) { return "libnvrtc-builtins.so.13.5"; }`)
	library(t, m, dir, "libnvrtc-builtins.so.13.4", "int part(void) { return 0; }")
	app := program(t, m, "extern char *f(void); int main(void) { return f()[0]; }", rtc)
	o := Options{Programs: []string{app}, Dir: filepath.Join(t.TempDir(), "out")}
	if b, err := Make(context.Background(), m, o); err != nil || left(b, "libnvrtc-builtins.so.13.5") == "" {
		t.Errorf("%+v, %v", b.Needs, err)
	}
	library(t, m, right, "libnvrtc-builtins.so.13.5", "int part(void) { return 0; }")
	o.Dir += "2"
	if b, err := Make(context.Background(), m, o); err != nil || !has(b, "libnvrtc-builtins.so.13.5") || has(b, "libnvrtc-builtins.so.13.4") {
		t.Errorf("%+v, %v", b.Files, err)
	}
}
