package features

import (
	"os/exec"
	"strings"
	"testing"

	"os"
	"path/filepath"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/need"
)

// TestArtifactIsAProgramOfItsOwn: features that go to an artifact dependency are no fault and no CUDA code of the program that embeds it. The graph is that of
// cargo 1.97 nightly with -Zbindeps, of a `tool` that is built for another target.
func TestArtifactIsAProgramOfItsOwn(t *testing.T) {
	files := map[string]string{
		"/w/app/Cargo.toml":  pkg("app", "[workspace]\n[features]\ncuda = [\"tool/cuda\"]\n[dependencies]\ntool = { path = \"../tool\", artifact = \"bin\" }\ncandle-core = { path = \"../candle-core\" }\n"),
		"/w/app/src/main.rs": "fn main() {}\n", "/w/tool/src/main.rs": "fn main() {}\n", "/w/candle-core/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn f() {}\n",
		"/w/tool/Cargo.toml":        pkg("tool", "[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = { path = \"../candle-core\" }\n"),
		"/w/candle-core/Cargo.toml": pkg("candle-core", "[features]\ncuda = []\n"),
	}
	const unit = `{"pkg_id":"path+file:///w/%#0.1.0","target":{"kind":["KIND"],"name":"%","src_path":"/w/%/src/main.rs"},"mode":"build","platform":PLATFORM,"features":[FEATURES],"dependencies":[DEPS]}`
	write := func(name, kind, platform, features, deps string) string {
		return strings.NewReplacer("%", name, "KIND", kind, "PLATFORM", platform, "FEATURES", features, "DEPS", deps).Replace(unit)
	}
	g, err := ParseGraph(strings.NewReader(`{"version":1,"roots":[0],"units":[` + strings.Join([]string{
		write("app", "bin", "null", `"cuda"`, `{"index":1,"extern_crate_name":"candle_core"},{"index":3,"extern_crate_name":"tool"}`),
		write("candle-core", "lib", "null", "", ""),
		write("candle-core", "lib", `"aarch64-unknown-linux-gnu"`, `"cuda"`, ""),
		write("tool", "bin", `"aarch64-unknown-linux-gnu"`, `"cuda"`, `{"index":2,"extern_crate_name":"candle_core"}`),
	}, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	h := hosttest.Memory(files)
	p, err := Load(h, "/w/app/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	a, err := Judge(h, Input{Project: p, Request: ask("cuda"), Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Roots) != 2 || a.Roots[0].Reached || a.Roots[1].Package != "tool" || !a.Roots[1].Reached || a.Stops {
		t.Errorf("stops %v, roots %+v", a.Stops, a.Roots)
	}
	if len(a.Findings) != 1 || a.Findings[0].ID != IDUndecided || !strings.Contains(a.Findings[0].Message, "goes to tool, an artifact dependency") {
		t.Errorf("%+v", a.Findings)
	}
}

// TestArtifactOfNightly asks a real one, where rustup has it: the units are of the shape that the test above believes.
func TestArtifactOfNightly(t *testing.T) {
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
	c := exec.Command("cargo", "+nightly", "build", "-Zbindeps", "--offline", "-p", "app", "--features", "cuda", "--unit-graph", "-Zunstable-options")
	c.Dir = dir
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	g, err := ParseGraph(strings.NewReader(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	programs := g.embedded(g.Roots)
	if len(programs) != 1 || ParsePkgID(g.Units[programs[0]].PkgID).Name != "tool" || len(g.Linked(g.Roots[0])) != 1 || len(g.Linked(programs[0])) != 2 {
		t.Errorf("programs %v of\n%s", programs, out)
	}
}
