package features

import (
	"fmt"
	"slices"
	"strings"
)

// Step is one step of an explanation: a package or one of its features, and the manifest line that made the step.
type Step struct {
	Text     string `json:"text"`
	Manifest string `json:"manifest,omitempty"`
	Line     int    `json:"line,omitempty"`
}

// Reason says for one root why a crate is linked, or why it has a feature or has not.
type Reason struct {
	Root     string   `json:"root"`
	Crate    string   `json:"crate"`
	Version  string   `json:"version,omitempty"`
	Linked   bool     `json:"linked"`
	Feature  string   `json:"feature,omitempty"`
	On       bool     `json:"on"`                 // the feature is on; without one: the crate is linked
	Features []string `json:"features,omitempty"` // all that are on
	Steps    []Step   `json:"steps,omitempty"`    // the shortest way there
	Because  []string `json:"because,omitempty"`  // where it is off: what could turn it on, and why that does not
}

// Explain answers the question after one crate (NAME or NAME@VERSION), or one feature of it, for each root of a build. shown words the paths in sentences; nil: as they are.
func (v *View) Explain(r Request, crate, feature string, shown func(path string) string) []Reason {
	x := &explainer{View: v, ask: parseRequest(r), shown: shown}
	out := []Reason{}
	meant := x.call(crate)
	for i := range x.roots {
		r := &x.roots[i]
		for _, e := range x.root(r, meant, feature) {
			known := false
			for _, o := range out { // the library and the program of a package have the same answer
				known = known || fmt.Sprint(o) == fmt.Sprint(e)
			}
			if !known {
				out = append(out, e)
			}
		}
	}
	return out
}

type explainer struct {
	*View
	ask   asked
	shown func(path string) string // as a person reads it
}

func (x *explainer) root(r *rootView, crate named, feature string) []Reason {
	base := Reason{Root: x.nodes[r.node].name, Crate: crate.name, Feature: feature}
	var out []Reason
	for _, i := range r.linked {
		n := &x.nodes[i]
		if n.name != crate.name || !crate.fits(n.version) || i != r.node && n.id != "" && n.id == x.nodes[r.node].id {
			continue
		}
		e := base
		e.Version, e.Linked, e.Features = n.version, true, n.features
		e.On = feature == "" || slices.Contains(n.features, feature)
		if e.On {
			e.Steps = x.way(r, i, feature)
			if e.Steps == nil {
				e.Because = []string{"no edge from " + base.Root + " leads there: another part of this build turns it on, and cargo unifies the two"}
			}
		} else {
			e.Because = x.missing(r, i, feature)
		}
		if crate.note != "" {
			e.Because = append(e.Because, crate.note)
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		base.Version = crate.version
		base.Because = x.unlinked(r, crate)
		out = append(out, base)
	}
	return out
}

// visit is a state of the search for a way: a package, or one of its features.
type visit struct {
	node    int
	feature string
	from    int
	step    Step
}

// way finds the shortest way from a root to a crate, or to a feature of it; nil when manifests show none.
func (x *explainer) way(r *rootView, to int, feature string) []Step {
	var list []visit
	seen := map[string]bool{}
	push := func(node int, feature string, from int, manifest string, line int) {
		key := fmt.Sprint(node, "/", feature)
		if seen[key] || len(list) >= maxWhy {
			return
		}
		seen[key] = true
		text := x.nodes[node].name
		if feature != "" {
			text += "/" + feature
		}
		list = append(list, visit{node, feature, from, Step{text, manifest, line}})
	}
	push(r.node, "", -1, "", 0)
	for _, f := range x.nodes[r.node].features {
		if x.ask.all || slices.Contains(x.ask.plain, f) || slices.Contains(x.ask.qualified[x.nodes[r.node].name], f) || f == "default" && !x.ask.noDefault {
			push(r.node, f, -1, "", 0)
		}
	}
	for at := 0; at < len(list); at++ {
		v := list[at]
		if v.node == to && v.feature == feature {
			var out []Step
			for i := at; i >= 0; i = list[i].from {
				out = append([]Step{list[i].step}, out...)
			}
			return out
		}
		p := x.manifestOf(v.node)
		if p == nil {
			continue
		}
		enter := func(d Dependency, line int) {
			t := x.depNode(v.node, d, r.set)
			if t < 0 {
				return
			}
			push(t, "", at, p.Manifest, line)
			for _, f := range d.Features {
				if slices.Contains(x.nodes[t].features, f) {
					push(t, f, at, p.Manifest, line)
				}
			}
			if d.DefaultFeatures && slices.Contains(x.nodes[t].features, "default") {
				push(t, "default", at, p.Manifest, line)
			}
		}
		if v.feature == "" {
			for _, d := range p.Dependencies {
				if !d.Optional && d.Kind == Normal {
					enter(d, p.DependencyLine(d))
				}
			}
			continue
		}
		edges, _ := p.Edges(v.feature)
		line := p.Line("features", v.feature)
		for _, e := range edges {
			if e.Dep == "" {
				if slices.Contains(x.nodes[v.node].features, e.Feature) {
					push(v.node, e.Feature, at, p.Manifest, line)
				}
				continue
			}
			for _, d := range p.Dependencies {
				if d.Key != e.Dep || d.Kind != Normal {
					continue
				}
				if t := x.depNode(v.node, d, r.set); t >= 0 {
					if e.Feature != "" && slices.Contains(x.nodes[t].features, e.Feature) {
						push(t, e.Feature, at, p.Manifest, line)
					}
					if d.Optional && !e.Weak {
						enter(d, line)
					}
				}
			}
		}
	}
	return nil
}

// missing lists what could turn a feature of a linked crate on, and why that does not.
func (x *explainer) missing(r *rootView, to int, feature string) []string {
	var out []string
	if p := x.manifestOf(to); p != nil && !p.Declares(feature) {
		have := strings.Join(p.FeatureNames(), ", ")
		if have == "" {
			have = "none"
		}
		return []string{fmt.Sprintf("%s has no feature `%s`; it has %s%s", x.nodes[to].name, feature, have, x.at(p, p.FeatureLine(feature)))}
	}
	for _, i := range r.linked {
		p := (*Package)(nil)
		uses := false
		for _, d := range x.nodes[i].deps {
			uses = uses || d.to == to
		}
		if uses {
			p = x.manifestOf(i)
		}
		if p == nil {
			continue
		}
		found := false
		for _, f := range p.FeatureNames() {
			edges, _ := p.Edges(f)
			for _, e := range edges {
				for _, d := range p.Dependencies {
					if d.Key != e.Dep || e.Feature != feature || x.depNode(i, d, r.set) != to {
						continue
					}
					found = true
					state := "which is off"
					if slices.Contains(x.nodes[i].features, f) {
						state = "which is on, but " + dependencyLimit(d)
					}
					out = Union(out, []string{fmt.Sprintf("`%s` of %s has the edge `%s`, %s%s", f, p.Name, e.Text, state, x.at(p, p.Line("features", f)))})
				}
			}
		}
		if !found {
			line := 0
			for _, d := range p.Dependencies {
				if line == 0 && x.depNode(i, d, r.set) == to {
					line = p.DependencyLine(d)
				}
			}
			if p.Declares(feature) { // there the edge would stand
				line = p.FeatureLine(feature)
			}
			out = Union(out, []string{fmt.Sprintf("%s uses %s, and none of its features has an edge to `%s`%s", p.Name, x.nodes[to].name, feature, x.at(p, line))})
		}
	}
	return out
}

func dependencyLimit(d Dependency) string {
	switch {
	case d.Kind != Normal:
		return "of a " + d.Kind + "-dependency"
	case d.Target != "":
		return "of the table " + d.Target + ", which does not apply"
	}
	return "the dependency is off"
}

// unlinked says why a crate is no part of a root.
func (x *explainer) unlinked(r *rootView, crate named) []string {
	if !x.known(crate.name) && !x.mentioned(r, crate.name) {
		return []string{x.unknown(crate.name)}
	}
	var out []string
	for i := range x.nodes {
		n := &x.nodes[i]
		switch {
		case n.name != crate.name:
		case r.set[i] && !crate.fits(n.version):
			out = Union(out, []string{x.name(i) + " is linked, no " + crate.version})
		case !r.set[i] && crate.fits(n.version):
			out = Union(out, []string{x.notLinked(i)})
		}
	}
	if crate.version != "" && len(out) > 0 {
		return out
	}
	for _, i := range r.linked {
		p := x.manifestOf(i)
		if p == nil {
			continue
		}
		for _, d := range p.Dependencies {
			if d.Package != crate.name {
				continue
			}
			what := fmt.Sprintf("%s names it%s", p.Name, x.at(p, p.DependencyLine(d)))
			switch {
			case d.Optional:
				var by []string
				for _, f := range p.FeatureNames() {
					edges, _ := p.Edges(f)
					for _, e := range edges {
						if e.Dep == d.Key && !e.Weak {
							by = Union(by, []string{"`" + f + "`"})
						}
					}
				}
				if len(by) > 0 {
					what += ": optional, turned on by " + strings.Join(by, ", ") + " only"
				} else {
					what += ": optional, and no feature turns it on"
				}
			case d.Kind != Normal:
				what += ": " + onlyAs(d.Kind)
			case d.Target != "":
				what += ": for " + d.Target + " only"
			}
			out = Union(out, []string{what})
		}
	}
	if len(out) == 0 {
		if below := x.below(r, crate); below != "" {
			return []string{below}
		}
		where := ""
		if p := x.manifestOf(r.node); p != nil {
			where = x.at(p, p.Line("dependencies"))
		}
		out = []string{"nothing that is linked names it" + where}
	}
	return out
}

// mentioned says whether a manifest of what is linked names a package: one that is optional may be in no lock file yet.
func (x *explainer) mentioned(r *rootView, name string) bool {
	for _, i := range r.linked {
		if p := x.manifestOf(i); p != nil {
			for _, d := range p.Dependencies {
				if d.Package == name {
					return true
				}
			}
		}
	}
	return false
}

// at names a place; nothing where the line is not known.
func (x *explainer) at(p *Package, line int) string {
	path := p.Manifest
	if x.shown != nil {
		path = x.shown(path)
	}
	if line == 0 {
		return " (" + path + ")"
	}
	return fmt.Sprintf(" (%s:%d)", path, line)
}

func (x *explainer) name(i int) string { return x.nodes[i].name + " " + x.nodes[i].version }
