//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// kinds is a package whose build script declares next to nothing, or nothing, and whose kernel reads files of every kind.
type kinds struct {
	t                 *testing.T
	top, dir, toolkit string
	env               []string
}

const kindsScript = `use std::{env, path::Path, process::Command};
fn main() {
    DECLARE
    let out = Path::new(&env::var("OUT_DIR").unwrap()).join("k.ptx");
    let flags = env::var("CARGO_KERNEL_FLAGS").unwrap_or_default();
    let number = env::var("KERN_VALUES").map(|f| std::fs::read_to_string(f).unwrap()).unwrap_or("7".into());
    assert!(Command::new("nvcc").args(["-ptx", "-arch=compute_90", "-I..", "k.cu", "-o"]).arg(&out).args(flags.split_whitespace())
        .arg(format!("-DVALUES={}", number.trim())).status().unwrap().success());
}
`

func newKinds(t *testing.T, declare string) *kinds {
	t.Helper()
	root := need.Toolkits(t, 1)[0]
	top := t.TempDir()
	k := &kinds{t: t, top: top, dir: filepath.Join(top, "ws"), toolkit: filepath.Join(top, "toolkit")}
	succeeds(t, exec.Command("sh", "-ec", copyToolkit(root, k.toolkit)))
	source := "#include <mylib/a.h>\n#include \"gen/g.h\"\n#include \"kern/node_modules/n.h\"\n#include \"part.rs\"\n#include \"part.txt\"\n" +
		"#include \"odd.ending\"\n#include \"nested/n.cu\"\n#include \"ignored.cu\"\n#if __has_include(\"later\")\n#define LATER 1\n#else\n#define LATER 0\n" +
		"#endif\n#ifndef FLAG\n#define FLAG 0\n#endif\nextern \"C\" __global__ void k(int *x) { *x = A + G + N + R + T + O + NESTED + IGNORED + LATER + FLAG + " +
		"VALUES * 1000; }\n"
	writeFiles(t, top, map[string]string{
		"ws/Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = [\"dep:kern\"]\n[dependencies]\n" +
			"kern = { path = \"kern\", optional = true }\n[workspace]\nmembers = [\"kern\"]\nexclude = [\"kern/nested\"]\n",
		"ws/src/main.rs": "fn main() { #[cfg(feature = \"cuda\")] print!(\"{}\", kern::PTX); }\n",
		"ws/kern/Cargo.toml": "[package]\nname = \"kern\"\nversion = \"0.1.0\"\nedition = \"2021\"\n" +
			"exclude = [\"part.txt\"]\n",
		"ws/kern/build.rs":   strings.Replace(kindsScript, "DECLARE", declare, 1),
		"ws/kern/src/lib.rs": "pub const PTX: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/k.ptx\"));\n",
		"ws/kern/k.cu":       source, "ws/kern/part.rs": "#define R 1\n", "ws/kern/part.txt": "#define T 1\n", "ws/kern/odd.ending": "#define O 1\n",
		"ws/kern/node_modules/n.h": "#define N 1\n", "ws/gen/g.h": "#define G 1\n", "toolkit/include/mylib/a.h": "#define A 1\n",
		"ws/kern/nested/Cargo.toml": "[package]\nname = \"nested\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "ws/kern/nested/src/lib.rs": "",
		"ws/kern/nested/n.cu": "#define NESTED 1\n", "ws/kern/ignored.cu": "#define IGNORED 1\n", "ws/.gitignore": "ignored.cu\ntarget\n",
		"values": "3\n", "other": "",
	})
	k.env = []string{"KERN_VALUES=" + filepath.Join(top, "values")}
	return k
}

func (k *kinds) run(target string, words ...string) string {
	k.t.Helper()
	c := exec.Command(words[0], words[1:]...)
	c.Dir = k.dir
	c.Env = append(withoutToolkit(), "PATH="+filepath.Join(k.toolkit, "bin")+":"+os.Getenv("PATH"), "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never",
		"CARGO_TARGET_DIR="+filepath.Join(k.top, target), "GPUBUILD_CACHE="+filepath.Join(k.top, "cache"), "CUDA_COMPUTE_CAP=90")
	c.Env = append(c.Env, k.env...)
	out, err := c.CombinedOutput()
	if err != nil {
		k.t.Fatalf("%v: %v\n%s", words, err, out)
	}
	return string(out)
}

func (k *kinds) gpubuild() string {
	k.t.Helper()
	return k.run("ours", binary(k.t), "build", "--features", "cuda")
}

// TestStaleKinds: a change of any file or variable of which the kernel is made is seen, by bytes against a clean build, and a file that nobody
// reads compiles nothing.
func TestStaleKinds(t *testing.T) {
	t.Parallel()
	need.Toolkit(t)
	for name, declare := range map[string]string{"declares": `println!("cargo:rerun-if-changed=build.rs");`, "declares nothing": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKinds(t, declare)
			k.gpubuild()
			edit := func(file, define string) func() {
				return func() { writeFiles(t, k.top, map[string]string{file: "#define " + define + " 2\n"}) }
			}
			for _, c := range []struct {
				story string
				do    func()
			}{
				{"a header in the toolkit that is not CUDA's", edit("toolkit/include/mylib/a.h", "A")},
				{"a generated header outside of the package", edit("ws/gen/g.h", "G")},
				{"in node_modules", edit("ws/kern/node_modules/n.h", "N")},
				{"a .rs", edit("ws/kern/part.rs", "R")}, {"an excluded .txt", edit("ws/kern/part.txt", "T")},
				{"an odd ending", edit("ws/kern/odd.ending", "O")}, {"below a nested Cargo.toml", edit("ws/kern/nested/n.cu", "NESTED")},
				{"one that git ignores", edit("ws/kern/ignored.cu", "IGNORED")},
				{"a file that was asked for is there", edit("ws/kern/later", "X")},
				{"a file that a variable names", func() { writeFiles(t, k.top, map[string]string{"values": "4\n"}) }},
				{"a variable that begins with CARGO_", func() { k.env = append(k.env, "CARGO_KERNEL_FLAGS=-DFLAG=5") }},
			} {
				c.do()
				text := k.gpubuild()
				noError(t, os.RemoveAll(filepath.Join(k.top, "clean")))
				k.run("clean", "cargo", "build", "--features", "cuda")
				if is, want := k.run("x", filepath.Join(k.top, "ours/debug/app")), k.run("x", filepath.Join(k.top, "clean/debug/app")); is != want {
					t.Errorf("%s: not what a clean build has\n%s", c.story, text)
				}
				if text := k.gpubuild(); len(compiled(text)) > 0 || didClean(text) {
					t.Errorf("%s: and again\n%s", c.story, text)
				}
			}
			if declare == "" {
				return // cargo watches every file of the package
			}
			writeFiles(t, k.dir, map[string]string{"kern/deploy.sh": "#", "kern/docs/a.h": "//", "kern/x.sh": "echo", "kern/notes.md": "x"})
			if text := k.gpubuild(); len(compiled(text)) > 0 || didClean(text) {
				t.Errorf("files that nobody reads\n%s", text)
			}
		})
	}
}
