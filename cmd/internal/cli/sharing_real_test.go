//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// standinToolkit makes a tree with that nvcc.
func standinToolkit(t *testing.T, root, version string) string {
	t.Helper()
	v := strings.SplitN(version, ".", 3)
	writeFiles(t, root, map[string]string{
		"include/cuda.h": "#define CUDA_VERSION " + v[0] + "0" + v[1] + "0\n", "include/cuda_runtime.h": "",
		"include/crt/host_config.h": "", "include/nv/target": "",
		"lib64/libcudart.so": "", "lib64/stubs/libcuda.so": "", "nvvm/bin/cicc": "cicc " + version, "nvvm/libdevice/libdevice.bc": "", "version.txt": version,
		"version.json": `{"cuda": {"name": "CUDA SDK", "version": "` + version + `"}}`,
		"bin/nvcc": "#!/bin/sh\n# Cuda compilation tools, release " + v[0] + "." + v[1] + ", V" + version +
			"\nexec standin-nvcc \"$0\" \"$@\"\n",
	})
	return root
}

// kern is a project whose build script calls nvcc from PATH, as most do, and keeps what it made, as cudaforge does. It prints what its
// kernel was compiled by.
func kern(name string) map[string]string { return kernOf(name, name+"-sys") }

func kernOf(name, sys string) map[string]string {
	return map[string]string{
		"Cargo.toml": "[package]\nname = \"" + name + "\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = [\"dep:" + sys +
			"\"]\n[dependencies]\n" + sys + " = { path = \"sys\", optional = true }\n" +
			"plain = { path = \"plain\" }\n[workspace]\nmembers = [\"sys\", \"plain\"]\n[profile.dev]\ndebug = false\n",
		"Cargo.lock": "version = 4\n\n[[package]]\nname = \"" + name + "\"\nversion = \"0.1.0\"\ndependencies = [\n \"" + sys +
			"\",\n \"plain\",\n]\n\n[[package]]\nname = \"" + sys + "\"\nversion = \"0.1.0\"\n\n" +
			"[[package]]\nname = \"plain\"\nversion = \"0.1.0\"\n",
		"src/main.rs": "fn main() { plain::hello(); #[cfg(feature = \"cuda\")] if std::env::args().count() > 9 { println!(\"libcuda.so.1\"); } " +
			"#[cfg(feature = \"cuda\")] print!(\"{}\", " + strings.ReplaceAll(sys, "-", "_") +
			"::PTX); }\n",
		"plain/Cargo.toml": "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"plain/src/lib.rs": "pub fn hello() {}\n",
		"sys/Cargo.toml":   "[package]\nname = \"" + sys + "\"\nversion = \"0.1.0\"\nedition = \"2021\"\nlinks = \"kern\"\n",
		"sys/kernel.cu":    "__global__ void k() {}\n",
		"sys/src/lib.rs":   "pub const PTX: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/k.ptx\"));\n",
		"sys/build.rs": `use std::{env, path::Path, process::Command};
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CUDA_COMPUTE_CAP");
    let cap = env::var("CUDA_COMPUTE_CAP").unwrap_or("75".into());
    let out = Path::new(&env::var("OUT_DIR").unwrap()).join("k.ptx");
    if std::fs::read_to_string(&out).is_ok_and(|t| t.contains(&format!(".target sm_{cap}\n"))) { return; } // up to date, it thinks
    let ok = Command::new("nvcc").arg("-ptx").arg(format!("-arch=sm_{cap}"))
        .arg("-o").arg(&out).arg("kernel.cu").status().unwrap().success();
    assert!(ok);
}
`,
	}
}

// shared is a place in which projects and builds meet.
type shared struct {
	t        *testing.T
	top, dir string // dir: the project that is worked in
	a, b     string // two toolkits, 13.3 and 13.4
	target   string // as CARGO_TARGET_DIR says it; empty: cargo's own
	more     []string
}

func newShared(t *testing.T) *shared {
	t.Helper()
	need.Asked(t, "cargo", "cc")
	top := t.TempDir()
	s := &shared{t: t, top: top, dir: filepath.Join(top, "app"), a: standinToolkit(t, filepath.Join(top, "cuda-a"), "13.3.33"),
		b: standinToolkit(t, filepath.Join(top, "cuda-b"), "13.4.92")}
	writeFiles(t, s.dir, kern("app"))
	return s
}

// withoutToolkit is the environment without PATH and what chooses a toolkit or a target directory.
func withoutToolkit() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "CUDA") || strings.HasPrefix(name, "NVCC") || strings.HasPrefix(name, "GPUBUILD_") ||
			name == "CARGO_TARGET_DIR" || name == "PATH"
	})
}

func (s *shared) command(path []string, words ...string) *exec.Cmd {
	c := exec.Command(words[0], words[1:]...)
	c.Dir = s.dir
	dirs := append(append([]string{}, path...), filepath.Join(s.top, "bin"), os.Getenv("PATH"))
	c.Env = append(withoutToolkit(), "PATH="+strings.Join(dirs, ":"), "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "CARGO_INCREMENTAL=0",
		"GPUBUILD_CACHE="+filepath.Join(s.top, "cache"))
	if s.target != "" {
		c.Env = append(c.Env, "CARGO_TARGET_DIR="+s.target)
	}
	c.Env = append(c.Env, s.more...)
	return c
}

func (s *shared) must(c *exec.Cmd) string {
	s.t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	return string(out)
}

// build is gpubuild with a toolkit for an architecture; words before "build" are toolchains.
func (s *shared) build(toolkit, arch string, more ...string) string {
	s.t.Helper()
	words := []string{binary(s.t)}
	if len(more) > 0 && strings.HasPrefix(more[0], "+") {
		words, more = append(words, more[0]), more[1:]
	}
	return s.must(s.command(nil, append(append(words, "build", "--features", "cuda", "--gpu-toolkit="+toolkit, "--gpu-arch", arch),
		more...)...))
}

// plain is cargo as an editor calls it.
func (s *shared) plain(toolkit string, more ...string) string {
	s.t.Helper()
	return s.must(s.command([]string{filepath.Join(toolkit, "bin")}, append([]string{"cargo", "build", "--features", "cuda"}, more...)...))
}

var builtBy = regexp.MustCompile(`V([0-9.]+)\n(?s:.*)\.target (sm_\w+)`)

// stale is gpubuild stale with a toolkit for sm_90; it must end so. Unlike a build it has only its own eyes to find what earlier builds
// left.
func (s *shared) stale(story, toolkit string, code int, says string, more ...string) {
	s.t.Helper()
	words := []string{binary(s.t)}
	if len(more) > 0 && strings.HasPrefix(more[0], "+") {
		words, more = append(words, more[0]), more[1:]
	}
	c := s.command(nil, append(append(words, "stale", "--features", "cuda", "--toolkit="+toolkit, "--arch=sm_90"), more...)...)
	out, _ := c.CombinedOutput()
	if c.ProcessState.ExitCode() != code || !strings.Contains(string(out), says) {
		s.t.Errorf("%s: stale ended with %d, want %d and %q\n%s", story, c.ProcessState.ExitCode(), code, says, out)
	}
}

// holds says that a program's kernel is a toolkit's and for an architecture.
func (s *shared) holds(story, program, version, arch string) {
	s.t.Helper()
	out, err := exec.Command(filepath.Join(s.top, program)).Output()
	m := builtBy.FindStringSubmatch(string(out))
	if err != nil || m == nil || m[1] != version || m[2] != arch {
		s.t.Errorf("%s: %s holds %q (%v), want %s for %s", story, program, m, err, version, arch)
	}
}

// compiled holds what was compiled against what should have been.
func (s *shared) compiled(story, text, want string) {
	s.t.Helper()
	var got []string
	for _, m := range compiling.FindAllStringSubmatch(text, -1) {
		got = append(got, m[1])
	}
	if strings.Join(got, " ") != want {
		s.t.Errorf("%s: compiled %q, want %q\n%s", story, got, want, text)
	}
}

const (
	first, second = "13.3.33", "13.4.92"
	rebuild       = "app-sys app"
)

// TestSharedTargetDirectory: everything that can share a target directory, each kept apart from the others and each right when it is used.
// Plain cargo is seen to be fooled first, so that there is something to see.
func TestSharedTargetDirectory(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	triple := host(t)
	t.Run("plain cargo is fooled", func(t *testing.T) {
		s := newShared(t)
		s.plain(s.a)
		s.compiled("another nvcc first on PATH", s.plain(s.b), "")
		s.holds("another nvcc first on PATH", "app/target/debug/app", first, "sm_75")
	})
	t.Run("debug and release", func(t *testing.T) {
		s := newShared(t)
		s.build(s.a, "sm_90")
		s.build(s.a, "sm_90", "--release")
		s.compiled("debug with another toolkit", s.build(s.b, "sm_90"), rebuild)
		s.holds("debug", "app/target/debug/app", second, "sm_90")
		s.holds("release is as it was", "app/target/release/app", first, "sm_90")
		s.compiled("release with the first one still", s.build(s.a, "sm_90", "--release"), "")
		s.compiled("release with the other", s.build(s.b, "sm_90", "--release"), rebuild)
		s.holds("release", "app/target/release/app", second, "sm_90")
	})
	t.Run("the host's tree and a platform's", func(t *testing.T) {
		s := newShared(t)
		s.build(s.a, "sm_90")
		s.build(s.a, "sm_90", "--target", triple)
		s.stale("the platform's", s.a, 0, "Fresh app-sys: up to date", "--target", triple)
		s.stale("the platform's with another toolkit", s.b, 13, "nvcc 13.3.33 → 13.4.92: app-sys", "--target", triple)
		s.compiled("the platform's with another toolkit", s.build(s.b, "sm_90", "--target", triple), rebuild)
		s.holds("the platform's", "app/target/"+triple+"/debug/app", second, "sm_90")
		s.holds("the host's is as it was", "app/target/debug/app", first, "sm_90")
		s.build(s.b, "sm_90")
		s.holds("the host's", "app/target/debug/app", second, "sm_90")

		// Each tree with a toolkit of its own, in turn.
		s.build(s.a, "sm_90")
		s.build(s.b, "sm_90", "--target", triple) // the script itself is the host's: it was cleaned, so cargo runs it again
		s.compiled("the host's is not made anew for the platform's", s.build(s.a, "sm_90"), "")
		s.compiled("nor the platform's for the host's", s.build(s.b, "sm_90", "--target", triple), "")
		s.stale("the host's", s.a, 0, "Fresh app-sys: up to date")
		s.stale("the platform's", s.b, 0, "Fresh app-sys: up to date", "--target", triple)
		s.stale("the platform's with the host's toolkit", s.a, 13, "nvcc 13.4.92 → 13.3.33: app-sys", "--target", triple)
	})
	t.Run("two toolchains", func(t *testing.T) {
		need.Asked(t, "nightly")
		s := newShared(t)
		if exec.Command("cargo", "+nightly", "-V").Run() != nil {
			need.Missing(t, "nightly", "no nightly toolchain")
		}
		s.build(s.a, "sm_90")
		s.build(s.a, "sm_90", "+nightly")
		s.compiled("nightly with another toolkit", s.build(s.b, "sm_90", "+nightly"), rebuild)
		s.holds("nightly", "app/target/debug/app", second, "sm_90")
		s.build(s.a, "sm_90")
		s.holds("back on stable with the first one", "app/target/debug/app", first, "sm_90")
		s.build(s.b, "sm_90")
		s.holds("stable with the other", "app/target/debug/app", second, "sm_90")

		// Plain cargo of the other toolchain builds where nobody has recorded anything, and cargo takes it.
		s.must(s.command(nil, "cargo", "clean", "-q"))
		s.build(s.a, "sm_90")
		s.more = []string{"CUDA_COMPUTE_CAP=90"}
		s.must(s.command([]string{filepath.Join(s.b, "bin")}, "cargo", "+nightly", "build", "--features", "cuda"))
		s.compiled("nightly after plain nightly", s.build(s.a, "sm_90", "+nightly"), rebuild)
		s.holds("nightly after plain nightly", "app/target/debug/app", first, "sm_90")
	})
	t.Run("the layout of cargo 1.100", func(t *testing.T) {
		need.Asked(t, "nightly")
		s := newShared(t)
		if out, _ := exec.Command("cargo", "+nightly", "-Z", "help").Output(); !strings.Contains(string(out), "build-dir-new-layout") {
			need.Missing(t, "nightly", "none that knows the new layout")
		}
		layout := []string{"+nightly", "-Zbuild-dir-new-layout"}
		s.build(s.a, "sm_90", layout...)
		if outs, _ := filepath.Glob(filepath.Join(s.dir, "target", "debug", "build", "app-sys", "*", "run")); len(outs) == 0 {
			t.Fatal("this is not the new layout")
		}
		s.compiled("nothing changed", s.build(s.a, "sm_90", layout...), "")
		s.compiled("another toolkit", s.build(s.b, "sm_90", layout...), rebuild)
		s.holds("another toolkit", "app/target/debug/app", second, "sm_90")
		s.build(s.a, "sm_80", layout...)
		s.holds("and back, for another arch", "app/target/debug/app", first, "sm_80")
		// The script's time is found there, too: what plain cargo made anew is not what was recorded.
		s.more = []string{"CUDA_COMPUTE_CAP=80"}
		s.must(s.command(nil, "cargo", "+nightly", "-Zbuild-dir-new-layout", "clean", "-q", "-p", "app-sys"))
		s.must(s.command([]string{filepath.Join(s.b, "bin")}, "cargo", "+nightly", "-Zbuild-dir-new-layout", "build", "--features", "cuda"))
		s.holds("plain cargo's own", "app/target/debug/app", second, "sm_80")
		s.compiled("after plain cargo", s.build(s.a, "sm_80", layout...), rebuild)
		s.holds("after plain cargo", "app/target/debug/app", first, "sm_80")
		// And back, and there again: what one layout holds is not made anew for the other one.
		s.build(s.a, "sm_80", "+nightly")
		for range 2 {
			s.compiled("the new layout again", s.build(s.a, "sm_80", layout...), "")
			s.compiled("the old layout again", s.build(s.a, "sm_80", "+nightly"), "")
		}
		s.holds("the old layout", "app/target/debug/app", first, "sm_80")
	})
	t.Run("a build directory apart", func(t *testing.T) {
		s := newShared(t)
		writeFiles(t, s.dir, map[string]string{".cargo/config.toml": "[build]\nbuild-dir = \"" + filepath.Join(s.top, "apart") + "\"\n"})
		s.build(s.a, "sm_90")
		if list, _ := filepath.Glob(filepath.Join(s.top, "apart", "debug", "build", "app-sys-*", "gpubuild-stamp.json")); len(list) != 1 {
			t.Errorf("the stamp does not lie where what it speaks of lies: %q", list)
		}
		s.compiled("another toolkit", s.build(s.b, "sm_90"), rebuild)
		s.holds("another toolkit", "app/target/debug/app", second, "sm_90")
		s.must(s.command(nil, "cargo", "clean", "-q", "-p", "app-sys"))
		s.compiled("after a clean", s.build(s.b, "sm_90"), rebuild)
	})
	t.Run("a target directory that is a link", func(t *testing.T) {
		s := newShared(t)
		noError(t, os.Mkdir(filepath.Join(s.top, "disk"), 0o755))
		noError(t, os.Symlink("../disk", filepath.Join(s.dir, "target")))
		s.build(s.a, "sm_90")
		s.compiled("nothing changed", s.build(s.a, "sm_90"), "")
		s.compiled("another toolkit", s.build(s.b, "sm_90"), rebuild)
		s.holds("another toolkit", "disk/debug/app", second, "sm_90")
	})
	t.Run("two workspaces", func(t *testing.T) {
		s := newShared(t)
		s.target = filepath.Join(s.top, "target")
		one, other := s.dir, filepath.Join(s.top, "other")
		writeFiles(t, other, kern("other"))
		s.build(s.a, "sm_90")
		s.dir = other
		s.build(s.b, "sm_80")
		s.holds("the second workspace", "target/debug/other", second, "sm_80")
		s.dir = one
		s.compiled("the first is not made anew for the second", s.build(s.a, "sm_90"), "")
		s.holds("the first workspace", "target/debug/app", first, "sm_90")
		s.dir = other
		s.compiled("nor the second for the first", s.build(s.b, "sm_80"), "")
		s.build(s.a, "sm_80")
		s.holds("the second with the other toolkit", "target/debug/other", first, "sm_80")

		// Two whose crates have one name at one place in their workspace share even OUT_DIR: cargo hashes the path from the workspace's
		// root.
		s.dir = filepath.Join(s.top, "twin")
		writeFiles(t, s.dir, kern("app"))
		s.build(s.b, "sm_80")
		s.holds("the twin", "target/debug/app", second, "sm_80")
		s.dir = one
		if text := s.build(s.a, "sm_90"); !strings.Contains(text, "app-sys: it was built last for another workspace (path+file://"+
			filepath.Join(s.top, "twin")) {
			t.Errorf("not said who was there:\n%s", text)
		}
		s.holds("the first after its twin", "target/debug/app", first, "sm_90")

		// At the same time: the one that waits has read the record before the other wrote it, and must not put that back.
		together := func(toolkit, gate, waitsFor string, more ...string) {
			t.Helper()
			s.dir, s.more = one, []string{"GATE=" + filepath.Join(s.top, gate)}
			slowly := s.command(nil, binary(t), "build", "--features", "cuda", "--gpu-toolkit="+toolkit, "--gpu-arch", "sm_90")
			var said, waited lines
			slowly.Stdout, slowly.Stderr = &said, &said
			noError(t, slowly.Start())
			awaitFile(t, filepath.Join(s.top, gate+".began"))
			s.dir, s.more = other, more
			waiting := s.command(nil, binary(t), "build", "--features", "cuda", "--gpu-toolkit="+toolkit, "--gpu-arch", "sm_80")
			s.more = nil
			waiting.Stdout, waiting.Stderr = &waited, &waited
			noError(t, waiting.Start())
			waited.await(t, waitsFor)
			writeFiles(t, s.top, map[string]string{gate: ""})
			if err := slowly.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, &said)
			}
			if err := waiting.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, &waited)
			}
		}
		together(s.b, "gate", "Blocking waiting for another gpubuild on this target directory (pid ")
		s.holds("the first, with the other toolkit", "target/debug/app", second, "sm_90")
		s.holds("the second, which waited", "target/debug/other", second, "sm_80")
		// With a cache of its own it knows nothing of the other's lock, and waits for cargo's.
		together(s.a, "second-gate", "Blocking", "GPUBUILD_CACHE="+filepath.Join(s.top, "another-cache"))
		s.holds("the first, back", "target/debug/app", first, "sm_90")
		s.holds("the second, back", "target/debug/other", first, "sm_80")
	})
	t.Run("an editor builds in between", func(t *testing.T) {
		s := newShared(t)
		s.build(s.a, "sm_75")
		s.compiled("the editor, with its own PATH and without our arch", s.plain(s.b), rebuild) // the script ran, and kept what it had
		s.holds("the editor is fooled", "app/target/debug/app", first, "sm_75")
		s.build(s.a, "sm_75")
		s.holds("after the editor", "app/target/debug/app", first, "sm_75")
		// Its script ran with another nvcc: what is recorded is void.
		s.must(s.command(nil, "cargo", "clean", "-q", "-p", "app-sys"))
		s.plain(s.b)
		s.holds("the editor's own", "app/target/debug/app", second, "sm_75")
		s.build(s.a, "sm_75")
		s.holds("after the editor's clean build", "app/target/debug/app", first, "sm_75")
	})
	t.Run("CI brings the directory back with new times", func(t *testing.T) {
		s := newShared(t)
		s.build(s.a, "sm_90")
		s.must(s.command(nil, "sh", "-c", "tar cf ../target.tar target && rm -rf target && tar xmf ../target.tar && "+
			"now=$(date) && find target -exec touch -d \"$now\" {} +")) // in what order tar wrote them is chance
		s.stale("new times, and the content of the stamp", s.a, 0, "Fresh app-sys: up to date")
		s.build(s.b, "sm_90")
		s.holds("with another toolkit", "app/target/debug/app", second, "sm_90")
		s.compiled("and then nothing", s.build(s.b, "sm_90"), "")
	})
	t.Run("a clock that went back", func(t *testing.T) {
		s := newShared(t)
		s.build(s.a, "sm_90")
		past := time.Unix(1_000_000_000, 0)
		// An unpacked toolkit has the times of its making, long before the build.
		for _, name := range []string{"bin/nvcc", "version.txt", "nvvm/bin/cicc", "version.json", "include/cuda.h"} {
			text, err := os.ReadFile(filepath.Join(s.b, name))
			noError(t, err)
			writeFiles(t, s.a, map[string]string{name: string(text)})
			noError(t, os.Chtimes(filepath.Join(s.a, name), past, past))
		}
		s.compiled("replaced in its place by older files", s.build(s.a, "sm_90"), rebuild)
		s.holds("replaced in its place by older files", "app/target/debug/app", second, "sm_90")
		stamps, _ := filepath.Glob(filepath.Join(s.dir, "target", "debug", "build", "app-sys-*", "invoked.timestamp"))
		for _, p := range stamps {
			noError(t, os.Chtimes(p, past, past))
		}
		s.build(s.b, "sm_90")
		s.holds("its scripts seem to have run in the past", "app/target/debug/app", second, "sm_90")
		s.compiled("and then nothing", s.build(s.b, "sm_90"), "")
	})
}

// TestSccache: sccache gives back what rustc made of the same sources, and what the build script made is one of them.
func TestSccache(t *testing.T) {
	t.Parallel()
	need.Asked(t, "sccache")
	s := newShared(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // a server of its own
	noError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	noError(t, err)
	l.Close()
	s.more = []string{"RUSTC_WRAPPER=sccache", "SCCACHE_DIR=" + filepath.Join(s.top, "sccache"), "SCCACHE_SERVER_PORT=" + port,
		"SCCACHE_IDLE_TIMEOUT=600"}
	defer func() { _ = s.command(nil, "sccache", "--stop-server").Run() }()
	for end := time.Now().Add(2 * time.Minute); ; { // it waits ten seconds for its server, which gets little time among other tests
		out, err := s.command(nil, "sccache", "--show-stats").CombinedOutput()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	program := "app/target/debug/app"
	s.build(s.a, "sm_90")
	s.holds("first", program, first, "sm_90")
	s.compiled("another toolkit", s.build(s.b, "sm_90"), rebuild)
	s.holds("another toolkit", program, second, "sm_90")
	s.compiled("and back", s.build(s.a, "sm_90"), rebuild)
	s.holds("and back", program, first, "sm_90")
	noError(t, os.RemoveAll(filepath.Join(s.dir, "target")))
	s.build(s.b, "sm_90")
	s.holds("from nothing but sccache's store", program, second, "sm_90")
	s.compiled("and then nothing", s.build(s.b, "sm_90"), "")
	stats := s.must(s.command(nil, "sccache", "--show-stats"))
	if m := regexp.MustCompile(`(?m)^Cache hits +(\d+)`).FindStringSubmatch(stats); m == nil || m[1] == "0" {
		t.Errorf("sccache gave nothing back: nothing was tested\n%s", stats)
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if exists(path) {
			return
		}
	}
	t.Fatalf("%s never came", path)
}

// host is the triple that is built for without --target.
func host(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(need.Tool(t, "rustc"), "-vV").Output()
	noError(t, err)
	_, rest, _ := strings.Cut(string(out), "host: ")
	triple, _, _ := strings.Cut(rest, "\n")
	return triple
}

// TestStaleSaysWhatWasAndWhatIs: in words, and for a machine.
func TestStaleSaysWhatWasAndWhatIs(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	script := strings.Replace(kern("app")["sys/build.rs"], "fn main() {", "fn main() {\n    let _ = env::var(\"KFLAGS\");", 1)
	writeFiles(t, s.dir, map[string]string{"sys/build.rs": script})
	stale := func(code int, more ...string) string {
		t.Helper()
		c := s.command(nil, append([]string{binary(t), "stale", "--features", "cuda"}, more...)...)
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		if _ = c.Run(); c.ProcessState.ExitCode() != code {
			t.Fatalf("%v ended with %d, want %d\n%s%s", c.Args[1:], c.ProcessState.ExitCode(), code, &out, &errs)
		}
		return out.String() + errs.String()
	}
	has := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in:\n%s", w, text)
			}
		}
	}
	at := func(root string) []string { return []string{"--toolkit", root, "--arch", "sm_90"} }
	has(stale(0, at(s.a)...), "Fresh no GPU package has been built with these features: app-sys")
	s.build(s.a, "sm_90")
	text := stale(0, append(at(s.a), "--explain")...)
	has(text, "app-sys: fresh, arch sm_90, host compiler ", ", nvcc 13.3.33: ", " are unchanged\n")
	if strings.Contains(text, "up to date") {
		t.Errorf("told twice:\n%s", text)
	}
	has(stale(13, append(at(s.b), "--explain")...), "nvcc 13.3.33 → 13.4.92: app-sys\n", "app-sys: stale\n",
		"  nvcc: built with 13.3.33 "+s.a+"/bin/nvcc, now 13.4.92 "+s.b+"/bin/nvcc\n",
		"hint: gpubuild build rebuilds only app-sys; gpubuild stale --clean")
	if text := stale(13, append(at(s.b), "--explain")...); strings.Count(text, "app-sys: stale") != 1 {
		t.Errorf("told more than once:\n%s", text)
	}
	has(stale(0, append(at(s.b), "--clean")...), "Stale nvcc 13.3.33 → 13.4.92: app-sys\n", "Cleaned app-sys\n")
	has(stale(0, append(at(s.b), "--clean")...), "Fresh no GPU package has been built with these features: app-sys")
	s.build(s.a, "sm_90")
	// the same content under another root is no reason
	moved := standinToolkit(t, filepath.Join(s.top, "moved"), first)
	has(stale(0, append(at(moved), "--explain")...), "app-sys: fresh, ")
	s.more = []string{"NVCC_APPEND_FLAGS=-G"}
	has(stale(13, append(at(s.a), "--explain")...), "  NVCC_APPEND_FLAGS: built with none, now sha256:")
	s.more = nil
	given := "--config=env.KFLAGS='-DFAST'" // as an [env] table does, only cargo sets it
	has(stale(13, append(at(s.a), "--explain", given)...), "  KFLAGS: built with none, now -DFAST\n")
	writeFiles(t, s.a, map[string]string{"nvvm/bin/cicc": "replaced"})
	has(stale(13, append(at(s.a), "--explain")...), "  cicc: built with "+s.a+"/nvvm/bin/cicc, now other content at the same path\n")

	var answer struct {
		Schema  string
		OK      bool
		Reasons []struct{ Package, Input, Old, New string }
		Clean   []string
		Units   []struct {
			Package, State string
			Recorded       bool
			Inputs         []struct {
				Input, Was, Now string
				Same            bool
			}
		}
	}
	text = stale(13, append(at(s.b), "--json")...)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if answer.Schema != "gpubuild/stale/1" || answer.OK || len(answer.Clean) != 1 || len(answer.Units) != 1 ||
		answer.Units[0].State != "stale" || !answer.Units[0].Recorded ||
		len(answer.Units[0].Inputs) < 4 || len(answer.Reasons) < 2 {
		t.Errorf("%+v", answer)
	}
}
