package graph

import (
	"slices"

	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// Feature is a feature of a node.
type Feature struct {
	Node int
	Name string
}

// Carried follows a feature's edges among what a root links, and answers every feature that it turns on; an optional dependency that it
// activates is a Feature without a name.
func (v *View) Carried(r *Root, from Feature) map[Feature]bool {
	seen := map[Feature]bool{}
	for queue := []Feature{from}; len(queue) > 0 && len(seen) < MaxSteps; queue = queue[1:] {
		at := queue[0]
		if p := v.ManifestOf(at.Node); !seen[at] && p != nil {
			for _, s := range v.next(r, p, at, false) {
				queue = append(queue, s.Feature)
			}
		}
		seen[at] = true
	}
	return seen
}

// reach is where an edge leads, and the features that the dependency entry itself names.
type reach struct {
	Feature
	with []string
	edge manifest.Edge
}

// next lists what a feature of a linked package turns on directly. Without a name, which means that the package itself was activated, it is
// what every user of the package gets: its plain dependencies. on: only what is on in this build.
func (v *View) next(r *Root, p *manifest.Package, at Feature, on bool) []reach {
	var out []reach
	enter := func(to int, d manifest.Dependency, e manifest.Edge) {
		out = append(out, reach{Feature{to, ""}, d.Features, e})
		for _, f := range d.Features {
			out = append(out, reach{Feature{to, f}, nil, e})
		}
		if d.DefaultFeatures && slices.Contains(v.Nodes[to].Features, "default") {
			out = append(out, reach{Feature{to, "default"}, nil, e})
		}
	}
	if at.Name == "" {
		for _, d := range p.Dependencies {
			if to := v.DepNode(at.Node, d, r.Set); to >= 0 && !d.Optional && v.counts(r, at.Node, d) {
				enter(to, d, manifest.Edge{})
			}
		}
		return out
	}
	edges, _ := p.Edges(at.Name)
	for _, e := range edges {
		if e.Dep == "" {
			out = append(out, reach{Feature: Feature{at.Node, e.Feature}, edge: e})
			continue
		}
		for _, d := range p.Dependencies {
			to := -1
			if d.Key == e.Dep && v.counts(r, at.Node, d) {
				to = v.DepNode(at.Node, d, r.Set)
			}
			if to < 0 || on && e.Feature != "" && !slices.Contains(v.Nodes[to].Features, e.Feature) {
				continue
			}
			if e.Feature != "" {
				out = append(out, reach{Feature{to, e.Feature}, d.Features, e})
			}
			if d.Optional && !e.Weak {
				enter(to, d, e)
			}
		}
	}
	return out
}

// counts says whether a dependency entry of a node can be linked into a root: a test, benchmark or example has the dev-dependencies, too.
func (v *View) counts(r *Root, node int, d manifest.Dependency) bool {
	if d.Kind != manifest.Dev || node != r.Node || v.Graph == nil {
		return d.Kind == manifest.Normal
	}
	u := &v.Graph.Units[node]
	return u.Mode == "test" || u.Mode == "bench" || slices.ContainsFunc(u.Target.Kind, func(kind string) bool {
		return kind == "test" || kind == "bench" || kind == "example"
	})
}

// LeadingTo marks what of a root is wanted, and everything that depends on it.
func (v *View) LeadingTo(r *Root, wanted func(int) bool) map[int]bool {
	leads := map[int]bool{}
	for _, i := range r.Linked {
		if wanted(i) {
			leads[i] = true
		}
	}
	for changed := true; changed; {
		changed = false
		for _, i := range r.Linked {
			leading := func(d Dep) bool { return r.Set[d.To] && leads[d.To] }
			if !leads[i] && slices.ContainsFunc(v.Nodes[i].Deps, leading) {
				leads[i], changed = true, true
			}
		}
	}
	return leads
}

// EdgeNodes lists the nodes, linked into a root, of the dependencies that an edge of package p names; p is that of node.
func (v *View) EdgeNodes(r *Root, node int, p *manifest.Package, e manifest.Edge) []int {
	var out []int
	for _, d := range p.Dependencies {
		if d.Key == e.Dep && v.counts(r, node, d) {
			if to := v.DepNode(node, d, r.Set); to >= 0 && !slices.Contains(out, to) {
				out = append(out, to)
			}
		}
	}
	return out
}

// NoGPUCrate is the end of a path that stops at no particular edge.
const NoGPUCrate = "none of its edges leads to a GPU crate"

// Why is the path of edges that carried a feature, or where it ends.
type Why struct {
	Root    string   `json:"root"`
	Feature string   `json:"feature"`
	Steps   []string `json:"steps"` // app/cuda, candle-core/cuda, cudarc
	Reached bool     `json:"reached"`
	End     string   `json:"end,omitempty"` // why it ends there
}

type step struct {
	node    int
	feature string
	from    int // index of the step before; -1 for the first
	text    string
	with    []string // features that the dependency entry itself names
}

// Path follows a feature's edges breadth first as far as manifests can be read: to a carrier, else to a gated crate that is on, else to
// where it ends.
func (v *View) Path(r *Root, from Feature) Why {
	steps := []step{{node: from.Node, feature: from.Name, from: -1, text: v.Nodes[from.Node].Name + "/" + from.Name}}
	seen := map[string]bool{steps[0].text: true}
	gated, last := -1, 0
	ended := ""
	for at := 0; at < len(steps) && at < MaxSteps; at++ {
		s := steps[at]
		if c := v.Crate(s.node); v.CUDAOn(s.node) &&
			(s.node != r.Node || slices.Contains(c.CUDAFeatures, s.feature)) && v.forCUDA(s, c) {
			if c.Role == catalog.Carrier {
				return unwind(steps, at, true, "")
			}
			if gated < 0 || s.node != steps[gated].node && length(steps, at) > length(steps, gated) {
				gated = at
			}
		}
		p := v.ManifestOf(s.node)
		if p == nil {
			ended = "the manifest of " + v.Nodes[s.node].Name + " " + v.Nodes[s.node].Version + " is not here"
			continue
		}
		edges, _ := p.Edges(s.feature)
		reached := v.next(r, p, Feature{s.node, s.feature}, true)
		for _, e := range edges {
			if e.Dep != "" && !slices.ContainsFunc(reached, func(n reach) bool { return n.edge == e }) {
				ended = deadReason(p, s, e)
			}
		}
		for _, n := range reached {
			next := step{from: at, node: n.Node, feature: n.Name, with: n.with, text: v.Nodes[n.Node].Name}
			if next.feature != "" {
				next.text += "/" + next.feature
			}
			if !seen[next.text] {
				seen[next.text] = true
				steps = append(steps, next)
				last = len(steps) - 1
			}
		}
		if len(edges) == 0 && at == 0 {
			ended = "`" + s.feature + "` of " + p.Name + " enables nothing"
		}
	}
	if gated >= 0 {
		return unwind(steps, gated, true, "")
	}
	if ended == "" {
		ended = NoGPUCrate
		last = 0
	}
	return unwind(steps, last, false, ended)
}

// forCUDA says whether a step itself leads to the CUDA code of a crate that is on: burn/wgpu does not, although burn/cuda may be on, too.
// Where the crate's manifest is here, its edges show the rest.
func (v *View) forCUDA(s step, c *catalog.Crate) bool {
	return c.Role == catalog.Carrier || c.On(s.with) || slices.Contains(c.CUDAFeatures, s.feature) || v.ManifestOf(s.node) == nil
}

func deadReason(p *manifest.Package, s step, e manifest.Edge) string {
	where := "`" + e.Text + "` in `" + s.feature + "` of " + p.Name
	if e.Weak {
		return where + " is a weak edge, and nothing turns `" + e.Dep + "` on"
	}
	for _, d := range p.Dependencies {
		if d.Key != e.Dep {
			continue
		}
		switch {
		case d.Artifact:
			return where + " is an artifact dependency: a program of its own"
		case d.Kind == manifest.Build:
			return where + " is a build-dependency: it is not linked"
		case d.Kind == manifest.Dev:
			return where + " is a dev-dependency"
		case d.Target != "":
			return where + " is a dependency of " + d.Target + " only"
		}
		return where + " is not linked here"
	}
	return where + " names no dependency"
}

func unwind(steps []step, at int, reached bool, end string) Why {
	var out []string
	for i := at; i >= 0; i = steps[i].from {
		out = append([]string{steps[i].text}, out...)
	}
	return Why{Steps: out, Reached: reached, End: end}
}

func length(steps []step, at int) int {
	n := 0
	for ; at >= 0; at = steps[at].from {
		n++
	}
	return n
}
