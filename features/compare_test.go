package features

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// differences holds cargo's two answers against each other, for GPU crates only. cargo tree knows no targets, tests or examples: roots of
// these kinds are left out.
func differences(h buildenv.Host, p *manifest.Project, r manifest.Request, g *graph.Graph, t *graph.Tree) []string {
	known, err := catalog.Default()
	if err != nil {
		return []string{err.Error()}
	}
	j, out := &judge{view: newView(h, Input{Project: p, Catalog: known, Graph: g}), ask: manifest.ParseRequest(r)}, []string(nil)
	fromTree, fromGraph := gpuCrates{}, gpuCrates{}
	for _, r := range t.Roots {
		for _, i := range t.Linked(r) {
			n := &t.Nodes[i]
			j.note(fromTree, t.Nodes[r].Name, n.Name, n.Version, n.Features)
		}
	}
	for _, r := range j.Roots {
		u := &j.Graph.Units[r.Node]
		other := slices.ContainsFunc(u.Target.Kind, func(k string) bool { return k == "example" || k == "test" || k == "bench" })
		if other || u.Mode == "test" || u.Host() {
			continue
		}
		for _, i := range r.Linked {
			n := &j.Nodes[i]
			j.note(fromGraph, j.Nodes[r.Node].Name, n.Name, n.Version, n.Features)
		}
	}
	for _, root := range slices.Sorted(maps.Keys(fromGraph)) {
		other, ok := fromTree[root]
		if !ok {
			continue // the selection was given in a way that tree does not have
		}
		a, b := entries(fromGraph[root]), entries(other)
		if a != b {
			out = append(out, fmt.Sprintf("%s: the unit graph has %s, cargo tree has %s", root, a, b))
		}
	}
	return out
}

// gpuCrates is, by root, the GPU features that are on in each GPU crate.
type gpuCrates map[string]map[string][]string

func (j *judge) note(found gpuCrates, root, name, version string, features []string) {
	if found[root] == nil {
		found[root] = map[string][]string{}
	}
	c := j.Catalog.Crate(name)
	if c == nil || c.Role == catalog.Helper || c.Role == catalog.FalseFriend {
		return
	}
	on := found[root][name+" "+version]
	for _, f := range features {
		if (j.ask.IsGPU(f) || slices.Contains(c.CUDAFeatures, f)) && !slices.Contains(on, f) {
			on = append(on, f)
		}
	}
	slices.Sort(on)
	found[root][name+" "+version] = on
}

func entries(crates map[string][]string) string {
	if len(crates) == 0 {
		return "no GPU crate"
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(crates)) {
		if on := crates[name]; len(on) > 0 {
			name += " [" + strings.Join(on, ",") + "]"
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}
