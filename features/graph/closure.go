package graph

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// Feature is a feature of a node; without a name it is the package itself, which something activated.
type Feature struct {
	Node int
	Name string
}

// Closure is everything that features turn on by their edges, among what one root links. Cargo's features only ever add: what is on in
// the build and in no closure of the request is on without it.
type Closure struct {
	list []visit
	at   map[Feature]int
}

// visit is one thing that is turned on: by which other one, and where that is written.
type visit struct {
	Feature
	from int // index of what turned it on; -1: it was asked for
	Step
}

// Step is one step of an explanation: a package or one of its features, and the manifest line that made the step.
type Step struct {
	Text     string `json:"text"`
	Manifest string `json:"manifest,omitempty"`
	Line     int    `json:"line,omitempty"`
}

// maxSteps bounds a closure: nobody's features turn on more.
const maxSteps = 100000

// step is the node to which a dependency entry of a node leads; -1 where it is not linked.
type step func(from int, d manifest.Dependency, weak bool) int

// Closure follows the edges of features breadth first: own features, `dep:x`, `x/f`, and `x?/f` where x is linked. Of a package whose
// manifest is not on this machine it takes the edges that the catalog knows.
func (v *View) Closure(r *Root, from ...Feature) *Closure {
	c := &Closure{at: map[Feature]int{}}
	for _, f := range from {
		c.push(v, f, -1, "", 0)
	}
	v.follow(c, func(from int, d manifest.Dependency, _ bool) int {
		if !v.counts(r, from, d) {
			return -1
		}
		return v.DepNode(from, d, r.Set)
	})
	return c
}

// Alone is what cargo would build of some members, as far as their packages show it: what `--lint` looks at before it asks cargo. Tables
// for other targets count.
func Alone(h buildenv.Host, p *manifest.Project, known *catalog.Catalog, members []*manifest.Package, r manifest.Request) *View {
	v := &View{Host: h, Project: p, Catalog: known, files: map[string]*manifest.Package{}}
	at := map[string]int{} // by manifest, or by name where there is none
	node := func(d manifest.Dependency, pkg *manifest.Package) int {
		key, n := d.Package, Node{Name: d.Package, Version: strings.TrimLeft(d.Version, "=^~>< ")}
		if pkg != nil {
			key = pkg.Manifest
			n = Node{ID: key, Name: pkg.Name, Version: pkg.Version, Dir: pkg.Dir, Local: p.Local(pkg.Dir) == pkg, pkg: pkg}
		}
		i, seen := at[key]
		if !seen {
			i = len(v.Nodes)
			at[key], v.Nodes = i, append(v.Nodes, n)
		}
		return i
	}
	c := &Closure{at: map[Feature]int{}}
	asked := manifest.ParseRequest(r)
	for _, m := range members {
		root := node(manifest.Dependency{}, m)
		v.Roots = append(v.Roots, Root{Node: root, Set: map[int]bool{}})
		c.push(v, Feature{root, ""}, -1, "", 0)
		for _, f := range asked.Of(m) {
			c.push(v, Feature{root, f}, -1, "", 0)
		}
	}
	for before := -1; before < len(c.list); { // a weak edge counts once something else has brought its package in
		before = len(c.list)
		v.follow(c, func(from int, d manifest.Dependency, weak bool) int {
			name := strings.ReplaceAll(d.Key, "-", "_")
			for _, have := range v.Nodes[from].Deps {
				if have.name == name {
					return have.To
				}
			}
			if weak || d.Kind != manifest.Normal {
				return -1
			}
			to := node(d, p.Declaring(v.Nodes[from].pkg, d))
			v.Nodes[from].Deps = append(v.Nodes[from].Deps, Dep{to, name})
			return to
		})
	}
	for _, f := range c.Features() {
		if n := &v.Nodes[f.Node]; f.Name != "" {
			n.Features = append(n.Features, f.Name)
		}
	}
	for i := range v.Nodes {
		slices.Sort(v.Nodes[i].Features)
		for r := range v.Roots {
			v.Roots[r].Linked, v.Roots[r].Set[i] = append(v.Roots[r].Linked, i), true
		}
	}
	return v
}

func (c *Closure) push(v *View, f Feature, from int, manifest string, line int) {
	if _, known := c.at[f]; known {
		return
	}
	if v.Graph == nil && f.Name != "" && v.ManifestOf(f.Node) != nil && !v.Declares(f.Node, f.Name) {
		return
	}
	text := v.Nodes[f.Node].Name
	if f.Name != "" {
		text += "/" + f.Name
	}
	c.at[f] = len(c.list)
	c.list = append(c.list, visit{f, from, Step{text, manifest, line}})
}

func (v *View) follow(c *Closure, to step) {
	for at := 0; at < len(c.list) && at < maxSteps; at++ {
		v.expand(c, at, to)
	}
}

func (v *View) expand(c *Closure, at int, step step) {
	here := c.list[at]
	p := v.ManifestOf(here.Node)
	if p == nil {
		v.expandKnown(c, at, step)
		return
	}
	enter := func(to int, d manifest.Dependency, line int) {
		c.push(v, Feature{to, ""}, at, p.Manifest, line)
		for _, f := range d.Features {
			c.push(v, Feature{to, f}, at, p.Manifest, line)
		}
		if d.DefaultFeatures && (v.Graph == nil || slices.Contains(v.Nodes[to].Features, "default")) {
			c.push(v, Feature{to, "default"}, at, p.Manifest, line)
		}
	}
	if here.Name == "" {
		for _, d := range p.Dependencies {
			if d.Optional {
				continue
			}
			if to := step(here.Node, d, false); to >= 0 {
				enter(to, d, p.DependencyLine(d))
			}
		}
		return
	}
	for _, e := range p.Edges(here.Name) {
		line := p.Line("features", here.Name)
		if e.Dep == "" {
			c.push(v, Feature{here.Node, e.Feature}, at, p.Manifest, line)
			continue
		}
		if e.Feature != "" && !e.Weak && p.Implicit(e.Dep) && e.Dep != here.Name {
			c.push(v, Feature{here.Node, e.Dep}, at, p.Manifest, line)
		}
		for _, d := range p.Dependencies {
			to := -1
			if d.Key == e.Dep {
				to = step(here.Node, d, e.Weak)
			}
			if to < 0 {
				continue
			}
			if e.Feature != "" {
				c.push(v, Feature{to, e.Feature}, at, p.Manifest, line)
			}
			if d.Optional && !e.Weak {
				enter(to, d, line)
			}
		}
	}
}

// expandKnown takes the edges of a feature from the catalog.
func (v *View) expandKnown(c *Closure, at int, step step) {
	here, crate := c.list[at], v.Crate(c.list[at].Node)
	if crate == nil || here.Name == "" {
		return
	}
	for _, s := range crate.Features[here.Name] {
		e := manifest.ParseEdge(s)
		if e.Dep == "" && !strings.Contains(e.Feature, "(") {
			c.push(v, Feature{here.Node, e.Feature}, at, "", 0)
		}
		if e.Dep == "" || e.Weak {
			continue
		}
		if to := step(here.Node, manifest.Dependency{Key: e.Dep, Package: e.Dep, Kind: manifest.Normal}, false); to >= 0 {
			if c.push(v, Feature{to, ""}, at, "", 0); e.Feature != "" {
				c.push(v, Feature{to, e.Feature}, at, "", 0)
			}
		}
	}
	if slices.Contains(crate.CUDAFeatures, here.Name) { // implicit edges are not written out there
		for _, d := range v.Nodes[here.Node].Deps {
			if to := v.Crate(d.To); to.CUDA() && to.Role == catalog.Carrier &&
				step(here.Node, manifest.Dependency{Key: d.name, Package: to.Name, Kind: manifest.Normal}, true) == d.To {
				c.push(v, Feature{d.To, ""}, at, "", 0)
			}
		}
	}
}

// Has reports whether something is turned on.
func (c *Closure) Has(f Feature) bool { _, has := c.at[f]; return has }

// Features lists what is turned on, nearest first.
func (c *Closure) Features() []Feature {
	out := make([]Feature, 0, len(c.list))
	for i := range c.list {
		out = append(out, c.list[i].Feature)
	}
	return out
}

// Chain lists the steps by which something was turned on, from what was asked for; nil where it was not.
func (c *Closure) Chain(f Feature) []Step {
	at, has := c.at[f]
	if !has {
		return nil
	}
	var out []Step
	for ; at >= 0; at = c.list[at].from {
		out = append(out, c.list[at].Step)
	}
	slices.Reverse(out)
	return out
}

// Way lists the packages of a shortest chain of dependencies from a root to a linked package, the root first; nil where there is none.
func (v *View) Way(r *Root, to int) []int {
	from := map[int]int{r.Node: -1}
	for queue := []int{r.Node}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == to {
			var out []int
			for i := to; i >= 0; i = from[i] {
				out = append(out, i)
			}
			slices.Reverse(out)
			return out
		}
		for _, d := range v.Nodes[queue[0]].Deps {
			if _, seen := from[d.To]; !seen && r.Set[d.To] {
				from[d.To] = queue[0]
				queue = append(queue, d.To)
			}
		}
	}
	return nil
}

// counts reports whether a dependency entry of a node can be linked into a root: a test, benchmark or example has the dev-dependencies,
// too.
func (v *View) counts(r *Root, node int, d manifest.Dependency) bool {
	if d.Kind != manifest.Dev || node != r.Node || v.Graph == nil {
		return d.Kind == manifest.Normal
	}
	u := &v.Graph.Units[node]
	return u.Mode == "test" || u.Mode == "bench" || slices.ContainsFunc(u.Target.Kind, func(kind string) bool {
		return kind == "test" || kind == "bench" || kind == "example"
	})
}

// Why is the chain of edges by which a feature turned a GPU crate on, or where it ends.
type Why struct {
	Root    string   `json:"root"`
	Feature string   `json:"feature"`
	Steps   []string `json:"steps"` // app/cuda, candle-core/cuda, cudarc
	Reached bool     `json:"reached"`
	End     string   `json:"end,omitempty"` // why it ends there
}

func (w Why) String() string {
	line := strings.Join(w.Steps, " → ")
	if !w.Reached && w.End != "" {
		line += " ends: " + w.End
	}
	return line
}
