package graph

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// FromManifests is what cargo would build of some members, as far as manifests and Cargo.lock on this machine show it: what `--lint` looks
// at before it asks cargo. Tables for other targets count, and of packages from which no GPU crate is reached only the name is known.
func FromManifests(h buildenv.Host, p *manifest.Project, c *catalog.Catalog, members []*manifest.Package, r manifest.Request) *View {
	v := &View{Host: h, Project: p, Catalog: c, files: map[string]*manifest.Package{}}
	m := &resolver{View: v, leads: p.Leading(), at: map[string]int{}, on: map[Feature]bool{}}
	asked := manifest.ParseRequest(r)
	for _, member := range members {
		root := m.node(member, manifest.Dependency{Package: member.Name})
		m.turnOn(Feature{root, ""})
		for _, f := range asked.Of(member) {
			m.turnOn(Feature{root, f})
		}
		v.Roots = append(v.Roots, Root{Node: root, Set: map[int]bool{}})
	}
	for grown := true; grown; { // a weak edge counts once something else has brought its package in
		before := len(m.on)
		for i := 0; i < len(m.list) && i < maxSteps; i++ {
			m.expand(m.list[i])
		}
		grown = len(m.on) > before
	}
	for r := range v.Roots {
		for i := range v.Nodes {
			v.Roots[r].Linked, v.Roots[r].Set[i] = append(v.Roots[r].Linked, i), true
		}
	}
	for i := range v.Nodes {
		slices.Sort(v.Nodes[i].Features)
	}
	return v
}

type resolver struct {
	*View
	leads map[string]bool
	at    map[string]int // by manifest, or by name where there is none
	on    map[Feature]bool
	list  []Feature
	pkgs  []*manifest.Package
}

// node answers the node of a package, which it adds.
func (m *resolver) node(p *manifest.Package, d manifest.Dependency) int {
	key := d.Package
	if p != nil {
		key = p.Manifest
	}
	i, known := m.at[key]
	if !known {
		i = len(m.Nodes)
		n := Node{Name: d.Package, Version: strings.TrimLeft(d.Version, "=^~>< ")}
		if p != nil {
			n = Node{ID: p.Manifest, Name: p.Name, Version: p.Version, Dir: p.Dir, Local: m.Project.Local(p.Dir) == p}
		}
		m.at[key], m.Nodes, m.pkgs = i, append(m.Nodes, n), append(m.pkgs, p)
	}
	return i
}

func (m *resolver) turnOn(f Feature) {
	if p := m.pkgs[f.Node]; m.on[f] || f.Name != "" && p != nil && !p.Declares(f.Name) {
		return
	}
	m.on[f], m.list = true, append(m.list, f)
	if f.Name != "" {
		m.Nodes[f.Node].Features = append(m.Nodes[f.Node].Features, f.Name)
	}
}

// enter brings a dependency in, and answers its node.
func (m *resolver) enter(from int, d manifest.Dependency) int {
	i := m.node(m.manifestFor(d), d)
	if !slices.ContainsFunc(m.Nodes[from].Deps, func(have Dep) bool { return have.To == i }) {
		m.Nodes[from].Deps = append(m.Nodes[from].Deps, Dep{i, strings.ReplaceAll(d.Key, "-", "_")})
	}
	m.turnOn(Feature{i, ""})
	for _, f := range d.Features {
		m.turnOn(Feature{i, f})
	}
	if d.DefaultFeatures {
		m.turnOn(Feature{i, "default"})
	}
	return i
}

// manifestFor reads the manifest of a dependency where that matters and is possible.
func (m *resolver) manifestFor(d manifest.Dependency) *manifest.Package {
	if d.Path == "" && !m.leads[d.Package] && m.Catalog.Crate(d.Package) == nil {
		return nil
	}
	return m.Project.Declaring(d)
}

// linked answers the node of a dependency that something has brought in; -1 where nothing has.
func (m *resolver) linked(from int, d manifest.Dependency) int {
	for _, have := range m.Nodes[from].Deps {
		if have.name == strings.ReplaceAll(d.Key, "-", "_") {
			return have.To
		}
	}
	return -1
}

func (m *resolver) expand(f Feature) {
	p := m.pkgs[f.Node]
	if p == nil {
		m.expandCatalog(f)
		return
	}
	if f.Name == "" {
		for _, d := range p.Dependencies {
			if !d.Optional && d.Kind == manifest.Normal {
				m.enter(f.Node, d)
			}
		}
		return
	}
	edges, _ := p.Edges(f.Name)
	for _, e := range edges {
		if e.Dep == "" {
			m.turnOn(Feature{f.Node, e.Feature})
			continue
		}
		for _, d := range p.Dependencies {
			if d.Key != e.Dep || d.Kind != manifest.Normal {
				continue
			}
			to := m.linked(f.Node, d)
			if to < 0 && !e.Weak {
				to = m.enter(f.Node, d)
			}
			if to >= 0 && e.Feature != "" {
				m.turnOn(Feature{to, e.Feature})
			}
		}
		if !e.Weak && e.Feature != "" && p.Implicit(e.Dep) {
			m.turnOn(Feature{f.Node, e.Dep})
		}
	}
}

func (m *resolver) expandCatalog(f Feature) {
	c := m.Catalog.Crate(m.Nodes[f.Node].Name)
	if c == nil || f.Name == "" {
		return
	}
	for _, s := range c.Features[f.Name] {
		e := manifest.ParseEdge(s)
		switch {
		case e.Dep == "" && !strings.Contains(e.Feature, "("):
			m.turnOn(Feature{f.Node, e.Feature})
		case e.Dep != "" && !e.Weak:
			if to := m.enter(f.Node, manifest.Dependency{Key: e.Dep, Package: e.Dep}); e.Feature != "" {
				m.turnOn(Feature{to, e.Feature})
			}
		}
	}
}
