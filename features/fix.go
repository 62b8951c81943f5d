package features

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// edge is one value that a feature of a package should get.
type edge struct {
	pkg           *manifest.Package
	feature, text string
	depth         int // how far from the root the package is
}

// fix adds to a finding the edges by which the crates that are off would be on: for each the shortest chain of packages from the root is
// walked from the crate up, and at each member of the workspace a feature that already leads on is taken, whatever its name; else that
// of the asked name gets an edge, or is created. Where the chain leaves the workspace, the message says in which package it ends.
func (k *rootJudge) fix(f *Finding, backend string, asked []string, off []gpuCrate) {
	var edges []edge
	var ends []string
	var beyond []int // crates to which only packages of others lead
	for _, c := range off {
		add, end := k.chain(c, k.feature(backend, asked, &edges))
		if end != "" {
			if !slices.Contains(ends, end) {
				ends = append(ends, end)
			}
			beyond = append(beyond, c.node)
			continue
		}
		edges = append(edges, add...)
	}
	if turn := k.alternative(backend, off); len(asked) > 0 && strings.Contains(asked[0], "/") && turn != "" { // asked of a dependency only
		f.Ask = []string{turn}
		return
	}
	if slices.Contains(k.in.Missing, asked[0]) && backend == "cudnn" && k.pkg.Declares("cuda") { // alone it is of no use
		edges = append([]edge{{k.pkg, asked[0], "cuda", 0}}, edges...)
	}
	if len(edges) > 0 {
		f.Lacks = slices.DeleteFunc(f.Lacks, func(l Lack) bool {
			return slices.ContainsFunc(beyond, func(i int) bool { return k.Nodes[i].Name == l.Crate && k.Nodes[i].Version == l.Version })
		})
		k.put(f, edges)
		return
	}
	if len(ends) > 0 {
		f.Message += "; " + strings.Join(ends, "; ")
	}
	for _, c := range off {
		if d, direct := k.DepFor(k.r.Node, c.node); direct {
			f.Ask = append(f.Ask, d.Key+"/"+c.gate[0])
		}
	}
}

// choice lists the edges for CUDA and those for Vulkan, where a bare `gpu` could mean either: only the user knows. It reports whether
// there is one.
func (k *rootJudge) choice(f *Finding, asked []string) bool {
	var lines []string
	for _, b := range []string{manifest.CUDA, manifest.Vulkan} {
		var one Finding
		off := slices.DeleteFunc(k.crates(b), func(c gpuCrate) bool { return c.on || c.node == k.r.Node })
		if k.fix(&one, b, asked, off); one.Fix != "" && !slices.Contains(lines, one.Fix) {
			lines = append(lines, one.Fix)
		}
	}
	if len(lines) < 2 {
		return false
	}
	f.Fix = strings.Join(lines, orElse)
	return true
}

// feature is that of the root which gets the edges. A root that was only asked for cudnn and has a cuda of its own gets them there.
func (k *rootJudge) feature(backend string, asked []string, edges *[]edge) string {
	f := asked[0]
	for _, a := range asked {
		if backend == manifest.CUDA && strings.Contains(f, "cudnn") && !strings.Contains(a, "cudnn") {
			f = a
		}
	}
	if _, dep, ok := strings.Cut(f, "/"); ok {
		return dep
	}
	if backend == manifest.CUDA && strings.Contains(f, "cudnn") && k.pkg != nil && k.pkg.Declares("cuda") {
		if within, _ := k.pkg.Closure([]string{f}); !within["cuda"] && !slices.Contains(*edges, edge{k.pkg, f, "cuda", 0}) {
			*edges = append(*edges, edge{k.pkg, f, "cuda", 0})
		}
		return "cuda"
	}
	return f
}

// alternative is a feature of the root's package, not asked for, that would turn crates on; empty where there is none.
func (k *rootJudge) alternative(backend string, off []gpuCrate) string {
	if k.pkg == nil {
		return ""
	}
	for _, f := range k.pkg.FeatureNames() {
		if b, loose := k.ask.BackendOf(f, nil); loose || b != backend || slices.Contains(k.Nodes[k.r.Node].Features, f) {
			continue
		}
		c := k.Closure(k.r, graph.Feature{Node: k.r.Node, Name: f})
		for _, o := range off {
			if slices.ContainsFunc(o.gate, func(g string) bool { return c.Has(graph.Feature{Node: o.node, Name: g}) }) {
				return f
			}
		}
	}
	return ""
}

// chain lists the edges by which one crate would be on, the nearest to it first; end says where the workspace cannot lead on.
func (k *rootJudge) chain(c gpuCrate, asked string) (edges []edge, end string) {
	way := k.Way(k.r, c.node)
	wants := c.gate
	for x := len(way) - 2; x >= 0; x-- {
		p, to := k.ManifestOf(way[x]), way[x+1]
		if p == nil {
			return nil, fmt.Sprintf("the manifest of %s is not on this machine", k.name(way[x]))
		}
		d, ok := k.DepFor(way[x], to)
		if at := slices.IndexFunc(p.Dependencies, func(d manifest.Dependency) bool {
			return d.Kind == manifest.Dev && d.Package == k.Nodes[to].Name
		}); !ok && x == 0 && at >= 0 {
			d, ok = p.Dependencies[at], true
		}
		if !ok {
			return nil, fmt.Sprintf("%s is no dependency in the manifest of %s", k.name(to), p.Name)
		}
		leading := k.leading(way[x], p, to, wants, asked)
		if x > 0 && leading != "" {
			wants = []string{leading}
			continue
		}
		if x == 0 && leading == asked {
			return edges, ""
		}
		e := edge{p, asked, d.Key + "/" + wants[0], x}
		if d.Optional {
			e.text = d.Key + "?/" + wants[0]
		}
		if k.Project == nil || !k.Project.IsMember(p) && k.Project.Local(p.Dir) == nil {
			return nil, fmt.Sprintf("it ends in %s, whose maintainer would add %s to [features]", k.name(way[x]),
				edit.FeatureLine(asked, append(slices.Clone(p.Features[asked]), e.text)))
		}
		edges, wants = append(edges, e), []string{asked}
	}
	return edges, ""
}

// leading is the feature of a package that turns one of the wanted features of a dependency on: of the asked name if that does.
func (k *rootJudge) leading(node int, p *manifest.Package, to int, wants []string, asked string) string {
	best := ""
	for _, f := range p.FeatureNames() {
		if f == "default" {
			continue
		}
		c := k.Closure(k.r, graph.Feature{Node: node, Name: f})
		if !slices.ContainsFunc(wants, func(w string) bool { return c.Has(graph.Feature{Node: to, Name: w}) }) {
			continue
		}
		if f == asked {
			return f
		}
		if best == "" || len(p.Features[f]) < len(p.Features[best]) {
			best = f
		}
	}
	return best
}

// put writes edges into a finding, those of one feature together. An edge to a feature that another edit creates is written behind it: the
// root's come last.
func (k *rootJudge) put(f *Finding, edges []edge) {
	slices.SortStableFunc(edges, func(a, b edge) int { return b.depth - a.depth })
	for _, e := range edges {
		at := slices.IndexFunc(f.Edits, func(o edit.Edit) bool { return o.Manifest == e.pkg.Manifest && o.Feature == e.feature })
		if at < 0 {
			at = len(f.Edits)
			f.Edits = append(f.Edits, edit.Edit{Manifest: e.pkg.Manifest, Feature: e.feature})
		}
		f.Edits[at].Add = manifest.Union(f.Edits[at].Add, []string{e.text})
	}
	last := edges[len(edges)-1]
	f.Path, f.Line, f.Fix = last.pkg.Manifest, last.pkg.FeatureLine(last.feature), k.toml(f.Edits)
}

// fixNothing adds to a finding about a feature that enables nothing the edges to optional GPU crates, or to features of dependencies that
// lead to one. Where there are several engines, only the user knows which one is meant.
func (k *rootJudge) fixNothing(f *Finding, backend string, asked []string) {
	if k.pkg == nil || k.Project == nil || !k.Project.IsMember(k.pkg) || strings.Contains(asked[0], "/") {
		f.Fix = nameIt
		return
	}
	for _, l := range k.looseEnds(k.request) { // a weak edge to a package that nothing brings in
		if !l.edge.Weak || l.dep.Target != "" || !k.Project.IsMember(l.pkg) {
			continue
		}
		if turn := turning(l.pkg, l.edge.Dep); turn != "" && l.node == k.r.Node {
			f.Ask = []string{turn}
		} else {
			k.put(f, []edge{{l.pkg, l.feature, l.edge.Dep + "/" + l.edge.Feature, 0}})
		}
		return
	}
	engines := k.engines(k.pkg, asked[0], backend, 0)
	switch len(engines) {
	case 0:
		f.Fix = nameIt
	case 1:
		for _, edges := range engines {
			if dep := manifest.ParseEdge(edges[len(edges)-1].text).Dep; dep != "" && !strings.Contains(f.Message, ": ") {
				f.Message += fmt.Sprintf(": the %s code of %s stays off", title(backend), dep)
			}
			k.put(f, edges)
		}
	default:
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(engines)) {
			var one Finding
			k.put(&one, engines[name])
			lines = append(lines, one.Fix)
		}
		f.Fix = strings.Join(lines, orElse)
	}
}

// turning is a feature of a package that turns an optional dependency on; empty when there is none.
func turning(p *manifest.Package, dep string) string {
	for _, f := range p.FeatureNames() {
		if slices.ContainsFunc(p.Edges(f), func(e manifest.Edge) bool { return e.Dep == dep && !e.Weak }) {
			return f
		}
	}
	return ""
}

// engines lists, by the first word of the crates' names, the edges by which a feature of a package would turn GPU crates on that are
// optional, or that a member between forwards to.
func (k *rootJudge) engines(p *manifest.Package, feature, backend string, depth int) map[string][]edge {
	out := map[string][]edge{}
	for _, d := range p.Dependencies {
		if d.Kind != manifest.Normal || d.Target != "" && !k.mayApply(d.Target) || depth > 5 {
			continue
		}
		if c := k.Catalog.Crate(d.Package); c != nil {
			if text := activating(p, d, c, backend); text != "" && !slices.Contains(p.Features[feature], text) {
				name, _, _ := strings.Cut(d.Package, "-")
				out[name] = append(out[name], edge{p, feature, text, depth})
			}
			continue
		}
		to := k.Project.Declaring(p, d)
		if to == nil {
			continue
		}
		if f := k.forwards(to, feature, backend); f != "" {
			out[d.Package] = append(out[d.Package], edge{p, feature, d.Key + "/" + f, depth})
			continue
		}
		if !k.Project.IsMember(to) && k.Project.Local(to.Dir) != to {
			continue
		}
		for name, below := range k.engines(to, feature, backend, depth+1) {
			out[name] = append(append(out[name], below...), edge{p, feature, d.Key + "/" + feature, depth})
		}
	}
	return out
}

// forwards is the feature of a package that leads to a GPU crate: of the asked name if that does; empty where none does.
func (k *rootJudge) forwards(p *manifest.Package, asked, backend string) string {
	if p.Declares(asked) && k.leads(p, asked, backend, 0) {
		return asked
	}
	if list := k.forwarding(p, backend); len(list) > 0 {
		return list[0]
	}
	return ""
}

// activating is the edge that turns the code of a crate of the catalog on; empty where the crate has none for the backend.
func activating(p *manifest.Package, d manifest.Dependency, c *catalog.Crate, backend string) string {
	if backend == manifest.AnyGPU {
		backend = manifest.CUDA
	}
	gate, linked := gateOf(c, backend)
	switch {
	case linked && d.Optional && p.Implicit(d.Key):
		return d.Key // a first "dep:" would take away the feature of its name
	case linked && d.Optional:
		return "dep:" + d.Key
	case linked || len(gate) == 0:
		return ""
	}
	return d.Key + "/" + gate[0]
}

// canReach reports whether any dependency of a package could bring GPU code.
func (k *rootJudge) canReach(p *manifest.Package, backend string) bool {
	return len(k.engines(p, "", backend, 0)) > 0 || (backend == manifest.CUDA || backend == manifest.AnyGPU) &&
		slices.ContainsFunc(p.Dependencies, func(d manifest.Dependency) bool { return k.Catalog.Crate(d.Package).CUDA() })
}

// toml is the edits as they stand in the manifests afterwards; behind each line of several manifests stands whose it is.
func (v *view) toml(edits []edit.Edit) string {
	lines := make([]string, 0, len(edits))
	for _, e := range slices.Backward(edits) {
		p := v.Project.Package(e.Manifest)
		line := edit.WithEdges(p, e.Feature, e.Add...)
		if slices.ContainsFunc(edits, func(o edit.Edit) bool { return o.Manifest != e.Manifest }) {
			line += " # " + p.Name
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
