package features

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv/lazyregexp"
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

// waits reports whether the feature has the same edge already, but only for when the dependency is linked.
func (e edge) waits() bool {
	to := manifest.ParseEdge(e.text)
	return !to.Weak && slices.Contains(e.pkg.Features[e.feature], to.Dep+"?/"+to.Feature)
}

// fix adds to a finding the edges by which the crates that are off would be on. Where a bare `gpu` could mean CUDA (Metal for Apple) or
// Vulkan, only the user knows which.
func (g *group) fix(f *Finding, off []gpuCrate) {
	options := [][]gpuCrate{off}
	if g.backend == manifest.AnyGPU && !g.on() {
		options = nil
		for _, b := range []string{g.usual(), manifest.Vulkan} {
			options = append(options, slices.DeleteFunc(g.crates(b), func(c gpuCrate) bool { return c.on || c.node == g.r.Node }))
		}
		if at := slices.IndexFunc(options, func(o []gpuCrate) bool { return len(o) > 0 }); at >= 0 {
			off = options[at]
		}
	}
	for _, c := range off {
		n := &g.Nodes[c.node]
		f.Lacks = append(f.Lacks, MissingFeature{n.Name, n.Version, c.gate[0], c.gate[1:], n.ID == ""})
	}
	var fixes [][]edge
	var ends []string
	theirs := map[string][]edge{} // by the end: what its maintainer would add
	for _, off := range options {
		var edges []edge
		var dead []gpuCrate
		for _, c := range off {
			add, end := g.chain(c, g.target(g.asked, c))
			if end != "" {
				dead = append(dead, c)
				continue
			}
			edges = append(edges, add...)
		}
		for _, c := range dead {
			if c.by(g.then(edges)) {
				continue
			}
			add, end := g.chain(c, g.target(g.asked, c))
			f.Lacks = slices.DeleteFunc(f.Lacks, func(l MissingFeature) bool {
				return len(f.Lacks) > 1 && l.Crate == g.Nodes[c.node].Name
			})
			ends, theirs[end] = manifest.Union(ends, []string{end}), append(theirs[end], add...)
		}
		whole := func(c gpuCrate) bool { return g.target(g.asked, c) == manifest.CUDA }
		if f := g.asked[0]; len(g.partsOf(g.asked)) == len(g.asked) && slices.ContainsFunc(off, whole) {
			if within, _ := g.pkg.Closure([]string{f}); !within[manifest.CUDA] { // cudnn alone is of no use
				edges = append([]edge{{g.pkg, f, manifest.CUDA, 0}}, edges...)
			}
		}
		fixes = append(fixes, edges)
		if len(options) > 1 && len(edges) > 0 && !slices.ContainsFunc(edges, func(e edge) bool { // the member says what gpu means
			b, loose := g.ask.BackendOf(manifest.ParseEdge(e.text).Feature, g.known)
			return e.depth > 0 || loose || b != manifest.AnyGPU
		}) {
			break
		}
	}
	for _, end := range ends {
		if f.Message += "; " + end; len(theirs[end]) > 0 {
			e := theirs[end][0]
			list := slices.Clone(e.pkg.Features[e.feature])
			for _, e := range theirs[end] {
				list = append(list, e.text)
			}
			f.Message += fmt.Sprintf(", whose maintainer would add %s to [features]", edit.FeatureLine(e.feature, manifest.Union(list)))
		}
	}
	if strings.Contains(g.asked[0], "/") { // asked of a dependency only
		fixes = nil
	}
	if g.offer(f, fixes); f.Fix != "" {
		return
	}
	for _, c := range off {
		if d, direct := g.DepFor(g.r, g.r.Node, c.node); direct {
			f.Ask = append(f.Ask, d.Key+"/"+c.gate[0])
		}
	}
}

// then is what edges of the root turn on.
func (k *rootJudge) then(edges []edge) *graph.Closure {
	var on []graph.Feature
	for _, e := range edges {
		to := manifest.ParseEdge(e.text)
		for _, d := range e.pkg.Dependencies {
			if d.Key == to.Dep && e.pkg == k.pkg {
				node := k.DepNode(k.r.Node, d, k.r.Set)
				on = append(on, graph.Feature{Node: node}, graph.Feature{Node: node, Name: to.Feature})
			}
		}
	}
	on = slices.DeleteFunc(on, func(f graph.Feature) bool { return f.Node < 0 })
	return k.Closure(k.r, on...)
}

// target is the feature that gets the edges to a crate: the first that was asked for, but that of a part of CUDA only for the part, where
// there is a cuda.
func (k *rootJudge) target(asked []string, c gpuCrate) string {
	cudnn, parts := cudnnOf(asked), k.partsOf(asked)
	if slices.Contains(asked, c.gate[0]) {
		return c.gate[0]
	}
	if c.gate[0] == "cudnn" && len(cudnn) > 0 {
		return cudnn[0]
	}
	for _, f := range asked {
		if !slices.Contains(parts, f) {
			return f
		}
	}
	if k.pkg != nil && k.pkg.Declares(manifest.CUDA) {
		return manifest.CUDA
	}
	return asked[0]
}

// partsOf are those of some features that mean a part of CUDA: cudnn, nccl, tensorrt.
func (k *rootJudge) partsOf(asked []string) []string {
	return slices.DeleteFunc(slices.Clone(asked), func(f string) bool {
		_, loose := k.ask.BackendOf(f, k.known)
		return !loose && !strings.Contains(f, "cudnn")
	})
}

// isPart reports whether a part of CUDA is what is off in a crate.
func (k *rootJudge) isPart(c gpuCrate) bool { return len(c.gate) > 0 && len(k.partsOf(c.gate[:1])) > 0 }

// arrives is the feature by which a request for a crate arrives in a member of the workspace: a line that is missing there belongs in it.
// Empty where it does not.
func (k *rootJudge) arrives(node int, asked string, c gpuCrate) string {
	for _, f := range k.meant(node, asked, c, false) {
		if k.asks().Has(graph.Feature{Node: node, Name: f}) {
			return f
		}
	}
	return ""
}

// variant matches the names of features that say more than that a GPU is to be used: how it is linked, or with which numbers.
var variant = lazyregexp.New(`\d|static|dynamic`)

// meant lists the features of a member of the workspace that a request for a crate can mean, the likeliest first: that of its name, of the
// backend's, others of the backend, and a bare gpu. For a new line a variant is none, nor a bare gpu where the member has other backends.
func (k *rootJudge) meant(node int, asked string, c gpuCrate, line bool) (out []string) {
	p := k.Nodes[node].Pkg
	if !k.Project.IsMember(p) {
		return nil
	}
	var gpu []string
	others := false
	for _, f := range append([]string{asked, c.backend}, p.FeatureNames()...) {
		b, _ := k.ask.BackendOf(f, k.known)
		_, version := catalog.CudarcVersion(f)
		switch {
		case f == asked && p.Declares(f):
			out = append(out, f)
		case !p.Declares(f) || k.isPart(c) || len(k.partsOf([]string{f})) > 0:
		case b == manifest.AnyGPU:
			gpu = append(gpu, f)
		case b != c.backend:
			others = true
		case !version && !p.Implicit(f) && !(line && variant.MatchString(f)):
			out = append(out, f)
		}
	}
	if line && others {
		return out
	}
	return append(out, gpu...)
}

// behind is the feature that a feature names for the backend of a crate, as in gpu = ["cuda", "rocm"] or cuda = ["use-cuda"], where it names
// one alone: a line there counts in both.
func (k *rootJudge) behind(node int, feature string, c gpuCrate) string {
	p := k.Nodes[node].Pkg
	if within, _ := p.Closure([]string{feature}); k.isPart(c) {
		return feature
	} else if within[c.backend] {
		feature = c.backend
	}
	line := k.meant(node, "", c, true)
	for range p.Features {
		named := manifest.Union(slices.DeleteFunc(slices.Clone(line), func(f string) bool { return !slices.Contains(p.Features[feature], f) }))
		if len(named) != 1 {
			break
		}
		feature = named[0]
	}
	return feature
}

// wayOf is the way to a crate through a member that depends on it, and in which the request arrives; else the shortest one.
func (k *rootJudge) wayOf(c gpuCrate, asked string, shortest []int) []int {
	for _, f := range k.asks().Features() {
		_, direct := k.DepFor(k.r, f.Node, c.node)
		if direct && f.Node != k.r.Node && !k.samePackage(f.Node) && k.arrives(f.Node, asked, c) != "" {
			return append(k.Way(k.r, f.Node), c.node)
		}
	}
	return shortest
}

// chain lists the edges by which one crate would be on, the nearest to it first: the shortest chain of packages from the root is walked
// from the crate up, and at each package a feature that already leads on is taken, whatever its name, unless it is a member in which the
// request ends; else the feature by which that arrives gets an edge, or the package's own for the backend; where there is none, one of the
// asked name is created. end says where the workspace cannot lead on; the edge is one for the maintainer there then.
func (k *rootJudge) chain(c gpuCrate, asked string) (edges []edge, end string) {
	way, wants := k.Way(k.r, c.node), c.features()
	if k.leading(k.r.Node, wants, c.backend, asked, []string{asked}) == "" {
		way = k.wayOf(c, asked, way)
	}
	for x := len(way) - 2; x >= 0; x-- {
		p, to := k.Nodes[way[x]].Pkg, way[x+1]
		if p == nil {
			return nil, fmt.Sprintf("the manifest of %s is not on this machine", k.name(way[x]))
		}
		d, ok := k.DepFor(k.r, way[x], to)
		if !ok {
			return nil, fmt.Sprintf("%s is no dependency in the manifest of %s", k.name(to), p.Name)
		}
		here, candidates := asked, []string{asked} // here: what the request means in this package
		if by := k.arrives(way[x], asked, c); x > 0 && by != "" {
			here, candidates = by, []string{by}
		} else if x > 0 {
			candidates = append(candidates, p.FeatureNames()...)
		}
		leading := k.leading(way[x], wants, c.backend, here, candidates)
		leads := x == 0 && leading != "" // were its table for this target, it would be linked
		switch {
		case k.ahead && (!k.mayApply(d.Target) || leads && len(edges) == 0 && d.Target != ""):
			return nil, fmt.Sprintf("%s is a dependency of %s only", d.Package, d.Target)
		case leads:
			return edges, ""
		case leading != "":
			wants = []graph.Feature{{Node: way[x], Name: leading}}
			continue
		case wants[0].Name == "" && !d.Optional: // it comes with the package
			wants = []graph.Feature{{Node: way[x]}}
			continue
		}
		if own := k.meant(way[x], asked, c, true); x > 0 && len(candidates) > 1 && len(own) > 0 { // no request arrives
			here = own[0]
		}
		e := edge{p, k.behind(way[x], here, c), d.Key + "/" + wants[0].Name, x}
		both := featuresOf(way[x], []string{here, e.feature})
		names := slices.DeleteFunc(p.FeatureNames(), func(f string) bool { // its own of the backend's name
			return f != c.backend || slices.ContainsFunc(both, k.Closure(k.r, graph.Feature{Node: way[x], Name: f}).Has)
		})
		own := k.leading(way[x], wants, c.backend, here, names)
		switch {
		case own != "":
			e.text = own
		case wants[0].Name == "" && p.Implicit(d.Key):
			e.text = d.Key // a first "dep:" would take away the feature of its name
		case wants[0].Name == "":
			e.text = "dep:" + d.Key
		case d.Optional && !k.ahead:
			e.text = d.Key + "?/" + wants[0].Name
		}
		if !k.Project.IsMember(p) && k.Project.Local(p.Dir) == nil {
			return []edge{e}, "it ends in " + k.name(way[x])
		}
		edges, wants = append(edges, e), both
	}
	return edges, ""
}

// leading is the feature of a package, of some, that turns something wanted on: the asked one if that does, else the one that turns least
// on besides. Of thousands of features the first ones are followed.
func (k *rootJudge) leading(node int, wants []graph.Feature, backend, asked string, candidates []string) string {
	best, least, part := "", 0, len(k.partsOf([]string{asked})) > 0
	for followed, at := 0, 0; at < len(candidates) && followed < 100_000; at++ {
		f := candidates[at]
		c := k.Closure(k.r, graph.Feature{Node: node, Name: f})
		stranger := func(on graph.Feature) bool { // another GPU's
			known := k.Crate(on.Node)
			return known != nil && known.Backends[on.Name] != "" && family(known.Backends[on.Name]) != backend
		}
		more := func(on graph.Feature) bool { // cudnn, nccl
			known := k.Crate(on.Node)
			return known != nil && known.Role == catalog.Gated && (strings.Contains(on.Name, "cudnn") || known.Means[on.Name] != "") &&
				!slices.Contains(known.CUDAFeatures, on.Name)
		}
		n := len(c.Features())
		switch followed += n; {
		case f == "default" || !slices.ContainsFunc(wants, c.Has):
		case f == asked:
			return f
		case slices.ContainsFunc(c.Features(), stranger):
		case !part && len(k.partsOf([]string{f})) > 0 && slices.ContainsFunc(c.Features(), more):
		case best == "" || n < least:
			best, least = f, n
		}
	}
	return best
}

// offer writes into a finding the edges that fix it, or where there are several fixes, of which only the user knows the right one, what
// each would write.
func (k *rootJudge) offer(f *Finding, fixes [][]edge) {
	var lines []string
	for _, edges := range fixes {
		if len(edges) == 0 {
			continue
		}
		one := Finding{}
		// An edge to a feature that another edit creates is written behind it: the root's come last.
		slices.SortStableFunc(edges, func(a, b edge) int { return b.depth - a.depth })
		for _, e := range edges {
			if to := manifest.ParseEdge(e.text); e.waits() { // next to the other it would say nothing
				weak := to.Dep + "?/" + to.Feature
				one.Edits = append(one.Edits, edit.Edit{Manifest: e.pkg.Manifest, Feature: e.feature, Add: []string{e.text}, Instead: weak})
				continue
			}
			at := slices.IndexFunc(one.Edits, func(o edit.Edit) bool {
				return o.Manifest == e.pkg.Manifest && o.Feature == e.feature && o.Instead == ""
			})
			if at < 0 {
				at = len(one.Edits)
				one.Edits = append(one.Edits, edit.Edit{Manifest: e.pkg.Manifest, Feature: e.feature})
				if e.pkg.Implicit(e.feature) { // once it is written, it no longer brings its dependency by itself
					one.Edits[at].Add = slices.Clone(e.pkg.Features[e.feature])
				}
			}
			one.Edits[at].Add = manifest.Union(one.Edits[at].Add, []string{e.text})
		}
		if text := k.toml(one.Edits); !slices.Contains(lines, text) {
			last := edges[len(edges)-1]
			lines, f.Edits, f.Path, f.Line = append(lines, text), one.Edits, last.pkg.Manifest, last.pkg.FeatureLine(last.feature)
		}
	}
	if f.Fix = strings.Join(lines, orElse); len(lines) > 1 {
		f.Edits = nil
	}
}

// candidates adds to a finding the edges that would turn GPU crates on: those that are off, or that manifests make possible. Of a crate
// outside of the catalog the name of a feature proves nothing: it is named, and nothing is written. why says what else is in the way; weak: it
// is that nothing turns a dependency on.
func (g *group) candidates(f *Finding) (why string, weak bool) {
	if g.pkg == nil || !g.Project.IsMember(g.pkg) || strings.Contains(g.asked[0], "/") {
		return "", false
	}
	if len(g.off) > 0 {
		g.fix(f, g.off)
		return "", false
	}
	backend, possible := g.backend, g.possible(g.pkg)
	if backend == manifest.AnyGPU && len(possible.crates(g.usual())) > 0 {
		backend = g.usual()
	}
	engines, version := map[string][]edge{}, map[string]string{} // by the first word of what the root depends on for it
	var off, named []string
	linked := g.bare(slices.Concat(g.anyway, g.bound, g.always))
	for _, c := range possible.crates(backend) {
		if slices.Contains(linked, possible.Nodes[c.node].Name) {
			continue
		}
		way := possible.Way(possible.r, c.node)
		if possible.Crate(c.node).Linked() {
			c.gate = nil
		}
		if len(way) < 2 || slices.ContainsFunc(way[1:len(way)-1], func(i int) bool {
			p := possible.Nodes[i].Pkg
			return possible.Crate(i) != nil || p != nil && p.ProcMacro // what that links is in no program
		}) {
			continue
		}
		name := possible.Nodes[way[1]].Name
		all, end := possible.chain(c, g.asked[0])
		// A member's weak edge waits for another feature of the member, and stays as it is.
		edges := slices.DeleteFunc(slices.Clone(all), func(e edge) bool { return e.depth > 0 && e.waits() && g.guard(e) != "" })
		if len(edges) > 0 {
			weak, all = weak || len(edges) < len(all), edges
		}
		if why = end; end == "" {
			off = manifest.Union(off, []string{name})
			why = fmt.Sprintf("the %s code of %s stays off", strings.TrimPrefix(title(g.backend), "a "), few(off))
			engine, _, _ := strings.Cut(name, "-")
			if first, known := version[name]; known && first != possible.Nodes[way[1]].Version { // one of them is meant
				engine += " " + possible.Nodes[way[1]].Version
			}
			version[name] = cmp.Or(version[name], possible.Nodes[way[1]].Version)
			weakly, with := slices.Clone(edges), engines[engine+" "] // only the user knows whether a feature is to come with another one
			for i, e := range edges {
				if to, guard := manifest.ParseEdge(e.text), g.guard(e); guard != "" && to.Feature != "" && e.depth == 0 {
					weakly[i].text, with = to.Dep+"?/"+to.Feature, append(with, edge{e.pkg, e.feature, guard, e.depth})
				}
			}
			engines[engine], engines[engine+" "] = append(engines[engine], weakly...), append(with, edges...)
		}
		for _, e := range all {
			to, guard := manifest.ParseEdge(e.text), g.guard(e)
			if e.waits() {
				weak, why = true, fmt.Sprintf("`%s?/%s` of %s counts only if something else enables `%s`", to.Dep, to.Feature, e.pkg.Name, to.Dep)
				if guard != "" && e.depth == 0 {
					f.Ask = []string{guard}
				}
			}
		}
	}
	for _, d := range g.pkg.Dependencies {
		if c := g.Catalog.Crate(d.Package); d.Kind != manifest.Normal && why == "" && len(off) == 0 && c != nil && c.Role == catalog.Gated {
			why = fmt.Sprintf("%s is a %s-dependency, and no part of the program", d.Key, d.Kind)
		}
	}
	seen := map[int]bool{}
	for _, s := range append([]graph.Feature{{Node: g.r.Node}}, g.strangers()...) { // a package that the request turns on may be what ends it
		p, in := g.Nodes[s.Node].Pkg, ""
		if seen[s.Node] {
			continue
		}
		seen[s.Node] = true
		if s.Node != g.r.Node && p != nil && g.Nodes[s.Node].Local {
			in = " in " + p.Name
		} else if p != g.pkg {
			continue
		}
		for _, d := range p.Dependencies {
			to := g.Project.Declaring(p, d)
			if to == nil || d.Kind != manifest.Normal || g.Catalog.Crate(to.Name) != nil {
				continue
			}
			for _, name := range g.Input.Sources.named(&g.ask, to, backend) {
				if !g.closure.Has(graph.Feature{Node: g.DepNode(s.Node, d, g.r.Set), Name: name}) {
					named = append(named, d.Key+"/"+name+in)
				}
			}
		}
	}
	named = manifest.Union(named)
	var fixes [][]edge
	for _, engine := range slices.Sorted(maps.Keys(engines)) {
		fixes = append(fixes, engines[engine])
	}
	if len(f.Ask) == 0 {
		g.offer(f, fixes)
	}
	if f.Fix == "" && len(f.Ask) == 0 && len(named) > 0 {
		f.Fix = "# may be meant: " + few(named)
	}
	return why, weak
}

// guard is another feature of an edge's package, and none for a GPU, that turns on the dependency of an edge; empty where there is none.
func (g *group) guard(e edge) string {
	for _, other := range e.pkg.FeatureNames() {
		_, leads := e.pkg.Closure([]string{other})
		if other != "default" && other != e.feature && !g.ask.IsBackend(other) && !e.pkg.Implicit(other) &&
			slices.ContainsFunc(leads, func(o manifest.Edge) bool { return o.Dep == manifest.ParseEdge(e.text).Dep && o.Feature == "" }) {
			return other
		}
	}
	return ""
}

// toml is the edits as they stand in the manifests afterwards; behind each line of several manifests, or of another package's, stands whose
// it is.
func (k *rootJudge) toml(edits []edit.Edit) string {
	lines, of := make([]string, 0, len(edits)), ""
	for i, e := range slices.Backward(edits) {
		same := func(o edit.Edit) bool { return o.Manifest == e.Manifest && o.Feature == e.Feature }
		if slices.ContainsFunc(edits[i+1:], same) {
			continue
		}
		p := k.Project.Package(e.Manifest)
		list := slices.Clone(p.Features[e.Feature])
		for _, o := range edits[:i+1] {
			if at := slices.Index(list, o.Instead); same(o) && at >= 0 {
				list[at] = o.Add[0]
			}
			if same(o) {
				list = append(list, o.Add...)
			}
		}
		line := edit.FeatureLine(e.Feature, manifest.Union(list))
		if p.Line("features") == 0 && of != e.Manifest {
			line = "[features]\n" + line
		}
		of = e.Manifest
		if slices.ContainsFunc(edits, func(o edit.Edit) bool { return o.Manifest != e.Manifest }) || k.pkg != nil && e.Manifest != k.pkg.Manifest {
			line += " # " + p.Name
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
