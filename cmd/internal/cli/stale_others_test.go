//go:build linux

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

// TestAnotherCargoAtWork has plain cargo's build script, with another toolkit, still at work when gpubuild comes: what it leaves is not
// taken, its script is not blamed, and after at most one more build there is nothing to do.
func TestAnotherCargoAtWork(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	files := kern("app")
	files["sys/build.rs"] = strings.Replace(files["sys/build.rs"], "    assert!(ok);\n", `    assert!(ok);
    while Path::new("slow").exists() {
        std::fs::write("begun", "").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
`, 1)
	writeFiles(t, s.dir, files)
	s.build(s.a, "sm_90")
	slow, begun := filepath.Join(s.dir, "sys", "slow"), filepath.Join(s.dir, "sys", "begun")
	noError(t, os.WriteFile(slow, nil, 0o644))
	editor := s.command([]string{filepath.Join(s.b, "bin")}, "cargo", "check", "--features", "cuda")
	editor.Env = append(editor.Env, "CUDA_COMPUTE_CAP=80")
	noError(t, editor.Start())
	awaitFile(t, begun)
	ours := s.command(nil, binary(t), "build", "--features", "cuda", "--gpu-toolkit="+s.a, "--gpu-arch=sm_90")
	var text lines
	ours.Stdout, ours.Stderr = &text, &text
	noError(t, ours.Start())
	text.await(t, "Blocking")
	noError(t, os.Remove(slow))
	noError(t, editor.Wait())
	if err := ours.Wait(); err != nil || strings.Contains(text.String(), "does not use") {
		t.Fatalf("%v\n%s", err, text.String())
	}
	s.holds("after the editor", "app/target/debug/app", first, "sm_90")
	s.build(s.a, "sm_90")
	s.compiled("and then", s.build(s.a, "sm_90"), "")
}

// onTarget is how cargo says that another one works in the target directory.
var onTarget = regexp.MustCompile(`Blocking waiting for file lock on (artifact|build) directory`)

// TestAnotherCargoEachTime: another cargo builds other kernels in front of ours, and again in front of the second build. What it left is not
// taken for what was requested: the build ends with 13.
func TestAnotherCargoEachTime(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	files := kern("app")
	files["sys/build.rs"] = strings.NewReplacer("if std::fs", `if env::var_os("EDITOR").is_none() && std::fs`, "    assert!(ok);\n", `    assert!(ok);
    while let Some(top) = env::var_os("EDITOR").filter(|top| !Path::new(top).join("go").exists()) {
        std::fs::write(Path::new(&top).join("begun"), "").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
`).Replace(files["sys/build.rs"])
	writeFiles(t, s.dir, files)
	s.build(s.a, "sm_90")
	cargo := need.Tool(t, "cargo")
	writeFiles(t, s.top, map[string]string{"front/cargo": "#!/bin/sh\ncase \"$*\" in\n*unit-graph*|*' -h') ;;\nbuild*)\n  rm -f ../go ../begun; touch sys/build.rs\n" +
		"  EDITOR='" + s.top + "' CUDA_COMPUTE_CAP=90 PATH='" + s.b + "/bin':\"$PATH\" " + cargo + " check -q --features cuda >>'" + s.top + "/editor' 2>&1 &\n" +
		"  until [ -e ../begun ]; do sleep 0.02; done ;;\nesac\nexec " + cargo + " \"$@\"\n"})
	noError(t, os.Chmod(filepath.Join(s.top, "front", "cargo"), 0o755))
	ours := s.command([]string{filepath.Join(s.top, "front"), filepath.Join(s.a, "bin")}, binary(t), "build", "--features", "cuda",
		"--gpu-toolkit="+s.a, "--gpu-arch=sm_90")
	var text lines
	ours.Stdout, ours.Stderr = &text, &text
	noError(t, ours.Start())
	for n := 1; n <= 2; n++ {
		for until := time.Now().Add(2 * time.Minute); len(onTarget.FindAllString(text.String(), -1)) < n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("gpubuild did not wait for the editor's cargo %d times\n%s", n, text.String())
			}
		}
		writeFiles(t, s.top, map[string]string{"go": ""})
	}
	_ = ours.Wait()
	if code := ours.ProcessState.ExitCode(); code != 13 || !strings.Contains(text.String(), "another cargo works in ") {
		t.Errorf("ended with %d, want 13\n%s", code, text.String())
	}
	s.build(s.a, "sm_90")
	s.holds("alone again", "app/target/debug/app", first, "sm_90")
	s.compiled("and then", s.build(s.a, "sm_90"), "")
}

// TestEnvForCargo: plain cargo, as rust-analyzer runs it, and gpubuild in turn rebuild each other's kernels; with gpubuild's variables in
// .cargo/config.toml neither does.
func TestEnvForCargo(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	editor := func() string {
		return s.must(s.command([]string{filepath.Join(s.a, "bin")}, "cargo", "check", "--quiet", "--workspace", "--message-format=json",
			"--all-targets", "--keep-going", "--features", "cuda"))
	}
	ran := func() time.Time {
		list, err := filepath.Glob(filepath.Join(s.dir, "target", "debug", "build", "app-sys-*", "invoked.timestamp"))
		if err != nil || len(list) != 1 {
			t.Fatalf("%v %q", err, list)
		}
		fi, err := os.Stat(list[0])
		noError(t, err)
		return fi.ModTime()
	}
	s.build(s.a, "sm_90")
	editor()
	s.build(s.a, "sm_90")
	config := filepath.Join(s.dir, ".cargo", "config.toml")
	if exists(config) {
		t.Error("written unasked")
	}
	table, err := s.command(nil, binary(t), "env", "--shell", "cargo-config", "--features", "cuda", "--toolkit="+s.a, "--arch=sm_90").Output()
	if err != nil || !strings.Contains(string(table), "CUDA_COMPUTE_CAP") {
		t.Fatalf("%v\n%s", err, table)
	}
	writeFiles(t, s.dir, map[string]string{".cargo/config.toml": string(table)})
	s.build(s.a, "sm_90")
	editor()
	s.more = []string{"CUDA_COMPUTE_CAP=80"}
	const forced = "forces CUDA_COMPUTE_CAP=90 in place of the 80 of your environment"
	if text := s.must(s.command(nil, binary(t), "build", "--features", "cuda", "--gpu-toolkit="+s.a)); !strings.Contains(text, forced) {
		t.Errorf("the block wins without a word\n%s", text)
	}
	s.more = nil
	at := ran()
	for range 3 {
		editor()
		s.compiled("gpubuild after the editor", s.build(s.a, "sm_90"), "")
		if now := ran(); !now.Equal(at) {
			t.Fatalf("the script ran again: %v, %v", at, now)
		}
	}
	s.holds("in turn", "app/target/debug/app", first, "sm_90")
}

// TestDependencyOutOfSight has nvcc called by a git package that is in no catalog and has no feature named cuda: it gets the toolkit in an
// empty target directory, and another one, or another variable, is not missed.
func TestDependencyOutOfSight(t *testing.T) {
	t.Parallel()
	files := kern("app")
	dependencyOutOfSight(t, files)
	t.Run("by make", func(t *testing.T) {
		files := kern("app")
		files["sys/build.rs"] = strings.Replace(files["sys/build.rs"], `Command::new("nvcc").arg("-ptx").arg(format!("-arch=sm_{cap}"))
        .arg("-o").arg(&out).arg("kernel.cu")`, `Command::new("make").env("OUT", &out).env("CAP", &cap)`, 1)
		files["sys/Makefile"] = "all:\n\tnvcc -ptx -arch=sm_$(CAP) -o $(OUT) kernel.cu\n"
		dependencyOutOfSight(t, files)
	})
}

func dependencyOutOfSight(t *testing.T, files map[string]string) {
	t.Helper()
	s := newShared(t)
	repository := filepath.Join(s.top, "repository")
	for name, text := range files {
		if rest, ok := strings.CutPrefix(name, "sys/"); ok {
			writeFiles(t, repository, map[string]string{rest: text})
			delete(files, name)
		}
	}
	files["Cargo.toml"] = strings.NewReplacer(`app-sys = { path = "sys", optional = true }`, `app-sys = { git = "file://`+repository+
		`", optional = true }`, `"sys", `, "").Replace(files["Cargo.toml"])
	delete(files, "Cargo.lock")
	noError(t, os.RemoveAll(s.dir))
	writeFiles(t, s.dir, files)
	home := filepath.Join(s.top, "home")
	for _, words := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@localhost",
		"commit", "-q", "-m", "kernels"}} {
		c := exec.Command(need.Tool(t, "git"), words...)
		c.Dir = repository
		s.must(c)
	}
	s.more = []string{"CARGO_HOME=" + home, "RUSTUP_HOME=" + rustupHome(), "CARGO_NET_OFFLINE=false"}
	s.build(s.a, "sm_90")
	s.holds("in an empty target directory", "app/target/debug/app", first, "sm_90")
	if text := s.build(s.a, "sm_90"); didClean(text) {
		t.Errorf("nothing changed\n%s", text)
	}
	s.compiled("another toolkit", s.build(s.b, "sm_90"), rebuild)
	s.holds("another toolkit", "app/target/debug/app", second, "sm_90")
	s.build(s.b, "sm_80")
	s.holds("another architecture", "app/target/debug/app", second, "sm_80")
	s.more = append(s.more, "NVCC_APPEND_FLAGS=-DX")
	s.compiled("a variable that nvcc reads", s.build(s.b, "sm_80"), rebuild)
}

// TestHelperFromGit has nvcc run by a git package that the build script uses: the toolkit is found for an empty target directory, and another
// one, a header that it reads or a variable of the helper is not missed.
func TestHelperFromGit(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	files := kern("app")
	repository := filepath.Join(s.top, "repository")
	writeFiles(t, repository, map[string]string{
		"Cargo.toml": "[package]\nname = \"kmake\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs": `use std::{env, path::Path, process::Command};
pub fn make(out: &Path, cap: &str) {
    let flags = env::var("KMAKE_FLAGS").unwrap_or_default();
    let ok = Command::new("nvcc").arg("-ptx").arg(format!("-arch=sm_{cap}")).args(flags.split_whitespace())
        .arg("-o").arg(out).arg("kernel.cu").status().unwrap().success();
    assert!(ok);
}
`,
	})
	for _, words := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@localhost",
		"commit", "-q", "-m", "kmake"}} {
		c := exec.Command(need.Tool(t, "git"), words...)
		c.Dir = repository
		s.must(c)
	}
	files["sys/Cargo.toml"] += "[build-dependencies]\nkmake = { git = \"file://" + repository + "\" }\n"
	script := files["sys/build.rs"]
	from := strings.Index(script, "    let ok = ")
	files["sys/build.rs"] = strings.Replace(script[:from]+"    kmake::make(&out, &cap);\n}\n", ", process::Command", "", 1)
	delete(files, "Cargo.lock")
	noError(t, os.RemoveAll(s.dir))
	writeFiles(t, s.dir, files)
	s.more = []string{"CARGO_HOME=" + filepath.Join(s.top, "home"), "RUSTUP_HOME=" + rustupHome(), "CARGO_NET_OFFLINE=false"}
	s.build(s.a, "sm_90")
	s.holds("in an empty target directory", "app/target/debug/app", first, "sm_90")
	s.compiled("nothing changed", s.build(s.a, "sm_90"), "")
	s.compiled("another toolkit", s.build(s.b, "sm_90"), rebuild)
	s.holds("another toolkit", "app/target/debug/app", second, "sm_90")
	s.more = append(s.more, "KMAKE_FLAGS=-DX")
	s.compiled("a variable of the helper", s.build(s.b, "sm_90"), rebuild)
	writeFiles(t, s.dir, map[string]string{"sys/a.cuh": "// new"})
	s.compiled("a header", s.build(s.b, "sm_90"), rebuild)
	s.compiled("and then", s.build(s.b, "sm_90"), "")
}

// TestCudaforge has nvcc called by cudaforge, which keeps a kernel whose source, arguments and architecture are what they were: another
// header, another toolkit and another architecture are not missed, and a kernel that was compiled once comes from the cache. It compiles
// for sm_90a where it is told 90.
func TestCudaforge(t *testing.T) {
	t.Parallel()
	roots := need.Toolkits(t, 2)
	candle, err := filepath.Abs(filepath.Join(repository, "testdata", "candle-matmul"))
	noError(t, err)
	need.Crates(t, candle)
	s := newShared(t)
	s.a, s.b = roots[0], roots[1]
	files := kern("app")
	delete(files, "Cargo.lock")
	files["sys/Cargo.toml"] += "[build-dependencies]\ncudaforge = \"=0.1.6\"\n"
	files["sys/build.rs"] = `fn main() -> cudaforge::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR").unwrap());
    let ptx = cudaforge::KernelBuilder::new().source_files(vec!["k.cu"]).arg("-I../include").build_ptx()?;
    ptx.write(out.join("ptx.rs"))
}
`
	delete(files, "sys/kernel.cu")
	files["sys/k.cu"] = "#include <value.h>\nextern \"C\" __global__ void k(int *x) { *x = VALUE; }\n"
	files["include/value.h"] = "#define VALUE 4711\n"
	noError(t, os.RemoveAll(s.dir))
	writeFiles(t, s.dir, files)
	lock, err := os.ReadFile(filepath.Join(candle, "Cargo.lock")) // of its packages these are crates that are here
	noError(t, err)
	writeFiles(t, s.dir, map[string]string{"Cargo.lock": string(lock)})
	right := func(story, root, arch, value string) {
		t.Helper()
		s.holds(story, "app/target/debug/app", nvccVersion(t, root), arch)
		if out, err := exec.Command(filepath.Join(s.dir, "target", "debug", "app")).Output(); err != nil || !bytes.Contains(out, []byte(value)) {
			t.Errorf("%s: no %s in the kernel (%v)\n%s", story, value, err, out)
		}
	}
	s.build(s.a, "sm_90")
	right("from nothing", s.a, "sm_90a", "4711")
	s.compiled("nothing changed", s.build(s.a, "sm_90"), "")
	writeFiles(t, s.dir, map[string]string{"include/value.h": "#define VALUE 4712\n"})
	s.compiled("a header", s.build(s.a, "sm_90"), rebuild)
	right("a header", s.a, "sm_90a", "4712")
	s.compiled("another toolkit", s.build(s.b, "sm_90"), rebuild)
	right("another toolkit", s.b, "sm_90a", "4712")
	s.compiled("another architecture", s.build(s.b, "sm_80"), rebuild)
	right("another architecture", s.b, "sm_80", "4712")
	writeFiles(t, s.dir, map[string]string{"include/value.h": "#define VALUE 4711\n"})
	text := s.build(s.a, "sm_90")
	right("all as it was", s.a, "sm_90a", "4711")
	// Tests next to this one make hard links to the toolkit's files, and what is compiled while a file changes its state is not kept.
	for range 3 {
		if strings.Contains(text, "Reused 1 of 1 kernel") {
			break
		}
		s.build(s.a, "sm_80")
		text = s.build(s.a, "sm_90")
	}
	if !strings.Contains(text, "Reused 1 of 1 kernel") {
		t.Errorf("not from the cache\n%s", text)
	}
}

// TestProceduralMacro has nvcc run by a procedural macro while rustc compiles the program: a clean build finds the toolkit without a flag,
// and a header, another toolkit and another architecture are not missed.
func TestProceduralMacro(t *testing.T) {
	t.Parallel()
	roots := need.Toolkits(t, 2)
	s := newShared(t)
	s.a, s.b = roots[0], roots[1]
	noError(t, os.RemoveAll(s.dir))
	writeFiles(t, s.dir, map[string]string{
		"Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n" +
			"kmac = { path = \"kmac\" }\n[workspace]\nmembers = [\"kmac\"]\n",
		"src/main.rs":     "fn main() { print!(\"{}\", kmac::ptx!()); }\n",
		"k.cu":            "#include <value.h>\nextern \"C\" __global__ void k(int *x) { *x = VALUE; }\n",
		"include/value.h": "#define VALUE 4711\n",
		"kmac/Cargo.toml": "[package]\nname = \"kmac\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\nproc-macro = true\n",
		"kmac/src/lib.rs": `use std::{env, process::Command};
#[proc_macro]
pub fn ptx(_: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let dir = env::var("CARGO_MANIFEST_DIR").unwrap();
    let cap = env::var("CUDA_COMPUTE_CAP").unwrap_or("75".into());
    let out = env::temp_dir().join(format!("kmac-{}.ptx", std::process::id()));
    let ok = Command::new("nvcc").args(["-ptx", "-Iinclude", "k.cu"]).arg(format!("-arch=sm_{cap}")).arg("-o").arg(&out)
        .current_dir(dir).status().unwrap().success();
    assert!(ok);
    let text = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    format!("{text:?}").parse().unwrap()
}
`,
	})
	right := func(story, root, arch, value string) {
		t.Helper()
		s.holds(story, "app/target/debug/app", nvccVersion(t, root), arch)
		if out, err := exec.Command(filepath.Join(s.dir, "target", "debug", "app")).Output(); err != nil || !bytes.Contains(out, []byte(value)) {
			t.Errorf("%s: no %s in the kernel (%v)\n%s", story, value, err, out)
		}
	}
	build := func(toolkit, arch string) string {
		t.Helper()
		return s.must(s.command(nil, binary(t), "build", "--gpu-toolkit="+toolkit, "--gpu-arch="+arch))
	}
	s.must(s.command([]string{filepath.Join(s.b, "bin")}, binary(t), "build"))
	right("from nothing, without a flag", s.b, "sm_75", "4711")
	s.compiled("another toolkit and architecture", build(s.a, "sm_90"), "app")
	right("another toolkit and architecture", s.a, "sm_90", "4711")
	s.compiled("nothing changed", build(s.a, "sm_90"), "")
	writeFiles(t, s.dir, map[string]string{"include/value.h": "#define VALUE 4712\n"})
	text := build(s.a, "sm_90")
	if s.compiled("a header", text, "app"); !strings.Contains(text, "Stale include/value.h changed: app") {
		t.Errorf("not said what changed\n%s", text)
	}
	right("a header", s.a, "sm_90", "4712")
	writeFiles(t, s.dir, map[string]string{"src/main.rs": "fn main() { print!(\"{}\", kmac::ptx!()) }\n"})
	s.compiled("the program", build(s.a, "sm_90"), "app")
	s.compiled("and then", build(s.a, "sm_90"), "")
	macro, err := os.ReadFile(filepath.Join(s.dir, "kmac", "src", "lib.rs"))
	noError(t, err)
	writeFiles(t, s.dir, map[string]string{
		"k.ptx": ".version 8.0\n.target sm_90\n.address_size 64\n", "used.by": "it",
		"kmac/src/lib.rs": strings.NewReplacer(`"-ptx", "-Iinclude", "k.cu"`, `"-cubin", "k.ptx"`,
			`std::fs::read_to_string(&out).unwrap()`, `std::fs::read_to_string("used.by").unwrap()`).Replace(string(macro)),
	})
	if text := build(s.a, "sm_90"); !strings.Contains(text, ", so every file of the package counts") {
		t.Errorf("a call that nobody can follow: not said\n%s", text)
	}
	s.compiled("and then, too", build(s.a, "sm_90"), "")
	writeFiles(t, s.dir, map[string]string{"used.by": "its"})
	s.compiled("every file counts", build(s.a, "sm_90"), "app")
}

// TestKernelsAmongTheSources has a script that writes a kernel and what nvcc makes of it into its package, each time with another comment:
// that is built twice in a build that runs the script, for nobody saw which of them was compiled, and not in the next one; neither what
// another cargo's script left nor an edit is missed.
func TestKernelsAmongTheSources(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	files := kern("app")
	files["sys/src/lib.rs"] = "pub const PTX: &str = include_str!(\"k.ptx\");\n"
	files["sys/build.rs"] = strings.NewReplacer(
		`Path::new(&env::var("OUT_DIR").unwrap()).join("k.ptx")`, `Path::new("src/k.ptx")`, "return; }", "}",
		"    let ok = ", "    std::fs::write(\"kernel.cu\", format!(\"// {:?}\", std::time::SystemTime::now())).unwrap();\n    let ok = ",
	).Replace(files["sys/build.rs"])
	writeFiles(t, s.dir, files)
	s.build(s.a, "sm_90")
	s.build(s.a, "sm_90") // kernel.cu was there, and might have been edited meanwhile
	s.compiled("nothing changed", s.build(s.a, "sm_90"), "")
	s.compiled("another toolkit", s.build(s.b, "sm_90"), rebuild+" "+rebuild)
	s.compiled("nothing changed since", s.build(s.b, "sm_90"), "")
	s.must(s.command([]string{filepath.Join(s.a, "bin")}, "sh", "-c", "touch sys/build.rs; CUDA_COMPUTE_CAP=90 exec cargo build --features cuda"))
	s.holds("plain cargo", "app/target/debug/app", first, "sm_90")
	const changed = "Stale src/k.ptx changed: app-sys"
	if text := s.build(s.b, "sm_90"); !strings.Contains(text, changed) {
		t.Errorf("not said what changed\n%s", text)
	}
	s.holds("after another cargo", "app/target/debug/app", second, "sm_90")
	writeFiles(t, s.dir, map[string]string{"sys/kernel.cu": "// edited"})
	s.compiled("a kernel edited", s.build(s.b, "sm_90"), rebuild+" "+rebuild)
	s.compiled("nothing changed after that", s.build(s.b, "sm_90"), "")
}

// TestInstallAndExec: `install --path` and `exec -- cargo build` look for stale artifacts, and exec says when it does not.
func TestInstallAndExec(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	root := filepath.Join(s.top, "installed")
	words := func(toolkit string) []string {
		return []string{binary(t), "install", "--path", ".", "--features", "cuda", "--root", root, "--gpu-toolkit=" + toolkit,
			"--gpu-arch=sm_90"}
	}
	install := func(toolkit string) string { return s.must(s.command(nil, words(toolkit)...)) }
	if text := install(s.a); !strings.Contains(text, "Scanned") || !strings.Contains(text, "Not proven") {
		t.Errorf("what was installed is not scanned, or nothing is said of a proof\n%s", text)
	}
	s.holds("installed", "installed/bin/app", first, "sm_90")
	if out, err := s.command(nil, append(words(s.a), "--gpu-require-proof")...).CombinedOutput(); code(err) != 2 {
		t.Errorf("a proof is required, and the code is %d\n%s", code(err), out)
	}
	text := install(s.b)
	s.holds("installed with another toolkit", "installed/bin/app", second, "sm_90")
	if !strings.Contains(text, "Stale nvcc") {
		t.Errorf("no reason\n%s", text)
	}
	s.build(s.a, "sm_90")
	exec := func(toolkit string, words ...string) string {
		return s.must(s.command(nil, append([]string{binary(t), "exec", "--toolkit=" + toolkit, "--arch=sm_90", "--"}, words...)...))
	}
	exec(s.b, "cargo", "build", "--features", "cuda")
	s.holds("exec with another toolkit", "app/target/debug/app", second, "sm_90")
	lock := filepath.Join(s.dir, "Cargo.lock") // where there is none only a build makes it
	for _, words := range [][]string{{"--features", "cuda", "--", "true"}, {"--", "cargo", "build", "--features", "cuda"}} {
		noError(t, os.RemoveAll(lock))
		text := s.must(s.command(nil, append([]string{binary(t), "exec", "--toolkit=" + s.a, "--arch=sm_90"}, words...)...))
		if strings.Contains(text, "stale artifacts are not looked for") || exists(lock) != (words[1] == "cargo") {
			t.Errorf("%q without Cargo.lock\n%s", words, text)
		}
	}
	s.holds("exec without Cargo.lock", "app/target/debug/app", first, "sm_90")
	writeFiles(t, s.top, map[string]string{"bin/maturin": "#!/bin/sh\n"})
	noError(t, os.Chmod(filepath.Join(s.top, "bin", "maturin"), 0o755))
	for _, words := range [][]string{{"maturin", "build"}, {"sh", "-c", "true"}} {
		if text := exec(s.b, words...); !strings.Contains(text, "what "+words[0]+" builds is not checked for stale artifacts") {
			t.Errorf("not said\n%s", text)
		}
	}
	if text := exec(s.b, "cargo", "install", "--help"); !strings.Contains(text, "what cargo install builds is not checked for stale artifacts") {
		t.Errorf("not said\n%s", text)
	}
}

// TestCompiledPython: Python compiles those modules of a generator again that changed, and what it makes is no input.
func TestCompiledPython(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	script := strings.Replace(kern("app")["sys/build.rs"], "    let cap", `    let lib = Path::new("gen/lib");
    std::fs::create_dir_all(lib.join("__pycache__")).unwrap();
    let (text, made) = (std::fs::read(lib.join("templ.py")).unwrap(), lib.join("__pycache__/templ.cpython-311.pyc"));
    if std::fs::read(&made).ok().as_ref() != Some(&text) { std::fs::write(&made, text).unwrap(); }
    let cap`, 1)
	writeFiles(t, s.dir, map[string]string{"sys/build.rs": script, "sys/gen/lib/templ.py": "one"})
	s.build(s.a, "sm_90")
	writeFiles(t, s.dir, map[string]string{"sys/kernel.cu": "__global__ void k() { }\n"})
	s.compiled("another source", s.build(s.a, "sm_90"), rebuild)
	writeFiles(t, s.dir, map[string]string{"sys/gen/lib/templ.py": "another"})
	s.compiled("after an edit", s.build(s.a, "sm_90"), rebuild)
	s.compiled("and then", s.build(s.a, "sm_90"), "")
}

// TestLauncher: a script in front of nvcc that answers as the chosen one is kept, in NVCC and on PATH; another one is not, and that is
// said.
func TestLauncher(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	log := filepath.Join(s.top, "launched")
	launcher := func(toolkit string) string {
		// Below bin it looks like a toolkit's own.
		writeFiles(t, s.top, map[string]string{"launch/bin/nvcc": "#!/bin/sh\necho x >>'" + log + "'\nexec '" + toolkit + "/bin/nvcc' \"$@\"\n"})
		noError(t, os.Chmod(filepath.Join(s.top, "launch", "bin", "nvcc"), 0o755))
		return filepath.Join(s.top, "launch", "bin")
	}
	build := func() string {
		_ = os.Remove(log)
		return s.must(s.command([]string{launcher(s.a), filepath.Join(s.a, "bin")}, binary(t), "build", "--features", "cuda",
			"--gpu-arch=sm_90"))
	}
	calls := func() int {
		data, err := os.ReadFile(log)
		if err != nil {
			return 0
		}
		return bytes.Count(data, []byte("x"))
	}
	text := build()
	if calls() < 2 { // --version, and the kernel
		t.Errorf("first on PATH, and bypassed\n%s", text)
	}
	s.compiled("once more", build(), "")
	text = s.must(s.command([]string{launcher(s.b), filepath.Join(s.a, "bin")}, binary(t), "build", "--features", "cuda",
		"--gpu-arch=sm_90", "--gpu-toolkit="+s.a))
	if !strings.Contains(text, "note: "+filepath.Join(s.top, "launch", "bin", "nvcc")+" (PATH) is not used: it is nvcc 13.4.92") {
		t.Errorf("bypassed without a word\n%s", text)
	}
	s.holds("another toolkit's launcher", "app/target/debug/app", first, "sm_90")
}

// TestLauncherOfAnyName: NVCC names a script that is not called nvcc. Where it calls the chosen nvcc the build script uses it, and nobody
// says otherwise; where it calls another one the build does not use it, and that is said once.
func TestLauncherOfAnyName(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	script := filepath.Join(s.dir, "sys", "build.rs")
	text, err := os.ReadFile(script)
	noError(t, err)
	reads := strings.Replace(string(text), `Command::new("nvcc")`, `Command::new(env::var(format!("NV{}", "CC")).unwrap_or("nvcc".into()))`, 1)
	launch, log := filepath.Join(s.top, "tools", "launch"), filepath.Join(s.top, "launched")
	writeFiles(t, s.dir, map[string]string{"sys/build.rs": reads})
	s.more = []string{"NVCC=" + launch}
	for _, tt := range []struct {
		story, toolkit, says string
		notes                int
		compiles             bool
	}{
		{"the chosen toolkit's", s.a, "", 0, true},
		{"another toolkit's", s.b, launch + " (NVCC) is not used: it is nvcc 13.4.92", 1, false},
	} {
		_ = os.RemoveAll(filepath.Join(s.dir, "target")) // by this script nobody sees that it reads NVCC
		_ = os.Remove(log)
		writeFiles(t, s.top, map[string]string{"tools/launch": "#!/bin/sh\necho \"$1\" >>" + log + "\nexec " + tt.toolkit + "/bin/nvcc \"$@\"\n"})
		text := s.must(s.command([]string{filepath.Join(s.a, "bin")}, binary(t), "build", "--features", "cuda", "--gpu-arch=sm_90"))
		calls, err := os.ReadFile(log)
		if err != nil || strings.Contains(string(calls), "-ptx") != tt.compiles {
			t.Errorf("%s: it was called for %q (%v)\n%s", tt.story, calls, err, text)
		}
		if said := strings.Count(text, "not used"); !strings.Contains(text, tt.says) || said != tt.notes {
			t.Errorf("%s: want %q\n%s", tt.story, tt.says, text)
		}
		s.holds(tt.story, "app/target/debug/app", first, "sm_90")
	}
}

// TestNamedPackage: gpubuild.toml names a package of which nobody can read that it runs nvcc; it gets the toolkit, and what was requested
// and not used is said where none does.
func TestNamedPackage(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	files := unreadable()
	files["gpubuild.toml"] = "gpu-packages = [\"app-sys\"]\n"
	writeFiles(t, s.dir, files)
	on := func(toolkit string, more ...string) string {
		return s.must(s.command([]string{filepath.Join(toolkit, "bin")}, append([]string{binary(t), "build", "--features", "cuda"},
			more...)...))
	}
	on(s.a)
	s.holds("built from nothing", "app/target/debug/app", first, "sm_75")
	s.compiled("nothing changed", on(s.a), "")
	s.compiled("another nvcc first on PATH", on(s.b), rebuild)

	files["sys/build.rs"], files["gpubuild.toml"] = "fn main() {}\n", ""
	files["sys/src/lib.rs"] = "pub const PTX: &str = \"\";\n"
	writeFiles(t, s.dir, files)
	s.must(s.command(nil, "cargo", "clean", "-q"))
	if text := on(s.a, "--gpu-arch=sm_90"); !strings.Contains(text, "warning: no package of this build used --gpu-arch=sm_90") {
		t.Errorf("not said\n%s", text)
	}
}

// TestNoFeatureIsCalledCUDA: a build whose features do not name the GPU is judged all the same where a script that counts runs nvcc, and
// a toolkit that was asked for and that nothing used is said.
func TestNoFeatureIsCalledCUDA(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	files := kern("app")
	for _, name := range []string{"Cargo.toml", "src/main.rs"} {
		files[name] = strings.ReplaceAll(strings.ReplaceAll(files[name], "cuda = [", "accel = ["), `"cuda"`, `"accel"`)
	}
	writeFiles(t, s.dir, files)
	build := func(toolkit string, more ...string) string {
		return s.must(s.command([]string{filepath.Join(toolkit, "bin")}, append([]string{binary(t), "build"}, more...)...))
	}
	build(s.a, "--features=accel")
	s.compiled("another nvcc on PATH", build(s.b, "--features=accel"), rebuild)
	s.holds("another nvcc on PATH", "app/target/debug/app", second, "sm_75")
	s.compiled("nothing changed", build(s.b, "--features=accel"), "")
	if text := build(s.b); strings.Contains(text, "Resolving") {
		t.Errorf("without the feature it is plain cargo\n%s", text)
	}
	if text := build(s.b, "--gpu-toolkit="+s.a); !strings.Contains(text, "no package of this build used --gpu-toolkit=") {
		t.Errorf("the toolkit was not used, and nobody says so\n%s", text)
	}
}

// TestKernelsInHexadecimal: what another cargo's script left in a form that nobody can read is not taken for what gpubuild's own left.
func TestKernelsInHexadecimal(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	files := kern("app")
	files["sys/build.rs"] = strings.NewReplacer("=build.rs", "=kernel.cu", "    assert!(ok);\n", `    assert!(ok);
    let text = std::fs::read_to_string(&out).unwrap() + &env::var("FORM").unwrap_or_default();
    std::fs::write(&out, text.bytes().map(|b| format!("{b:02x}")).collect::<String>()).unwrap();
`).Replace(files["sys/build.rs"])
	writeFiles(t, s.dir, files)
	program := func() string { return s.must(s.command(nil, filepath.Join(s.dir, "target", "debug", "app"))) }
	s.build(s.a, "sm_90")
	want := program()
	s.must(s.command([]string{filepath.Join(s.a, "bin")}, "sh", "-c",
		"touch sys/kernel.cu; CUDA_COMPUTE_CAP=90 FORM=other exec cargo build --features cuda"))
	if program() == want {
		t.Fatal("plain cargo's script made the same")
	}
	text := s.build(s.a, "sm_90")
	s.compiled("after another cargo", text, rebuild)
	if program() != want {
		t.Errorf("what plain cargo's script made was kept\n%s", text)
	}
	s.compiled("and then", s.build(s.a, "sm_90"), "")
}

// TestKernelLost: a kernel that is gone is compiled again, also where no stamp says that there was one; a mistake in the user's own code
// has nothing compiled twice.
func TestKernelLost(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	lose := func() {
		list, err := filepath.Glob(filepath.Join(s.dir, "target", "debug", "build", "app-sys-*", "out", "k.ptx"))
		if err != nil || len(list) != 1 || os.Remove(list[0]) != nil {
			t.Fatalf("%v %q", err, list)
		}
	}
	s.must(s.command(nil, binary(t), "exec", "--features", "cuda", "--toolkit="+s.a, "--arch=sm_90", "--",
		"cargo", "build", "--features", "cuda"))
	stamps, err := filepath.Glob(filepath.Join(s.dir, "target", "debug", "build", "app-sys-*", "gpubuild-stamp.json"))
	if err != nil || len(stamps) != 1 || os.Remove(stamps[0]) != nil {
		t.Fatalf("%v %q", err, stamps)
	}
	lose()
	good := kern("app")["src/main.rs"]
	writeFiles(t, s.dir, map[string]string{"src/main.rs": "mistake"})
	broken := func() string {
		out, err := s.command(nil, binary(t), "build", "--features", "cuda", "--gpu-toolkit="+s.a, "--gpu-arch=sm_90").CombinedOutput()
		if code(err) != 101 {
			t.Errorf("ended with %d\n%s", code(err), out)
		}
		return string(out)
	}
	if text := broken(); !strings.Contains(text, "Unknown app-sys: there is no record") {
		t.Errorf("not rebuilt\n%s", text)
	}
	s.compiled("a mistake, once more", broken(), "app")
	writeFiles(t, s.dir, map[string]string{"src/main.rs": good})
	s.compiled("without the mistake", s.build(s.a, "sm_90"), "app")
	s.holds("lost without a stamp", "app/target/debug/app", first, "sm_90")
	lose()
	s.compiled("lost with a stamp", s.build(s.a, "sm_90"), rebuild)
	s.compiled("and then", s.build(s.a, "sm_90"), "")
}

// TestScriptInFrontOfTheCompiler: what NVCC_CCBIN names is a script, which takes the compiler from a file: its version shows.
func TestScriptInFrontOfTheCompiler(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	s := newShared(t)
	writeFiles(t, s.top, map[string]string{"wrap/cxx": "#!/bin/sh\nexec \"$(cat $(dirname $0)/which)\" \"$@\"\n",
		"wrap/which": filepath.Join(s.top, "wrap", "one"), "wrap/one": "#!/bin/sh\necho 'gcc (GCC) 12.2.0'\n",
		"wrap/other": "#!/bin/sh\necho 'gcc (GCC) 12.3.0'\n"})
	for _, name := range []string{"cxx", "one", "other"} {
		noError(t, os.Chmod(filepath.Join(s.top, "wrap", name), 0o755))
	}
	s.more = []string{"NVCC_CCBIN=" + filepath.Join(s.top, "wrap", "cxx")}
	s.build(s.a, "sm_90")
	s.compiled("nothing changed", s.build(s.a, "sm_90"), "")
	writeFiles(t, s.top, map[string]string{"wrap/which": filepath.Join(s.top, "wrap", "other")})
	s.compiled("another compiler", s.build(s.a, "sm_90"), rebuild)
	s.compiled("nothing changed since", s.build(s.a, "sm_90"), "")
}
