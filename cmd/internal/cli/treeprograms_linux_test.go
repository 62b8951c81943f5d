package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/need"
)

// TestStaleSeesProgramsWithoutAGraph has an old program in place of the new one, which cargo takes for its own, and a configuration that keeps the unit
// graph from being asked for: `gpubuild stale` knows of the programs by the manifest.
func TestStaleSeesProgramsWithoutAGraph(t *testing.T) {
	need.Asked(t, "long")
	s := newShared(t)
	files := kern("app")
	files["sys/build.rs"] = strings.Replace(files["sys/build.rs"], "    assert!(ok);\n",
		"    assert!(ok);\n    std::fs::write(&out, std::fs::read_to_string(&out).unwrap() + \".visible .entry k()\\n{\\n\\tret;\\n}\\n\").unwrap();\n", 1)
	files["src/bin/second.rs"] = files["src/main.rs"]
	files[".cargo/config.toml"] = "[unstable]\ngitoxide = false\n"
	writeFiles(t, s.dir, files)
	program := filepath.Join(s.dir, "target", "debug", "second")
	s.build(s.a, "sm_90")
	old, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	s.build(s.b, "sm_90")
	s.stale("before", s.b, 0, "Fresh 1 GPU package")
	if err := os.WriteFile(program, old, 0o755); err != nil {
		t.Fatal(err)
	}
	s.stale("an old program", s.b, 13, "target/debug/second holds PTX for compute_90 from nvcc "+first+" of app-sys, which was built since")
	s.stale("that is not asked for", s.b, 0, "Fresh 1 GPU package", "--bin", "app")
	s.stale("that is", s.b, 13, "target/debug/second holds ", "--bin", "sec*")
	s.build(s.b, "sm_90")
	s.holds("and the build", "app/target/debug/second", second, "sm_90")
	s.stale("after it", s.b, 0, "Fresh 1 GPU package")
}
