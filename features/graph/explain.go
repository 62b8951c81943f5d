package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/features/manifest"
)

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

// Explain answers the question after one crate (NAME or NAME@VERSION), or one feature of it, for each root of a build. shown words the
// paths in sentences; nil: as they are.
func (v *View) Explain(r manifest.Request, crate, feature string, shown func(path string) string) []Reason {
	x := &explainer{View: v, ask: manifest.ParseRequest(r), shown: shown}
	out := []Reason{}
	meant := x.call(crate)
	for i := range x.Roots {
		r := &x.Roots[i]
		for _, e := range x.root(r, meant, feature) {
			// The library and the program of a package have the same answer.
			if !slices.ContainsFunc(out, func(o Reason) bool { return fmt.Sprint(o) == fmt.Sprint(e) }) {
				out = append(out, e)
			}
		}
	}
	return out
}

type explainer struct {
	*View
	ask   manifest.Asked
	shown func(path string) string // as a person reads it
}

func (x *explainer) root(r *Root, crate named, feature string) []Reason {
	base := Reason{Root: x.Nodes[r.Node].Name, Crate: crate.name, Feature: feature}
	var out []Reason
	for _, i := range r.Linked {
		n := &x.Nodes[i]
		if n.Name != crate.name || !crate.fits(n.Version) || i != r.Node && n.ID != "" && n.ID == x.Nodes[r.Node].ID {
			continue
		}
		e := base
		e.Version, e.Linked, e.Features = n.Version, true, n.Features
		e.On = feature == "" || slices.Contains(n.Features, feature)
		if e.On {
			e.Steps = x.way(r, i, feature)
			if e.Steps == nil {
				e.Because = []string{"no edge from " + base.Root +
					" leads there: another part of this build turns it on, and cargo unifies the two"}
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

// way is the shortest chain from what was requested of a root to a crate, or to a feature of it; nil when manifests show none.
func (x *explainer) way(r *Root, to int, feature string) []Step {
	start := []Feature{{r.Node, ""}}
	for _, f := range x.Nodes[r.Node].Features {
		if x.ask.All || slices.Contains(x.ask.Plain, f) || slices.Contains(x.ask.Qualified[x.Nodes[r.Node].Name], f) ||
			f == "default" && !x.ask.NoDefault {
			start = append(start, Feature{r.Node, f})
		}
	}
	return x.Closure(r, start...).Chain(Feature{to, feature})
}

// missing lists what could turn a feature of a linked crate on, and why that does not.
func (x *explainer) missing(r *Root, to int, feature string) []string {
	var out []string
	if p := x.ManifestOf(to); p != nil && !p.Declares(feature) {
		have := cmp.Or(strings.Join(p.FeatureNames(), ", "), "none")
		return []string{fmt.Sprintf("%s has no feature `%s`; it has %s%s", x.Nodes[to].Name, feature, have,
			x.at(p, p.FeatureLine(feature)))}
	}
	for _, i := range r.Linked {
		p := x.ManifestOf(i)
		if p == nil || !slices.ContainsFunc(x.Nodes[i].Deps, func(d Dep) bool { return d.To == to }) {
			continue
		}
		found := false
		for _, f := range p.FeatureNames() {
			edges, _ := p.Edges(f)
			for _, e := range edges {
				for _, d := range p.Dependencies {
					if d.Key != e.Dep || e.Feature != feature || x.DepNode(i, d, r.Set) != to {
						continue
					}
					found = true
					state := "which is off"
					if slices.Contains(x.Nodes[i].Features, f) {
						state = "which is on, but " + dependencyLimit(d)
					}
					out = manifest.Union(out, []string{fmt.Sprintf("`%s` of %s has the edge `%s`, %s%s", f, p.Name, e.Text, state,
						x.at(p, p.Line("features", f)))})
				}
			}
		}
		if !found {
			line := 0
			for _, d := range p.Dependencies {
				if line == 0 && x.DepNode(i, d, r.Set) == to {
					line = p.DependencyLine(d)
				}
			}
			if p.Declares(feature) { // there the edge would stand
				line = p.FeatureLine(feature)
			}
			out = manifest.Union(out, []string{fmt.Sprintf("%s uses %s, and none of its features has an edge to `%s`%s", p.Name,
				x.Nodes[to].Name, feature, x.at(p, line))})
		}
	}
	return out
}

func dependencyLimit(d manifest.Dependency) string {
	switch {
	case d.Kind != manifest.Normal:
		return "of a " + d.Kind + "-dependency"
	case d.Target != "":
		return "of the table " + d.Target + ", which does not apply"
	}
	return "the dependency is off"
}

// unlinked says why a crate is no part of a root.
func (x *explainer) unlinked(r *Root, crate named) []string {
	if !x.known(crate.name) && !x.mentioned(r, crate.name) {
		return []string{x.unknown(crate.name)}
	}
	var out []string
	for i := range x.Nodes {
		n := &x.Nodes[i]
		switch {
		case n.Name != crate.name:
		case r.Set[i] && !crate.fits(n.Version):
			out = manifest.Union(out, []string{x.name(i) + " is linked, no " + crate.version})
		case !r.Set[i] && crate.fits(n.Version):
			out = manifest.Union(out, []string{x.notLinked(i)})
		}
	}
	if crate.version != "" && len(out) > 0 {
		return out
	}
	for _, i := range r.Linked {
		p := x.ManifestOf(i)
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
							by = manifest.Union(by, []string{"`" + f + "`"})
						}
					}
				}
				if len(by) > 0 {
					what += ": optional, turned on by " + strings.Join(by, ", ") + " only"
				} else {
					what += ": optional, and no feature turns it on"
				}
			case d.Kind != manifest.Normal:
				what += ": " + onlyAs(d.Kind)
			case d.Target != "":
				what += ": for " + d.Target + " only"
			}
			out = manifest.Union(out, []string{what})
		}
	}
	if len(out) == 0 {
		if below := x.below(r, crate); below != "" {
			return []string{below}
		}
		where := ""
		if p := x.ManifestOf(r.Node); p != nil {
			where = x.at(p, p.Line("dependencies"))
		}
		out = []string{"nothing that is linked names it" + where}
	}
	return out
}

// mentioned says whether a manifest of what is linked names a package: one that is optional may be in no lock file yet.
func (x *explainer) mentioned(r *Root, name string) bool {
	return slices.ContainsFunc(r.Linked, func(i int) bool {
		p := x.ManifestOf(i)
		return p != nil && slices.ContainsFunc(p.Dependencies, func(d manifest.Dependency) bool { return d.Package == name })
	})
}

// at names a place; nothing where the line is not known.
func (x *explainer) at(p *manifest.Package, line int) string {
	path := p.Manifest
	if x.shown != nil {
		path = x.shown(path)
	}
	if line == 0 {
		return " (" + path + ")"
	}
	return fmt.Sprintf(" (%s:%d)", path, line)
}

func (x *explainer) name(i int) string { return x.Nodes[i].Name + " " + x.Nodes[i].Version }
