package features

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// TestArtifactIsAProgramOfItsOwn: features that go to an artifact dependency are no fault and no CUDA code of the program that embeds it.
// The graph is that of cargo 1.97 nightly with -Zbindeps, of a `tool` that is built for another target.
func TestArtifactIsAProgramOfItsOwn(t *testing.T) {
	files := map[string]string{
		"/w/app/Cargo.toml": pkg(
			"app",
			"[workspace]\n[features]\ncuda = [\"tool/cuda\"]\n[dependencies]\ntool = { path = \"../tool\", artifact = \"bin\" }\ncandle-core = { path = \"../candle-core\" }\n",
		),
		"/w/app/src/main.rs": "fn main() {}\n", "/w/tool/src/main.rs": "fn main() {}\n", "/w/candle-core/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn f() {}\n",
		"/w/tool/Cargo.toml": pkg(
			"tool",
			"[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = { path = \"../candle-core\" }\n",
		),
		"/w/candle-core/Cargo.toml": pkg("candle-core", "[features]\ncuda = []\n"),
	}
	const unit = `{"pkg_id":"path+file:///w/%#0.1.0","target":{"kind":["KIND"],"name":"%","src_path":"/w/%/src/main.rs"},"mode":"build","platform":PLATFORM,"features":[FEATURES],"dependencies":[DEPS]}`
	write := func(name, kind, platform, features, deps string) string {
		return strings.NewReplacer("%", name, "KIND", kind, "PLATFORM", platform, "FEATURES", features, "DEPS", deps).Replace(unit)
	}
	g, err := graph.Parse(strings.NewReader(`{"version":1,"roots":[0],"units":[` + strings.Join([]string{
		write("app", "bin", "null", `"cuda"`, `{"index":1,"extern_crate_name":"candle_core"},{"index":3,"extern_crate_name":"tool"}`),
		write("candle-core", "lib", "null", "", ""),
		write("candle-core", "lib", `"aarch64-unknown-linux-gnu"`, `"cuda"`, ""),
		write("tool", "bin", `"aarch64-unknown-linux-gnu"`, `"cuda"`, `{"index":2,"extern_crate_name":"candle_core"}`),
	}, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	h := hosttest.Memory(files)
	p, err := manifest.Load(h, "/w/app/Cargo.toml")
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
	if len(a.Findings) != 1 || a.Findings[0].ID != IDUndecided ||
		!strings.Contains(a.Findings[0].Message, "goes to tool, an artifact dependency") {
		t.Errorf("%+v", a.Findings)
	}
}
