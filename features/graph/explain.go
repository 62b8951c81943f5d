package graph

import (
	"slices"
	"strings"

	"gpubuild/features/manifest"
)

// Reason says for one root by which steps a crate is linked, or has a feature.
type Reason struct {
	Root     string   `json:"root"`
	Crate    string   `json:"crate"`
	Version  string   `json:"version"`
	Feature  string   `json:"feature,omitempty"`
	On       bool     `json:"on"`                 // the crate has the feature; without one: true
	Features []string `json:"features,omitempty"` // all that are on
	Steps    []Step   `json:"steps,omitempty"`    // the shortest way there
}

// Explain answers the question after one crate (NAME or NAME@VERSION), or one feature of it, for each root that links it.
func (v *View) Explain(r manifest.Request, crate, feature string) []Reason {
	ask := manifest.ParseRequest(r)
	name, version, _ := strings.Cut(crate, "@")
	source := strings.NewReplacer("-", "_") // sources write underscores where a package's name has hyphens
	out, seen := []Reason{}, map[string]bool{}
	for i := range v.Roots {
		root := &v.Roots[i]
		top := &v.Nodes[root.Node]
		start := []Feature{{root.Node, ""}}
		if top.Pkg != nil {
			for _, f := range ask.Of(top.Pkg) {
				start = append(start, Feature{root.Node, f})
			}
		}
		for _, at := range root.Linked {
			n := &v.Nodes[at]
			begins := version == "" || strings.HasPrefix(n.Version+".", strings.TrimPrefix(version, "v")+".") // 0.11 includes 0.11.1
			if source.Replace(n.Name) != source.Replace(name) || !begins || at != root.Node && n.ID == top.ID || seen[top.Name+"\n"+n.ID] {
				continue
			}
			seen[top.Name+"\n"+n.ID] = true // the library and the program of a package have the same answer
			e := Reason{Root: top.Name, Crate: n.Name, Version: n.Version, Feature: feature, Features: n.Features,
				On: feature == "" || slices.Contains(n.Features, feature)}
			if e.On {
				e.Steps = v.Closure(root, start...).Chain(Feature{at, feature})
			}
			out = append(out, e)
		}
	}
	return out
}
