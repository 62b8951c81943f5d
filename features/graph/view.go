package graph

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// View is what will be linked, by cargo's unit graph or by manifests alone.
type View struct {
	Host    buildenv.Host
	Project *manifest.Project
	Catalog *catalog.Catalog
	Graph   *Graph // nil: made from manifests
	Nodes   []Node // index = unit
	Roots   []Root
	files   map[string]*manifest.Package // manifests by path; nil: cannot be read

	possible bool // see Possible
}

// Node is one package with one set of features, as far as it is linked.
type Node struct {
	ID       string
	Name     string
	Version  string
	Local    bool
	Dir      string // of the manifest; empty until ManifestOf found it
	src      string
	Features []string
	Platform string // empty: the one that is built for without --target
	Deps     []Dep
	pkg      *manifest.Package // see ManifestOf
}

// Dep is a step from a node to one that it depends on.
type Dep struct {
	To   int
	name string // extern crate name
}

// Root is one thing that is built, with what is linked into it.
type Root struct {
	Node   int
	Linked []int        // the root first
	Set    map[int]bool // the same
}

// NewView is what a unit graph links.
func NewView(h buildenv.Host, p *manifest.Project, c *catalog.Catalog, g *Graph) *View {
	v := &View{Host: h, Project: p, Catalog: c, Graph: g, files: map[string]*manifest.Package{}}
	if g == nil {
		return v
	}
	for i := range g.Units {
		u := &g.Units[i]
		id := manifest.ParsePkgID(u.PkgID)
		n := Node{ID: u.PkgID, Name: id.Name, Version: id.Version, Local: id.Local(), Dir: id.Dir(h), src: u.Target.SrcPath,
			Features: u.Features, Platform: u.Platform}
		for _, d := range u.Dependencies {
			n.Deps = append(n.Deps, Dep{d.Index, d.Name})
		}
		v.Nodes = append(v.Nodes, n)
	}
	for _, r := range g.Roots {
		rv := Root{Node: r, Linked: g.Linked(r), Set: map[int]bool{}}
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

// ManifestOf reads the manifest of a node: of the workspace, or above the unit's source. nil when it is not found.
func (v *View) ManifestOf(i int) *manifest.Package {
	n := &v.Nodes[i]
	if n.pkg == nil && v.Project != nil {
		if n.pkg = v.Project.Known(n.ID); n.pkg != nil {
			n.Dir = n.pkg.Dir
		}
	}
	if n.pkg != nil {
		return n.pkg
	}
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
	}
	return nil
}

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

// edgesOf is the manifest of a node, or what the catalog has of it where that is not on this machine; nil: nothing is known.
func (v *View) edgesOf(i int) *manifest.Package {
	n, c := &v.Nodes[i], v.Crate(i)
	if p := v.ManifestOf(i); p != nil || c == nil {
		return p
	}
	known, seen := v.files[n.Name]
	if seen {
		return known
	}
	known = &manifest.Package{Name: n.Name, Version: n.Version, Features: map[string][]string{}}
	for f, list := range c.Features {
		known.Features[f] = []string{}
		for _, s := range list {
			s, _, implicit := strings.Cut(s, "(")
			if implicit && !strings.HasPrefix(s, "dep:") {
				s = "dep:" + s
			}
			e := manifest.ParseEdge(s)
			if known.Features[f] = append(known.Features[f], e.Text); e.Dep != "" {
				known.Dependencies = append(known.Dependencies,
					manifest.Dependency{Key: e.Dep, Package: e.Dep, Kind: manifest.Normal, Optional: true})
			}
		}
	}
	v.files[n.Name] = known
	return known
}

// Declares reports whether a node's package has a feature, by its manifest, else by the catalog.
func (v *View) Declares(i int, feature string) bool {
	p := v.edgesOf(i)
	return slices.Contains(v.Nodes[i].Features, feature) || p != nil && p.Declares(feature)
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

// DepFor is the dependency entry by which the manifest of node from calls node to; a root may have it for its tests.
func (v *View) DepFor(r *Root, from, to int) (found manifest.Dependency, ok bool) {
	if p := v.ManifestOf(from); p != nil {
		for _, d := range p.Dependencies {
			if (d.Kind == manifest.Normal || d.Kind == manifest.Dev && from == r.Node) && v.DepNode(from, d, r.Set) == to {
				return d, true
			}
		}
	}
	return found, false
}
