package graph

import (
	"fmt"
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
		p := hosttest.Must(manifest.Load(hosttest.Memory(map[string]string{
			"/w/Cargo.toml": "[package]\nname = \"app\"\n[features]\n" + tt.features +
				"\n[dependencies]\nnn = { path = \"nn\", optional = true }\n",
			"/w/nn/Cargo.toml": "[package]\nname = \"nn\"\n[features]\ncuda = []\n",
		}), "/w/Cargo.toml"))(t)
		v := Possible(p, catalog.Default(), p.Selected)
		hosttest.Equal(t, v.Closure(&v.Roots[0], Feature{0, "cuda"}).Has(Feature{0, "extra"}), tt.extra, tt.features, "extra is")
	}
}

// load is a project of some manifests, whose first is app.
func load(t *testing.T, app string, others map[string]string) *manifest.Project {
	t.Helper()
	files := map[string]string{"/w/Cargo.toml": "[package]\nname = \"app\"\nversion = \"1.0.0\"\n" + app}
	for name, rest := range others {
		files["/w/"+name+"/Cargo.toml"] = "[package]\nname = \"" + name + "\"\nversion = \"1.0.0\"\n" + rest
	}
	return hosttest.Must(manifest.Load(hosttest.Memory(files), "/w/Cargo.toml"))(t)
}

// TestWeakEdges: `x?/f` of a view of manifests counts once the closure turns x on, before or after it, and in a weak view always.
func TestWeakEdges(t *testing.T) {
	t.Parallel()
	nn := map[string]string{"nn": "[features]\ncuda = []\n"}
	const dep = "\n[dependencies]\nnn = { path = \"nn\", optional = true }\n"
	for _, tt := range []struct {
		features   string
		weak, want bool
	}{
		{`cuda = ["nn?/cuda"]`, false, false},
		{`cuda = ["nn?/cuda"]`, true, true},
		{`cuda = ["nn?/cuda", "dep:nn"]`, false, true},
		{`cuda = ["dep:nn", "nn?/cuda"]`, false, true},
		{"cuda = [\"nn?/cuda\", \"later\"]\nlater = [\"dep:nn\"]", false, true},
		{"cuda = [\"first\", \"second\"]\nfirst = [\"dep:nn\"]\nsecond = [\"third\"]\nthird = [\"nn?/cuda\"]", false, true},
	} {
		p := load(t, "[features]\n"+tt.features+dep, nn)
		v := Possible(p, catalog.Default(), p.Selected)
		v.Weak = tt.weak
		hosttest.Equal(t, v.Closure(&v.Roots[0], Feature{0, "cuda"}).Has(Feature{1, "cuda"}), tt.want, tt.features, "weak", tt.weak)
	}
}

// unit is one of a unit graph.
func unit(id, kind, mode string, features []string, to ...UnitDep) Unit {
	return Unit{PkgID: "path+file:///w" + id + "@1.0.0", Target: Target{Kind: []string{kind}, Name: "x"}, Mode: mode, Features: features, Dependencies: to}
}

// TestDevDependencies: a test, a benchmark and an example have the dev-dependencies of their own package; nothing else has.
func TestDevDependencies(t *testing.T) {
	t.Parallel()
	p := load(t, "[features]\ncuda = [\"nn/cuda\"]\n[dev-dependencies]\nnn = { path = \"nn\" }\n", map[string]string{"nn": "[features]\ncuda = []\n"})
	for _, tt := range []struct {
		kind, mode string
		want       bool
	}{
		{"lib", "build", false}, {"bin", "build", false}, {"lib", "test", true}, {"test", "test", true}, {"bench", "bench", true}, {"lib", "bench", true},
		{"test", "build", true}, {"bench", "build", true}, {"example", "build", true},
	} {
		g := &Graph{Version: 1, Roots: []int{0}, Units: []Unit{unit("#app", tt.kind, tt.mode, []string{"cuda"}, UnitDep{1, "nn"}),
			unit("/nn#nn", "lib", "build", []string{"cuda"})}}
		v := NewView(hosttest.Memory(nil), p, g)
		hosttest.Equal(t, v.Closure(&v.Roots[0], Feature{0, "cuda"}).Has(Feature{1, "cuda"}), tt.want, tt.kind, tt.mode)
		if _, got := v.DepFor(&v.Roots[0], 0, 1); !got {
			t.Errorf("%s %s: the root has no entry for it", tt.kind, tt.mode)
		}
	}
}

// TestLinked: what becomes part of a program, and what only runs while it is built.
func TestLinked(t *testing.T) {
	t.Parallel()
	g := &Graph{Version: 1, Roots: []int{0}, Units: []Unit{
		unit("#app", "bin", "build", nil, UnitDep{1, "a"}, UnitDep{2, "m"}, UnitDep{3, "s"}, UnitDep{4, "tool"}, UnitDep{5, "own"}),
		unit("/a#a", "lib", "build", nil, UnitDep{6, "b"}, UnitDep{0, "app"}), unit("/m#m", "proc-macro", "build", nil, UnitDep{7, "c"}),
		unit("#app", "custom-build", "run-custom-build", nil, UnitDep{8, "script"}), unit("/tool#tool", "bin", "build", nil),
		unit("#app", "bin", "build", nil), unit("/b#b", "lib", "build", nil), unit("/c#c", "lib", "build", nil),
		unit("#app", "custom-build", "build", nil), unit("/m#m", "proc-macro", "test", nil, UnitDep{7, "c"}),
	}}
	for _, tt := range []struct {
		root int
		want string
	}{{0, "[0 1 5 6]"}, {2, "[2]"}, {9, "[9 7]"}, {3, "[3]"}} {
		hosttest.Equal(t, fmt.Sprint(g.Linked(tt.root)), tt.want, tt.root)
	}
	if got := []int{g.Compiled(3), g.Compiled(0)}; got[0] != 8 || got[1] != -1 {
		t.Errorf("compiled: %v", got)
	}
	for unit, want := range []bool{true, false, false, true} {
		if has := g.Script(unit) >= 0; has != want {
			t.Errorf("script of %d: %v", unit, has)
		}
	}
}

// TestExplain: a crate is asked for by its name, however it is spelled, and by the beginning of its version; the way to it is the shortest.
func TestExplain(t *testing.T) {
	t.Parallel()
	p := load(t, "[features]\ncuda = [\"nn-x/cuda\"]\n[dependencies]\nnn-x = { path = \"nn-x\" }\n", map[string]string{"nn-x": "[features]\ncuda = []\nmetal = []\n"})
	g := &Graph{Version: 1, Roots: []int{0}, Units: []Unit{unit("#app", "bin", "build", []string{"cuda"}, UnitDep{1, "nn_x"}),
		unit("/nn-x#nn-x", "lib", "build", []string{"cuda"})}}
	v := NewView(hosttest.Memory(nil), p, g)
	for _, tt := range []struct {
		crate, feature string
		want           string
	}{
		{"nn-x", "", "nn-x on=true app nn-x"}, {"nn_x", "cuda", "nn-x on=true app/cuda nn-x/cuda"}, {"nn-x", "metal", "nn-x on=false"},
		{"nn-x@1", "", "nn-x on=true app nn-x"}, {"nn-x@v1.0", "", "nn-x on=true app nn-x"}, {"nn-x@1.0.0", "", "nn-x on=true app nn-x"},
		{"nn-x@1.0.1", "", ""}, {"nn-x@0", "", ""}, {"other", "", ""}, {"app", "cuda", "app on=true app/cuda"},
	} {
		got := ""
		for _, e := range v.Explain(manifest.Request{Features: []string{"cuda"}}, tt.crate, tt.feature) {
			got += fmt.Sprintf("%s on=%v", e.Crate, e.On)
			for _, s := range e.Steps {
				got += " " + s.Text
			}
		}
		hosttest.Equal(t, got, tt.want, tt.crate, tt.feature)
	}
}
