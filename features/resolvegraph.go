package features

import (
	"strings"

	"gpubuild/buildenv"
)

// build makes the graph of what is linked: a unit for each program and library of the selected packages, and one for each package below.
func (b *planner) build() {
	g := b.plan.Graph
	var queue []unitKey
	unit := func(k unitKey, kind, name, src string) int {
		g.Units = append(g.Units, Unit{PkgID: b.id(k.pkg), Mode: "build", Platform: b.target.triple, Features: b.features(k), Target: Target{Kind: []string{kind}, Name: name, SrcPath: src}})
		return len(g.Units) - 1
	}
	library := func(p *Package) int {
		i, known := b.known[p]
		if !known {
			i = unit(unitKey{p, false}, "lib", libName(p.Name), b.host.Join(p.Dir, "src", "lib.rs"))
			b.known[p] = i
			queue = append(queue, unitKey{p, false})
		}
		return i
	}
	below := func(p *Package) []UnitDep {
		var out []UnitDep
		on := b.state(unitKey{p, false}).deps
		for n := range p.Dependencies {
			d := &p.Dependencies[n]
			if d.Kind != Normal || d.Optional && !on[d.Key] || !b.applies(p, d, false) {
				continue
			}
			t := b.dependency(p, n)
			if t.pkg == nil || t.pkg.ProcMacro {
				continue
			}
			out = append(out, UnitDep{Index: library(t.pkg), Name: libName(d.Key)})
		}
		return out
	}
	for _, root := range b.roots {
		lib, bins, left := b.targets(root)
		if root.ProcMacro {
			i := unit(unitKey{root, !b.unify}, "proc-macro", libName(root.Name), lib)
			g.Roots = append(g.Roots, i)
		} else if lib != "" || len(bins) == 0 && !left {
			i := library(root)
			g.Units[i].Target.SrcPath = lib
			g.Roots = append(g.Roots, i)
		}
		for _, src := range bins {
			i := unit(unitKey{root, false}, "bin", root.Name, src)
			g.Roots = append(g.Roots, i)
			deps := below(root)
			if lib != "" && !root.ProcMacro {
				deps = append(deps, UnitDep{Index: library(root), Name: libName(root.Name)})
			}
			g.Units[i].Dependencies = deps
		}
	}
	for len(queue) > 0 {
		k := queue[0]
		queue = queue[1:]
		deps := below(k.pkg) // may add units, so that the slice moves
		g.Units[b.known[k.pkg]].Dependencies = deps
	}
	b.hostCopies()
}

// hostCopies adds what build scripts and proc-macros have of the CUDA crates that are linked without CUDA: nothing leads there, but it explains why
// cargo's other answers show the feature.
func (b *planner) hostCopies() {
	for _, k := range b.sortedStates() {
		c := b.catalog.Crate(k.pkg.Name)
		if i, linked := b.known[k.pkg]; !k.host || !linked || !c.CUDA() || c.On(b.plan.Graph.Units[i].Features) || !c.On(b.features(k)) {
			continue
		}
		b.plan.Graph.Units = append(b.plan.Graph.Units, Unit{PkgID: b.id(k.pkg), Mode: "build", Features: b.features(k),
			Target: Target{Kind: []string{"lib"}, Name: libName(k.pkg.Name), SrcPath: b.host.Join(k.pkg.Dir, "src", "lib.rs")}})
	}
}

// sortedStates lists the host's states in a fixed order.
func (b *planner) sortedStates() []unitKey {
	byName := map[string]unitKey{}
	for k := range b.states {
		if k.host && b.catalog.Crate(k.pkg.Name) != nil {
			byName[k.pkg.Manifest] = k
		}
	}
	var out []unitKey
	for _, name := range sortedKeys(byName) {
		out = append(out, byName[name])
	}
	return out
}

func libName(pkg string) string { return strings.ReplaceAll(pkg, "-", "_") }

// targets finds the library and the programs of a selected package, as cargo's rules for their places say. Programs whose required features are
// not on are left out, as `cargo build` does.
// Source: the cargo book, cargo-targets.md, and src/cargo/util/toml/targets.rs.
func (b *planner) targets(root *Package) (lib string, bins []string, left bool) {
	h, dir, at := b.host, root.Dir, root.places
	if at.lib != "" {
		lib = h.Join(dir, at.lib)
	} else if f := h.Join(dir, "src", "lib.rs"); at.hasLib || h.IsFile(f) {
		lib = f
	}
	on := b.state(unitKey{root, false}).on
	add := func(path string) { bins = mergeStrings(bins, []string{h.Clean(path)}) }
	out := map[string]bool{} // programs that are not built
	for _, one := range at.bins {
		path := ""
		if one.path != "" {
			path = h.Join(dir, one.path)
		} else {
			for _, p := range []string{h.Join(dir, "src", "bin", one.name+".rs"), h.Join(dir, "src", "bin", one.name, "main.rs"), h.Join(dir, "src", "main.rs")} {
				if h.IsFile(p) {
					path = p
					break
				}
			}
		}
		if path == "" {
			continue
		}
		built := true
		for _, f := range one.needs {
			if strings.Contains(f, "/") {
				b.open(root.Manifest + ": program " + one.name + " needs a dependency's feature `" + f + "`")
			}
			built = built && on[f]
		}
		if !built {
			out[h.Clean(path)] = true
			continue
		}
		add(path)
	}
	if at.noAutobins {
		return lib, bins, len(out) > 0
	}
	auto := func(path string) {
		if !out[h.Clean(path)] {
			add(path)
		}
	}
	if f := h.Join(dir, "src", "main.rs"); h.IsFile(f) {
		auto(f)
	}
	entries, err := h.Files.ReadDir(h.Join(dir, "src", "bin"))
	if err != nil {
		return lib, bins, len(out) > 0 // there is none
	}
	for _, e := range entries {
		p := h.Join(dir, "src", "bin", e.Name())
		switch {
		case strings.HasSuffix(e.Name(), ".rs"):
			auto(p)
		case h.IsFile(h.Join(p, "main.rs")):
			auto(h.Join(p, "main.rs"))
		}
	}
	return lib, bins, len(out) > 0
}

// places is where a manifest says that targets are.
type places struct {
	lib            string
	libName        string
	hasLib         bool
	noAutobins     bool
	noAutoexamples bool
	bins, examples []binPlace
}

type binPlace struct {
	name, path string
	needs      []string // required-features
}

func placesIn(raw map[string]any) places {
	lib, pkg := table(raw, "lib"), table(raw, "package", "project")
	at := places{lib: str(lib["path"]), libName: str(lib["name"]), hasLib: raw["lib"] != nil}
	if v, ok := pkg["autobins"].(bool); ok {
		at.noAutobins = !v
	}
	if v, ok := pkg["autoexamples"].(bool); ok {
		at.noAutoexamples = !v
	}
	at.bins, at.examples = placesOf(raw, "bin"), placesOf(raw, "example")
	return at
}

func placesOf(raw map[string]any, kind string) []binPlace {
	var out []binPlace
	for _, one := range tablesOf(raw[kind]) {
		needs, _ := stringsOf(one["required-features"])
		out = append(out, binPlace{str(one["name"]), str(one["path"]), needs})
	}
	return out
}

// id is a package's id: of a path, or of where the lock file has it from.
func (b *planner) id(p *Package) string {
	if b.ids == nil {
		b.ids = map[*Package]string{}
	}
	id, known := b.ids[p]
	if !known {
		if source, foreign := b.foreign[p]; foreign {
			id = strings.SplitN(source, "#", 2)[0] + "#" + p.Name + "@" + p.Version
		} else {
			id = pathID(b.host, p)
		}
		b.ids[p] = id
	}
	return id
}

// PathID is the id that cargo gives a package of a directory.
func (p *Package) PathID(h buildenv.Host) string { return pathID(h, p) }

var escapePath = strings.NewReplacer("%", "%25", " ", "%20", "#", "%23", "?", "%3F")

// pathID is a package id as cargo writes it for a package in a directory.
func pathID(h buildenv.Host, p *Package) string {
	dir := strings.ReplaceAll(h.Clean(p.Dir), `\`, "/")
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir
	}
	id := "path+file://" + escapePath.Replace(dir)
	if h.Base(p.Dir) == p.Name {
		return id + "#" + p.Version
	}
	return id + "#" + p.Name + "@" + p.Version
}
