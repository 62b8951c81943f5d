//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/stale"
)

// twofold is kern with its crate built twice: for the program, and for the program's own build script with other features.
func twofold(inside, outside string) map[string]string {
	files := kern("app")
	files["Cargo.toml"] = strings.NewReplacer("app-sys = { path = \"sys\", optional = true }\n",
		"app-sys = { path = \"sys\", optional = true, features = ["+inside+"] }\n",
		"[workspace]", "[build-dependencies]\napp-sys = { path = \"sys\", features = ["+outside+
			"] }\n[workspace]\nresolver = \"2\"").Replace(files["Cargo.toml"])
	files["build.rs"] = "fn main() { println!(\"cargo::rerun-if-changed=build.rs\"); }\n"
	files["sys/Cargo.toml"] += "[features]\ncuda = []\ninside = []\noutside = []\n"
	files["sys/build.rs"] = strings.Replace(files["sys/build.rs"], "    let cap =",
		`    let on = ["CUDA", "INSIDE", "OUTSIDE"].iter()
        .filter(|f| env::var_os(format!("CARGO_FEATURE_{f}")).is_some()).map(|f| f.to_lowercase());
    std::fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join("on"), on.collect::<Vec<_>>().join(",")).unwrap();
    let cap =`, 1)
	return files
}

// recorded lists what the stamps of a package say: the feature sets by OUT_DIR.
func (s *shared) recorded(pkg string) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"debug/build/" + pkg + "-*", "*/debug/build/" + pkg + "-*", "debug/build/" + pkg + "/*"} {
		list, err := filepath.Glob(filepath.Join(s.dir, "target", pattern, stale.StampFile))
		noError(s.t, err)
		for _, path := range list {
			data, err := os.ReadFile(path)
			noError(s.t, err)
			stamp, err := stale.Decode(data)
			if err != nil {
				s.t.Fatalf("%s: %v\n%s", path, err, data)
			}
			out[filepath.Join(filepath.Dir(path), "out")] = strings.Join(stamp.Features, " or ")
		}
	}
	return out
}

// TestPackageBuiltTwice has a GPU package built for a build script and for the program with features of each's own, which cargo's messages
// do not tell apart. Each OUT_DIR must be recorded with the features that its script saw.
func TestPackageBuiltTwice(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	triple := host(t)
	for _, tt := range []struct{ story, toolchain, flag string }{
		{"in the host's tree", "", ""},
		{"for a platform", "", "--target=" + triple},
		{"in the layout of cargo 1.100", "+nightly", "-Zbuild-dir-new-layout"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			if tt.toolchain != "" {
				need.Asked(t, "nightly")
			}
			if out, _ := exec.Command("cargo", "+nightly", "-Z", "help").Output(); tt.toolchain != "" &&
				!strings.Contains(string(out), "build-dir-new-layout") {
				need.Missing(t, "nightly", "none that knows the new layout")
			}
			s := newShared(t)
			writeFiles(t, s.dir, twofold(`"cuda", "inside"`, `"cuda", "outside"`))
			var how []string
			for _, w := range []string{tt.toolchain, tt.flag} {
				if w != "" {
					how = append(how, w)
				}
			}
			check := func(story string) {
				t.Helper()
				if got := s.recorded("app-sys"); len(got) != 2 {
					t.Errorf("%s: stamps %q, want one for each script", story, got)
				}
			}
			s.build(s.a, "sm_90", how...)
			check("built from nothing")
			s.compiled("nothing changed", s.build(s.a, "sm_90", how...), "")
			if text := s.build(s.b, "sm_90", how...); !strings.Contains(text, "nvcc 13.3.33 → 13.4.92: app, app-sys\n") { // app has a build script, too
				t.Errorf("another toolkit: no reason was said\n%s", text)
			}
			check("another toolkit")
			s.compiled("and then nothing", s.build(s.b, "sm_90", how...), "")
		})
	}

	// One of the two is built for the CPU.
	t.Run("one of them for the CPU", func(t *testing.T) {
		s := newShared(t)
		files := twofold(`"cuda"`, ``)
		files["sys/build.rs"] = strings.Replace(files["sys/build.rs"], "    let cap =",
			"    if env::var_os(\"CARGO_FEATURE_CUDA\").is_none() { return; }\n    let cap =", 1)
		files["sys/src/lib.rs"] = "#[cfg(feature = \"cuda\")] " + files["sys/src/lib.rs"]
		writeFiles(t, s.dir, files)
		s.build(s.a, "sm_90")
		s.build(s.b, "sm_90")
		s.holds("another toolkit", "app/target/debug/app", second, "sm_90")
	})
}

// TestCudarcBuiltTwice has the real cudarc ask nvcc for its version where a build script depends on it, and link CUDA's libraries where the
// program does. What the toolkit is to one is nothing to the other, and another nvcc must reach the one that asked.
func TestCudarcBuiltTwice(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	from := filepath.Join(repository, "testdata", "matmul")
	need.Crates(t, from)
	lock, err := os.ReadFile(filepath.Join(from, "Cargo.lock"))
	noError(t, err)
	const asks, links = `["std", "driver", "dynamic-loading", "cuda-version-from-build-system"]`,
		`["std", "driver", "dynamic-linking", "cuda-13030"]`
	s := newShared(t)
	s.dir = filepath.Join(s.top, "twice")
	writeFiles(t, s.dir, map[string]string{
		"Cargo.lock": string(lock), "src/lib.rs": "", "build.rs": "fn main() { println!(\"cargo::rerun-if-changed=build.rs\"); }\n",
		"Cargo.toml": "[package]\nname = \"matmul\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = [\"dep:cudarc\"]\n" +
			"[workspace]\nresolver = \"2\"\n[profile.dev]\ndebug = false\n" +
			"[dependencies]\ncudarc = { version = \"=0.19.10\", optional = true, default-features = false, features = " + links + " }\n" +
			"[build-dependencies]\ncudarc = { version = \"=0.19.10\", optional = true, default-features = false, features = " + asks +
			" }\n",
	})
	told := func(story, want string) {
		t.Helper()
		outputs, err := filepath.Glob(filepath.Join(s.dir, "target", "debug", "build", "cudarc-*", "output"))
		if err != nil || len(outputs) != 2 {
			t.Fatalf("%s: cudarc's script ran %d times: %v", story, len(outputs), err)
		}
		var all string
		for _, path := range outputs {
			text, err := os.ReadFile(path)
			noError(t, err)
			all += string(text)
		}
		if !strings.Contains(all, `feature="`+want+`"`) {
			t.Errorf("%s: cudarc was not told %s:\n%s", story, want, all)
		}
	}
	// Where nothing else says which toolkit, its directory is in no variable that the script declares: cargo itself sees no difference.
	s.build(s.a, "sm_90")
	told("built from nothing", "cuda-13030")
	s.compiled("nothing changed", s.build(s.a, "sm_90"), "")
	noError(t, os.RemoveAll(s.a))
	standinToolkit(t, s.a, second)
	s.stale("the toolkit replaced in its place", s.a, 13, "CUDA headers 13.3 → 13.4: cudarc")
	s.build(s.a, "sm_90")
	told("the toolkit replaced in its place", "cuda-13040")
	writeFiles(t, s.a, map[string]string{"lib64/libcublas.so": ""})
	s.stale("a library more", s.a, 13, "CUDA libraries 13.4 "+filepath.Join(s.a, "lib64")+" → other content at the same path: cudarc")
}
