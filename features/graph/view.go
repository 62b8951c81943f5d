package graph

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// View is what will be linked, from whichever answer cargo gave: the unit graph, or cargo tree where that was refused.
type View struct {
	Host    buildenv.Host
	Project *manifest.Project
	Catalog *catalog.Catalog
	Graph   *Graph // nil: made from tree
	Nodes   []Node // index = unit or tree node
	Roots   []Root
	files   map[string]*manifest.Package // manifests by path; nil: cannot be read
}

// Node is one package with one set of features, as far as it is linked.
type Node struct {
	ID       string
	Name     string
	Version  string
	Local    bool
	Registry bool   // of crates.io, as a tree shows it
	source   string // what a tree says of where it is from
	Dir      string // of the manifest; empty until ManifestOf found it
	src      string
	Features []string
	Platform string // empty: the one that is built for without --target, or, from a tree, the only one
	Deps     []Dep
}

// Dep is a step from a node to one that it depends on.
type Dep struct {
	To   int
	name string // extern crate name; empty from a tree
}

// Root is one thing that is built, with what is linked into it.
type Root struct {
	Node   int
	Linked []int        // the root first
	Set    map[int]bool // the same
}

// NewView reads one of cargo's answers; with both, the unit graph.
func NewView(h buildenv.Host, p *manifest.Project, c *catalog.Catalog, g *Graph, t *Tree) *View {
	v := &View{Host: h, Project: p, Catalog: c, files: map[string]*manifest.Package{}}
	var roots []int
	var linked func(int) []int
	switch {
	case g != nil:
		v.Graph, linked = g, g.Linked
		roots = append(append(roots, g.Roots...), g.embedded(g.Roots)...)
		v.Nodes = make([]Node, len(g.Units))
		for i := range g.Units {
			u := &g.Units[i]
			id := manifest.ParsePkgID(u.PkgID)
			n := Node{ID: u.PkgID, Name: id.Name, Version: id.Version, Local: id.Local(), Dir: id.Dir(h), src: u.Target.SrcPath,
				Features: u.Features, Platform: u.Platform}
			for _, d := range u.Dependencies {
				n.Deps = append(n.Deps, Dep{d.Index, d.Name})
			}
			v.Nodes[i] = n
		}
	case t != nil:
		roots, linked = t.Roots, t.Linked
		for _, tn := range t.Nodes {
			n := Node{Name: tn.Name, Version: tn.Version, Features: tn.Features, Platform: tn.Platform, Registry: tn.Source == "",
				source: tn.Source}
			if h.IsAbs(tn.Source) && !strings.Contains(tn.Source, "://") {
				n.Local, n.Dir = true, tn.Source
			}
			for _, c := range tn.Children {
				n.Deps = append(n.Deps, Dep{To: c})
			}
			v.Nodes = append(v.Nodes, n)
		}
	}
	for _, r := range roots {
		rv := Root{Node: r, Linked: linked(r), Set: map[int]bool{}}
		for _, i := range rv.Linked {
			rv.Set[i] = true
		}
		v.Roots = append(v.Roots, rv)
	}
	return v
}

func (v *View) Crate(i int) *catalog.Crate { return v.Catalog.Crate(v.Nodes[i].Name) }

// CUDAOn says whether a node brings CUDA code with the features that are on in it.
func (v *View) CUDAOn(i int) bool {
	c := v.Crate(i)
	return c.CUDA() && c.On(v.Nodes[i].Features)
}

// ManifestOf reads the manifest of a node: of the workspace, next to the unit's source, or below CARGO_HOME. nil when it is not found.
func (v *View) ManifestOf(i int) *manifest.Package {
	n := &v.Nodes[i]
	if n.Dir != "" {
		if v.Project != nil {
			if p := v.Project.Local(n.Dir); p != nil {
				return p
			}
		}
		return v.ReadManifest(v.Host.Join(n.Dir, manifest.FileName), n.Name)
	}
	if n.src != "" {
		d := v.Host.Dir(n.src)
		for up := 0; up < 8; up++ {
			if p := v.ReadManifest(v.Host.Join(d, manifest.FileName), n.Name); p != nil {
				n.Dir = d
				return p
			}
			d = v.Host.Dir(d)
		}
		return nil
	}
	if v.Project == nil {
		return nil
	}
	p := v.Project.RegistryManifest(n.Name, n.Version)
	if v.Graph == nil && !n.Registry { // another package of that name and version may lie among the registry's
		p = nil
		if lp := v.locked(n); lp != nil {
			p = v.Project.LockedManifest(lp)
		}
	}
	if p != nil {
		n.Dir = p.Dir
	}
	return p
}

// locked answers what the lock file has of a package that a tree names; nil where it has none, or several that the tree does not
// distinguish apart. A tree names a repository by its address and the commit's first digits, another registry by what the configuration
// calls it.
func (v *View) locked(n *Node) *manifest.LockPackage {
	if v.Project == nil || n.Local {
		return nil
	}
	var found *manifest.LockPackage
	for i := range v.Project.Lock {
		lp := &v.Project.Lock[i]
		if lp.Name != n.Name || lp.Version != n.Version || lp.Source == "" || n.Registry != (lp.Source == CratesIO) {
			continue
		}
		address, isGit := strings.CutPrefix(lp.Source, "git+")
		address, commit, _ := strings.Cut(address, "#")
		if isGit != strings.Contains(n.source, "://") {
			continue
		}
		if at, digits, ok := strings.Cut(n.source, "#"); isGit && (!ok || at != address || !strings.HasPrefix(commit, digits)) {
			continue
		}
		if found != nil {
			return nil
		}
		found = lp
	}
	return found
}

// CratesIO is how a lock file names the public registry.
const CratesIO = "registry+https://github.com/rust-lang/crates.io-index"

func (v *View) ReadManifest(path, name string) *manifest.Package {
	p, seen := v.files[path]
	if !seen {
		p = manifest.Read(v.Host, path)
		v.files[path] = p
	}
	if p != nil && p.Name == name {
		return p
	}
	return nil
}

// DirOf answers the directory of a node's package; empty when it is not found.
func (v *View) DirOf(i int) string {
	if v.Nodes[i].Dir == "" {
		v.ManifestOf(i)
	}
	return v.Nodes[i].Dir
}

// Declares says whether a node's package has a feature, by its manifest, else by the catalog.
func (v *View) Declares(i int, feature string) bool {
	if slices.Contains(v.Nodes[i].Features, feature) {
		return true
	}
	if p := v.ManifestOf(i); p != nil {
		return p.Declares(feature)
	}
	if c := v.Crate(i); c != nil {
		_, ok := c.Features[feature]
		return ok
	}
	return false
}

// DepNode answers the linked node that a dependency entry of package i means; -1 when it is not linked.
func (v *View) DepNode(i int, d manifest.Dependency, set map[int]bool) int {
	found := -1
	for _, nd := range v.Nodes[i].Deps {
		if !set[nd.To] || v.Nodes[nd.To].Name != d.Package {
			continue
		}
		if nd.name == strings.ReplaceAll(d.Key, "-", "_") {
			return nd.To
		}
		found = nd.To
	}
	return found
}

// DepFor answers the dependency entry by which package i calls node to.
func (v *View) DepFor(p *manifest.Package, to Dep) (manifest.Dependency, bool) {
	var found manifest.Dependency
	ok := false
	for _, d := range p.Dependencies {
		if d.Kind != manifest.Normal || d.Package != v.Nodes[to.To].Name {
			continue
		}
		if !ok || strings.ReplaceAll(d.Key, "-", "_") == to.name {
			found, ok = d, true
		}
	}
	return found, ok
}

// TreeID is the id by which cargo's messages name a package of a tree; empty where neither the tree nor the lock file has it. Source: the
// cargo book, pkgid-spec.md; a name is written out unless the address ends with it.
func (v *View) TreeID(i int) string {
	n := &v.Nodes[i]
	if n.Local {
		if p := v.ManifestOf(i); p != nil {
			return p.PathID(v.Host)
		}
		return ""
	}
	if n.Registry {
		return CratesIO + "#" + n.Name + "@" + n.Version
	}
	lp := v.locked(n)
	if lp == nil {
		return ""
	}
	source, _, _ := strings.Cut(lp.Source, "#")
	address, _, _ := strings.Cut(source, "?")
	if address[strings.LastIndexByte(address, '/')+1:] == n.Name {
		return source + "#" + n.Version
	}
	return source + "#" + n.Name + "@" + n.Version
}
