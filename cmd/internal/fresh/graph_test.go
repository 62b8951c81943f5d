package fresh

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
)

// graphed is a bench with a graph: the own package k with a build script, which is built with a local helper, a package that names nvcc and
// others, and which a program is linked from.
func graphed(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	path := func(name string) string {
		file := filepath.Join(b.top, name, "src", "lib.rs")
		b.write(file, map[string]string{"callsnvcc": "Command::new(\"nvcc\")"}[name])
		return file
	}
	const registry = "registry+https://github.com/rust-lang/crates.io-index#"
	unit := func(id, mode, kind, file string, deps ...int) graph.Unit {
		u := graph.Unit{PkgID: id, Mode: mode, Target: graph.Target{Kind: []string{kind}, SrcPath: file}}
		for _, d := range deps {
			u.Dependencies = append(u.Dependencies, graph.UnitDep{Index: d})
		}
		return u
	}
	local := "path+file://" + filepath.Join(b.top, "helper") + "#1.0.0"
	script := filepath.Join(b.top, "k", "make.rs")
	b.write(script, "Command::new(\"make\")")
	b.s.b.Graph.Units = &graph.Graph{Units: []graph.Unit{
		unit("k", runsScript, "custom-build", script, 1),
		unit("k", "build", "custom-build", script, 2, 3, 4, 5, 7, 8),
		unit(local, "build", "lib", path("helper"), 6),
		unit(registry+"callsnvcc@1.0.0", "build", "lib", path("callsnvcc")),
		unit(registry+"quiet@1.0.0", "build", "lib", path("quiet"), 3),
		unit(registry+"derive@1.0.0", "build", "proc-macro", path("derive")),
		unit(registry+"deep@1.0.0", "build", "lib", path("deep")),
		unit("helped", runsScript, "custom-build", path("helped")),
		unit(registry+"cudarc@0.19.4", "build", "lib", path("cudarc")),
		unit("path+file://"+filepath.Join(b.top, "k")+"#k@1.0.0", "build", "lib", filepath.Join(b.top, "k", "src", "lib.rs")),
	}, Roots: []int{9}}
	return b
}

// TestScriptOf: the file of a build script, and what else it is made of: the user's own packages, and those that name nvcc.
func TestScriptOf(t *testing.T) {
	t.Parallel()
	b := graphed(t)
	dir := filepath.Join(b.top, "package")
	for _, tt := range []struct {
		id, file string
		with     string
	}{
		{"k", "k/make.rs", "helper callsnvcc"}, {"helped", "helped/src/lib.rs", ""}, {"other", "package/build.rs", ""},
	} {
		got := b.s.scriptOf(features.ScriptUnit{PkgID: tt.id, Dir: dir})
		var with []string
		for _, file := range got.Locals {
			with = append(with, filepath.Base(filepath.Dir(filepath.Dir(file))))
		}
		if got.Source != filepath.Join(b.top, filepath.FromSlash(tt.file)) || strings.Join(with, " ") != tt.with {
			t.Errorf("%s: %s with %q, want %s with %s", tt.id, got.Source, with, tt.file, tt.with)
		}
	}
	b.s.b.Graph.Units = nil
	if got := b.s.scriptOf(features.ScriptUnit{PkgID: "k", Dir: dir}); got.Source != filepath.Join(dir, "build.rs") || got.Locals != nil {
		t.Errorf("without a graph: %+v", got)
	}
}

// TestScriptsOfABuild: those of which nothing is known, and none twice.
func TestScriptsOfABuild(t *testing.T) {
	t.Parallel()
	b := graphed(t)
	names := func() string {
		var out []string
		for _, u := range b.s.b.scripts() {
			out = append(out, u.PkgID)
		}
		return strings.Join(out, " ")
	}
	hosttest.Equal(t, names(), "k helped")
	b.s.b.Reach.Units = []features.ScriptUnit{{PkgID: "k"}, {PkgID: "helped", Features: []string{"cuda"}}}
	hosttest.Equal(t, names(), "helped", "k is known, helped with other features")
	b.s.b.Graph.Units.Units[7].PkgID = "registry+https://github.com/rust-lang/crates.io-index#candle-kernels@0.9.0"
	hosttest.Equal(t, names(), "", "a package of the catalog")
}

// TestMacros: a package for which a procedural macro ran nvcc is one, however often it is built; its build script is not.
func TestMacros(t *testing.T) {
	t.Parallel()
	b := graphed(t)
	if got := b.s.macros(); got != nil {
		t.Errorf("nothing was made: %+v", got)
	}
	for _, name := range []string{"k-gpubuild", "derive-gpubuild", "gone-gpubuild", "quiet-1"} {
		b.write(filepath.Join(b.s.Macros(), name, "out", "x"), "")
	}
	got := b.s.macros()
	if len(got) != 1 || got[0].Name != "k" || got[0].Dir != filepath.Join(b.top, "k") || got[0].Version != "1.0.0" {
		t.Errorf("%+v", got)
	}
	if built := b.s.macrosBuilt(); len(built) != 1 || built[0].OutDir != filepath.Join(b.s.Macros(), "k-gpubuild", "out") {
		t.Errorf("%+v", built)
	}
	b.s.b.Graph.Units = nil
	if got := b.s.macros(); got != nil {
		t.Errorf("without a graph: %+v", got)
	}
}

// TestUndeclaredByAFlag: where a toolkit was asked for, any build script may compile kernels.
func TestUndeclaredByAFlag(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ id, asked, want string }{
		{"path+file:///k#1.0.0", "--gpu-arch", "k"}, {"path+file:///k#1.0.0", "", ""}, {"registry+https://x/i#k@1.0.0", "--gpu-arch", "k"},
	} {
		b := graphed(t)
		b.s.b.Graph.Units.Units[0].PkgID = tt.id
		if got := Undeclared(b.s.b, tt.asked); got.Package != tt.want || got.Named {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
}

// TestUnion: two build scripts of one package take what either takes; nvcc's version alone counts where neither compiles.
func TestUnion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ a, b, want features.Inputs }{
		{features.Inputs{NVCC: true, Version: true}, features.Inputs{NVCC: true, Version: true}, features.Inputs{NVCC: true, Version: true}},
		{features.Inputs{NVCC: true, Version: true}, features.Inputs{NVCC: true}, features.Inputs{NVCC: true}},
		{features.Inputs{NVCC: true, Version: true}, features.Inputs{}, features.Inputs{NVCC: true, Version: true}},
		{features.Inputs{Host: true}, features.Inputs{Arch: true, Root: true}, features.Inputs{Host: true, Arch: true, Root: true}},
		{features.Inputs{Binds: true, CUDNN: true}, features.Inputs{CXX: true, Torch: true}, features.Inputs{Binds: true, CUDNN: true, CXX: true, Torch: true}},
		{features.Inputs{Headers: []catalog.Header{{File: "a"}}}, features.Inputs{Headers: []catalog.Header{{File: "a"}, {File: "b"}}}, features.Inputs{Headers: []catalog.Header{{File: "a"}, {File: "b"}}}},
	} {
		for _, got := range []features.Inputs{union(tt.a, tt.b), union(tt.b, tt.a)} {
			same := got.NVCC == tt.want.NVCC && got.Version == tt.want.Version && got.Host == tt.want.Host && got.Arch == tt.want.Arch && got.Root == tt.want.Root &&
				got.Binds == tt.want.Binds && got.CUDNN == tt.want.CUDNN && got.CXX == tt.want.CXX && got.Torch == tt.want.Torch && len(got.Headers) == len(tt.want.Headers)
			if !same || slices.ContainsFunc(tt.want.Headers, func(h catalog.Header) bool {
				return !slices.ContainsFunc(got.Headers, func(is catalog.Header) bool { return is.File == h.File })
			}) {
				t.Errorf("%+v and %+v: %+v", tt.a, tt.b, got)
			}
		}
	}
}
