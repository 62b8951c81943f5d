package graph

import (
	"cmp"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// View is what will be linked, by cargo's unit graph or by manifests alone.
type View struct {
	Project *manifest.Project
	Catalog *catalog.Catalog
	Graph   *Graph // nil: made from manifests
	Nodes   []Node // index = unit
	Roots   []Root
	Weak    bool // of what Possible made: edges x?/f count whether something turns x on or not, and those of procedural macros do not

	possible bool // see Possible
	sure     bool // no edge counts that another target, or what only runs while something is built, may have alone
	Unsure   bool // of what Possible made: there are such edges
	web      *web // shared by views of the same nodes
	crates   *crates
	// of nodes whose row is another one here: what a build script downloads decides, and not its features
	Instead map[int]*catalog.Crate
}

// crates are the catalog's entries for the nodes of views, by one catalog.
type crates struct {
	of   *catalog.Catalog
	list []*catalog.Crate
	some bool // there is one
}

// Node is one package with one set of features, as far as it is linked.
type Node struct {
	ID       string
	Name     string
	Version  string
	Local    bool
	Dir      string            // of the manifest; empty: not found
	Pkg      *manifest.Package // its manifest; nil: not found
	Features []string
	Platform string // empty: the one that is built for without --target
	Deps     []Dep

	edges *manifest.Package // Pkg, or what the catalog has of it; nil: nothing is known
}

// Dep is a step from a node to one that it depends on.
type Dep struct {
	To   int
	name string // extern crate name
}

// Root is one thing that is built, with what is linked into it.
type Root struct {
	Node   int
	Linked []int // the root first
	Set    Set   // the same
	Plain  bool  // what its dev-dependencies turn on does not count
}

// Set are nodes: a bit for each, as every member of a large workspace is a root with a set.
type Set []uint64

// Has reports whether a node is in a set; -1 is in none.
func (s Set) Has(i int) bool { return i >= 0 && i/64 < len(s) && s[i/64]>>(i%64)&1 > 0 }

func setOf(nodes []int) Set {
	var s Set
	for _, i := range nodes {
		if more := i/64 + 1 - len(s); more > 0 {
			s = append(s, make(Set, more)...)
		}
		s[i/64] |= 1 << (i % 64)
	}
	return s
}

// NewView is what a unit graph links. It reads the manifests that cargo's metadata has not.
func NewView(h buildenv.Host, p *manifest.Project, g *Graph) *View {
	v := &View{Project: p, Catalog: catalog.Default(), Graph: g}
	for i := range g.Units {
		u := &g.Units[i]
		id := manifest.ParsePkgID(u.PkgID)
		n := Node{ID: u.PkgID, Name: id.Name, Version: id.Version, Local: id.Local(), Dir: id.Dir(h), Features: u.Features,
			Platform: u.Platform}
		for _, d := range u.Dependencies {
			n.Deps = append(n.Deps, Dep{d.Index, d.Name})
		}
		if n.Pkg = p.Known(n.ID); n.Pkg == nil && n.Dir != "" {
			n.Pkg = p.Local(n.Dir)
		}
		for dir := range h.Upwards(cmp.Or(n.Dir, h.Dir(u.Target.SrcPath))) {
			if n.Pkg != nil || n.Dir != "" && dir != n.Dir { // a path package's directory is known
				break
			}
			if found := p.Read(h.Join(dir, manifest.FileName)); found != nil && found.Name == n.Name {
				n.Pkg = found
			}
		}
		if n.Pkg != nil {
			n.Dir = n.Pkg.Dir
		}
		v.add(n)
	}
	for _, r := range g.Roots {
		linked := g.Linked(r)
		v.Roots = append(v.Roots, Root{Node: r, Linked: linked, Set: setOf(linked)})
	}
	return v
}

// add adds a node, with its edges.
func (v *View) add(n Node) int {
	if n.edges = n.Pkg; n.Pkg == nil {
		n.edges = fromCatalog(v.Catalog.Crate(n.Name), n)
	}
	v.Nodes = append(v.Nodes, n)
	return len(v.Nodes) - 1
}

// Crate is what the catalog has of a node.
func (v *View) Crate(i int) *catalog.Crate {
	if c := v.Instead[i]; c != nil {
		return c
	}
	return v.catalogued().list[i].In(v.Nodes[i].Version, v.Nodes[i].Features)
}

// Catalogued lists the linked nodes of a root that the catalog has.
func (v *View) Catalogued(r *Root) (nodes []int) {
	if known := v.catalogued(); known.some {
		for _, i := range r.Linked {
			if known.list[i] != nil {
				nodes = append(nodes, i)
			}
		}
	}
	return nodes
}

func (v *View) catalogued() *crates {
	if v.crates == nil || v.crates.of != v.Catalog {
		v.crates = &crates{of: v.Catalog, list: make([]*catalog.Crate, len(v.Nodes))}
		for i := range v.Nodes {
			v.crates.list[i] = v.Catalog.Crate(v.Nodes[i].Name)
			v.crates.some = v.crates.some || v.crates.list[i] != nil
		}
	}
	return v.crates
}

// CUDAOn reports whether a node brings CUDA code with the features that are on in it.
func (v *View) CUDAOn(i int) bool {
	c := v.Crate(i)
	return c.CUDA() && c.On(v.Nodes[i].Features)
}

// fromCatalog is what the catalog has of a package whose manifest is not on this machine.
func fromCatalog(c *catalog.Crate, n Node) *manifest.Package {
	if c == nil {
		return nil
	}
	known := &manifest.Package{Name: n.Name, Version: n.Version, Features: map[string][]string{}}
	for f, list := range c.Features {
		known.Features[f] = []string{}
		for _, s := range list {
			e := manifest.ParseEdge(s)
			if known.Features[f] = append(known.Features[f], e.Text); e.Dep != "" {
				known.Dependencies = append(known.Dependencies,
					manifest.Dependency{Key: e.Dep, Package: e.Dep, Kind: manifest.Normal, Optional: true})
			}
		}
	}
	return known
}

// Declares reports whether a node's package has a feature, by its manifest, else by the catalog.
func (v *View) Declares(i int, feature string) bool {
	p := v.Nodes[i].edges
	return slices.Contains(v.Nodes[i].Features, feature) || p != nil && p.Declares(feature)
}

// DepNode returns the linked node that a dependency entry of package i means; -1 when it is not linked.
func (v *View) DepNode(i int, d manifest.Dependency, set Set) int {
	for _, to := range v.meant(i, &d, v.Nodes[i].Deps) {
		if set.Has(to) {
			return to
		}
	}
	return -1
}

// meant lists the nodes among deps that a dependency entry of package i may mean, the likeliest first. Sources call a package by its key; one that is not
// renamed by the name of its library, which may be another one than the package's.
func (v *View) meant(i int, d *manifest.Dependency, deps []Dep) (nodes []int) {
	var others []int
	for _, nd := range deps {
		switch {
		case v.Nodes[nd.To].Name != d.Package:
		case nd.name == strings.ReplaceAll(d.Key, "-", "_"):
			nodes = append(nodes, nd.To)
		case d.Key == d.Package && !slices.ContainsFunc(v.Nodes[i].edges.Dependencies, func(o manifest.Dependency) bool {
			return o.Package == d.Package && strings.ReplaceAll(o.Key, "-", "_") == nd.name
		}):
			others = append(others, nd.To)
		}
	}
	slices.Reverse(others)
	return append(nodes, others...)
}

// DepFor is the dependency entry by which the manifest of node from calls node to; a root may have it for its tests.
func (v *View) DepFor(r *Root, from, to int) (found manifest.Dependency, ok bool) {
	if p := v.Nodes[from].Pkg; p != nil {
		for _, d := range p.Dependencies {
			if (d.Kind == manifest.Normal || d.Kind == manifest.Dev && from == r.Node) && v.DepNode(from, d, r.Set) == to {
				return d, true
			}
		}
	}
	return found, false
}
