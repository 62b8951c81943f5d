package graph

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/features/manifest"
)

// TestArtifactOfNightly asks a real one, where rustup has it: the units are of the shape that the test above believes.
func TestArtifactOfNightly(t *testing.T) {
	need.Asked(t, "nightly")
	if exec.Command("cargo", "+nightly", "-V").Run() != nil {
		need.Missing(t, "nightly", "no nightly toolchain")
	}
	dir := t.TempDir()
	for path, text := range map[string]string{
		"Cargo.toml":     "[workspace]\nmembers = [\"app\", \"tool\", \"dep\"]\nresolver = \"2\"\n",
		"app/Cargo.toml": pkg("app", "[features]\ncuda = [\"tool/cuda\"]\n[dependencies]\ntool = { path = \"../tool\", artifact = \"bin\" }\n"), "app/src/main.rs": "fn main() {}\n",
		"tool/Cargo.toml": pkg("tool", "[features]\ncuda = [\"dep/cuda\"]\n[dependencies]\ndep = { path = \"../dep\" }\n"), "tool/src/main.rs": "fn main() {}\n",
		"dep/Cargo.toml": pkg("dep", "[features]\ncuda = []\n"), "dep/src/lib.rs": "",
	} {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(
		"cargo",
		"+nightly",
		"build",
		"-Zbindeps",
		"--offline",
		"-p",
		"app",
		"--features",
		"cuda",
		"--unit-graph",
		"-Zunstable-options",
	)
	c.Dir = dir
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	g, err := Parse(strings.NewReader(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	programs := g.embedded(g.Roots)
	if len(programs) != 1 || manifest.ParsePkgID(g.Units[programs[0]].PkgID).Name != "tool" || len(g.Linked(g.Roots[0])) != 1 ||
		len(g.Linked(programs[0])) != 2 {
		t.Errorf("programs %v of\n%s", programs, out)
	}
}
