//go:build linux

package cli_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/stale"
)

// mix is a workspace with one small package for each way in which kernels are compiled out of cargo's sight: directly, by a helper crate,
// by a shell script, by make, and in a vendored crate that has no feature named cuda. The program prints its kernels. Below dir lie ws,
// trees/a and trees/b (two real toolkits, as hard links), live (a link to one of them), include (what FOO_DIR names), target and cache.
type mix struct {
	t     *testing.T
	dir   string
	roots []string // the toolkits themselves, never touched
	r     *rand.Rand
	vars  map[string]string // of the user's environment
	flags []string
	how   string // how the toolkit is named: flag, path, home, launcher
	tree  string // the directory that it means: live, trees/b, copy
	arch  string
	verb  []string
	known map[string]string // what a clean build prints, by everything that goes into it
	forms int
	dirty bool
}

// packages of the mix, and the file of each that a header lies in.
var mixed = map[string]string{
	"direct": "direct/inc/k.cuh", "helped": "kb/include/k.cuh", "shelled": "common/k.cuh", "made": "made/k.cuh",
	"vendored": "vendor/vendored/k.cuh",
}

const mixScript = `use std::{env, path::PathBuf, process::Command};
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=k.cu");
    println!("cargo:rerun-if-env-changed=CUDA_COMPUTE_CAP");
    println!("cargo:rerun-if-env-changed=CUDA_HOME");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let cap = env::var("CUDA_COMPUTE_CAP").unwrap_or("75".into());
    let key = format!("{cap} {}", std::fs::read_to_string("k.cu").unwrap());
    if std::fs::read_to_string(out.join("key")).is_ok_and(|k| k == key) { return; } // as cudaforge does
    COMPILE
    std::fs::write(out.join("key"), key).unwrap();
}
`

func newMix(t *testing.T) *mix {
	t.Helper()
	roots := need.Toolkits(t, 2)
	m := &mix{t: t, dir: t.TempDir(), roots: roots, vars: map[string]string{}, known: map[string]string{}}
	files := map[string]string{
		"ws/.cargo/config.toml": "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = \"vendor\"\n",
		"include/one/foo.cuh":   "#define FOO 1\n", "include/two/foo.cuh": "#define FOO 2\n",
		"shadow/cuda_fp16.h": "#define SHADOWED 1\n#include_next <cuda_fp16.h>\n",
		"ws/kb/Cargo.toml":   "[package]\nname = \"kb\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"ws/kb/src/lib.rs": "use std::{env, path::Path, process::Command};\npub fn compile(out: &Path, cap: &str) {\n    let flags = " +
			"env::var(\"HELP_FLAGS\").unwrap_or_default();\n" +
			"    let include = concat!(\"-I\", env!(\"CARGO_MANIFEST_DIR\"), \"/include\");\n" +
			"    assert!(Command::new(\"nvcc\").args([\"-ptx\", &format!(\"-arch=compute_{cap}\"), include, \"k.cu\", " +
			"\"-o\"]).arg(out.join(\"k.ptx\")).args(flags.split_whitespace()).status().unwrap().success());\n}\n",
		"ws/shelled/k.sh": "#!/bin/sh -e\narch=compute_$1\nexec nvcc -ptx -arch=$arch -I../common $SH_FLAGS " +
			"k.cu -o \"$2\"\n",
		"ws/made/Makefile":                        "$(OUT)/k.ptx: k.cu\n\tnvcc -ptx -arch=compute_$(CAP) $(MK_FLAGS) k.cu -o $@\n",
		"ws/vendor/vendored/.cargo-checksum.json": `{"files":{},"package":null}`,
	}
	compile := map[string]string{
		"direct": `let flags = env::var("KFLAGS").unwrap_or_default();
    assert!(Command::new("nvcc").args(["-ptx", &format!("-arch=compute_{cap}"), "-Iinc", "k.cu", "-o"])
        .arg(out.join("k.ptx")).args(flags.split_whitespace()).status().unwrap().success());
    assert!(Command::new("nvcc").args(["-cubin", &format!("-arch=sm_{cap}"), "-Iinc", "k.cu", "-o"])
        .arg(out.join("k.cubin")).args(flags.split_whitespace()).status().unwrap().success());`,
		"helped":  `let _ = Command::new(""); kb::compile(&out, &cap);`,
		"shelled": `assert!(Command::new("sh").args(["k.sh", &cap]).arg(out.join("k.ptx")).arg("../common").status().unwrap().success());`,
		"made":    `assert!(Command::new("make").env("OUT", &out).env("CAP", &cap).status().unwrap().success());`,
		"vendored": `let foo = env::var_os("FOO_DIR").map(|d| format!("-I{}", d.to_str().unwrap())).unwrap_or("-I.".into());
    assert!(Command::new("nvcc").args(["-ptx", &format!("-arch=compute_{cap}"), &foo, "k.cu", "-o"])
        .arg(out.join("k.ptx")).status().unwrap().success());`,
	}
	manifest := "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\nmembers = [\"kb\", \"direct\", " +
		"\"helped\", \"shelled\", \"made\"]\nexclude = [\"vendor\"]\n" +
		"[profile.dev]\ndebug = false\n[features]\ncuda = [\"dep:direct\", \"dep:vendored\"]\nmore = [\"cuda\", \"dep:helped\", " +
		"\"dep:shelled\", \"dep:made\"]\n[dependencies]\n"
	lock := "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"direct\",\n \"helped\",\n \"made\",\n" +
		" \"shelled\",\n \"vendored\",\n]\n"
	main := "fn main() {\n" // in the order of clean
	for _, name := range []string{"direct", "helped", "kb", "made", "shelled", "vendored"} {
		lock += "\n[[package]]\nname = \"" + name + "\"\nversion = \"0.1.0\"\n"
		switch name {
		case "kb":
			continue
		case "helped":
			lock += "dependencies = [\n \"kb\",\n]\n"
		case "vendored":
			lock += "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n"
		}
		dir, from := "ws/"+name, "path = \""+name+"\""
		if name == "vendored" {
			dir, from = "ws/vendor/vendored", "version = \"0.1.0\""
		}
		manifest += name + " = { " + from + ", optional = true }\n"
		feature := "cuda"
		if name != "direct" && name != "vendored" {
			feature = "more"
		}
		main += "    #[cfg(feature = \"" + feature + "\")] " + name + "::print();\n"
		files[dir+"/Cargo.toml"] = "[package]\nname = \"" + name + "\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"
		if name == "helped" {
			files[dir+"/Cargo.toml"] += "[build-dependencies]\nkb = { path = \"../kb\" }\n"
		}
		files[dir+"/build.rs"] = strings.Replace(mixScript, "COMPILE", compile[name], 1)
		files[dir+"/src/lib.rs"] = "pub fn print() { print!(\"{}\", include_str!(concat!(env!(\"OUT_DIR\"), \"/k.ptx\"))); }\n"
		if name == "direct" {
			files[dir+"/src/lib.rs"] += "pub static CUBIN: &[u8] = include_bytes!(concat!(env!(\"OUT_DIR\"), \"/k.cubin\"));\n"
			main += "    #[cfg(feature = \"cuda\")] println!(\"{:?}\", direct::CUBIN);\n"
		}
		files[dir+"/odd"] = "#define ODD 1\n"
		files[dir+"/k.cu"] = "#include \"k.cuh\"\n#include \"odd\"\n#include <cuda_fp16.h>\n#if __has_include(\"foo.cuh\")\n#include \"foo.cuh\"\n#endif\n" +
			"#if __has_include(\"asked\")\n#define ASKED 1\n#else\n#define ASKED 0\n#endif\n#ifndef FOO\n#define FOO 0\n#endif\n#ifndef SHADOWED\n#define SHADOWED 0\n#endif\n" +
			"extern \"C\" __global__ void " + name + "_k(float *x) { x[threadIdx.x] = x[0] / x[1] + NUMBER + ODD + FOO + SHADOWED + ASKED + 0 /* " +
			"form */; }\n"
		files["ws/"+mixed[name]] = "#define NUMBER 1\n"
	}
	files["ws/Cargo.toml"], files["ws/Cargo.lock"], files["ws/src/main.rs"] = manifest, lock, main+"}\n"
	writeFiles(t, m.dir, files)
	m.reset()
	m.trees()
	return m
}

// reset is what every story begins with.
func (m *mix) reset() {
	m.vars, m.flags, m.how, m.tree, m.arch, m.verb = map[string]string{}, nil, "flag", "live", "90", []string{"--features", "cuda"}
}

func (m *mix) sh(line string) {
	m.t.Helper()
	c := exec.Command("sh", "-ec", line)
	c.Dir = m.dir
	if out, err := c.CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// trees puts the toolkits in their places, as they were.
func (m *mix) trees() {
	m.t.Helper()
	m.sh("rm -rf trees copy live; mkdir trees; ln -s trees/a live")
	for i, name := range []string{"trees/a", "trees/b", "copy"} {
		m.sh(copyToolkit(m.roots[i%2], name))
	}
	m.dirty = false
}

// own makes a file of a toolkit one that may be changed, and changes it.
func (m *mix) own(file, change string) string {
	m.sh("f=$(readlink -f live)/" + file + "; cp -a $f own.tmp; mv -f own.tmp $f; " + change)
	m.dirty = true
	return file + ": " + change
}

// environment is that of a command; for a plain cargo it holds what a flag of ours would say.
func (m *mix) environment(plain bool) (env []string, flags []string) {
	root := filepath.Join(m.dir, m.tree)
	path := os.Getenv("PATH")
	switch {
	case m.how == "flag" && !plain:
		flags = []string{"--gpu-toolkit=" + root, "--gpu-arch=" + m.arch}
	default:
		env = append(env, "CUDA_COMPUTE_CAP="+m.arch)
		path = filepath.Join(root, "bin") + ":" + path
	}
	if m.how == "home" {
		env = append(env, "CUDA_HOME="+root)
	}
	if m.how == "launcher" {
		path = filepath.Join(m.dir, "launcher") + ":" + path
		writeFiles(m.t, m.dir, map[string]string{"launcher/nvcc": "#!/bin/sh\nexec " + root + "/bin/nvcc \"$@\"\n"})
		m.sh("chmod +x launcher/nvcc")
	}
	env = append(env, "PATH="+path)
	for name, value := range m.vars {
		env = append(env, name+"="+value)
	}
	return env, flags
}

func (m *mix) run(target string, env []string, words ...string) (string, int) {
	m.t.Helper()
	c := exec.Command(words[0], words[1:]...)
	c.Dir = filepath.Join(m.dir, "ws")
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "CUDA") && !strings.HasPrefix(name, "NVCC") && !strings.HasPrefix(name, "GPUBUILD_") && name != "PATH" {
			c.Env = append(c.Env, e)
		}
	}
	c.Env = append(c.Env, "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "CARGO_INCREMENTAL=0", "CARGO_TARGET_DIR="+
		filepath.Join(m.dir, target), "GPUBUILD_CACHE="+filepath.Join(m.dir, "cache"))
	c.Env = append(c.Env, env...)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

func (m *mix) gpubuild(words ...string) (string, int) {
	m.t.Helper()
	env, flags := m.environment(false)
	return m.run("target", env, slices.Concat([]string{binary(m.t)}, words, m.verb, flags)...)
}

// profile is the directory of the profile that is built.
func (m *mix) profile() string {
	if slices.Contains(m.verb, "--release") {
		return "release"
	}
	return "debug"
}

func (m *mix) prints(target string) string {
	m.t.Helper()
	out, err := exec.Command(filepath.Join(m.dir, target, m.profile(), "app")).Output()
	if err != nil {
		m.t.Fatal(err)
	}
	return string(out)
}

// clean is what the program of a clean build prints: what each script's nvcc makes in an empty directory, with the same sources, toolkit
// and variables.
func (m *mix) clean() string {
	m.t.Helper()
	env, _ := m.environment(true)
	ptx, real := "-arch=compute_"+m.arch, "-arch=sm_"+m.arch
	foo := m.vars["FOO_DIR"]
	if foo == "" {
		foo = "."
	}
	var out strings.Builder
	for _, p := range []struct{ name, dir, include, flags, to, arch string }{
		{"direct", "direct", "inc", "KFLAGS", "-ptx", ptx}, {"direct", "direct", "inc", "KFLAGS", "-cubin", real},
		{"helped", "helped", m.dir + "/ws/kb/include", "HELP_FLAGS", "-ptx", ptx}, {"made", "made", ".", "MK_FLAGS", "-ptx", ptx},
		{"shelled", "shelled", "../common", "SH_FLAGS", "-ptx", ptx}, {"vendored", "vendor/vendored", foo, "", "-ptx", ptx},
	} {
		if m.verb[1] == "cuda" && p.name != "direct" && p.name != "vendored" {
			continue
		}
		dir := filepath.Join(m.dir, "ws", p.dir)
		sum := sha256.New()
		live, _ := os.Readlink(filepath.Join(m.dir, "live"))
		fmt.Fprintln(sum, live, m.tree, p, m.vars[p.flags], m.vars["NVCC_APPEND_FLAGS"], m.vars["NVCC_PREPEND_FLAGS"], m.vars["CPATH"])
		for _, file := range []string{filepath.Join(dir, "k.cu"), filepath.Join(dir, "odd"), filepath.Join(m.dir, "ws", mixed[p.name])} {
			data, err := os.ReadFile(file)
			if err != nil {
				m.t.Fatal(err)
			}
			fmt.Fprintln(sum, string(data), exists(filepath.Join(dir, "asked")))
		}
		key := fmt.Sprintf("%x", sum.Sum(nil))
		if m.known[key] == "" || m.dirty {
			made := filepath.Join(m.dir, "k."+p.to[1:]) // a cubin with -G names its file
			words := append([]string{"nvcc", p.to, p.arch, "-I" + p.include, "k.cu", "-o", made}, strings.Fields(m.vars[p.flags])...)
			c := exec.Command("env", append(slices.Clone(env), words...)...)
			c.Dir = dir
			if text, err := c.CombinedOutput(); err != nil {
				m.t.Fatalf("%v: %v\n%s", words, err, text)
			}
			data, err := os.ReadFile(made)
			if err != nil {
				m.t.Fatal(err)
			}
			m.known[key] = string(data)
			if p.to == "-cubin" {
				m.known[key] = strings.ReplaceAll(fmt.Sprintf("%v\n", data), " ", ", ")
			}
		}
		out.WriteString(m.known[key])
		if m.dirty {
			delete(m.known, key)
		}
	}
	return out.String()
}

// variable sets a variable of the user's, or unsets it.
func (m *mix) variable(name string, values ...string) string {
	if v := values[m.r.IntN(len(values))]; v != "" && m.vars[name] != v {
		m.vars[name] = v
	} else {
		delete(m.vars, name)
	}
	return name + "=" + m.vars[name]
}

// edit gives a header or a kernel other content; old keeps its time, as rsync -t and tar do with an older version.
func (m *mix) edit(file string, old bool) string {
	m.forms++
	what := fmt.Sprintf(`s/\(NUMBER\|ODD\) [0-9]*$/\1 %d/; s/[0-9]* .. form/%[1]d \/* form/`, m.forms)
	keep := ""
	if old {
		keep = "; touch -d '2020-01-01' ws/" + file
	}
	m.sh("sed -i '" + what + "' ws/" + file + keep)
	return fmt.Sprintf("%s edited (with an old time: %v)", file, old)
}

func (m *mix) glob(pattern string) []string {
	list, err := filepath.Glob(filepath.Join(m.dir, pattern))
	if err != nil {
		m.t.Fatal(err)
	}
	return list
}

// stamps changes every stamp.
func (m *mix) stamps(change func(data []byte) []byte) {
	for _, path := range m.glob("target/*/build/*/" + stale.StampFile) {
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(data), 0o644)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
}

// plain runs plain cargo in the same target directory with other variables, as a careless user or an editor does.
func (m *mix) plain(verb string, tree string, more ...string) string {
	was := *m
	m.tree, m.how = tree, "path"
	env, _ := m.environment(true)
	m.tree, m.how = was.tree, was.how
	text, code := m.run("target", append(env, more...), append([]string{"cargo", verb}, m.verb...)...)
	return fmt.Sprintf("cargo %s with %s %q (ended with %d; compiled %q)", verb, tree, more, code, compiled(text))
}

type change struct {
	story string
	do    func(m *mix) string
}

// changes are everything that was seen to leave stale artifacts, and what may hide that; all: each of them in every package, too, whose nvcc
// is recorded in the same way.
func changes(all bool) []change {
	list := []change{
		{"another toolkit by the flag", func(m *mix) string {
			m.how = "flag"
			m.tree = map[string]string{"live": "trees/b"}[m.tree]
			return m.named()
		}},
		{"another nvcc first on PATH", func(m *mix) string {
			m.how = "path"
			m.tree = map[string]string{"live": "trees/b"}[m.tree]
			return m.named()
		}},
		{"CUDA_HOME", func(m *mix) string {
			m.how = "home"
			m.tree = map[string]string{"live": "trees/b"}[m.tree]
			return m.named()
		}},
		{"a launcher in front of nvcc", func(m *mix) string { m.how = "launcher"; return m.named() }},
		{"an identical toolkit in another directory", func(m *mix) string { m.tree = "copy"; return m.named() }},
		{"the link to the toolkit switched", func(m *mix) string {
			m.sh("[ $(readlink live) = trees/a ] && ln -sfn trees/b live || ln -sfn trees/a live")
			return "live switched"
		}},
		// another release's takes no newer cicc's PTX
		{"ptxas replaced in its place", func(m *mix) string { return m.own("bin/ptxas", "echo >>$f") }},
		{"cicc replaced in its place", func(m *mix) string {
			return m.own("nvvm/bin/cicc", "cp --remove-destination "+quote(m.roots[1])+"/nvvm/bin/cicc $f")
		}},
		{"nvcc.profile edited", func(m *mix) string {
			return m.own("bin/nvcc.profile", "printf '\\nINCLUDES += -DFOO=9 $(_SPACE_)\\n' >>$f")
		}},
		{"a header of crt edited", func(m *mix) string { return m.own("include/crt/host_defines.h", "echo '#define SHADOWED 3' >>$f") }},
		{"a header of the toolkit edited", func(m *mix) string { return m.own("include/cuda_fp16.h", "echo '#define SHADOWED 4' >>$f") }},
		{"nvcc touched", func(m *mix) string { return m.own("bin/nvcc", "touch $f") }},
		{"--gpu-arch", func(m *mix) string { m.arch = map[string]string{"90": "80", "80": "90"}[m.arch]; return m.arch }},
		{"NVCC_APPEND_FLAGS", func(m *mix) string { return m.variable("NVCC_APPEND_FLAGS", "-lineinfo", "-ftz=true") }},
		{"NVCC_PREPEND_FLAGS", func(m *mix) string { return m.variable("NVCC_PREPEND_FLAGS", "-use_fast_math") }},
		{"a variable of direct", func(m *mix) string { return m.variable("KFLAGS", "-use_fast_math", "-DFOO=3") }},
		{"a variable of helped", func(m *mix) string { return m.variable("HELP_FLAGS", "-use_fast_math", "-DFOO=4") }},
		{"a variable of shelled", func(m *mix) string { return m.variable("SH_FLAGS", "-use_fast_math", "-DFOO=5") }},
		{"a variable of made", func(m *mix) string { return m.variable("MK_FLAGS", "-use_fast_math", "-DFOO=6") }},
		{"a variable of vendored", func(m *mix) string { return m.variable("FOO_DIR", m.dir+"/include/one", m.dir+"/include/two") }},
		{"a header before the toolkit's", func(m *mix) string { return m.variable("CPATH", m.dir+"/shadow") }},
		{"everything of the project replaced by an older version", func(m *mix) string {
			var all []string
			for name, header := range mixed {
				all = append(all, m.edit(header, true))
				if name != "vendored" {
					all = append(all, m.edit(name+"/k.cu", true))
				}
			}
			return strings.Join(all, "; ")
		}},
		{"all sources touched", func(m *mix) string { m.sh("find ws -name 'k.cu*' -exec touch {} +"); return "touched" }},
		{"plain cargo with another toolkit", func(m *mix) string { return m.plain("build", "trees/b") }},
		{"plain cargo with other flags", func(m *mix) string { return m.plain("build", m.tree, "NVCC_APPEND_FLAGS=-G") }},
		{"plain cargo checks, as an editor does", func(m *mix) string {
			return m.plain("check", "trees/b", "CUDA_HOME="+m.dir+
				"/trees/b")
		}},
		{"plain cargo cleans and builds with another toolkit", func(m *mix) string {
			m.sh("rm -rf target/*/build target/*/.fingerprint")
			return m.plain("build", "trees/b", "NVCC_APPEND_FLAGS=-G")
		}},
		{"the stamps lost", func(m *mix) string { m.sh("find target -name " + stale.StampFile + " -delete"); return "" }},
		{"the stamps cut", func(m *mix) string { m.stamps(func(d []byte) []byte { return d[:len(d)/2] }); return "" }},
		{"the stamps of another build", func(m *mix) string {
			m.stamps(func(d []byte) []byte { return bytes.ReplaceAll(d, []byte("sm_90"), []byte("sm_80")) })
			return ""
		}},
		{"gpubuild's cache lost", func(m *mix) string { m.sh("rm -rf cache"); return "" }},
		{"the files in the root of the target directory lost, as in CI", func(m *mix) string {
			m.sh("find target -maxdepth 1 -type " +
				"f -delete")
			return ""
		}},
		{"the target directory copied, with new times", func(m *mix) string {
			m.sh("[ ! -d target ] || { cp -r target t2; rm -rf target; mv t2 target; }")
			return ""
		}},
		{"the target directory from an archive", func(m *mix) string {
			m.sh("[ ! -d target ] || { tar --format=gnu -cf t.tar target; rm -rf target; tar -xf t.tar; rm t.tar; }")
			return ""
		}},
		{"the scripts' directories lost", func(m *mix) string { m.sh("rm -rf target/*/build"); return "" }},
		{"cargo's fingerprints lost", func(m *mix) string {
			m.sh("rm -rf target/*/.fingerprint/*ed-* target/*/.fingerprint/direct-*")
			return ""
		}},
		{"the libraries lost", func(m *mix) string { m.sh("rm -rf target/*/deps/*direct* target/*/deps/*vendored*"); return "" }},
		{"the program lost", func(m *mix) string { m.sh("rm -f target/*/app"); return "" }},
		{"times moved back", func(m *mix) string { m.sh("find target -type f -exec touch -d '2021-01-01' {} +"); return "" }},
		{"another profile", func(m *mix) string {
			if m.profile() == "debug" {
				m.verb = append(slices.Clone(m.verb), "--release")
			} else {
				m.verb = m.verb[:2]
			}
			return strings.Join(m.verb, " ")
		}},
		{"other features", func(m *mix) string {
			m.verb = slices.Clone(m.verb)
			m.verb[1] = map[string]string{"more": "cuda", "cuda": "more"}[m.verb[1]]
			return m.verb[1]
		}},
		{"a build that fails", func(m *mix) string {
			m.sh("cp ws/direct/k.cu keep.cu; echo '#error no' >>ws/direct/k.cu")
			_, code := m.gpubuild("build")
			m.sh("cp keep.cu ws/direct/k.cu")
			return fmt.Sprint("ended with ", code)
		}},
		{"a build that is killed", func(m *mix) string {
			env, flags := m.environment(false)
			words := slices.Concat([]string{"-s", "KILL", fmt.Sprintf("%.2f", 0.3+m.r.Float64()*2), binary(m.t), "build"}, m.verb, flags)
			text, code := m.run("target", env, append([]string{"timeout"}, words...)...)
			return fmt.Sprintf("ended with %d, compiled %q", code, compiled(text))
		}},
		{"gpubuild check", func(m *mix) string { _, code := m.gpubuild("check"); return fmt.Sprint("ended with ", code) }},
		{"gpubuild exec -- cargo build with another toolkit", func(m *mix) string {
			env, _ := m.environment(false)
			text, code := m.run("target", env, slices.Concat([]string{binary(m.t), "exec", "--toolkit=" + m.dir + "/trees/b", "--arch=80",
				"--", "cargo", "build"}, m.verb)...)
			return fmt.Sprintf("ended with %d, compiled %q", code, compiled(text))
		}},
		{"gpubuild stale --clean", func(m *mix) string {
			env, flags := m.environment(false)
			for i := range flags {
				flags[i] = strings.Replace(flags[i], "--gpu-", "--", 1)
			}
			_, code := m.run("target", env, slices.Concat([]string{binary(m.t), "stale", "--clean"}, m.verb, flags)...)
			return fmt.Sprint("ended with ", code)
		}},
	}
	for name, header := range mixed {
		kernel := name + "/k.cu"
		if name == "vendored" {
			kernel = "vendor/vendored/k.cu"
		}
		list = append(list, change{"a header that the script of " + name + " does not declare", func(m *mix) string {
			return m.edit(header, false)
		}})
		if !all && name != "direct" && name != "vendored" {
			continue
		}
		list = append(list,
			change{"the same with an old time: " + name, func(m *mix) string { return m.edit(header, true) }},
			change{"a header without an ending: " + name, func(m *mix) string {
				return m.edit(strings.Replace(kernel, "k.cu", "odd", 1), m.r.IntN(2) == 0)
			}},
			change{"a header that the kernel of " + name + " asks for, there or not", func(m *mix) string {
				file := "ws/" + strings.Replace(kernel, "k.cu", "asked", 1)
				m.sh("[ -e " + file + " ] && rm " + file + " || touch " + file)
				return file
			}},
			change{"the kernel of " + name, func(m *mix) string { return m.edit(kernel, false) }},
			change{"the same with an old time: kernel of " + name, func(m *mix) string { return m.edit(kernel, true) }},
		)
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.story, b.story) })
	return list
}

func (m *mix) named() string {
	if m.tree == "" {
		m.tree = "live"
	}
	return m.how + " names " + m.tree
}

// right builds with gpubuild and compares every byte of device code with a clean build.
func (m *mix) right(story string) (text string) {
	m.t.Helper()
	text, code := m.gpubuild("build")
	if code != 0 {
		m.t.Fatalf("%s: ended with %d\n%s", story, code, text)
	}
	if is, want := timeless(m.prints("target")), timeless(m.clean()); is != want {
		at := 0
		for at < min(len(is), len(want)) && is[at] == want[at] {
			at++
		}
		m.t.Fatalf("%s: not what a clean build has, from byte %d\nis   %.200s\nwant %.200s\n%s", story, at, is[max(0, at-60):],
			want[max(0, at-60):], text)
	}
	return text
}

// fileTimes is where -lineinfo and -G leave when a source was last written, in PTX and in the bytes of a cubin's table (DWARF 2, 6.2.4: a
// name, a directory, a time in LEB128).
var fileTimes = regexp.MustCompile(`(\.file\s+\d+ "[^"]*", )\d+|(46, 99, 117, (?:104, )?0, \d, )(?:(?:12[89]|1[3-9]\d|2\d\d), )*\d+`)

// timeless is device code without these: a file that is written again as it was is no reason to compile it.
func timeless(code string) string { return fileTimes.ReplaceAllString(code, "${1}${2}T") }

// TestTimeless: of two line tables only the time of the file goes (these are of seed 772's round 23).
func TestTimeless(t *testing.T) {
	t.Parallel()
	const table = "100, 105, 114, 0, 0, 107, 46, 99, 117, 0, 1, %s, 165, 2, 0, 0, 9, 2"
	old, now := fmt.Sprintf(table, "128, 194, 175, 240, 5"), fmt.Sprintf(table, "249, 216, 140, 216, 6")
	if a, b := timeless(old), timeless(now); a != b || a != fmt.Sprintf(table, "T") {
		t.Errorf("%s\n%s", a, b)
	}
	if got := timeless("\t.file\t1 \"/w/k.cu\", 1577836800, 165\n"); got != "\t.file\t1 \"/w/k.cu\", T, 165\n" {
		t.Error(got)
	}
}

// inPackage is the package of the mix that a change is made in.
var inPackage = regexp.MustCompile(`\b(direct|helped|shelled|made|vendored)\b`)

// TestStaleChanges makes each change by itself, after a build that was right; the build after it must be, too, and the next have nothing to
// do. A change of the same kind is made in every package at once, unless everything is counted: each package is held to a clean build.
func TestStaleChanges(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	m := newMix(t)
	m.r = rand.New(rand.NewPCG(1, 0))
	m.right("built from nothing")
	// TestKernels makes the first three; of two headers of the toolkit, and of nvcc's two variables, the other one is made here.
	counted := []string{"CUDA_HOME", "another nvcc first on PATH", "nvcc touched", "a header of crt edited", "NVCC_PREPEND_FLAGS"}
	var kinds []string
	of := map[string][]change{}
	for _, c := range changes(need.Full(t)) {
		kind := c.story
		if slices.Contains(counted, kind) && !need.Full(t) {
			continue
		}
		if !need.Full(t) {
			kind = inPackage.ReplaceAllString(c.story, "a package")
		}
		if of[kind] == nil {
			kinds = append(kinds, kind)
		}
		of[kind] = append(of[kind], c)
	}
	more := func(kind string) bool { // the three packages that take time and show no more
		return slices.ContainsFunc(of[kind], func(c change) bool {
			in := inPackage.FindString(c.story)
			return in != "" && in != "direct" && in != "vendored"
		})
	}
	slices.SortStableFunc(kinds, func(a, b string) int { return cmp.Compare(fmt.Sprint(more(a)), fmt.Sprint(more(b))) })
	state := func() string { return fmt.Sprint(m.vars, m.flags, m.how, m.tree, m.arch, m.verb) }
	settled := "" // what the build was asked for that was last seen to have nothing to do
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			whole := m.t
			m.t = t
			defer func() { m.t = whole }()
			m.reset()
			if more(kind) {
				m.verb[1] = "more"
			}
			if m.dirty {
				m.trees()
				settled = ""
			}
			if state() != settled {
				m.right("before")
				m.gpubuild("build") // with nothing to do: the next one looks whether anything has changed, and at nothing else
			}
			settled = ""
			var did []string
			for _, c := range of[kind] {
				did = append(did, c.do(m))
			}
			was := strings.Join(did, "; ")
			m.right(was)
			if kind == "a build that fails" { // its list of what nvcc read stays where the script does not call nvcc again: one more rebuild
				m.gpubuild("build")
			}
			if text, _ := m.gpubuild("build"); didClean(text) || len(compiled(text)) > 0 {
				t.Errorf("%s: and again: something was done\n%s", was, text)
			} else {
				settled = state()
			}
		})
	}
}

// TestStaleRandom makes changes by lot and holds each build to a clean one, byte by byte. GPUBUILD_TEST=random=N sets how many, seed=N
// which.
func TestStaleRandom(t *testing.T) {
	t.Parallel()
	n := need.Count(t, "random", 6)
	m := newMix(t)
	r, seed := lots(t)
	m.r = r
	all, seen, began := changes(true), map[string]bool{}, time.Now()
	m.right("built from nothing")
	for i := range n {
		var did []string
		for range 1 + r.IntN(3) {
			c := all[r.IntN(len(all))]
			seen[c.story] = true
			did = append(did, c.story+": "+c.do(m))
		}
		if m.dirty && r.IntN(6) == 0 {
			m.trees()
			did = append(did, "the toolkits as they were")
		}
		story := fmt.Sprintf("seed %d, round %d: %s; then %s for sm_%s, %v %v", seed, i, strings.Join(did, "; "), m.named(), m.arch, m.vars,
			m.verb)
		text := m.right(story)
		t.Logf("%s: compiled %q", story, compiled(text))
	}
	t.Logf("%d rounds, seed %d, %d of %d kinds, %v", n, seed, len(seen), len(all), time.Since(began).Round(time.Second))
}
