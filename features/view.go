package features

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// View is what will be linked, from whichever answer cargo gave: the unit graph, or cargo tree where that was refused.
type View struct {
	h       buildenv.Host
	project *Project
	catalog *Catalog
	graph   *Graph // nil: made from tree
	nodes   []node // index = unit or tree node
	roots   []rootView
	files   map[string]*Package // manifests by path; nil: cannot be read
}

// node is one package with one set of features, as far as it is linked.
type node struct {
	id       string
	name     string
	version  string
	local    bool
	registry bool   // of crates.io, as a tree tells it
	source   string // what a tree says of where it is from
	dir      string // of the manifest; empty until manifestOf found it
	src      string
	features []string
	platform string // empty: the one that is built for without --target, or, from a tree, the only one
	deps     []nodeDep
}

type nodeDep struct {
	to   int
	name string // extern crate name; empty from a tree
}

type rootView struct {
	node   int
	linked []int
	set    map[int]bool
}

// NewView reads one of cargo's answers; with both, the unit graph.
func NewView(h buildenv.Host, p *Project, c *Catalog, g *Graph, t *Tree) *View {
	v := &View{h: h, project: p, catalog: c, files: map[string]*Package{}}
	var roots []int
	var linked func(int) []int
	switch {
	case g != nil:
		v.graph, linked = g, g.Linked
		roots = append(append(roots, g.Roots...), g.embedded(g.Roots)...)
		v.nodes = make([]node, len(g.Units))
		for i := range g.Units {
			u := &g.Units[i]
			id := ParsePkgID(u.PkgID)
			n := node{id: u.PkgID, name: id.Name, version: id.Version, local: id.Local(), dir: id.Dir(h), src: u.Target.SrcPath, features: u.Features, platform: u.Platform}
			for _, d := range u.Dependencies {
				n.deps = append(n.deps, nodeDep{d.Index, d.Name})
			}
			v.nodes[i] = n
		}
	case t != nil:
		roots, linked = t.Roots, t.Linked
		for _, tn := range t.Nodes {
			n := node{name: tn.Name, version: tn.Version, features: tn.Features, platform: tn.Platform, registry: tn.Source == "", source: tn.Source}
			if h.IsAbs(tn.Source) && !strings.Contains(tn.Source, "://") {
				n.local, n.dir = true, tn.Source
			}
			for _, c := range tn.Children {
				n.deps = append(n.deps, nodeDep{to: c})
			}
			v.nodes = append(v.nodes, n)
		}
	}
	for _, r := range roots {
		rv := rootView{node: r, linked: linked(r), set: map[int]bool{}}
		for _, i := range rv.linked {
			rv.set[i] = true
		}
		v.roots = append(v.roots, rv)
	}
	return v
}

func (v *View) crate(i int) *Crate { return v.catalog.Crate(v.nodes[i].name) }

// manifestOf reads the manifest of a node: of the workspace, beside the unit's source, or below CARGO_HOME. nil when it is not found.
func (v *View) manifestOf(i int) *Package {
	n := &v.nodes[i]
	if n.dir != "" {
		if v.project != nil {
			if p := v.project.Local(n.dir); p != nil {
				return p
			}
		}
		return v.readManifest(v.h.Join(n.dir, ManifestName), n.name)
	}
	if n.src != "" {
		d := v.h.Dir(n.src)
		for up := 0; up < 8; up++ {
			if p := v.readManifest(v.h.Join(d, ManifestName), n.name); p != nil {
				n.dir = d
				return p
			}
			d = v.h.Dir(d)
		}
		return nil
	}
	if v.project == nil {
		return nil
	}
	p := v.project.registryManifest(n.name, n.version)
	if v.graph == nil && !n.registry { // another package of that name and version may lie among the registry's
		p = nil
		if lp := v.locked(n); lp != nil {
			p = v.project.lockedManifest(lp)
		}
	}
	if p != nil {
		n.dir = p.Dir
	}
	return p
}

// locked answers what the lock file has of a package that a tree names; nil where it has none, or several that the tree does not tell apart. A tree names
// a repository by its address and the commit's first digits, another registry by what the configuration calls it.
func (v *View) locked(n *node) *LockPackage {
	if v.project == nil || n.local {
		return nil
	}
	var found *LockPackage
	for i := range v.project.Lock {
		lp := &v.project.Lock[i]
		if lp.Name != n.name || lp.Version != n.version || lp.Source == "" || n.registry != (lp.Source == cratesIO) {
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

const cratesIO = "registry+https://github.com/rust-lang/crates.io-index"

func (v *View) readManifest(path, name string) *Package {
	p, seen := v.files[path]
	if !seen {
		p = Read(v.h, path)
		v.files[path] = p
	}
	if p != nil && p.Name == name {
		return p
	}
	return nil
}

// dirOf answers the directory of a node's package; empty when it is not found.
func (v *View) dirOf(i int) string {
	if v.nodes[i].dir == "" {
		v.manifestOf(i)
	}
	return v.nodes[i].dir
}

// declares says whether a node's package has a feature, by its manifest, else by the catalog.
func (v *View) declares(i int, feature string) bool {
	if slices.Contains(v.nodes[i].features, feature) {
		return true
	}
	if p := v.manifestOf(i); p != nil {
		return p.Declares(feature)
	}
	if c := v.crate(i); c != nil {
		_, ok := c.Features[feature]
		return ok
	}
	return false
}

// depNode answers the linked node that a dependency entry of package i means; -1 when it is not linked.
func (v *View) depNode(i int, d Dependency, set map[int]bool) int {
	found := -1
	for _, nd := range v.nodes[i].deps {
		if !set[nd.to] || v.nodes[nd.to].name != d.Package {
			continue
		}
		if nd.name == strings.ReplaceAll(d.Key, "-", "_") {
			return nd.to
		}
		found = nd.to
	}
	return found
}

// depFor answers the dependency entry by which package i calls node to.
func (v *View) depFor(p *Package, to nodeDep) (Dependency, bool) {
	var found Dependency
	ok := false
	for _, d := range p.Dependencies {
		if d.Kind != Normal || d.Package != v.nodes[to.to].name {
			continue
		}
		if !ok || strings.ReplaceAll(d.Key, "-", "_") == to.name {
			found, ok = d, true
		}
	}
	return found, ok
}

// TreeID is the id by which cargo's messages name a package of a tree; empty where neither the tree nor the lock file tells it. Source: the cargo book,
// pkgid-spec.md; a name is written out unless the address ends with it.
func (v *View) TreeID(i int) string {
	n := &v.nodes[i]
	if n.local {
		if p := v.manifestOf(i); p != nil {
			return p.PathID(v.h)
		}
		return ""
	}
	if n.registry {
		return cratesIO + "#" + n.name + "@" + n.version
	}
	lp := v.locked(n)
	if lp == nil {
		return ""
	}
	source, _, _ := strings.Cut(lp.Source, "#")
	address, _, _ := strings.Cut(source, "?")
	if address[strings.LastIndexByte(address, '/')+1:] == n.name {
		return source + "#" + n.version
	}
	return source + "#" + n.name + "@" + n.version
}
