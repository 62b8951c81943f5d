package graph

import "gpubuild/features/manifest"

// web numbers what can be turned on in the nodes of a view, and has the edges of each. It is worked out once, where a closure first comes by:
// a workspace has as many closures as it has members and features, and each may be as long as the workspace.
type web struct {
	view     *View // of which only the nodes, their packages and their dependencies count: other views share them
	numbers  []map[string]int32
	features []Feature // by number
	declared []bool    // by number: the package has such a feature, or its manifest is not known
	turns    []*[]edge // by number; nil: not worked out
	entries  [][]entry // by node: its dependencies
	byKey    []map[string][]*entry
	seen     []bool // by number: in the closure that is being made
}

// edge is what one thing turns on: something of its own package, or of what a dependency entry means.
type edge struct {
	own     int32
	entry   *entry // nil: own
	feature string // of the dependency; empty: none
	weak    bool
	enters  bool // the dependency itself is turned on
}

// entry is a dependency entry of a package with the nodes that it may mean, the likeliest first.
type entry struct {
	dep   *manifest.Dependency
	to    []target
	first *entry // of those with the same key
}

// target is a node, with the numbers of what an entry turns on in it.
type target struct {
	node              int
	itself, byDefault int32 // -1: no default
	features          []int32
}

func newWeb(v *View) *web {
	n := len(v.Nodes)
	shape := *v
	return &web{view: &shape, numbers: make([]map[string]int32, n), entries: make([][]entry, n), byKey: make([]map[string][]*entry, n)}
}

func (w *web) number(node int, name string) int32 {
	if w.numbers[node] == nil {
		w.numbers[node] = map[string]int32{}
	}
	of, known := w.numbers[node][name]
	if !known {
		of = int32(len(w.features))
		w.numbers[node][name] = of
		n := &w.view.Nodes[node]
		w.features = append(w.features, Feature{node, name})
		w.declared = append(w.declared, name == "" || n.Pkg == nil || n.edges.Declares(name))
		w.turns, w.seen = append(w.turns, nil), append(w.seen, false)
	}
	return of
}

// open works out what the dependency entries of a node mean.
func (w *web) open(node int) {
	p := w.view.Nodes[node].edges
	w.entries[node], w.byKey[node] = make([]entry, len(p.Dependencies)), make(map[string][]*entry, len(p.Dependencies))
	named := make(map[string][]Dep, len(p.Dependencies))
	for _, d := range w.view.Nodes[node].Deps {
		name := w.view.Nodes[d.To].Name
		named[name] = append(named[name], d)
	}
	for i := range p.Dependencies {
		d, e := &p.Dependencies[i], &w.entries[node][i]
		e.dep = d
		for _, to := range w.view.meant(node, d, named[d.Package]) {
			t := target{node: to, itself: w.number(to, ""), byDefault: -1}
			for _, f := range d.Features {
				t.features = append(t.features, w.number(to, f))
			}
			if d.DefaultFeatures {
				t.byDefault = w.number(to, "default")
			}
			e.to = append(e.to, t)
		}
		w.byKey[node][d.Key] = append(w.byKey[node][d.Key], e)
		e.first = w.byKey[node][d.Key][0]
	}
}

// edges lists what something turns on, in the order of the manifest.
func (w *web) edges(of int32) []edge {
	if known := w.turns[of]; known != nil {
		return *known
	}
	var out []edge
	node, name := w.features[of].Node, w.features[of].Name
	p := w.view.Nodes[node].edges
	if p != nil && w.byKey[node] == nil {
		w.open(node)
	}
	if p != nil && name == "" {
		for i := range w.entries[node] {
			if e := &w.entries[node][i]; !e.dep.Optional {
				out = append(out, edge{entry: e, enters: true})
			}
		}
	} else if p != nil {
		for _, e := range p.Edges(name) {
			if e.Dep == "" {
				out = append(out, edge{own: w.number(node, e.Feature)})
				continue
			}
			if e.Feature != "" && !e.Weak && p.Optional(e.Dep) && p.Declares(e.Dep) {
				out = append(out, edge{own: w.number(node, e.Dep)})
			}
			for _, to := range w.byKey[node][e.Dep] {
				out = append(out, edge{entry: to, feature: e.Feature, weak: e.Weak, enters: to.dep.Optional && !e.Weak})
			}
		}
	}
	w.turns[of] = &out
	return out
}
