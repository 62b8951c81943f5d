package manifest

import (
	"maps"
	"slices"
	"strings"
)

// Edge is one step from a feature to what it turns on: "f", "dep:x", "x/f" or "x?/f".
type Edge struct {
	Text    string // as the manifest has it
	Dep     string // key of the dependency; empty for a feature of the package itself
	Feature string // empty for dep:x
	Weak    bool   // x?/f: only if something else turns x on
}

// ParseEdge reads one value of a [features] entry.
func ParseEdge(s string) Edge {
	s = strings.TrimSpace(s)
	e := Edge{Text: s}
	if dep, ok := strings.CutPrefix(s, "dep:"); ok {
		e.Dep = dep
		return e
	}
	dep, feat, ok := strings.Cut(s, "/")
	if !ok {
		e.Feature = s
		return e
	}
	e.Dep, e.Weak = strings.CutSuffix(dep, "?")
	e.Feature = feat
	return e
}

// featureIndex is a package's features, taken apart once.
type featureIndex struct {
	edges    map[string][]Edge
	optional map[string]bool
	hidden   map[string]bool // optional dependencies that a "dep:" mentions
}

func (p *Package) indexed() *featureIndex {
	if p.index == nil {
		x := &featureIndex{edges: make(map[string][]Edge, len(p.Features)), optional: map[string]bool{}, hidden: map[string]bool{}}
		for f, list := range p.Features {
			edges := make([]Edge, 0, len(list))
			for _, s := range list {
				e := ParseEdge(s)
				if e.Feature == "" {
					x.hidden[e.Dep] = true
				}
				edges = append(edges, e)
			}
			x.edges[f] = edges
		}
		for i := range p.Dependencies {
			if p.Dependencies[i].Optional {
				x.optional[p.Dependencies[i].Key] = true
			}
		}
		p.index = x
	}
	return p.index
}

// Edges lists what a feature turns on, implicit features of optional dependencies included; none when the package has no such feature. The
// list is not to be changed.
func (p *Package) Edges(feature string) []Edge {
	list, declared := p.indexed().edges[feature]
	if !declared && p.Implicit(feature) {
		return []Edge{{Text: "dep:" + feature, Dep: feature}}
	}
	return list
}

// Declares says whether the package has a feature of this name, implicit ones included.
func (p *Package) Declares(feature string) bool {
	_, ok := p.Features[feature]
	return ok || p.Implicit(feature)
}

// Implicit says whether feature is that of an optional dependency which no "dep:" mentions.
// Source: the cargo book, features.md, "Optional dependencies".
func (p *Package) Implicit(feature string) bool {
	x := p.indexed()
	return x.optional[feature] && !x.hidden[feature]
}

func (p *Package) Optional(key string) bool { return p.indexed().optional[key] }

// FeatureNames lists the declared and the implicit features, sorted.
func (p *Package) FeatureNames() []string {
	seen := map[string]bool{}
	for f := range p.Features {
		seen[f] = true
	}
	for _, d := range p.Dependencies {
		if d.Optional && p.Implicit(d.Key) {
			seen[d.Key] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Closure lists every feature of the package that the given ones turn on within it, themselves included, and the edges that leave it.
func (p *Package) Closure(on []string) (feats map[string]bool, edges []Edge) {
	feats = map[string]bool{}
	queue := append([]string{}, on...)
	for len(queue) > 0 {
		f := queue[0]
		queue = queue[1:]
		if feats[f] || !p.Declares(f) {
			continue
		}
		feats[f] = true
		for _, e := range p.Edges(f) {
			if e.Dep == "" {
				queue = append(queue, e.Feature)
				continue
			}
			edges = append(edges, e)
			if e.Feature != "" && !e.Weak && p.Implicit(e.Dep) { // x/f turns the implicit feature x on, too
				queue = append(queue, e.Dep)
			}
		}
	}
	return feats, edges
}
