package graph

import (
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// TestManifestsOfUnits: where the manifest of a unit's package is found, and that another package's is not taken for it.
func TestManifestsOfUnits(t *testing.T) {
	t.Parallel()
	of := func(name string) string { return "[package]\nname = \"" + name + "\"\nversion = \"1.0.0\"\n" }
	deep := "/g/a/b/c/d/e/f"
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": of("app"), "/w/lib/Cargo.toml": of("lib"), "/r/far-1/Cargo.toml": of("far"), "/r/far-1/src/lib.rs": "", "/g/x/Cargo.toml": of("other"),
		deep + "/Cargo.toml": of("deep"), "/g/Cargo.toml": of("top"), "/p/own/Cargo.toml": of("not-own"), "/p/Cargo.toml": of("own"),
	})
	p := hosttest.Must(manifest.Load(h, "/w/Cargo.toml"))(t)
	for _, tt := range []struct{ id, src, want string }{
		{"path+file:///w#app@1.0.0", "/w/src/main.rs", "/w/Cargo.toml"}, {"path+file:///w/lib#1.0.0", "/w/lib/src/lib.rs", "/w/lib/Cargo.toml"},
		{"registry+https://host.example/i#far@1.0.0", "/r/far-1/src/lib.rs", "/r/far-1/Cargo.toml"}, {"registry+https://host.example/i#far@1.0.0", "/r/far-1/src/bin/x/main.rs", "/r/far-1/Cargo.toml"},
		{"git+https://host.example/x#x@1.0.0", "/g/x/src/lib.rs", ""}, {"git+https://host.example/x#deep@1.0.0", deep + "/src/lib.rs", deep + "/Cargo.toml"},
		{"git+https://host.example/x#top@1.0.0", deep + "/lib.rs", "/g/Cargo.toml"}, {"git+https://host.example/x#top@1.0.0", deep + "/1/2/lib.rs", "/g/Cargo.toml"},
		{"path+file:///p/own#1.0.0", "/p/own/src/lib.rs", ""}, // a path package's directory is known
	} {
		v := NewView(h, p, &Graph{Version: 1, Units: []Unit{{PkgID: tt.id, Target: Target{Kind: []string{"lib"}, SrcPath: tt.src}}}})
		got := ""
		if n := v.Nodes[0]; n.Pkg != nil {
			if got = n.Pkg.Manifest; n.Dir != n.Pkg.Dir {
				t.Errorf("%s: %s is in %s", tt.id, n.Name, n.Dir)
			}
		}
		hosttest.Equal(t, got, tt.want, tt.id, tt.src)
	}
}

// TestEntriesOfNodes: which unit an entry of a manifest means, by the name that sources use, and which entry leads to a unit.
func TestEntriesOfNodes(t *testing.T) {
	t.Parallel()
	p := load(t, "[dependencies]\nnn = \"2\"\nold-nn = { package = \"nn\", version = \"1\" }\nother = \"1\"\n[build-dependencies]\ngen = \"1\"\n[dev-dependencies]\nprobe = \"1\"\n", nil)
	reg := func(name, version string) Unit {
		return Unit{PkgID: "registry+https://host.example/i#" + name + "@" + version, Target: Target{Kind: []string{"lib"}}, Mode: "build"}
	}
	g := &Graph{Version: 1, Roots: []int{0, 5}, Units: []Unit{
		unit("#app", "bin", "build", nil, UnitDep{1, "nn"}, UnitDep{2, "old_nn"}, UnitDep{3, "renamed_lib"}, UnitDep{6, "probe"}),
		reg("nn", "2.0.0"), reg("nn", "1.0.0"), reg("other", "1.0.0"), reg("gen", "1.0.0"), unit("#app", "lib", "build", nil, UnitDep{1, "nn"}), reg("probe", "1.0.0")}}
	v := NewView(hosttest.Memory(nil), p, g)
	root := &v.Roots[0]
	for i, want := range map[string]int{"nn": 1, "old-nn": 2, "other": 3, "gen": -1} {
		for _, d := range p.Selected.Dependencies {
			if d.Key == i {
				hosttest.Equal(t, v.DepNode(0, d, root.Set), want, i, "unit")
				hosttest.Equal(t, v.DepNode(0, d, nil), -1, i, "is not linked")
			}
		}
	}
	for to, want := range map[int]string{1: "nn", 2: "old-nn", 3: "other", 4: "", 6: "probe"} {
		if d, ok := v.DepFor(root, 0, to); d.Key != want || ok != (want != "") {
			t.Errorf("to %d: %q", to, d.Key)
		}
	}
	if _, ok := v.DepFor(root, 1, 2); ok {
		t.Error("a unit without a manifest has no entry")
	}
	if d, ok := v.DepFor(&v.Roots[1], 0, 6); ok { // not of this root
		t.Errorf("probe of the library: %+v", d)
	}
}

// TestWays: a shortest way from a root to a package, among what is linked.
func TestWays(t *testing.T) {
	t.Parallel()
	u := func(name string, to ...UnitDep) Unit { return unit("/"+name+"#"+name, "lib", "build", nil, to...) }
	g := &Graph{Version: 1, Roots: []int{0}, Units: []Unit{u("app", UnitDep{1, "a"}, UnitDep{2, "b"}), u("a", UnitDep{3, "c"}), u("b", UnitDep{4, "d"}), u("c", UnitDep{4, "d"}), u("d", UnitDep{0, "app"}), u("e")}}
	p := load(t, "", nil)
	v := NewView(hosttest.Memory(nil), p, g)
	for to, want := range []string{"[0]", "[0 1]", "[0 2]", "[0 1 3]", "[0 2 4]", "[]"} {
		hosttest.Equal(t, fmt.Sprint(v.Way(&v.Roots[0], to)), want, to)
	}
}

// TestAlone: what a member's manifests link with features; what only another target has, sure leaves out.
func TestAlone(t *testing.T) {
	t.Parallel()
	p := load(t, "[features]\ndefault = [\"a\"]\na = [\"nn/cuda\"]\nb = [\"dep:opt\", \"opt/x\"]\nw = [\"win/cuda\"]\n[dependencies]\nnn = { path = \"nn\" }\nopt = { path = \"opt\", optional = true, default-features = false }\n"+
		"[target.'cfg(windows)'.dependencies]\nwin = { path = \"win\" }\n[build-dependencies]\ngen = { path = \"gen\" }\n[dev-dependencies]\nprobe = { path = \"probe\" }\n",
		map[string]string{"nn": "[features]\ndefault = [\"d\"]\nd = []\ncuda = []\n", "opt": "[features]\ndefault = [\"d\"]\nd = []\nx = []\n", "win": "[features]\ncuda = []\n", "gen": "", "probe": ""})
	for _, tt := range []struct {
		r    manifest.Request
		sure bool
		want string
	}{
		{manifest.Request{}, false, "app a,default; nn cuda,d,default; win "}, {manifest.Request{}, true, "app a,default; nn cuda,d,default"}, {manifest.Request{NoDefault: true}, true, "app ; nn d,default"},
		{manifest.Request{NoDefault: true, Features: []string{"b"}}, true, "app b; nn d,default; opt x"}, {manifest.Request{NoDefault: true, Features: []string{"w"}}, false, "app w; nn d,default; win cuda"},
		{manifest.Request{NoDefault: true, Features: []string{"w"}}, true, "app w; nn d,default"}, {manifest.Request{NoDefault: true, Features: []string{"none"}}, true, "app ; nn d,default"},
		{manifest.Request{AllFeatures: true}, true, "app a,b,default,w; nn cuda,d,default; opt x"},
	} {
		v := Possible(p, catalog.Default(), p.Selected).Alone(tt.r, tt.sure)
		var got []string
		for _, i := range v.Roots[0].Linked {
			if n := v.Nodes[i]; v.Roots[0].Set.Has(i) {
				got = append(got, n.Name+" "+strings.Join(n.Features, ","))
			}
		}
		hosttest.Equal(t, strings.Join(got, "; "), tt.want, tt.r, "sure", tt.sure)
	}
	if v := Possible(p, catalog.Default()).Alone(manifest.Request{}, false); len(v.Roots) != 0 {
		t.Errorf("of no member: %+v", v.Roots)
	}
	v := Possible(p, catalog.Default(), p.Selected)
	if len(v.Roots[0].Linked) != 4 || v.CUDAOn(0) || v.Declares(0, "none") || !v.Declares(0, "a") {
		t.Errorf("possible: %v", v.Roots[0].Linked)
	}
	c := v.Closure(&v.Roots[0], Feature{0, "b"})
	if c.Chain(Feature{0, "a"}) != nil || len(c.Chain(Feature{0, "b"})) != 1 {
		t.Error("b is asked for, a is not")
	}
	for _, s := range c.Chain(Feature{2, "x"}) {
		if s.Text == "opt/x" && s.Line != 7 {
			t.Errorf("the step is in the line of b: %+v", s)
		}
	}
}
