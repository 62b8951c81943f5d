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

// The parts of a build script that compiles the sample's kernel by whatever PROGRAM is, and declares what real ones do: not PATH, not nvcc.
const (
	scriptHead = `use std::{env, path::PathBuf, process::Command};
`
	scriptDeclares = `    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/matmul.cu");
    println!("cargo:rerun-if-env-changed=CUDA_COMPUTE_CAP");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() { return; }
`
	scriptCompile = `pub fn compile() {
    let (out, cap) = (PathBuf::from(env::var_os("OUT_DIR").unwrap()), env::var("CUDA_COMPUTE_CAP").unwrap());
    for (to, arch, file) in [("-fatbin", "sm_", "matmul.fatbin"), ("-ptx", "compute_", "matmul.ptx")] {
        let done = Command::new(PROGRAM).args([to, &format!("-arch={arch}{cap}"), "src/matmul.cu", "-o"]).arg(out.join(file)).status();
        assert!(done.unwrap().success());
    }
}
`
	scriptMakes = `    for to in ["fatbin", "ptx"] {
        assert!(Command::new(RUN).arg(to).status().unwrap().success());
    }
`
)

func compileBy(program string) string { return strings.Replace(scriptCompile, "PROGRAM", program, 1) }

// TestNvccOutOfSight has nvcc called by what a build script calls, in each way in which that is done. Another toolkit must be known before
// the build where the sources show it, and by the device code itself where they do not.
func TestNvccOutOfSight(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	manifest, err := os.ReadFile(filepath.Join(b.dir, "Cargo.toml"))
	if err != nil {
		t.Fatal(err)
	}
	helper := "[package]\nname = \"kernel-build\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"
	uses := "[build-dependencies]\nkernel-build = { path = \"kernel-build\" }\n"
	composed := "fn program() -> String { [\"nv\", \"cc\"].concat() }\n"
	for _, tt := range []struct {
		story, manifest string
		files           map[string]string
		seen            string // how another toolkit is told
		rebuilt         string
		cleans          int
	}{
		{"a module of the script", "", map[string]string{
			"build.rs": scriptHead + "#[path = \"build/cuda.rs\"]\nmod cuda;\nfn main() {\n" + scriptDeclares +
				"    let _ = (PathBuf::new(), Command::new(\"\"));\n    cuda::compile();\n}\n",
			"build/cuda.rs":    scriptHead + "mod program;\n" + compileBy("program::NAME"),
			"build/program.rs": "pub const NAME: &str = \"nvcc\";\n",
		}, "Stale nvcc ", "cudarc matmul", 1},
		{"a helper crate of the workspace", uses, map[string]string{
			"build.rs":                    "use std::env;\nfn main() {\n" + scriptDeclares + "    kernel_build::compile();\n}\n",
			"kernel-build/Cargo.toml":     helper,
			"kernel-build/src/lib.rs":     "mod kernels;\npub use kernels::compile;\n",
			"kernel-build/src/kernels.rs": scriptHead + compileBy(`"nvcc"`),
		}, "Stale nvcc ", "cudarc matmul", 1},
		{"make", "", map[string]string{
			"build.rs": scriptHead + "fn main() {\n" + scriptDeclares + strings.Replace(scriptMakes, "RUN", `"make"`, 1) +
				"    let _ = PathBuf::new();\n}\n",
			"Makefile": "fatbin:\n\tnvcc -fatbin -arch=sm_$(CUDA_COMPUTE_CAP) -o $(OUT_DIR)/matmul.fatbin src/matmul.cu\nptx:\n\tnvcc " +
				"-ptx -arch=compute_$(CUDA_COMPUTE_CAP) -o $(OUT_DIR)/matmul.ptx src/matmul.cu\n",
		}, "Stale nvcc ", "cudarc matmul", 1},
		{"a shell script", "", map[string]string{
			"build.rs": scriptHead + "fn main() {\n" + scriptDeclares + strings.Replace(scriptMakes, "RUN", `"tools/kernels.sh"`,
				1) + "    let _ = PathBuf::new();\n}\n",
			"tools/kernels.sh": "#!/bin/sh -e\ncase $1 in fatbin) arch=sm_;; *) arch=compute_;; esac\nexec nvcc -$1 " +
				"-arch=$arch$CUDA_COMPUTE_CAP -o $OUT_DIR/matmul.$1 src/matmul.cu\n",
		}, "Stale nvcc ", "cudarc matmul", 1},
		{"a name that nobody can read, beside a package of which it is known", "[dependencies.known]\npath = \"known\"\n",
			map[string]string{
				"build.rs": scriptHead + "fn main() {\n" + scriptDeclares + "    compile();\n}\n" +
					composed + compileBy("program()"),
				"known/Cargo.toml": strings.Replace(helper, "kernel-build", "known", 1) + "[features]\ncuda = []\ndefault = [\"cuda\"]\n",
				"known/src/lib.rs": "", "known/src/matmul.cu": "extern \"C\" __global__ void known(float *x) { x[threadIdx.x] *= 2; }\n",
				"known/build.rs": scriptHead + "fn main() {\n" + scriptDeclares + "    compile();\n}\n" + compileBy(`"nvcc"`),
			}, "Stale nvcc ", "known cudarc matmul", 1},
	} {
		if tt.story == "a shell script" && !need.Full(t) { // make runs one
			continue
		}
		t.Run(tt.story, func(t *testing.T) {
			b := *b
			b.t = t
			if err := os.RemoveAll(filepath.Join(b.dir, "target")); err != nil {
				t.Fatal(err)
			}
			b.write("Cargo.toml", []byte(string(manifest)+tt.manifest))
			for file, text := range tt.files {
				b.write(file, []byte(text))
			}
			if path := filepath.Join(b.dir, "tools", "kernels.sh"); exists(path) {
				if err := os.Chmod(path, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			b.ends("built from nothing", b.first, "sm_90", 0, 0)
			b.holds("built from nothing", b.first, "sm_90")
			text, code := b.says("stale", "--features", "cuda", "--toolkit="+b.other, "--arch=sm_90")
			b.said("gpubuild stale for another toolkit", text, code, 13, 0, "matmul")
			text = b.ends("another toolkit", b.other, "sm_90", 0, tt.cleans, tt.seen)
			b.rebuilt("another toolkit", text, strings.Fields(tt.rebuilt)...)
			b.holds("another toolkit", b.other, "sm_90")
			b.rebuilt("once more", b.ends("once more", b.other, "sm_90", 0, 0, "!Stale", "!Wrong"))
			text, code = b.says("stale", "--features", "cuda", "--toolkit="+b.other, "--arch=sm_90")
			b.said("gpubuild stale once more", text, code, 0, 0, "!Stale")
			if tt.story == "make" || need.Full(t) {
				b.ends("and back", b.first, "sm_90", 0, tt.cleans, tt.seen)
				b.holds("and back", b.first, "sm_90")
			}
		})
	}

	// A helper crate serves packages that compile nothing, too, and kernels that came compiled were made by whoever made them.
	t.Run("compiled by somebody else", func(t *testing.T) {
		b := *b
		b.t = t
		if err := os.RemoveAll(filepath.Join(b.dir, "target")); err != nil {
			t.Fatal(err)
		}
		b.write("Cargo.toml", []byte(string(manifest)+uses))
		b.write("kernel-build/Cargo.toml", []byte(helper))
		b.write("kernel-build/src/lib.rs", []byte(scriptHead+compileBy(`"nvcc"`)+"pub fn copy(from: &str) {\n    let out = "+
			"PathBuf::from(env::var_os(\"OUT_DIR\").unwrap());\n"+
			"    for file in [\"matmul.fatbin\", \"matmul.ptx\"] { std::fs::copy(PathBuf::from(from).join(file), "+
			"out.join(file)).unwrap(); }\n}\n"))
		copied := func(from string) {
			b.write("build.rs", []byte("use std::env;\nfn main() {\n"+scriptDeclares+"    kernel_build::copy(\""+from+"\");\n}\n"))
		}
		for _, dir := range []string{"shipped", "../elsewhere"} {
			if err := os.MkdirAll(filepath.Join(b.dir, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, words := range [][]string{{"-fatbin", "-arch=sm_90", "matmul.fatbin"}, {"-ptx", "-arch=compute_90", "matmul.ptx"}} {
				b.must(exec.Command(filepath.Join(b.other, "bin", "nvcc"), words[0], words[1], "-o", filepath.Join(b.dir, dir, words[2]),
					filepath.Join(b.dir, "src", "matmul.cu")))
			}
		}
		copied("shipped")
		b.ends("shipped with the package", b.first, "sm_90", 0, 0, "!Wrong", "!Stale")
		b.rebuilt("once more", b.ends("once more", b.first, "sm_90", 0, 0, "!Wrong", "!Stale"))
		text, code := b.says("stale", "--features", "cuda", "--toolkit="+b.first, "--arch=sm_90")
		b.said("gpubuild stale of what was shipped", text, code, 0, 0, "!Stale")

		// From elsewhere, and the source is not the user's. It is in the sample, so it goes, which is a change of the package's kernels.
		copied("../elsewhere")
		b.remove("src/matmul.cu")
		b.ends("fetched from elsewhere", b.first, "sm_90", 0, 1, "!Wrong", "src/matmul.cu is gone")
	})
}

// TestHostCompilerOutOfSight has a script of which nobody can read that it runs nvcc, and a kernel that holds what only the host compiler
// and a header of the toolkit tell it. Neither leaves a signature in device code.
func TestHostCompilerOutOfSight(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	compilers := []string{"g++-11", "g++-12"}
	for _, name := range compilers {
		need.Program(t, "gxx", name)
	}
	root := filepath.Join(filepath.Dir(b.dir), "cuda")
	b.must(exec.Command("sh", "-c", copyToolkit(b.first, root)))
	b.write("build.rs", []byte(scriptHead+"fn main() {\n"+scriptDeclares+"    compile();\n}\nfn program() -> String { [\"nv\", "+
		"\"cc\"].concat() }\n"+compileBy("program()")))
	kernel, err := os.ReadFile(filepath.Join(b.dir, "src", "matmul.cu"))
	if err != nil {
		t.Fatal(err)
	}
	b.write("src/matmul.cu", append(kernel, "\n#ifndef TOLD\n#define TOLD 1\n#endif\nextern \"C\" __global__ void seen(int *x) { x[0] = "+
		"1000 * __GNUC__ + TOLD; }\n"...))
	holds := func(story, want string) {
		t.Helper()
		ptx, err := os.ReadFile(filepath.Join(b.outDir(), "matmul.ptx"))
		if err != nil || !strings.Contains(string(ptx), want) {
			t.Errorf("%s: the kernel does not hold %s (%v)\n%s", story, want, err, ptx)
		}
	}
	by := func(compiler string) { b.env = append(b.env, "NVCC_CCBIN="+compiler) }
	by(compilers[1])
	b.ends("built from nothing", root, "sm_90", 0, 0, "!Stale")
	holds("built from nothing", "12001")
	b.rebuilt("nothing changed", b.ends("nothing changed", root, "sm_90", 0, 0, "!Stale"))

	by(compilers[0])
	b.rebuilt("plain cargo and another host compiler",
		b.must(b.command([]string{"CUDA_COMPUTE_CAP=90", "PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")}, "cargo", "build",
			"--features", "cuda")), "cudarc", "matmul") // without the toolkit's root, which both declare
	holds("plain cargo is fooled", "12001")
	text, code := b.asks(root, "sm_90")
	b.said("gpubuild stale for another host compiler", text, code, 13, 0, "host compiler 12", "→ 11", ": matmul")
	b.rebuilt("another host compiler", b.ends("another host compiler", root, "sm_90", 0, 1, "Stale host compiler"), "cudarc", "matmul")
	holds("another host compiler", "11001")

	header := filepath.Join(root, "include", "cuda_runtime.h")
	old, err := os.ReadFile(header)
	if err == nil {
		err = os.Remove(header) // it may be a link to the toolkit's own
	}
	if err == nil {
		err = os.WriteFile(header, append(old, "\n#define TOLD 7\n"...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.rebuilt("a changed header", b.ends("a changed header", root, "sm_90", 0, 1, "Stale cuda_runtime.h"), "matmul")
	holds("a changed header", "11007")
	b.rebuilt("nothing changed since", b.ends("nothing changed since", root, "sm_90", 0, 0, "!Stale"))
}

// TestCPUBuildFirst has plain cargo build without the feature, with another one, and gpubuild then with it: what the CPU build left is not
// what the GPU build takes, so nothing is cleaned, and both stay.
func TestCPUBuildFirst(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	cpu := func(story string, want ...string) {
		t.Helper()
		text, err := b.command(nil, "cargo", "build").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		b.rebuilt(story, string(text), want...)
	}
	cpu("the CPU build", "matmul")
	text, code := b.says("stale", "--features", "cuda", "--toolkit="+b.first, "--arch=sm_90")
	b.said("gpubuild stale after the CPU build", text, code, 0, 0, "no GPU package has been built with these features: matmul")
	b.ends("the feature on", b.first, "sm_90", 0, 0, "!Unknown", "!Stale")
	b.holds("the feature on", b.first, "sm_90")
	cpu("the CPU build once more")
	b.rebuilt("to and fro", b.ends("to and fro", b.first, "sm_90", 0, 0, "!Unknown", "!Stale"))

	// A build of plain cargo with the feature, and nothing recorded: both are looked at, and the one that cargo takes is what decides.
	b.unstamp()
	b.ends("the stamps lost, another toolkit", b.other, "sm_90", 0, 1, "Unknown matmul")
	b.holds("the stamps lost, another toolkit", b.other, "sm_90")
}
