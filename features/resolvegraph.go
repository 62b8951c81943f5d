package features

import (
	"fmt"
	"sort"
	"strings"

	"gpubuild/buildenv"
)

// build makes the graph of what is linked: a unit for each program and library of the root, and one for each package below.
func (b *planner) build() {
	g := b.plan.Graph
	lib, bins := b.targets()
	unit := func(p *Package, kind, name, src string) int {
		g.Units = append(g.Units, Unit{PkgID: b.id(p), Mode: "build", Features: b.features(p), Target: Target{Kind: []string{kind}, Name: name, SrcPath: src}})
		return len(g.Units) - 1
	}
	below := func(p *Package) []UnitDep {
		var out []UnitDep
		for _, d := range p.Dependencies {
			if d.Kind != Normal || d.Optional && !b.deps[p][d.Key] || !b.applies(p, d) {
				continue
			}
			t := b.dependency(p, d)
			if t.pkg == nil || t.pkg.ProcMacro {
				continue
			}
			i, known := b.known[t.pkg.Dir]
			if !known {
				i = unit(t.pkg, "lib", strings.ReplaceAll(t.pkg.Name, "-", "_"), b.host.Join(t.pkg.Dir, "src", "lib.rs"))
				b.known[t.pkg.Dir] = i
			}
			out = append(out, UnitDep{Index: i, Name: strings.ReplaceAll(d.Key, "-", "_")})
		}
		return out
	}
	at := -1
	if lib != "" || len(bins) == 0 {
		at = unit(b.root, "lib", strings.ReplaceAll(b.root.Name, "-", "_"), lib)
		g.Roots = append(g.Roots, at)
		b.known[b.root.Dir] = at
	}
	var programs []int
	for _, src := range bins {
		i := unit(b.root, "bin", b.root.Name, src)
		g.Roots = append(g.Roots, i)
		programs = append(programs, i)
	}
	deps := below(b.root)
	if at >= 0 {
		g.Units[at].Dependencies = deps
	}
	for _, i := range programs {
		g.Units[i].Dependencies = deps
		if at >= 0 {
			g.Units[i].Dependencies = append(append([]UnitDep{}, deps...), UnitDep{Index: at, Name: g.Units[at].Target.Name})
		}
	}
	seen := map[*Package]bool{b.root: true}
	queue := []*Package{}
	next := func(p *Package) {
		for _, d := range p.Dependencies {
			if t := b.found[entryOf(p, d)]; t.pkg != nil && !seen[t.pkg] {
				if _, linked := b.known[t.pkg.Dir]; linked {
					seen[t.pkg] = true
					queue = append(queue, t.pkg)
				}
			}
		}
	}
	next(b.root)
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		deps := below(p) // may add units, so that the slice moves
		g.Units[b.known[p.Dir]].Dependencies = deps
		next(p)
	}
}

func (b *planner) features(p *Package) []string {
	out := make([]string, 0, len(b.on[p]))
	for f := range b.on[p] {
		out = append(out, f)
	}
	sort.Strings(out)
	return out
}

// targets finds the library and the programs of the root package, as cargo's rules for their places say.
func (b *planner) targets() (lib string, bins []string) {
	h, dir := b.host, b.root.Dir
	raw, err := decode(b.root.text)
	if err != nil {
		return "", nil
	}
	if s := str(table(raw, "lib")["path"]); s != "" {
		lib = h.Join(dir, s)
	} else if f := h.Join(dir, "src", "lib.rs"); h.IsFile(f) || raw["lib"] != nil {
		lib = f
	}
	auto := true
	if v, ok := table(raw, "package", "project")["autobins"].(bool); ok {
		auto = v
	}
	add := func(path string) { bins = mergeStrings(bins, []string{h.Clean(path)}) }
	for _, p := range b.root.Bins {
		add(p)
	}
	list, _ := raw["bin"].([]map[string]any)
	for _, one := range list {
		name := str(one["name"])
		if needs, _ := stringsOf(one["required-features"]); len(needs) > 0 {
			for _, f := range needs {
				if !b.on[b.root][f] {
					b.open(fmt.Sprintf("program %s of %s needs the feature `%s`", name, b.root.Name, f))
				}
			}
		}
		if str(one["path"]) == "" {
			for _, p := range []string{h.Join(dir, "src", "bin", name+".rs"), h.Join(dir, "src", "bin", name, "main.rs"), h.Join(dir, "src", "main.rs")} {
				if h.IsFile(p) {
					add(p)
					break
				}
			}
		}
	}
	if !auto {
		return lib, bins
	}
	if f := h.Join(dir, "src", "main.rs"); h.IsFile(f) {
		add(f)
	}
	entries, err := h.Files.ReadDir(h.Join(dir, "src", "bin"))
	if err != nil {
		return lib, bins // there is none
	}
	for _, e := range entries {
		p := h.Join(dir, "src", "bin", e.Name())
		switch {
		case strings.HasSuffix(e.Name(), ".rs"):
			add(p)
		case h.IsFile(h.Join(p, "main.rs")):
			add(h.Join(p, "main.rs"))
		}
	}
	return lib, bins
}

// id is a package's id: of a path, or of the registry for what lies below CARGO_HOME.
func (b *planner) id(p *Package) string {
	if b.byPath[p.Manifest] == nil {
		return "registry+file:///registry#" + p.Name + "@" + p.Version
	}
	if b.ids == nil {
		b.ids = map[*Package]string{}
	}
	id, known := b.ids[p]
	if !known {
		id = pathID(b.host, p)
		b.ids[p] = id
	}
	return id
}

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
