//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/stale"
)

// scripted is a package whose build script compiles k.cu to k.ptx and perhaps more with the real nvcc, and declares nothing of what that
// reads. The program prints all of it.
type scripted struct {
	*shared
	story string
}

const scriptedHead = `#![allow(unused)]
use std::{env, fs, io::Write, path::PathBuf, process::{Command, Stdio}};
fn ok(c: &mut Command) { assert!(c.status().unwrap().success()); }
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let nvcc = |to: &str| { let mut c = Command::new("nvcc"); c.args(["-ptx", "-arch=compute_90", "-o"]).arg(out.join(to)); c };
`

func plantScripted(t *testing.T, story, script string, files map[string]string) scripted {
	t.Helper()
	s := scripted{newShared(t), story}
	s.a = need.Toolkits(t, 1)[0]
	all := kern("app")
	delete(all, "sys/kernel.cu")
	all["sys/build.rs"] = scriptedHead + script + "\n}\n"
	all["sys/value.h"] = "#define VALUE 1001\n"
	all["sys/k.cu"] = "#include \"value.h\"\nextern \"C\" __global__ void k(int *x) { *x = VALUE; }\n"
	all["src/main.rs"] = "fn main() { print!(\"{}\", app_sys::PTX); }\n"
	for name, text := range files {
		all[name] = text
	}
	noError(t, exec.Command("rm", "-rf", s.dir).Run())
	writeFiles(t, s.dir, all)
	return s
}

// newScripted is a package that is built, so often that nothing is left to do.
func newScripted(t *testing.T, story, script string, files map[string]string, writesTwice bool) scripted {
	t.Helper()
	s := plantScripted(t, story, script, files)
	s.next("built", "1001")
	if writesTwice {
		s.next("built again, once", "1001")
	}
	s.compiled(story+": nothing changed", s.build(s.a, "sm_90"), "")
	return s
}

// next builds and holds the program to the number that its kernels have then.
func (s scripted) next(what, number string) string {
	s.t.Helper()
	text := s.build(s.a, "sm_90")
	out, err := exec.Command(filepath.Join(s.dir, "target", "debug", "app")).Output()
	if err != nil || !strings.Contains(string(out), number) {
		s.t.Errorf("%s, %s: no %s in the kernel (%v)\n%s\n%s", s.story, what, number, err, text, out)
	}
	return text
}

// change writes a file; the build after it must have its number, and the one after that nothing to do.
func (s scripted) change(file, text, number string) {
	s.t.Helper()
	writeFiles(s.t, s.dir, map[string]string{file: text})
	s.next(file+" changed", number)
	s.compiled(s.story+", "+file+": and again", s.build(s.a, "sm_90"), "")
}

// recordStory is a build script, and what is changed after it was built.
type recordStory struct {
	story, script string
	files         map[string]string
	then          func(s scripted)
}

// recordStories are scripts whose calls of nvcc are seen, or are not.
func recordStories(t *testing.T) []recordStory {
	const saves = `
    let editor = format!("../{}{}", "sa", "ve"); // a person, who saves a file while the script runs
    if let Ok(text) = fs::read_to_string(&editor) { fs::remove_file(&editor).unwrap(); fs::write("value.h", text).unwrap(); }`
	header := "#define VALUE %s\n"
	value := func(number string) string { return strings.Replace(header, "%s", number, 1) }
	const second = "\npub const MORE: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/more.ptx\"));\n"
	more := map[string]string{
		"src/main.rs":    "fn main() { print!(\"{}{}\", app_sys::PTX, app_sys::MORE); }\n",
		"sys/src/lib.rs": "pub const PTX: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/k.ptx\"));" + second,
		"sys/more.cu":    "#include \"more.h\"\nextern \"C\" __global__ void more(int *x) { *x = MORE; }\n", "sys/more.h": "#define MORE 5005\n",
	}
	return []recordStory{
		{"a header that is saved while two builds run", `ok(nvcc("k.ptx").arg("k.cu"));` + saves, nil, func(s scripted) {
			writeFiles(t, s.dir, map[string]string{"save": value("1002"), "sys/value.h": value("1003")})
			s.next("saved once", "1003")
			writeFiles(t, s.dir, map[string]string{"save": value("1004")})
			s.next("saved twice", "1002")
			s.next("then", "1004")
			s.compiled("and then", s.build(s.a, "sm_90"), "")
		}},
		{"the same by an nvcc that nobody sees", `ok(Command::new(PathBuf::from(env::var_os("CUDA_HOME").unwrap()).join("bin/nvcc"))
        .args(["-ptx", "-arch=compute_90", "k.cu", "-o"]).arg(out.join("k.ptx")));` + saves, nil, func(s scripted) {
			writeFiles(t, s.dir, map[string]string{"save": value("1002"), "sys/value.h": value("1003")})
			s.next("saved once", "1002")
			writeFiles(t, s.dir, map[string]string{"save": value("1004"), "sys/k.cu": "#include \"value.h\"\n__global__ void other(int *x) { *x = VALUE; }\n"})
			s.next("saved twice", "1004")
			s.compiled("and then", s.build(s.a, "sm_90"), "")
		}},
		{"one nvcc of PATH and one by its path", `ok(nvcc("k.ptx").arg("k.cu"));
    ok(Command::new(PathBuf::from(env::var_os("CUDA_HOME").unwrap()).join("bin/nvcc"))
        .args(["-ptx", "-arch=compute_90", "more.cu", "-o"]).arg(out.join("more.ptx")));`, more, func(s scripted) {
			s.change("sys/more.h", "#define MORE 5006\n", "5006")
			s.change("sys/value.h", value("1002"), "1002")
		}},
		{"one call without the script's environment", `ok(nvcc("k.ptx").arg("k.cu"));
    ok(nvcc("more.ptx").arg("more.cu").env_clear().env("PATH", env::var_os("PATH").unwrap()));`, more, func(s scripted) {
			s.change("sys/more.h", "#define MORE 5006\n", "5006")
		}},
		{"numbers by an nvcc that nobody sees", `let to = env::temp_dir().join(format!("k{}.ptx", std::process::id()));
    ok(Command::new(PathBuf::from(env::var_os("CUDA_HOME").unwrap()).join("bin/nvcc")).args(["-ptx", "-arch=compute_90", "k.cu", "-o"]).arg(&to));
    let numbers: Vec<String> = fs::read(&to).unwrap().iter().map(|b| (b ^ 1).to_string()).collect();
    fs::remove_file(&to).unwrap();
    fs::write(out.join("k.txt"), numbers.join(",")).unwrap();`, map[string]string{
			"sys/src/lib.rs": "pub const PTX: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/k.txt\"));\n",
			"gpubuild.toml":  "gpu-packages = [\"app\"]\n",
			"src/main.rs":    "fn main() { for b in app_sys::PTX.split(',') { print!(\"{}\", (b.parse::<u8>().unwrap() ^ 1) as char) } }\n",
		}, func(s scripted) {
			writeFiles(t, s.dir, map[string]string{"sys/value.h": value("1002")})
			if text := s.next("a header", "1002"); !strings.Contains(text, "app-sys: no compilation by nvcc is recorded, so every file of the package counts") {
				s.t.Errorf("not said that nobody saw it\n%s", text)
			}
		}},
		{"a generator that gcc compiles", `ok(Command::new("gcc").args(["gen.c", "-o"]).arg(out.join("gen"))); ok(Command::new(out.join("gen")).current_dir(&out));
    ok(nvcc("k.ptx").arg("-I").arg(&out).arg("k.cu"));`, map[string]string{
			"sys/k.cu": "#include <gen.h>\n__global__ void k(int *x) { *x = GEN; }\n", "sys/table.txt": "1001",
			"sys/gen.c": "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main() { char path[999], text[99] = \"\"; " +
				"strcat(strcat(strcpy(path, getenv(\"CARGO_MANIFEST_DIR\")), \"/tab\"), \"le.txt\"); fgets(text, 99, fopen(path, \"r\")); " +
				"fprintf(fopen(\"gen.h\", \"w\"), \"#define GEN %s\\n\", text); }\n",
		}, func(s scripted) {
			writeFiles(t, s.dir, map[string]string{"sys/table.txt": "1002"})
			if text := s.next("a table", "1002"); !strings.Contains(text, "app-sys: what the program gen reads is not recorded, so every file of the package counts") {
				s.t.Errorf("not said that nobody saw it\n%s", text)
			}
			s.change("sys/table.txt", "1003", "1003")
		}},
		{"C and C++ that nobody reads", `ok(nvcc("k.ptx").arg("k.cu"));`, nil, func(s scripted) {
			writeFiles(t, s.dir, map[string]string{"sys/unread.h": "//", "sys/unread.cpp": "//"})
			s.compiled("files that nobody reads", s.build(s.a, "sm_90"), "")
			s.change("sys/value.h", value("1002"), "1002")
		}},
		{"two calls with equal arguments", `fs::create_dir_all("../made").unwrap();
    for to in ["k.ptx", "more.ptx"] {
        let from = if to == "k.ptx" { "k.cu" } else { "more.cu" };
        fs::copy(from, "../made/t.cu").unwrap();
        let mut c = Command::new("nvcc");
        ok(c.args(["-ptx", "-arch=compute_90", "-I.", "../made/t.cu", "-o", "../made/t.ptx"]));
        fs::rename("../made/t.ptx", out.join(to)).unwrap();
    }`, more, func(s scripted) {
			s.change("sys/value.h", value("1002"), "1002")
			s.change("sys/more.h", "#define MORE 5006\n", "5006")
			s.change("sys/k.cu", "#include \"value.h\"\n__global__ void k(int *x) { *x = VALUE + 100; }\n", "1102")
		}},
		{"the source on standard input", `let mut c = nvcc("k.ptx").args(["-x", "cu", "-Iinc", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    c.stdin.take().unwrap().write_all(b"#include <far.h>\n__global__ void k(int *x) { *x = FAR; }\n").unwrap();
    assert!(c.wait().unwrap().success());`, map[string]string{"sys/inc/far.h": "#include \"../../far/away\"\n", "far/away": "#define FAR 1001\n"}, func(s scripted) {
			s.change("far/away", "#define FAR 1002\n", "1002")
			s.change("sys/inc/far.h", "#define FAR 1003\n", "1003")
		}},
		{"a generator that rustc compiles", `ok(Command::new("rustc").args(["gen/gen.rs", "--edition=2021", "-o"]).arg(out.join("gen")));
    ok(Command::new(out.join("gen")).arg(out.join("gen.h")));
    for part in fs::read_dir("parts").unwrap() {
        fs::OpenOptions::new().append(true).open(out.join("gen.h")).unwrap().write_all(&fs::read(part.unwrap().path()).unwrap()).unwrap();
    }
    ok(nvcc("k.ptx").arg("-I").arg(&out).arg("k.cu"));`, map[string]string{
			"sys/k.cu": "#include <gen.h>\n__global__ void k(int *x) { *x = GEN + TABLE + PART; }\n",
			"sys/gen/gen.rs": "mod more;\nfn main() { std::fs::write(std::env::args().nth(1).unwrap(), format!(\"#define GEN {}\\n#define TABLE {}\\n\", " +
				"more::number() + 0, include_str!(\"table.txt\").trim())).unwrap(); }\n",
			"sys/gen/more.rs": "pub fn number() -> i32 { 1000 }\n", "sys/gen/table.txt": "1\n", "sys/parts/part.rs": "#define PART 0\n",
		}, func(s scripted) {
			s.change("sys/gen/more.rs", "pub fn number() -> i32 { 1001 }\n", "1002")
			s.change("sys/gen/table.txt", "2\n", "1003")
			s.change("sys/parts/part.rs", "#define PART 7\n", "1010")
			s.change("sys/src/lib.rs", "pub const PTX: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/k.ptx\")); // \n", "1010")
		}},
		{"a header whose name is not UTF-8", `ok(nvcc("k.ptx").arg("k.cu"));`, map[string]string{
			"sys/k.cu": "#include \"caf\xe9.h\"\n__global__ void k(int *x) { *x = VALUE; }\n", "sys/caf\xe9.h": value("1001"),
		}, func(s scripted) {
			s.change("sys/caf\xe9.h", value("1002"), "1002")
		}},
		{"a program that writes into its OUT_DIR", `ok(nvcc("k.ptx").arg("k.cu"));`, map[string]string{
			"sys/src/lib.rs": "pub const PTX: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/k.ptx\"));\n" +
				"pub fn note() { std::fs::write(concat!(env!(\"OUT_DIR\"), \"/note\"), \"x\").unwrap(); }\n",
			"src/main.rs": "fn main() { app_sys::note(); print!(\"{}\", app_sys::PTX); }\n",
		}, func(s scripted) {
			s.change("sys/value.h", value("1002"), "1002")
		}},
	}
}

// TestRecordsOfScripts: whatever calls a build script makes, and what of them nobody sees, a change of what they read is not missed.
func TestRecordsOfScripts(t *testing.T) {
	t.Parallel()
	need.Asked(t, "toolkit")
	for _, tt := range recordStories(t) {
		t.Run(tt.story, func(t *testing.T) {
			known := "complete: "
			switch {
			case !strings.Contains(tt.script, `nvcc("`) && !strings.Contains(tt.script, `"nvcc"`):
				known = "none: "
			case strings.Contains(tt.script, `"-"`) || strings.Contains(tt.script, "CUDA_HOME") || strings.Contains(tt.script, `"gen"`):
				known = "partial: "
			}
			s := newScripted(t, tt.story, tt.script, tt.files, strings.Contains(tt.script, "t.cu"))
			if out, err := s.command(nil, binary(t), "stale", "--why", "app-sys", "--features", "cuda", "--toolkit="+s.a, "--arch=sm_90").CombinedOutput(); err != nil ||
				!strings.Contains(string(out), "  "+known) {
				t.Errorf("%s: known is not %q (%v)\n%s", tt.story, known, err, out)
			}
			tt.then(s)
		})
	}
}

// TestOracle: every file that a build script, and whatever it starts, was seen to read is in the stamp, or printed for cargo.
func TestOracle(t *testing.T) {
	t.Parallel()
	need.Asked(t, "toolkit", "long")
	library := filepath.Join(t.TempDir(), "reads.so")
	source := filepath.Join(repository, "testdata", "reads", "reads.c")
	if out, err := exec.Command(need.CC(t), "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tt := range recordStories(t) {
		t.Run(tt.story, func(t *testing.T) {
			s := plantScripted(t, tt.story, tt.script, tt.files)
			log := filepath.Join(s.top, "reads")
			s.more = append(s.more, "READS_LOG="+log, "LD_PRELOAD="+library)
			s.next("built under the oracle", "1001")
			seen := 0
			for _, path := range s.unheld(log) {
				t.Errorf("read, and neither in the stamp nor printed for cargo: %q", path)
			}
			for _, path := range s.reads(log) {
				if strings.HasPrefix(path, s.dir) {
					seen++
				}
			}
			if seen < 2 {
				t.Errorf("the oracle saw %d files of the project", seen)
			}
		})
	}
}

// reads lists what was read and is still there, outside of what cargo and gpubuild keep, of the toolkit and of the system.
func (s scripted) reads(log string) (paths []string) {
	s.t.Helper()
	text, err := os.ReadFile(log)
	noError(s.t, err)
	home, err := os.UserHomeDir()
	noError(s.t, err)
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		path := filepath.Clean(line)
		of := []string{"/usr/", "/lib", "/etc/", "/proc/", "/dev/", "/sys/", s.a + "/", filepath.Join(s.dir, "target") + "/", filepath.Join(s.top, "cache") + "/",
			filepath.Join(home, ".rustup") + "/", filepath.Join(home, ".cargo") + "/"}
		temporary := strings.HasPrefix(path, os.TempDir()) && !strings.HasPrefix(path, s.top)
		if exists(path) && !temporary && !slices.ContainsFunc(of, func(dir string) bool { return strings.HasPrefix(path, dir) }) && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// unheld lists what was read and is in no stamp of the package, that of calls without an OUT_DIR included, and was not printed for cargo.
func (s scripted) unheld(log string) []string {
	s.t.Helper()
	units, err := filepath.Glob(filepath.Join(s.dir, "target", "debug", "build", "app-sys-*", stale.StampFile))
	if err != nil || len(units) == 0 {
		s.t.Fatalf("no stamp, %v", err)
	}
	held := map[string]bool{}
	add := func(path string) { held[filepath.Join(s.dir, "sys", path)], held[path] = true, true }
	for _, unit := range units {
		data, err := os.ReadFile(unit)
		noError(s.t, err)
		stamp, err := stale.Decode(data)
		noError(s.t, err)
		for place := range stamp.Read {
			add(strings.TrimPrefix(place, "{package}/"))
		}
		for _, in := range stamp.Inputs {
			add(stale.PartName(in.Name))
		}
		printed, err := os.ReadFile(filepath.Join(filepath.Dir(unit), "output"))
		noError(s.t, err)
		for line := range strings.Lines(string(printed)) {
			if path, is := strings.CutPrefix(strings.TrimSpace(line), "cargo::rerun-if-changed="); is {
				add(path)
			}
		}
	}
	return slices.DeleteFunc(s.reads(log), func(path string) bool { return held[path] })
}
