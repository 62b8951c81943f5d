package graph

import (
	"slices"
	"strings"

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
	view   *View
	root   *Root
	list   []visit
	at     map[Feature]int
	on     map[int]map[string]bool // the features of nodes, of those that were asked about
	active map[Feature]bool        // dependencies, by the key that a node has for each
	weak   map[Feature][]visit     // of a possible view: edges x?/f for which x is not active yet
	ends   func(node int) bool     // of what was reached, these lead nowhere; nil: everything leads on
}

// visit is one thing that is turned on, and by which other one.
type visit struct {
	Feature
	from int                  // index of what turned it on; -1: it was asked for
	dep  *manifest.Dependency // the entry by which a package turned it on
}

// Step is one step of an explanation: a package or one of its features, and the manifest line that made the step.
type Step struct {
	Text     string `json:"text"`
	Manifest string `json:"manifest,omitempty"`
	Line     int    `json:"line,omitempty"`
}

// Closure follows the edges of features breadth first: own features, `dep:x`, `x/f`, and `x?/f` where x is linked, or in a possible
// view where the closure itself turns on the package's own x.
func (v *View) Closure(r *Root, from ...Feature) *Closure { return v.ClosureUpTo(r, nil, from...) }

// ClosureUpTo is Closure, but for what it reaches only through nodes at which it ends.
func (v *View) ClosureUpTo(r *Root, ends func(node int) bool, from ...Feature) *Closure {
	c := &Closure{view: v, root: r, at: map[Feature]int{}, active: map[Feature]bool{}, weak: map[Feature][]visit{}, ends: ends,
		on: map[int]map[string]bool{}}
	for _, f := range from {
		c.push(visit{f, -1, nil})
	}
	for at := 0; at < len(c.list); at++ {
		c.expand(at)
	}
	return c
}

func (c *Closure) push(turned visit) {
	f := turned.Feature
	if _, known := c.at[f]; known {
		return
	}
	if n := &c.view.Nodes[f.Node]; f.Name != "" && n.Pkg != nil && !(n.edges != nil && n.edges.Declares(f.Name)) && !c.has(f) {
		return
	}
	c.at[f] = len(c.list)
	c.list = append(c.list, turned)
}

// step is what turned something on, and where that is written.
func (c *Closure) step(at int) Step {
	on := c.list[at]
	s := Step{Text: strings.TrimSuffix(c.view.Nodes[on.Node].Name+"/"+on.Name, "/")}
	if on.from < 0 {
		return s
	}
	from := c.list[on.from]
	p := c.view.Nodes[from.Node].edges
	if s.Manifest = p.Manifest; from.Name == "" {
		s.Line = p.DependencyLine(*on.dep)
	} else {
		s.Line = p.Line("features", from.Name)
	}
	return s
}

// has reports whether a feature is on in its node.
func (c *Closure) has(f Feature) bool {
	on, known := c.on[f.Node]
	if !known {
		on = map[string]bool{}
		for _, name := range c.view.Nodes[f.Node].Features {
			on[name] = true
		}
		c.on[f.Node] = on
	}
	return on[f.Name]
}

func (c *Closure) expand(at int) {
	v, here := c.view, c.list[at]
	p := v.Nodes[here.Node].edges
	if p == nil || c.ends != nil && here.from >= 0 && c.ends(here.Node) {
		return
	}
	enter := func(to int, d *manifest.Dependency) {
		c.push(visit{Feature{to, ""}, at, d})
		for _, f := range d.Features {
			c.push(visit{Feature{to, f}, at, d})
		}
		if d.DefaultFeatures && (v.possible || c.has(Feature{to, "default"})) {
			c.push(visit{Feature{to, "default"}, at, d})
		}
		key := Feature{here.Node, d.Key}
		c.active[key] = true
		for _, w := range c.weak[key] {
			c.push(w)
		}
	}
	if here.Name == "" {
		for i := range p.Dependencies {
			if d := &p.Dependencies[i]; !d.Optional {
				if to := c.linked(here.Node, *d); to >= 0 {
					enter(to, d)
				}
			}
		}
		return
	}
	for _, e := range p.Edges(here.Name) {
		if e.Dep == "" {
			c.push(visit{Feature{here.Node, e.Feature}, at, nil})
			continue
		}
		if e.Feature != "" && !e.Weak && p.Optional(e.Dep) && p.Declares(e.Dep) {
			c.push(visit{Feature{here.Node, e.Dep}, at, nil})
		}
		for _, d := range p.Entries(e.Dep) {
			to := c.linked(here.Node, d)
			switch f, key := (Feature{to, e.Feature}), (Feature{here.Node, d.Key}); {
			case to < 0:
				continue
			case e.Weak && v.possible && !v.Weak && !c.active[key]:
				c.weak[key] = append(c.weak[key], visit{f, at, nil})
			case e.Feature != "":
				c.push(visit{f, at, nil})
			}
			if d.Optional && !e.Weak {
				enter(to, &d)
			}
		}
	}
}

// linked is the node of a dependency entry that can be linked into the root: a test, benchmark or example has the dev-dependencies, too.
// -1 where there is none.
func (c *Closure) linked(node int, d manifest.Dependency) int {
	v := c.view
	counts := d.Kind == manifest.Normal && !(v.sure && d.Target != "") && !((v.sure || v.Weak) && v.Nodes[node].edges.ProcMacro)
	if d.Kind == manifest.Dev && node == c.root.Node && v.Graph != nil && !c.root.Plain {
		counts = v.Graph.Units[node].Tests()
	}
	if !counts {
		return -1
	}
	return v.DepNode(node, d, c.root.Set)
}

// Possible is everything that manifests let some packages link, for whatever target and with whatever features; none is on. It has a root
// for each package.
func Possible(p *manifest.Project, known *catalog.Catalog, members ...*manifest.Package) *View {
	v := &View{Project: p, Catalog: known, possible: true}
	at := map[string]int{} // by manifest, or by name where there is none
	node := func(d manifest.Dependency, pkg *manifest.Package) int {
		key, n := d.Package, Node{Name: d.Package, Version: strings.TrimLeft(d.Version, "=^~>< ")}
		if pkg != nil {
			key = pkg.Manifest
			n = Node{ID: key, Name: pkg.Name, Version: pkg.Version, Dir: pkg.Dir, Local: p.Local(pkg.Dir) == pkg, Pkg: pkg}
		}
		i, seen := at[key]
		if !seen {
			i = v.add(n)
			at[key] = i
		}
		return i
	}
	set, all := map[int]bool{}, []int{}
	for _, m := range members {
		v.Roots = append(v.Roots, Root{Node: node(manifest.Dependency{}, m), Set: set})
	}
	for i := 0; i < len(v.Nodes); i++ {
		set[i], all = true, append(all, i)
		pkg := v.Nodes[i].edges
		if pkg == nil {
			continue
		}
		for _, d := range pkg.Dependencies {
			if d.Kind == manifest.Normal {
				known := p.Declaring(v.Nodes[i].Pkg, d)
				if known == nil && d.Package == "cudarc" && len(p.Locked(d.Package)) == 1 { // an optional one: its rules need its manifest
					known = p.Locked(d.Package)[0]
				}
				to := node(d, known)
				v.Nodes[i].Deps = append(v.Nodes[i].Deps, Dep{to, strings.ReplaceAll(d.Key, "-", "_")})
			}
		}
	}
	for i := range v.Roots {
		v.Roots[i].Linked = all
	}
	return v
}

// Alone is what cargo would build of some members, as far as their packages show it: what `--lint` looks at before it asks cargo. Tables
// for other targets count, and what a procedural macro turns on, unless only what is sure is wanted.
func Alone(p *manifest.Project, members []*manifest.Package, r manifest.Request, sure bool) *View {
	v := Possible(p, catalog.Default(), members...)
	v.sure = sure
	if len(members) == 0 {
		return v
	}
	asked := manifest.ParseRequest(r)
	var start []Feature
	for i, m := range members {
		start = append(start, Feature{v.Roots[i].Node, ""})
		for _, f := range asked.Of(m) {
			start = append(start, Feature{v.Roots[i].Node, f})
		}
	}
	set, linked := map[int]bool{}, []int{}
	for _, f := range v.Closure(&v.Roots[0], start...).Features() {
		if n := &v.Nodes[f.Node]; f.Name == "" {
			set[f.Node], linked = true, append(linked, f.Node)
		} else {
			n.Features = append(n.Features, f.Name)
		}
	}
	for i := range v.Nodes {
		slices.Sort(v.Nodes[i].Features)
	}
	slices.Sort(linked)
	v.possible = false
	for i := range v.Roots {
		v.Roots[i].Linked, v.Roots[i].Set = linked, set
	}
	return v
}

// Asked lists what a closure began with.
func (c *Closure) Asked() (out []Feature) {
	for i := range c.list {
		if c.list[i].from < 0 {
			out = append(out, c.list[i].Feature)
		}
	}
	return out
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
	var out []Step
	for at, on := c.at[f]; on && at >= 0; at = c.list[at].from {
		out = append(out, c.step(at))
	}
	slices.Reverse(out)
	return out
}

// Below is what a node links, itself included, but for what it links only through nodes at which it ends.
func (v *View) Below(r *Root, node int, ends func(int) bool) map[int]bool {
	below := map[int]bool{node: true}
	for queue := []int{node}; len(queue) > 0; queue = queue[1:] {
		for _, d := range v.Nodes[queue[0]].Deps {
			if !below[d.To] && r.Set[d.To] && (ends == nil || !ends(queue[0])) {
				below[d.To], queue = true, append(queue, d.To)
			}
		}
	}
	return below
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
