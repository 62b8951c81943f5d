package graph

import (
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
	Because  []Step   `json:"because,omitempty"`  // where it is off: what could turn it on
}

// Explain answers the question after one crate (NAME or NAME@VERSION), or one feature of it, for each root of a build.
func (v *View) Explain(r manifest.Request, crate, feature string) []Reason {
	ask := manifest.ParseRequest(r)
	name, version, _ := strings.Cut(crate, "@")
	out := []Reason{}
	add := func(e Reason) { // the library and the program of a package have the same answer
		if !slices.ContainsFunc(out, func(o Reason) bool { return fmt.Sprint(o) == fmt.Sprint(e) }) {
			out = append(out, e)
		}
	}
	for i := range v.Roots {
		root := &v.Roots[i]
		top := &v.Nodes[root.Node]
		start := []Feature{{root.Node, ""}}
		for _, f := range top.Features {
			if ask.All || slices.Contains(ask.Plain, f) || slices.Contains(ask.Qualified[top.Name], f) || f == "default" && !ask.NoDefault {
				start = append(start, Feature{root.Node, f})
			}
		}
		linked := false
		for _, at := range root.Linked {
			n := &v.Nodes[at]
			if !sameCrate(n.Name, name) || !begins(n.Version, version) || at != root.Node && n.ID == top.ID {
				continue
			}
			linked = true
			e := Reason{Root: top.Name, Crate: n.Name, Version: n.Version, Linked: true, Feature: feature, Features: n.Features}
			if e.On = feature == "" || slices.Contains(n.Features, feature); e.On {
				e.Steps = v.Closure(root, start...).Chain(Feature{at, feature})
			} else {
				e.Because = v.leadsTo(root, Feature{at, feature})
			}
			add(e)
		}
		if !linked {
			add(Reason{Root: top.Name, Crate: name, Version: version, Feature: feature, Because: v.optionalIn(root, name)})
		}
	}
	return out
}

// sameCrate: sources write underscores where a package's name has hyphens.
func sameCrate(a, b string) bool {
	return strings.ReplaceAll(a, "-", "_") == strings.ReplaceAll(b, "-", "_")
}

// begins reports whether a version is the one that was asked for: 0.11 includes 0.11.1, and nothing includes all.
func begins(version, asked string) bool {
	return asked == "" || strings.HasPrefix(version+".", strings.TrimPrefix(asked, "v")+".")
}

// leadsTo lists the features of linked packages whose own edge turns a feature on that is off.
func (v *View) leadsTo(r *Root, to Feature) (out []Step) {
	for _, i := range r.Linked {
		p := v.Nodes[i].Pkg
		if p == nil || !slices.ContainsFunc(v.Nodes[i].Deps, func(d Dep) bool { return d.To == to.Node }) {
			continue
		}
		for _, f := range p.FeatureNames() {
			if chain := v.Closure(r, Feature{i, f}).Chain(to); len(chain) == 2 {
				out = append(out, Step{p.Name + "/" + f + " has " + chain[1].Text, p.Manifest, p.Line("features", f)})
			}
		}
	}
	return out
}

// optionalIn lists the linked packages that depend on a package which is not linked.
func (v *View) optionalIn(r *Root, name string) (out []Step) {
	for _, i := range r.Linked {
		if p := v.Nodes[i].Pkg; p != nil {
			for _, d := range p.Dependencies {
				if sameCrate(d.Package, name) {
					out = append(out, Step{p.Name + " names it", p.Manifest, p.DependencyLine(d)})
				}
			}
		}
	}
	return out
}
