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
	at     map[int32]int       // by number: the place in the list; nil: nobody has asked
	active map[*entry]bool     // of a possible view: dependencies that the closure turns on
	weak   map[*entry][]visit  // of a possible view: edges x?/f for which x is not active yet
	ends   func(node int) bool // of what was reached, these lead nowhere; nil: everything leads on
}

// visit is one thing that is turned on, and by which other one.
type visit struct {
	of   int32                // its number in the web
	from int32                // index of what turned it on; -1: it was asked for
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
	c := &Closure{view: v, root: r, ends: ends}
	if v.web == nil {
		v.web = newWeb(v)
	}
	if v.possible && !v.Weak {
		c.active, c.weak = map[*entry]bool{}, map[*entry][]visit{}
	}
	for _, f := range from {
		c.push(visit{v.web.number(f.Node, f.Name), -1, nil})
	}
	for at := 0; at < len(c.list); at++ {
		c.expand(int32(at))
	}
	for _, on := range c.list {
		v.web.seen[on.of] = false
	}
	return c
}

func (c *Closure) push(turned visit) {
	w := c.view.web
	if w.seen[turned.of] || !w.declared[turned.of] && !c.view.has(w.features[turned.of]) {
		return
	}
	w.seen[turned.of] = true
	c.list = append(c.list, turned)
}

// step is what turned something on, and where that is written.
func (c *Closure) step(at int) Step {
	on := c.view.web.features[c.list[at].of]
	s := Step{Text: strings.TrimSuffix(c.view.Nodes[on.Node].Name+"/"+on.Name, "/")}
	if c.list[at].from < 0 {
		return s
	}
	from := c.view.web.features[c.list[c.list[at].from].of]
	p := c.view.Nodes[from.Node].edges
	if s.Manifest = p.Manifest; from.Name == "" {
		s.Line = p.DependencyLine(*c.list[at].dep)
	} else {
		s.Line = p.Line("features", from.Name)
	}
	return s
}

// has reports whether a feature is on in its node.
func (v *View) has(f Feature) bool { return slices.Contains(v.Nodes[f.Node].Features, f.Name) }

func (c *Closure) expand(at int32) {
	v, here := c.view, c.view.web.features[c.list[at].of]
	if c.ends != nil && c.list[at].from >= 0 && c.ends(here.Node) {
		return
	}
	for _, s := range v.web.edges(c.list[at].of) {
		if s.entry == nil {
			c.push(visit{s.own, at, nil})
			continue
		}
		to := c.linked(here.Node, s.entry)
		if to == nil {
			continue
		}
		key := s.entry.first
		if f := s.feature; f != "" {
			turned := visit{v.web.number(to.node, f), at, nil}
			if s.weak && c.active != nil && !c.active[key] {
				c.weak[key] = append(c.weak[key], turned)
			} else {
				c.push(turned)
			}
		}
		if !s.enters {
			continue
		}
		c.push(visit{to.itself, at, s.entry.dep})
		for _, f := range to.features {
			c.push(visit{f, at, s.entry.dep})
		}
		if to.byDefault >= 0 && (v.possible || v.has(Feature{to.node, "default"})) {
			c.push(visit{to.byDefault, at, s.entry.dep})
		}
		if c.active != nil {
			c.active[key] = true
			for _, w := range c.weak[key] {
				c.push(w)
			}
		}
	}
}

// linked is what a dependency entry turns on of those that can be linked into the root: a test, benchmark or example has the dev-dependencies,
// too. nil where there is none.
func (c *Closure) linked(node int, e *entry) *target {
	v, d := c.view, e.dep
	counts := d.Kind == manifest.Normal && !(v.sure && d.Target != "") && !((v.sure || v.Weak) && v.Nodes[node].edges.ProcMacro)
	if d.Kind == manifest.Dev && node == c.root.Node && v.Graph != nil && !c.root.Plain {
		counts = v.Graph.Units[node].Tests()
	}
	for i := range e.to {
		if counts && c.root.Set.Has(e.to[i].node) {
			return &e.to[i]
		}
	}
	return nil
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
	var all []int
	for _, m := range members {
		v.Roots = append(v.Roots, Root{Node: node(manifest.Dependency{}, m)})
	}
	for i := 0; i < len(v.Nodes); i++ {
		all = append(all, i)
		pkg := v.Nodes[i].edges
		if pkg == nil {
			continue
		}
		v.Unsure = v.Unsure || pkg.ProcMacro
		for _, d := range pkg.Dependencies {
			if d.Kind == manifest.Normal {
				v.Unsure = v.Unsure || d.Target != ""
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
		v.Roots[i].Linked, v.Roots[i].Set = all, setOf(all)
	}
	return v
}

// Alone is what cargo would build of the roots of a possible view, as far as their packages show it: what `--lint` looks at before it asks
// cargo. Tables for other targets count, and what a procedural macro turns on, unless only what is sure is wanted. The view itself stays as it is.
func (v *View) Alone(r manifest.Request, sure bool) *View {
	alone := *v
	alone.sure = sure
	if len(v.Roots) == 0 {
		return &alone
	}
	asked := manifest.ParseRequest(r)
	var start []Feature
	for i := range v.Roots {
		node := v.Roots[i].Node
		start = append(start, Feature{node, ""})
		for _, f := range asked.Of(v.Nodes[node].Pkg) {
			start = append(start, Feature{node, f})
		}
	}
	var linked []int
	_, on := alone.catalogued(), alone.Closure(&v.Roots[0], start...).Features()
	v.crates, v.web, alone.Nodes = alone.crates, alone.web, slices.Clone(v.Nodes)
	for _, f := range on {
		if n := &alone.Nodes[f.Node]; f.Name == "" {
			linked = append(linked, f.Node)
		} else {
			n.Features = append(n.Features, f.Name)
		}
	}
	for i := range alone.Nodes {
		slices.Sort(alone.Nodes[i].Features)
	}
	slices.Sort(linked)
	alone.possible, alone.Roots = false, slices.Clone(v.Roots)
	for i := range alone.Roots {
		alone.Roots[i].Linked, alone.Roots[i].Set = linked, setOf(linked)
	}
	return &alone
}

// Asked lists what a closure began with.
func (c *Closure) Asked() (out []Feature) {
	for _, on := range c.list {
		if on.from < 0 {
			out = append(out, c.view.web.features[on.of])
		}
	}
	return out
}

// place is that of what is turned on.
func (c *Closure) place(f Feature) (at int, on bool) {
	if f.Node < 0 {
		return 0, false
	}
	of := c.view.web.number(f.Node, f.Name)
	if c.at == nil {
		c.at = make(map[int32]int, len(c.list))
		for i, on := range c.list {
			c.at[on.of] = i
		}
	}
	at, on = c.at[of]
	return at, on
}

// Has reports whether something is turned on.
func (c *Closure) Has(f Feature) bool { _, has := c.place(f); return has }

// Features lists what is turned on, nearest first.
func (c *Closure) Features() []Feature {
	out := make([]Feature, 0, len(c.list))
	for _, on := range c.list {
		out = append(out, c.view.web.features[on.of])
	}
	return out
}

// Chain lists the steps by which something was turned on, from what was asked for; nil where it was not.
func (c *Closure) Chain(f Feature) []Step {
	var out []Step
	for at, on := c.place(f); on && at >= 0; at = int(c.list[at].from) {
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
			if !below[d.To] && r.Set.Has(d.To) && (ends == nil || !ends(queue[0])) {
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
			if _, seen := from[d.To]; !seen && r.Set.Has(d.To) {
				from[d.To] = queue[0]
				queue = append(queue, d.To)
			}
		}
	}
	return nil
}
