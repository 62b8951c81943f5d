package graph

import (
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// TestClosureOfOptional: `x/f` turns the feature x on, too, where the optional dependency has one, written or not (cargo's
// resolver/features.rs, activate_dependency); with "dep:x" elsewhere and no such feature it has none, and `x?/f` never does.
func TestClosureOfOptional(t *testing.T) {
	for _, tt := range []struct {
		features string
		extra    bool
	}{
		{"cuda = [\"nn/cuda\"]\nnn = [\"dep:nn\", \"extra\"]\nextra = []", true},
		{"cuda = [\"nn\", \"nn?/cuda\"]\nnn = [\"dep:nn\", \"extra\"]\nextra = []", true},
		{"cuda = [\"nn?/cuda\"]\nnn = [\"dep:nn\", \"extra\"]\nextra = []", false},
		{"cuda = [\"nn/cuda\"]\nother = [\"dep:nn\", \"extra\"]\nextra = []", false},
	} {
		p, err := manifest.Load(hosttest.Memory(map[string]string{
			"/w/Cargo.toml": "[package]\nname = \"app\"\n[features]\n" + tt.features +
				"\n[dependencies]\nnn = { path = \"nn\", optional = true }\n",
			"/w/nn/Cargo.toml": "[package]\nname = \"nn\"\n[features]\ncuda = []\n",
		}), "/w/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		v := Possible(p, catalog.Default(), p.Selected)
		if got := v.Closure(&v.Roots[0], Feature{0, "cuda"}).Has(Feature{0, "extra"}); got != tt.extra {
			t.Errorf("%s: extra is %v", tt.features, got)
		}
	}
}
