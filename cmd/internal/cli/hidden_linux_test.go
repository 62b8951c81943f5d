package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// unreadable is the project of kern with a script of which nobody can read that it runs nvcc, and a dependency on nothing else that needs a
// toolkit.
func unreadable() map[string]string {
	files := kern("app")
	files["sys/build.rs"] = strings.NewReplacer(
		`Command::new("nvcc")`, `Command::new(["nv", "cc"].concat())`,
		"    assert!(ok);\n", "    assert!(ok);\n    std::fs::write(&out, std::fs::read_to_string(&out).unwrap() + \".visible .entry "+
			"k()\\n{\\n\\tret;\\n}\\n\").unwrap();\n",
	).Replace(files["sys/build.rs"])
	return files
}

// TestOnlyNvccIsOutOfSight: no package of the build is known to need a toolkit, and one of the user's own compiles kernels all the same.
// What the user asks for is heard, and old kernels do not stay, whatever says which toolkit it is.
func TestOnlyNvccIsOutOfSight(t *testing.T) {
	t.Parallel()
	need.Asked(t, "long")
	fresh := func(t *testing.T) *shared {
		s := newShared(t)
		s.t = t
		writeFiles(t, s.dir, unreadable())
		return s
	}
	t.Run("by flags", func(t *testing.T) {
		s := fresh(t)
		s.build(s.a, "sm_90") // nvcc is not on PATH but ours
		s.holds("built from nothing", "app/target/debug/app", first, "sm_90")
		s.compiled("nothing changed", s.build(s.a, "sm_90"), "")
		s.stale("another toolkit", s.b, 13, "nvcc 13.3.33 → 13.4.92: app-sys")
		s.compiled("another toolkit", s.build(s.b, "sm_90"), rebuild)
		s.holds("another toolkit", "app/target/debug/app", second, "sm_90")
		s.stale("after it", s.b, 0, "Fresh app-sys: up to date")
		s.build(s.b, "sm_80")
		s.holds("another arch", "app/target/debug/app", second, "sm_80")
		s.compiled("asked for", s.build(s.b, "sm_80", "--gpu-force-clean"), rebuild)
		s.must(s.command(nil, binary(t), "clean", "-p", "app-sys"))
		s.compiled("after a clean", s.build(s.b, "sm_80"), rebuild)
	})
	onPath := func(s *shared, toolkit string, more ...string) string {
		return s.must(s.command([]string{filepath.Join(toolkit, "bin")}, append([]string{binary(s.t), "build", "--features", "cuda"},
			more...)...))
	}
	t.Run("by PATH, after plain cargo", func(t *testing.T) {
		s := fresh(t)
		s.plain(s.a)
		s.compiled("what plain cargo built is built once more", onPath(s, s.a), rebuild)
		s.compiled("and then stays", onPath(s, s.a), "")
		s.compiled("plain cargo, without the toolkit's root", s.plain(s.b), rebuild)
		s.compiled("another nvcc first on PATH", onPath(s, s.b), rebuild)
		s.holds("another nvcc first on PATH", "app/target/debug/app", second, "sm_75")
		s.compiled("nothing changed", onPath(s, s.b), "")
		s.compiled("plain cargo after it", s.plain(s.b), rebuild)

		// Of what goes into the kernels and leaves no trace in them, only the record tells.
		writeFiles(t, s.b, map[string]string{"include/crt/host_config.h": "#define OTHER\n"})
		s.stale("a header of nvcc's own", s.b, 13, "host_config.h "+filepath.Join(s.b, "include", "crt", "host_config.h")+
			" → other content at the same path: app-sys")
		s.compiled("a header of nvcc's own", onPath(s, s.b), rebuild)
		writeFiles(t, s.b, map[string]string{"include/cuda_fp4.h": "#define OTHER\n"})
		s.compiled("a header more", onPath(s, s.b), rebuild)
		s.more = []string{"NVCC_APPEND_FLAGS=-DOTHER"}
		s.compiled("a variable that nvcc reads", onPath(s, s.b), rebuild)
		s.compiled("nothing changed since", onPath(s, s.b), "")
		s.more = nil
		s.compiled("and without it", onPath(s, s.b), rebuild)
	})
	t.Run("by PATH, and nobody asks for a toolkit", func(t *testing.T) {
		s := fresh(t)
		onPath(s, s.a)
		s.compiled("what the first build made stays", onPath(s, s.a), "")
		writeFiles(t, s.a, map[string]string{"include/crt/host_config.h": "#define OTHER\n"})
		s.compiled("a header of nvcc's own", onPath(s, s.a), rebuild)

		// Where the kernels are gone, nothing is recorded of a script that makes none.
		writeFiles(t, s.dir, map[string]string{"sys/build.rs": "fn main() { println!(\"cargo::rerun-if-changed=build.rs\"); " +
			"std::fs::write(format!(\"{}/k.ptx\", std::env::var(\"OUT_DIR\").unwrap()), \"\").unwrap(); }\n"})
		onPath(s, s.a)
		s.compiled("no kernels any more", onPath(s, s.a), "")
		s.compiled("and another nvcc first on PATH", onPath(s, s.b), rebuild)
	})
	t.Run("its sources show something else", func(t *testing.T) {
		s := fresh(t)
		writeFiles(t, s.dir, map[string]string{"sys/build.rs": strings.Replace(unreadable()["sys/build.rs"], "    assert!(ok);",
			"    println!(\"cargo::rustc-link-search=native={}\", out.parent().unwrap().display());\n"+
				"    if false { println!(\"cargo::rustc-link-lib=dylib=cudart\"); }\n    assert!(ok);", 1)})
		s.build(s.a, "sm_90")
		s.stale("its first kernels", s.a, 0, "Fresh app-sys: up to date")
		s.compiled("nothing changed", s.build(s.a, "sm_90"), "")
		writeFiles(t, s.a, map[string]string{"include/crt/host_config.h": "#define OTHER\n"})
		s.stale("a header of nvcc's own", s.a, 13, "→ other content at the same path: app-sys")
		s.compiled("a header of nvcc's own", s.build(s.a, "sm_90"), rebuild)
		s.compiled("nothing changed since", s.build(s.a, "sm_90"), "")
	})
	t.Run("copied as they came", func(t *testing.T) {
		s := fresh(t)
		s.build(s.a, "sm_90")
		outs, err := filepath.Glob(filepath.Join(s.dir, "target", "debug", "build", "app-sys-*", "out", "k.ptx"))
		if err != nil || len(outs) != 1 {
			t.Fatalf("%v %v", outs, err)
		}
		ptx, err := os.ReadFile(outs[0])
		noError(t, err)
		writeFiles(t, s.dir, map[string]string{"sys/shipped/k.ptx": string(ptx),
			"sys/build.rs": "fn main() {\n    println!(\"cargo::rerun-if-changed=build.rs\");\n    std::fs::copy(\"shipped/k.ptx\", " +
				"format!(\"{}/k.ptx\", std::env::var(\"OUT_DIR\").unwrap())).unwrap();\n    let _ = " +
				"std::process::Command::new(\"true\");\n}\n"})
		s.must(s.command(nil, "cargo", "clean", "-q"))
		s.build(s.a, "sm_90")
		writeFiles(t, s.a, map[string]string{"include/crt/host_config.h": "#define OTHER\n"})
		s.compiled("a header of nvcc's own", s.build(s.a, "sm_90"), rebuild)
		s.compiled("nothing changed", s.build(s.a, "sm_90"), "")
		s.compiled("another toolkit", s.build(s.b, "sm_90"), rebuild) // the same file is copied again, and that is no mistake
		s.compiled("nothing changed since", s.build(s.b, "sm_90"), "")
	})
	t.Run("for a platform that the configuration names", func(t *testing.T) {
		s := fresh(t)
		writeFiles(t, s.dir, map[string]string{".cargo/config.toml": "[build]\ntarget = \"" + host(t) + "\"\n"})
		program := "app/target/" + host(t) + "/debug/app"
		onPath(s, s.a)
		s.holds("built from nothing", program, first, "sm_75")
		s.compiled("another nvcc first on PATH", onPath(s, s.b), rebuild)
		s.holds("another nvcc first on PATH", program, second, "sm_75")
	})
	t.Run("built with several features", func(t *testing.T) {
		s := fresh(t)
		writeFiles(t, s.dir, map[string]string{"sys/Cargo.toml": unreadable()["sys/Cargo.toml"] + "[features]\ntwo = []\n",
			"Cargo.toml": strings.Replace(unreadable()["Cargo.toml"], "[dependencies]\n", "two = [\"cuda\", \"app-sys/two\"]\n"+
				"[dependencies]\n", 1)})
		s.build(s.a, "sm_90")
		s.build(s.b, "sm_90", "--features", "two")
		s.stale("the last one", s.b, 0, "Fresh", "--features", "two")
		s.stale("the first one, with its toolkit", s.a, 0, "Fresh")
		s.stale("the first one, with the other", s.b, 13, "nvcc 13.3.33 → 13.4.92: app-sys")
		s.compiled("the first one", s.build(s.a, "sm_90"), "")
		s.holds("the first one", "app/target/debug/app", first, "sm_90")
		s.stale("the last one after it", s.b, 0, "Fresh", "--features", "two")
	})
	t.Run("a script that runs something else", func(t *testing.T) {
		s := fresh(t)
		writeFiles(t, s.dir, map[string]string{
			"sys/build.rs": "fn main() {\n    println!(\"cargo::rerun-if-changed=build.rs\");\n    for v in [\"CUDA_HOME\", " +
				"\"CUDA_PATH\"] { println!(\"cargo::rerun-if-env-changed={v}\"); }\n    " +
				"std::process::Command::new(\"true\").status().unwrap();\n}\n",
			"sys/src/lib.rs": "pub const PTX: &str = \"\";\n",
		})
		s.build(s.a, "sm_90")
		none := s.command(nil, binary(t), "build", "--features", "cuda", "--gpu-toolkit="+filepath.Join(s.top, "nowhere"))
		out, err := none.CombinedOutput()
		if _, exit := err.(*exec.ExitError); err != nil && !exit {
			t.Fatal(err)
		}
		if err == nil || !strings.Contains(string(out), "error: there is no CUDA toolkit") {
			t.Errorf("a toolkit that the user names and that is not there: %v\n%s", err, out)
		}
	})
}
