package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// cargo plants testdata/matmul and a stand-in cargo.exe that answers what the real cargo of this machine says of the project, built for
// Windows.
func (w *wine) cargo() {
	t := w.t
	t.Helper()
	need.Crates(t, filepath.Join("..", "..", "..", "testdata", "matmul"))
	sample := filepath.Join(w.work, "matmul")
	if err := os.CopyFS(sample, os.DirFS(filepath.Join("..", "..", "..", "testdata", "matmul"))); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(sample, "target")); err != nil {
		t.Fatal(err)
	}
	tell := func(tool string, args ...string) []byte {
		t.Helper()
		c := exec.Command(tool, args...)
		c.Dir = sample
		for _, e := range os.Environ() { // its target directory is the project's own
			if name, _, _ := strings.Cut(e, "="); !strings.HasPrefix(name, "CARGO_") || name == "CARGO_HOME" {
				c.Env = append(c.Env, e)
			}
		}
		c.Env = append(c.Env, "RUSTC_BOOTSTRAP=1")
		out, err := c.Output()
		if exit, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%s %v: %v\n%s", tool, args, err, exit.Stderr)
		} else if err != nil {
			t.Fatal(err)
		}
		return out
	}
	ask := func(args ...string) []byte { return tell("cargo", args...) }
	answers := filepath.Join(w.bin, "answers")
	if err := os.MkdirAll(answers, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, said := range map[string][]byte{
		"metadata.json": ask("metadata", "--no-deps", "--format-version", "1"),
		"graph.json": ask("build", "--unit-graph", "-Zunstable-options", "--offline", "--features=cuda", "--target",
			"x86_64-pc-windows-msvc"),
		"graph-test.json": ask("test", "--unit-graph", "-Zunstable-options", "--offline", "--features=cuda", "--target",
			"x86_64-pc-windows-msvc"),
	} {
		if err := os.WriteFile(filepath.Join(answers, name), onWindows(said), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, said := range map[string][]byte{"version.txt": ask("-vV"), "rustc.txt": tell("rustc", "-vV")} {
		says := strings.ReplaceAll(string(said), "x86_64-unknown-linux-gnu", "x86_64-pc-windows-msvc")
		if err := os.WriteFile(filepath.Join(answers, name), []byte(says), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range []string{"cargo.exe", "rustc.exe"} {
		w.compile("./testdata/standin/cargo", filepath.Join(w.bin, "rust", tool))
	}
}

var (
	absolute = regexp.MustCompile(`"(/[^"]*)"`)
	platform = regexp.MustCompile(`"platform":"[^"]*"`)
)

// onWindows puts Wine's names in the place of our paths, and takes away the platform, which a build without --target does not show.
func onWindows(said []byte) []byte {
	said = absolute.ReplaceAllFunc(said, func(path []byte) []byte {
		return []byte(strings.ReplaceAll(strings.ReplaceAll(string(path), `"/`, `"Z:/`), "/", `\\`))
	})
	said = bytes.ReplaceAll(said, []byte(`"path+file:///`), []byte(`"path+file:///Z:/`))
	return platform.ReplaceAll(said, []byte(`"platform":null`))
}

// TestWineBuild walks the whole road on Windows with nothing set by hand: Visual Studio found, chosen and set, NVIDIA's own nvcc.exe run by
// a build script, the program's GPU code read, what it was built with recorded; then the same with another toolset.
func TestWineBuild(t *testing.T) {
	w := newWine(t)
	w.cargo()
	w.plant(map[string]string{"14.60.40000": "13.2", "14.44.35207": "12.4", "14.39.33519": "11.6"})
	build := func(extra []string, words ...string) (string, error) {
		t.Helper()
		extra = append(extra, "WINEPATH="+z(filepath.Join(w.bin, "rust")), "STANDIN_CARGO="+z(filepath.Join(w.bin, "answers")))
		return w.run(extra, append([]string{z(w.gpubuild), "build", "--manifest-path", z(filepath.Join(w.work, "matmul", "Cargo.toml")),
			"--features", "cuda",
			"--gpu-toolkit=" + z(filepath.Join(w.dir, "toolkit")), "--gpu-arch=90"}, words...)...)
	}
	program := filepath.Join(w.work, "matmul", "target", "debug", "matmul.exe")
	want := func(story string, out string, lines ...string) {
		t.Helper()
		for _, l := range lines {
			if !strings.Contains(out, l) {
				t.Errorf("%s: no %q in\n%s", story, l, out)
			}
		}
	}
	// only says that every call of cl.exe was one of this toolset's.
	only := func(version string) {
		t.Helper()
		calls := w.calls()
		if len(calls) == 0 {
			t.Errorf("cl.exe of %s was never called", version)
		}
		for _, c := range calls {
			if !strings.HasPrefix(c, studio+`\VC\Tools\MSVC\`+version+`\`) {
				t.Errorf("not %s: %s", version, c)
			}
		}
	}

	planted, err := os.ReadFile(w.gpubuild) // any program that is no cargo
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{w.work, filepath.Join(w.work, "matmul")} {
		for _, name := range []string{"cargo.exe", "rustc.exe", "cargo.bat"} {
			if err := os.WriteFile(filepath.Join(dir, name), planted, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}

	out, err := build(nil) // with the programs of that name which lie in the current directory left alone
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want("first", out, "enables cudarc 0.19.10", "msvc 14.44.35207", "Targeting sm_90", "Scanned ",
		"matmul.exe: 1 cubin sm_90 (nvcc 13.4.92)", "Not proven: no GPU here")
	only("14.44.35207")
	if _, err := os.Stat(program); err != nil {
		t.Error(err)
	}

	out, _ = w.run([]string{"WINEPATH=" + z(filepath.Join(w.bin, "rust")), "STANDIN_CARGO=" + z(filepath.Join(w.bin, "answers"))}, z(w.gpubuild),
		"doctor", "--manifest-path", z(filepath.Join(w.work, "matmul", "Cargo.toml")), "--features", "cuda", "--toolkit="+z(filepath.Join(w.dir, "toolkit")))
	want("doctor of the project", out, "rustc builds for x86_64-pc-windows-msvc", `matmul\Cargo.toml`, "msvc 14.44.35207", "what this target directory was built for",
		"Ready to build.")

	out, err = build(nil)
	if err != nil || strings.Contains(out, "Stale") || strings.Contains(out, "build script") {
		t.Errorf("nothing changed: %v\n%s", err, out)
	}
	if calls := w.calls(); calls != nil {
		t.Errorf("nothing changed, and cl.exe was called: %v", calls)
	}

	time.Sleep(1100 * time.Millisecond)
	out, err = build([]string{"VCToolsVersion=14.39.33519"}, "--gpu-no-clean")
	if code(err) != 13 {
		t.Errorf("another toolset, and nothing may be cleaned: %v", err)
	}
	want("another toolset", out, "Stale", "14.44", "14.39", "--gpu-no-clean does not allow")
	if calls := w.calls(); calls != nil {
		t.Errorf("cl.exe was called: %v", calls)
	}
	out, err = build([]string{"VCToolsVersion=14.39.33519"})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want("another toolset, cleaned", out, "Stale", "Cleaned matmul", "msvc 14.39.33519", "1 cubin sm_90")
	only("14.39.33519")

	// what a user types in cmd, one line after the other: what was set before stays
	batch := "@set MINE=kept\r\n@\"" + z(w.gpubuild) + "\" env --shell cmd --manifest-path " +
		z(filepath.Join(w.work, "matmul", "Cargo.toml")) + " --features cuda --arch=90 --toolkit=" +
		z(filepath.Join(w.dir, "toolkit")) + " >env.bat\r\n@if errorlevel 1 exit /b 3\r\n@call env.bat\r\n@set\r\n@nvcc -cubin " +
		"-arch=sm_80 kernel.cu -o cmd.cubin\r\n"
	for name, text := range map[string]string{"user.bat": batch, "kernel.cu": `extern "C" __global__ void twice(float *x) { ` +
		`x[threadIdx.x] *= 2; }`} {
		if err := os.WriteFile(filepath.Join(w.work, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err = w.run([]string{"WINEPATH=" + z(filepath.Join(w.bin, "rust")), "STANDIN_CARGO=" + z(filepath.Join(w.bin, "answers"))}, "cmd",
		"/c", "user.bat")
	if err != nil {
		t.Fatalf("env for cmd: %v\n%s", err, out)
	}
	want("env for cmd", out, "\nMINE=kept\n", "\nVCToolsVersion=14.44.35207\n", "\nINCLUDE="+studio+`\VC\Tools\MSVC\14.44.35207\include;`)
	data, err := os.ReadFile(filepath.Join(w.work, "cmd.cubin"))
	if err != nil || !bytes.HasPrefix(data, []byte("\x7fELF")) {
		t.Errorf("env for cmd: no cubin: %v\n%s", err, out)
	}
}

// TestWineView: nvcc.exe behind a view lists what it read. Wine cannot make a junction, so that the first build has no view, and goes well;
// for the second one links of the system below Wine stand in.
func TestWineView(t *testing.T) {
	w := newWine(t)
	w.cargo()
	w.plant(map[string]string{"14.44.35207": "12.4"})
	build := func() string {
		t.Helper()
		out, err := w.run([]string{"WINEPATH=" + z(filepath.Join(w.bin, "rust")), "STANDIN_CARGO=" + z(filepath.Join(w.bin, "answers"))},
			z(w.gpubuild), "build", "--verbose", "--manifest-path", z(filepath.Join(w.work, "matmul", "Cargo.toml")), "--features", "cuda",
			"--gpu-toolkit="+z(filepath.Join(w.dir, "toolkit")), "--gpu-arch=90")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	lists := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(w.work, "matmul", "target", "debug", "build", "*", "gpubuild-read-*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if out := build(); len(lists()) != 0 || !strings.Contains(out, "no kernel cache: view of ") {
		t.Errorf("without junctions: %v\n%s", lists(), out)
	}
	views, err := filepath.Glob(filepath.Join(w.work, "cache", "views", "*", "bin"))
	if err != nil || len(views) != 1 {
		t.Fatalf("views: %v %v", views, err)
	}
	root, err := filepath.EvalSymlinks(filepath.Join(w.dir, "toolkit"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		at := filepath.Join(filepath.Dir(views[0]), e.Name())
		if _, err := os.Lstat(at); e.IsDir() && e.Name() != "bin" && err != nil {
			if err := os.Symlink(filepath.Join(root, e.Name()), at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.RemoveAll(filepath.Join(w.work, "matmul", "target")); err != nil {
		t.Fatal(err)
	}
	out := build()
	if len(lists()) != 2 { // of the fatbin and the PTX
		t.Errorf("with a view: %v\n%s", lists(), out)
	}
	for _, list := range lists() {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{`matmul.cu"`, `cuda_runtime.h"`} {
			if !strings.Contains(string(text), name) {
				t.Errorf("%s does not list %s:\n%s", list, name, text)
			}
		}
	}
}
