package features

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// compare holds cargo's two answers against each other, for GPU crates only. cargo tree knows no targets, tests or examples: roots of
// these kinds are left out.
func (j *judge) compare(t *graph.Tree) {
	fromTree := map[string]map[string]string{}
	for _, r := range t.Roots {
		set := fromTree[t.Nodes[r].Name]
		if set == nil {
			set = map[string]string{}
			fromTree[t.Nodes[r].Name] = set
		}
		for _, i := range t.Linked(r) {
			n := &t.Nodes[i]
			j.gpuEntry(set, n.Name, n.Version, n.Features)
		}
	}
	fromGraph := map[string]map[string]string{}
	for _, r := range j.Roots {
		u := &j.Graph.Units[r.Node]
		if u.Mode == "test" || slices.Contains(u.Target.Kind, "example") || slices.Contains(u.Target.Kind, "test") ||
			slices.Contains(u.Target.Kind, "bench") || u.Host() {
			continue
		}
		name := j.Nodes[r.Node].Name
		set := fromGraph[name]
		if set == nil {
			set = map[string]string{}
			fromGraph[name] = set
		}
		for _, i := range r.Linked {
			n := &j.Nodes[i]
			j.gpuEntry(set, n.Name, n.Version, n.Features)
		}
	}
	for _, root := range slices.Sorted(maps.Keys(fromGraph)) {
		other, ok := fromTree[root]
		if !ok {
			continue // the selection was given in a way that tree does not have
		}
		a, b := entries(fromGraph[root]), entries(other)
		if a != b {
			j.out.Unsure = true
			j.find(Finding{ID: IDUnsure, Severity: Warning, Root: root,
				Message:  fmt.Sprintf("cargo gives two answers for %s: its unit graph has %s, cargo tree has %s", root, a, b),
				Evidence: "cargo build --unit-graph; cargo tree -e normal,no-proc-macro"})
		}
	}
}

func (j *judge) gpuEntry(set map[string]string, name, version string, features []string) {
	c := j.Catalog.Crate(name)
	if c == nil || c.Role == catalog.Helper || c.Role == catalog.FalseFriend {
		return
	}
	var on []string
	for _, f := range features {
		if slices.Contains(j.ask.GPU, f) || slices.Contains(c.CUDAFeatures, f) {
			on = append(on, f)
		}
	}
	sort.Strings(on)
	key := name + " " + version
	set[key] = strings.Join(manifest.Union(splitComma(set[key]), on), ",")
}

func splitComma(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func entries(set map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if set[k] == "" {
			out = append(out, k)
			continue
		}
		out = append(out, k+" ["+set[k]+"]")
	}
	if len(out) == 0 {
		return "no GPU crate"
	}
	return strings.Join(out, ", ")
}
