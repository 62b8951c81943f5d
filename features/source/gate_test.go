package source

import (
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features/manifest"
)

// TestTestsOf: where a package's own text tests a feature: its code, its tests, or its build script.
func TestTestsOf(t *testing.T) {
	t.Parallel()
	const gate = "#[cfg(feature = \"cuda\")]\nfn f() {}\n"
	for _, tt := range []struct {
		story string
		files map[string]string // below /w/p
		want  string            // code | tests | script
	}{
		{"nothing", map[string]string{"src/lib.rs": "fn f() {}"}, " |  | "},
		{"its code, on the second line", map[string]string{"src/lib.rs": "\n" + gate}, "src/lib.rs:2 |  | "},
		{"code in a directory", map[string]string{"src/a/b.rs": gate, "src/lib.rs": "mod a;"}, "src/a/b.rs:1 |  | "},
		{"another feature", map[string]string{"src/lib.rs": strings.ReplaceAll(gate, "cuda", "cuda2")}, " |  | "},
		{"a word that is no test of it", map[string]string{"src/lib.rs": "const A: &str = \"cuda\"; // feature"}, " |  | "},
		{"tests, benchmarks, examples", map[string]string{"tests/t.rs": gate, "benches/b.rs": gate, "examples/e/main.rs": gate}, " | benches/b.rs:1 examples/e/main.rs:1 tests/t.rs:1 | "},
		{"both", map[string]string{"src/lib.rs": gate, "tests/t.rs": gate}, "src/lib.rs:1 | tests/t.rs:1 | "},
		{"a package below it", map[string]string{"sub/Cargo.toml": "[package]", "sub/src/lib.rs": gate}, " |  | "},
		{"what was built, and what is hidden", map[string]string{"target/x.rs": gate, ".git/x.rs": gate}, " |  | "},
		{"no Rust", map[string]string{"src/a.txt": gate}, " |  | "},
		{"the build script, by its variable", map[string]string{"build.rs": `fn main() { env::var("CARGO_FEATURE_CUDA") }`}, " |  | build.rs"},
		{"the build script, by a condition", map[string]string{"build.rs": "fn main() { " + gate + " }"}, " |  | build.rs"},
		{"a module of it", map[string]string{"build.rs": "mod m;", "m.rs": gate}, " |  | m.rs"},
		{"by a name that it puts together", map[string]string{"build.rs": `fn main() { env::var(format!("CARGO_FEATURE_{f}")) }`}, " |  | build.rs"},
		{"another variable", map[string]string{"build.rs": `fn main() { env::var("CARGO_FEATURE_CUDA_12") }`}, " |  | "},
	} {
		files := map[string]string{"/w/p/Cargo.toml": "[package]\nname = \"p\"\n[features]\ncuda = []\n"}
		for name, text := range tt.files {
			files["/w/p/"+name] = text
		}
		h := hosttest.Memory(files)
		project := hosttest.Must(manifest.Load(h, "/w/p/Cargo.toml"))
		p := project.Selected
		r := NewReader(h, "/w")
		var got string
		for range 2 { // the second answer is kept
			is := r.TestsOf(p, "cuda")
			places := func(list []Place) string {
				var out []string
				for _, at := range list {
					out = append(out, fmt.Sprintf("%s:%d", at.File, at.Line))
				}
				return strings.Join(out, " ")
			}
			got = places(is.Code) + " | " + places(is.Tests) + " | " + is.Script
			hosttest.Equal(t, got, tt.want, tt.story)
		}
	}
}

// TestTexts: what single texts of build scripts show.
func TestTexts(t *testing.T) {
	t.Parallel()
	const cmake = "cmake::Config::new(\".\")"
	for _, tt := range []struct {
		text string
		want string
	}{
		{"fn main() {}", ""}, {`run("nvcc")`, "nvcc"}, {`env("NVCC")`, "nvcc"}, {"cuda(true)", "cc"}, {"cuda(false)", ""}, {`run("hipcc")`, "hipcc"}, {`env("HIPCC")`, "hipcc"},
		{`println!("cargo:rustc-link-lib=cudart")`, "links"}, {`println!("cargo:rustc-link-lib=dylib=cuda")`, "links"}, {`println!("cargo:rustc-link-lib=cublas")`, "links"},
		{`format!("cargo:rustc-link-lib={}", "cudart")`, "links"}, {`format!("cargo:rustc-link-lib={}", "cublas")`, "links"}, {"rustc-link-lib={} CUDNN_LIB_DIR", "links lib dir"}, {"CUDNN_LIB_DIR", "lib dir"}, {"MY_CUDNN_LIB_DIR", ""}, {`"cudart"`, ""}, {"rustc-link-lib=z", ""},
		{cmake + `.define("GGML_CUDA", "ON")`, "cmake leads"}, {cmake + `.define("GGML_CUDA", "OFF")`, "leads"}, {cmake + `.define("GGML_CUDA", "off").define("X_CUDA", "ON")`, "cmake leads"},
		{cmake + `.cuda()`, "cmake leads"}, {cmake, "leads"}, {`.define("GGML_CUDA", "ON")`, ""}, {cmake + `.arg("-DUSE_CUDA=0")`, "leads"}, {cmake + `.arg("-DUSE_CUDA=1")`, "cmake leads"},
		{`Command::new("make")`, "leads"}, {`Command::new("sh")`, "leads"}, {`"k.py"`, "leads"}, {`"made"`, ""},
	} {
		var got []string
		for _, is := range []struct {
			name string
			is   bool
		}{{"nvcc", NamesNvcc(tt.text)}, {"cc", CompilesByCC(tt.text)}, {"hipcc", NamesHipcc(tt.text)}, {"cmake", CMakeCUDA(tt.text)}, {"links", LinksCUDA(tt.text)},
			{"lib dir", NamesLibDir(tt.text)}, {"leads", LeadsOn(tt.text)}} {
			if is.is {
				got = append(got, is.name)
			}
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, text, tt.want)
		}
	}
	const list = `match v { "11.8" => (11, 8), "12.10" => (12, 10), "12.9" => (12, 9), v => panic!("Unsupported cuda toolkit version: {v}") }`
	for text, want := range map[string]string{list: "12.10", strings.ReplaceAll(list, "Unsupported", "unknown"): "unknown", "Unsupported cuda toolkit version": "unknown"} {
		if got := NewestKnown(text); got.String() != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	for word, want := range map[string]string{"-Ia/b": "a/b", "-La": "a", "-isystema": "a", "a-I": "a-I", "-iquotex": "x"} {
		hosttest.Equal(t, WithoutFlag(word), want, word)
	}
}

// TestUnchanging: what packages of the system or cargo replace as a whole, and what a user may change.
func TestUnchanging(t *testing.T) {
	t.Parallel()
	linux := hosttest.Memory(nil)
	linux.Env = buildenv.NewEnv(buildenv.Linux, nil)
	windows := buildenv.Host{OS: buildenv.Windows, Env: buildenv.NewEnv(buildenv.Windows, []string{`SystemRoot=C:\Windows`, `ProgramFiles=C:\Program Files`, `CARGO_HOME=C:\c`})}
	for _, tt := range []struct {
		h    buildenv.Host
		path string
		want bool
	}{
		{linux, "/usr/bin/python3", true}, {linux, "/usr/binary/x", false}, {linux, "/usr/local/bin/x", false}, {linux, "/usr/src/app", false}, {linux, "/etc/os-release", true},
		{linux, "/home/u/.cargo/registry/src/a/x-1", true}, {linux, "/home/u/.cargo/git/checkouts/x", true}, {linux, "/home/u/.cargo/bin/x", false}, {linux, "/w/vendor/x", false},
		{windows, `C:\Windows\System32\cmd.exe`, true}, {windows, `C:\w\x`, false}, {windows, `C:\Program Files\Git\bin\sh.exe`, true}, {windows, `C:\c\registry\src\x`, true},
	} {
		hosttest.Equal(t, Unchanging(tt.h, tt.path), tt.want, tt.path)
	}
}
