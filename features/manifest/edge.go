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

// Edges lists what a feature turns on; none when the package has no such feature. The list is not to be changed.
func (p *Package) Edges(feature string) []Edge {
	if p.edges == nil {
		p.edges = make(map[string][]Edge, len(p.Features))
		for f, list := range p.Features {
			for _, s := range list {
				p.edges[f] = append(p.edges[f], ParseEdge(s))
			}
		}
	}
	return p.edges[feature]
}

// Declares reports whether the package has a feature of this name, one that cargo makes of an optional dependency included.
func (p *Package) Declares(feature string) bool {
	_, ok := p.Features[feature]
	return ok
}

// Implicit reports whether feature is one that cargo makes of an optional dependency, and that the manifest does not write.
func (p *Package) Implicit(feature string) bool {
	list := p.Features[feature]
	return len(list) == 1 && list[0] == "dep:"+feature && p.Line("features", feature) == 0
}

// Entries lists the dependencies of a key, as one may be in several tables.
func (p *Package) Entries(key string) []Dependency {
	if p.byKey == nil {
		p.byKey = make(map[string][]Dependency, len(p.Dependencies))
		for _, d := range p.Dependencies {
			p.byKey[d.Key] = append(p.byKey[d.Key], d)
		}
	}
	return p.byKey[key]
}

func (p *Package) Optional(key string) bool {
	return slices.ContainsFunc(p.Entries(key), func(d Dependency) bool { return d.Optional })
}

// FeatureNames lists the features, sorted.
func (p *Package) FeatureNames() []string { return slices.Sorted(maps.Keys(p.Features)) }

// Closure lists every feature of the package that the given ones turn on within it, themselves included, and the edges that leave it.
func (p *Package) Closure(on []string) (feats map[string]bool, edges []Edge) {
	feats = map[string]bool{}
	for queue := slices.Clone(on); len(queue) > 0; queue = queue[1:] {
		f := queue[0]
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
			if e.Feature != "" && !e.Weak && p.Optional(e.Dep) { // x/f turns the feature x on, too, where there is one
				queue = append(queue, e.Dep)
			}
		}
	}
	return feats, edges
}
