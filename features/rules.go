package features

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// rootJudge judges one root.
type rootJudge struct {
	*judge
	r     *graph.Root
	pkg   *manifest.Package // of the root; nil: its manifest was not found
	label string
	ahead bool // the view is what manifests make possible, and nothing is linked yet

	asked       []string // GPU features that are on in the root's package
	groups      []*group
	loose       []string              // of asked: names that may mean anything
	far         []graph.Feature       // features that are asked of a named package: candle-core/cuda
	start       []graph.Feature       // everything that the command line asks of this root
	closed      *graph.Closure        // of start; nil: not known
	catalogued  []int                 // the linked nodes of the catalog
	first       map[int]graph.Feature // of nodes: what request turns on first; nil: not known
	ineffective []string              // of asked: those that enable nothing
	parts       []*group              // what was asked for of cuDNN, and of NCCL and the like by features that enable nothing
	open        []Open                // what only the build shows
}

// group is one backend that was asked for, with the linked GPU crates of it. A binding computes nothing by itself: it does not make a
// program use the GPU.
type group struct {
	*rootJudge
	backend string
	asked   []string
	closure *graph.Closure // of what was asked for
	request []gpuCrate     // crates with kernels that are on by the request
	anyway  []gpuCrate     // … without it
	off     []gpuCrate     // … and those that are off
	bound   []gpuCrate     // bindings that are linked by the request
	always  []gpuCrate     // … and without it
	files   []gpuCrate     // crates of which a file decides: they say nothing of others that are off, unless the request means them
	missed  []gpuCrate     // of off: those whose code is known to be missed where others are on
	itself  bool           // the root is such a crate: its own gate is what was asked for

	reaches []graph.Feature // reached; nil: not known
}

func (g *group) on() bool { return len(g.request)+len(g.anyway) > 0 }

// binds reports whether all that the request turns on are bindings, and nothing is off.
func (g *group) binds() bool {
	return len(g.off)+len(g.request) == 0 && !g.itself && len(g.bound) > 0
}

// gpuCrate is a linked crate that can bring GPU code of a backend into a program.
type gpuCrate struct {
	node    int
	backend string
	gate    []string // the features that turn the code on; none: it is there when the crate is linked
	on      bool
	lost    string // what is missed while it is off; empty: nothing that is known
}

// features are those of which one turns the code of a crate on; that without a name is the crate itself.
func (c gpuCrate) features() []graph.Feature {
	if len(c.gate) == 0 {
		return []graph.Feature{{Node: c.node}}
	}
	return featuresOf(c.node, c.gate)
}

func featuresOf(node int, names []string) (out []graph.Feature) {
	for _, f := range names {
		out = append(out, graph.Feature{Node: node, Name: f})
	}
	return out
}

// by reports whether a closure turns a crate on.
func (c gpuCrate) by(closure *graph.Closure) bool {
	return slices.ContainsFunc(c.features(), closure.Has)
}

// rootOf is a root with the features that were asked for, by the backend that they mean.
func (j *judge) rootOf(r *graph.Root) *rootJudge {
	n := &j.Nodes[r.Node]
	k := &rootJudge{judge: j, r: r, pkg: n.Pkg, label: n.Name, catalogued: j.Catalogued(r)}
	take := func(backend, f string) {
		at := slices.IndexFunc(k.groups, func(g *group) bool { return g.backend == backend })
		if at < 0 {
			at, k.groups = len(k.groups), append(k.groups, &group{rootJudge: k, backend: backend})
		}
		k.groups[at].asked = append(k.groups[at].asked, f)
	}
	for _, f := range slices.Concat(n.Features, k.Input.Missing) {
		named := k.ask.Names(n.Name, f) || slices.Contains(k.Input.Missing, f)
		backend, loose := k.means(f)
		if !named && backend == "" {
			continue
		}
		k.start = append(k.start, graph.Feature{Node: k.r.Node, Name: f})
		switch {
		case backend == "":
			continue
		case loose:
			k.loose = append(k.loose, f)
		case named || backend != manifest.AnyGPU: // of the defaults: nobody asked for any GPU
			take(backend, f)
		}
		k.asked = append(k.asked, f)
	}
	for _, pkg := range slices.Sorted(maps.Keys(k.ask.Qualified)) {
		for _, f := range k.ask.Qualified[pkg] {
			node := k.dependency(pkg)
			if !k.r.Set.Has(node) || node == k.r.Node || k.samePackage(node) || !slices.Contains(k.Nodes[node].Features, f) {
				continue
			}
			far := graph.Feature{Node: node, Name: f}
			k.start, k.far = append(k.start, k.enters(far)...), append(k.far, far)
			c := k.Crate(node)
			if b, loose := k.ask.BackendOf(f, nil); b != "" && !loose && (c == nil || c.Role != catalog.FalseFriend) {
				take(b, pkg+"/"+f)
			}
		}
	}
	if len(k.groups) > 0 { // a name that may mean anything says nothing next to one that is certain
		k.asked = slices.DeleteFunc(k.asked, func(f string) bool { return slices.Contains(k.loose, f) })
		k.loose = nil
	}
	if len(k.groups) > 1 { // a bare gpu next to a backend's name asks for nothing more
		k.groups = slices.DeleteFunc(k.groups, func(g *group) bool { return g.backend == manifest.AnyGPU })
	}
	return k
}

// enters is a feature that was asked of a dependency, with the dependency itself where that is optional.
func (k *rootJudge) enters(f graph.Feature) []graph.Feature {
	if d, direct := k.DepFor(k.r, k.r.Node, f.Node); direct && d.Optional {
		return []graph.Feature{{Node: f.Node}, f}
	}
	return []graph.Feature{f}
}

// asks is what everything turns on that the command line asks of the root.
func (k *rootJudge) asks() *graph.Closure {
	if k.closed == nil {
		k.closed = k.Closure(k.r, k.start...)
	}
	return k.closed
}

// dependency is the linked node that a name of the command line means: a package's, or the root manifest's name for it.
func (k *rootJudge) dependency(name string) int {
	if k.pkg != nil {
		for _, d := range k.pkg.Dependencies {
			if to := k.DepNode(k.r.Node, d, k.r.Set); d.Key == name && to >= 0 {
				return to
			}
		}
	}
	return slices.IndexFunc(k.Nodes, func(n graph.Node) bool { return n.Name == name }) // of no root: it is in none of the sets below
}

// means is the backend that a feature of the root means: by its name, or because a crate that is linked says that a feature of this name
// needs it.
func (k *rootJudge) means(feature string) (backend string, loose bool) {
	for _, i := range k.catalogued {
		if c := k.Crate(i); c != nil && c.Means[feature] != "" && i != k.r.Node {
			return c.Means[feature], false
		}
	}
	return k.ask.BackendOf(feature, k.known)
}

// close follows what was asked for.
func (g *group) close() {
	start := featuresOf(g.r.Node, slices.DeleteFunc(slices.Clone(g.asked), func(f string) bool { return strings.Contains(f, "/") }))
	for _, q := range g.far { // what was asked of a dependency, unless it is for another backend
		b, loose := g.ask.BackendOf(q.Name, nil)
		if loose || b == "" || b == g.backend || b == manifest.AnyGPU {
			start = append(start, g.enters(q)...)
		}
	}
	g.closure = g.Closure(g.r, start...)
}

// sort looks which linked GPU crates of a backend are on, and by what.
func (g *group) sort() {
	g.close()
	crates := g.crates(g.backend)
	for _, c := range crates {
		switch by := c.by(g.closure); {
		case c.node == g.r.Node:
		case !c.on:
			g.off = append(g.off, c)
		case g.Crate(c.node).Role == catalog.Binding && by:
			g.bound = append(g.bound, c)
		case g.Crate(c.node).Role == catalog.Binding:
			g.always = append(g.always, c)
		case by:
			g.request = append(g.request, c)
		default:
			g.anyway = append(g.anyway, c)
		}
	}
	g.sortFiles()
	c := g.Crate(g.r.Node)
	g.itself = c != nil && (c.CUDA() || family(c.Backend) == g.backend)
	if g.backend == manifest.AnyGPU && g.on() { // it may mean any: those of the others are not missed
		g.off = slices.DeleteFunc(g.off, func(c gpuCrate) bool {
			return !slices.ContainsFunc(slices.Concat(g.request, g.anyway), func(o gpuCrate) bool { return o.backend == c.backend })
		})
	}
	if g.on() {
		g.missed = slices.DeleteFunc(slices.Clone(g.off), func(c gpuCrate) bool { return c.lost == "" })
	}
	if g.backend != manifest.CUDA {
		return
	}
	cudnn := cudnnOf(g.asked)
	if len(cudnn) > 0 {
		g.part("cudnn", cudnn, crates)
	}
	for _, f := range g.empty() {
		if !g.ask.IsBackend(f) && !slices.Contains(cudnn, f) {
			g.part(f, []string{f}, crates)
		}
	}
}

// empty are features that were asked for and enable nothing.
func (g *group) empty() []string {
	return slices.DeleteFunc(slices.Clone(g.asked), func(f string) bool {
		return strings.Contains(f, "/") || len(g.Closure(g.r, featuresOf(g.r.Node, []string{f})...).Features()) > 1
	})
}

// part looks which crates have a part of CUDA that features mean.
func (g *group) part(name string, asked []string, crates []gpuCrate) {
	part := &group{rootJudge: g.rootJudge, backend: g.backend, asked: asked}
	part.close()
	for _, c := range crates {
		known, on := g.Crate(c.node), c.on
		if known == nil || known.Role != catalog.Gated && name == "cudnn" || c.node == g.r.Node || !g.Declares(c.node, name) {
			continue
		}
		switch c.gate = []string{name}; {
		case slices.Contains(g.Nodes[c.node].Features, name):
			part.request = append(part.request, c)
		case on && known.Role == catalog.Gated: // else the rules for CUDA have said it
			part.off = append(part.off, c)
		}
	}
	g.parts = append(g.parts, part)
}

// sortFiles looks for crates of which a file decides whether they use CUDA. One that is off and depends on such a crate computes with that,
// and one that only such crates link is theirs.
func (g *group) sortFiles() {
	for _, i := range g.catalogued {
		if c := g.Crate(i); c != nil && c.Role == catalog.ByFile && (g.backend == manifest.CUDA || g.backend == manifest.AnyGPU) {
			g.files = append(g.files, gpuCrate{node: i, backend: manifest.CUDA, on: true})
		}
	}
	if len(g.files) == 0 {
		return
	}
	with := map[int]bool{}
	for _, c := range g.files {
		with[c.node] = true
	}
	for _, c := range g.off {
		below := g.Below(g.r, c.node, nil)
		with[c.node] = slices.ContainsFunc(g.files, func(f gpuCrate) bool { return below[f.node] })
	}
	others := g.Below(g.r, g.r.Node, func(i int) bool { return with[i] })
	g.off = slices.DeleteFunc(g.off, func(c gpuCrate) bool { return with[c.node] || !others[c.node] })
}

// reached lists what the request turns on, but for what it reaches only through a crate of the catalog: that is the affair of the crate.
func (g *group) reached() []graph.Feature {
	if g.reaches == nil {
		g.reaches = g.ClosureUpTo(g.r, g.catalogs, g.closure.Asked()...).Features()
	}
	return g.reaches
}

// strangers are packages outside of the catalog that the request activates, and features that it turns on in them.
func (g *group) strangers() []graph.Feature {
	return slices.DeleteFunc(slices.Clone(g.reached()), func(f graph.Feature) bool { return !g.strange(f) })
}

func (g *group) catalogs(i int) bool { return g.Crate(i) != nil && i != g.r.Node }

func (g *group) strange(f graph.Feature) bool {
	macro := g.Graph == nil && g.Nodes[f.Node].Pkg != nil && g.Nodes[f.Node].Pkg.ProcMacro // see builds
	return f.Node != g.r.Node && g.Crate(f.Node) == nil && f.Name != "default" && !macro
}

// could reports whether a request turns on what may bring GPU code although no row of the catalog says so: a package that it activates, a
// feature of a dependency, a build script that can compile kernels.
func (g *group) could() bool {
	compiles := func(i int) bool {
		n := &g.Nodes[i]
		return slices.Contains(g.Input.Named, n.Name) || g.Crate(i) == nil && g.compiles[n.Pkg]
	}
	return compiles(g.r.Node) || len(g.strangers()) > 0 ||
		slices.ContainsFunc(g.reached(), func(f graph.Feature) bool { return compiles(f.Node) || g.builds(f) })
}

// builds reports whether a feature turns something on in a package outside of the catalog that a build script is compiled with, or that is
// a procedural macro that enables no GPU crate for itself: either may make the code of the package.
func (g *group) builds(f graph.Feature) bool {
	p := g.Nodes[f.Node].Pkg
	leads := func(from *manifest.Package, list []manifest.Edge, does func(manifest.Edge, manifest.Dependency) bool) bool {
		return slices.ContainsFunc(list, func(e manifest.Edge) bool {
			return slices.ContainsFunc(from.Entries(e.Dep), func(d manifest.Dependency) bool { return does(e, d) })
		})
	}
	catalogued := func(_ manifest.Edge, d manifest.Dependency) bool { return g.Catalog.Crate(d.Package) != nil }
	return p != nil && g.Crate(f.Node) == nil && leads(p, p.Edges(f.Name), func(e manifest.Edge, d manifest.Dependency) bool {
		to := g.Project.Declaring(p, d)
		macro := to != nil && to.ProcMacro && !leads(to, to.Edges(e.Feature), catalogued)
		return !catalogued(e, d) && (d.Kind == manifest.Build && g.runsScript(f.Node) || macro)
	})
}

// backends are those by which linked crates are sorted.
var backends = []string{manifest.CUDA, manifest.ROCm, manifest.Vulkan, manifest.Metal, manifest.OpenCL, "directml", "sycl"}

// crates lists the linked crates of the catalog that can bring code of a backend.
func (k *rootJudge) crates(backend string) (out []gpuCrate) {
	for _, i := range k.catalogued {
		var found gpuCrate
		for _, b := range backends {
			if k.samePackage(i) || backend != b && backend != manifest.AnyGPU {
				continue
			}
			if c, is := k.crate(i, b); is && (found.backend == "" || c.on && !found.on) { // any backend will do
				found = c
			}
		}
		if found.backend != "" {
			out = append(out, found)
		}
	}
	return out
}

// crate judges one linked node by the catalog.
func (k *rootJudge) crate(i int, backend string) (gpuCrate, bool) {
	known, features := k.Crate(i), k.Nodes[i].Features
	if known == nil || !k.ahead && !k.here(backend, k.r.Node) { // it is no part of this build
		return gpuCrate{}, false
	}
	gate, linked := gateOf(known, backend)
	if linked && len(gate) > 0 && !k.Declares(i, gate[0]) { // a version that always has the code
		gate = nil
	}
	gate = slices.DeleteFunc(slices.Clone(gate), func(f string) bool { return !k.Declares(i, f) })
	c := gpuCrate{node: i, backend: backend, gate: gate, on: len(gate) == 0 || catalog.Overlap(gate, features)}
	for _, f := range gate {
		c.lost = cmp.Or(c.lost, known.Lost[f])
	}
	computes := slices.ContainsFunc(known.CUDAFeatures, func(f string) bool { return known.Lost[f] != "" })
	if computes && backend != manifest.CUDA && k.hasOf(gate, backend) {
		c.lost = cmp.Or(c.lost, "its operations cannot use "+title(backend))
	}
	return c, linked || len(gate) > 0
}

// hasOf reports whether one of some features is called as a backend: webgpu is only one way to Vulkan.
func (k *rootJudge) hasOf(features []string, backend string) bool {
	return slices.ContainsFunc(features, func(f string) bool {
		b, _ := k.ask.BackendOf(f, nil)
		return b == backend
	})
}

// gateOf lists the features with which a crate of the catalog has code of a backend, wgpu before the other ways to Vulkan; linked: it has
// that code whenever it is linked, or, in a version that declares them, with one of the features.
func gateOf(c *catalog.Crate, backend string) (gate []string, linked bool) {
	switch {
	case c.Role == catalog.FalseFriend || c.Role == catalog.Helper || c.Role == catalog.ByFile:
		return nil, false
	case c.Linked() && family(c.Backend) == backend:
		return c.CarrierFeatures, true
	case c.CUDA() && backend == manifest.CUDA:
		return c.CUDAFeatures, false
	}
	for f, b := range c.Backends {
		if family(b) == backend {
			gate = append(gate, f)
		}
	}
	slices.SortFunc(gate, func(a, b string) int {
		key := func(f string) string { return strings.TrimPrefix(strings.TrimPrefix(f, backend), "wgpu") } // of its own name first
		return cmp.Or(strings.Compare(key(a), key(b)), strings.Compare(b, a))
	})
	return gate, false
}

// possible is a judge of what the manifests make possible for a package.
func (k *rootJudge) possible(p *manifest.Package) *rootJudge {
	j, facts := *k.judge, *k.Facts
	j.Facts, facts.View, j.words = &facts, k.Input.Sources.possible(k.Project, k.Catalog, p), map[string]bool{}
	return &rootJudge{judge: &j, r: &j.Roots[0], pkg: p, ahead: true, catalogued: j.Catalogued(&j.Roots[0])}
}

// family is the backend by which features ask for a crate's: wgpu computes with Vulkan.
func family(backend string) string {
	if backend == "wgpu" {
		return manifest.Vulkan
	}
	return backend
}

// apply applies the rules to a root.
func (k *rootJudge) apply() {
	for _, g := range k.groups { // the first rule that applies is the answer; what it cannot know, the last one leaves to what the build makes
		switch only := g.testsOnly(); {
		case g.binds():
			g.borrowed()
			g.undecided()
		case g.on() || g.itself && len(g.off) == 0:
			g.partial()
		case g.byFile():
			g.file()
		case len(g.off) > 0 && len(g.bound) == 0 && !g.could() && !g.ofTests():
			g.unreached()
		case only != "":
			f := g.finding(IDUndecided, g.asked[0], "%s of %s %s", quoted(g.asked), g.label, only)
			f.Later = true // shown, also where another program of this build uses a GPU
			g.find(f)
		default:
			g.undecided()
		}
		if len(g.request)+len(g.bound) == 0 && !(g.itself && len(g.off) == 0) {
			k.ineffective = append(k.ineffective, g.asked...)
		} else if empty := g.empty(); len(empty) < len(g.asked) {
			k.ineffective = append(k.ineffective, empty...)
		}
	}
	for _, part := range k.parts {
		if len(part.request) == 0 && len(part.off) > 0 {
			part.withoutPart()
		}
	}
	if len(k.groups) == 0 && len(k.loose) > 0 && !slices.ContainsFunc(k.crates(manifest.AnyGPU), func(c gpuCrate) bool {
		return c.on && c.node != k.r.Node && c.by(k.asks())
	}) {
		k.ineffective = append(k.ineffective, k.loose...)
		k.find(k.finding(IDUndecided, k.loose[0],
			"%s of %s: the name does not say that a GPU is meant (`gpu-features` in gpubuild.toml can)", quoted(k.loose), k.label))
	}
}

func cudnnOf(asked []string) []string {
	return slices.DeleteFunc(slices.Clone(asked), func(f string) bool { return !strings.Contains(f, "cudnn") })
}

// unreached: GPU crates are linked, and the request turns none of them on, nor anything else that could use the GPU.
func (g *group) unreached() {
	f := g.finding(IDUnreached, g.asked[0], "%s of %s %s not enable %s", quoted(g.asked), g.label, verb(g.asked, "does", "do"),
		few(g.names(g.off)))
	var off, named []gpuCrate
	parts := slices.DeleteFunc(slices.Clone(g.asked), g.ask.IsBackend) // nccl: a crate's feature of that name is what is meant
	if len(cudnnOf(g.asked)) > 0 {
		parts = append(parts, "cudnn")
	}
	for _, c := range g.off {
		whole := true
		for _, part := range parts {
			if g.Declares(c.node, part) {
				named = append(named, gpuCrate{c.node, c.backend, []string{part}, false, c.lost})
				whole = whole && (part == "cudnn" || len(parts) < len(g.asked) || !c.by(g.Closure(g.r, graph.Feature{Node: c.node, Name: part})))
			}
		}
		if whole {
			off = append(off, c)
		}
	}
	g.fix(&f, append(off, named...))
	if names := g.bare(g.always); len(names) > 0 {
		f.Message += fmt.Sprintf("; %s %s linked, and %s nothing by %s", strings.Join(names, " and "), verb(names, "is", "are"),
			verb(names, "computes", "compute"), verb(names, "itself", "themselves"))
	}
	if len(g.files) > 0 {
		f.Message += "; " + g.Crate(g.files[0].node).Notes
	}
	switch {
	case g.Input.Lint && g.pkg != nil && g.waits():
		f.become(IDConditional)
		f.Message += "; that needs another feature, or another target"
	case f.Fix != "" && g.Nodes[g.r.Node].Local:
		f.Else = fmt.Sprintf("if %s's own code uses the GPU: gpu-packages = [%q] in gpubuild.toml, or --gpu-allow-unreached",
			g.Nodes[g.r.Node].Name, g.Nodes[g.r.Node].Name)
	}
	g.find(f)
}

// bare are the names of crates without their versions.
func (k *rootJudge) bare(list []gpuCrate) (names []string) {
	for _, c := range list {
		names = manifest.Union(names, []string{k.Nodes[c.node].Name})
	}
	return names
}

// waits reports whether in another build the same features turn on a crate that is off: with the optional dependencies for which edges
// wait, or for another target. The others are no reason to stop then, unless code of one is missed in that build, too.
func (g *group) waits() bool {
	p := g.possible(g.pkg)
	view := *p.View
	view.Weak = true
	on := map[string][]string{}
	for _, f := range view.Closure(p.r, featuresOf(p.r.Node, g.asked)...).Features() {
		on[p.Nodes[f.Node].Name] = append(on[p.Nodes[f.Node].Name], f.Name)
	}
	then := func(c gpuCrate) bool {
		features := on[g.Nodes[c.node].Name]
		return len(c.gate) == 0 && features != nil || catalog.Overlap(c.gate, features) ||
			g.backend == manifest.AnyGPU && slices.ContainsFunc(features, func(f string) bool { return g.Crate(c.node).Backends[f] != "" })
	}
	return slices.ContainsFunc(g.off, then) && !slices.ContainsFunc(g.off, func(c gpuCrate) bool { return c.lost != "" && !then(c) })
}

// usual is what a bare `gpu` means for the system that a root is built for.
func (k *rootJudge) usual() string {
	if k.here(manifest.Metal, k.r.Node) {
		return manifest.Metal
	}
	return manifest.CUDA
}

// here reports whether the system that a node is built for has a backend.
func (j *judge) here(backend string, i int) bool {
	at := cmp.Or(j.Nodes[i].Platform, map[string]string{"darwin": "apple"}[j.os], j.os)
	return !slices.ContainsFunc(j.Catalog.Traces, func(t catalog.Trace) bool {
		return t.Backend == backend && t.System != "" && !strings.Contains(at, t.System)
	})
}

// partial: some GPU crates are on, and others whose code is missed are off; or those that are on are by nothing that was asked for.
func (g *group) partial() {
	if len(g.missed) == 0 {
		g.borrowed()
		return
	}
	f := g.finding(IDPartial, g.asked[0], "%s of %s %s %s without %s %s code", quoted(g.asked), g.label, verb(g.asked, "leaves", "leave"),
		few(g.names(g.missed)), map[bool]string{true: "its", false: "their"}[len(g.missed) == 1], title(g.missed[0].backend))
	if lost := g.missed[0].lost; lost != "" {
		f.Evidence += "; " + lost
		if len(g.missed) == 1 {
			f.Message += ": " + lost
		}
	}
	g.fix(&f, g.missed)
	g.find(f)
}

// withoutPart: a part of CUDA was asked for, and is on in no crate that has it.
func (g *group) withoutPart() {
	part := g.off[0].gate[0]
	f := g.finding(IDPartial, g.asked[0], "%s of %s does not enable `%s` of %s", quoted(g.asked), g.label, part, few(g.names(g.off)))
	if part == "cudnn" {
		f.Message += ": convolutions do not use cuDNN"
	}
	g.fix(&f, g.off)
	g.find(f)
}

// own is what a root's package turns on by itself: with its defaults, or with everything that is on in it.
func (k *rootJudge) own(r *graph.Root, all bool) *graph.Closure {
	names := []string{"", "default"}
	if all {
		names = append(names, k.Nodes[r.Node].Features...)
	}
	return k.Closure(r, featuresOf(r.Node, names)...)
}

// borrowed: GPU crates are on only because of other packages of this build, or of dev-dependencies, and stay off where this one is built
// alone.
func (g *group) borrowed() {
	plain := *g.r
	plain.Plain = true
	base := g.own(&plain, true)
	lent := slices.DeleteFunc(slices.Clone(g.anyway), func(c gpuCrate) bool {
		return c.by(base) || len(g.request) > 0 && (c.lost == "" || g.itself)
	})
	gated := slices.DeleteFunc(slices.Clone(lent), func(c gpuCrate) bool { return len(c.gate) == 0 })
	if len(gated) > 0 {
		lent = gated
	}
	if len(lent) == 0 || g.pkg == nil {
		return
	}
	var by []string
	several, dev := false, false
	for i := range g.Roots {
		name, turns := g.Nodes[g.Roots[i].Node].Name, g.own(&g.Roots[i], true)
		lends, own := slices.ContainsFunc(lent, func(c gpuCrate) bool { return c.by(turns) }), name == g.Nodes[g.r.Node].Name
		several, dev = several || !own, dev || own && lends
		if !own && lends && g.Crate(g.Roots[i].Node) == nil {
			by = manifest.Union(by, []string{name})
		}
	}
	why := "of another part of this build"
	switch {
	case len(by) > 0:
		why = few(by) + verb(by, " is", " are") + " built at the same time"
	case dev && g.could():
		return
	case dev:
		why = "of its dev-dependencies"
	case !several && slices.ContainsFunc(g.r.Linked, func(i int) bool { return g.Nodes[i].Pkg == nil }): // what it turns on is not known
		return
	case !several:
		why = "of another selected package, or of dependencies of tests or build scripts (resolver 1)"
	}
	f := g.finding(IDBorrowed, g.asked[0], "%s of %s %s not enable %s, on here only because %s", quoted(g.asked), g.label,
		verb(g.asked, "does", "do"), few(g.names(lent)), why)
	if len(gated) > 0 {
		g.fix(&f, gated)
	}
	g.find(f)
}

// testsOnly says why features count in tests, benchmarks and examples only, or while other packages are built; empty where they do not.
func (g *group) testsOnly() string {
	switch {
	case g.pkg == nil:
		return ""
	case g.Graph != nil && g.Graph.Units[g.r.Node].Host() && g.Graph.Units[g.r.Node].Mode != "test":
		return verb(g.asked, "is", "are") + " for a procedural macro, which runs while other packages are built"
	case g.Graph != nil && g.Graph.Units[g.r.Node].Tests():
		return ""
	}
	if dev := g.devOnly(); dev != "" {
		return verb(g.asked, "counts", "count") + " in tests, benchmarks and examples only: " + dev + " is a dev-dependency"
	}
	return ""
}

// named reports whether the command line names one of the features.
func (g *group) named() bool {
	return slices.ContainsFunc(g.asked, func(f string) bool {
		return strings.Contains(f, "/") || slices.Contains(slices.Concat(g.ask.Plain, g.ask.Qualified[g.Nodes[g.r.Node].Name]), f)
	})
}

// undecided: what the request turns on is in no row of the catalog, or computes nothing by itself. What the build makes decides. What
// certainly stays off is named before it, with what would turn it on, where the request could mean nothing else.
func (g *group) undecided() {
	f := g.finding(IDUndecided, g.asked[0], "%s of %s: known after the build", quoted(g.asked), g.label)
	hint, named := f, quoted(g.asked)+" of "+g.label
	why, weak := g.candidates(&hint)
	middle, within := g.middle()
	elsewhere := !g.here(g.backend, g.r.Node) // Metal in a build for another system than Apple's
	if elsewhere {
		hint = g.finding(IDUndecided, g.asked[0], "%s %s on Apple's systems only", named, verb(g.asked, "counts", "count"))
		why, weak = "", false
	} else if middle != "" {
		why = fmt.Sprintf("%s leaves %s without %s code", middle, few(g.names(g.off)), title(g.backend))
	}
	idle := elsewhere && !g.named()
	if idle || middle != "" || len(g.bound) == 0 && !g.could() {
		if f = hint; why != "" {
			f.Message += " (" + why + ")"
		}
	}
	f.Later = !idle && (len(g.off)+len(g.bound) > 0 || !g.otherBackend())
	if g.Input.Lint && (weak || middle != "") { // there only a warning is seen
		f.become(map[bool]string{true: IDConditional, false: IDPartial}[middle == ""])
		f.Message = named + ": " + why
	}
	if g.find(f); !f.Later {
		return
	}
	var gates []string
	for _, c := range g.off {
		gates = manifest.Union(gates, []string{quoted(c.gate[:1]) + " of " + g.name(c.node)})
	}
	var sources []string
	for _, c := range slices.Concat(g.bound, g.always) {
		dir := g.Nodes[c.node].Dir
		if name := dir[strings.LastIndexAny(dir, `/\`)+1:]; name != "" {
			sources = append(sources, name+"/src/", name+`\src\`)
		}
	}
	listed, always := slices.Contains(g.Input.Named, g.Nodes[g.r.Node].Name), slices.Concat(g.always, g.files)
	g.open = append(g.open, Open{Feature: named, Backend: g.backend, Named: g.named() || g.ask.AllFeatures,
		Off: g.names(g.off), Middle: within, Gates: gates, Always: g.bare(always), Path: hint.Path, Line: hint.Line,
		Fix: hint.Fix, Warns: listed || len(g.bound) > 0 && len(g.off) == 0, Bound: len(g.bound) > 0, Sources: sources, Listed: listed,
		Blind: len(g.off) > 0 && len(always) > 0 && !listed && !g.through(always)})
}

// middle is a feature that the request turns on in a package outside of the catalog, which is on the way to a crate that is off, and in
// which nothing that is known could use a GPU by itself, with the packages that it links; empty where there is none.
func (g *group) middle() (feature string, links []string) {
	if len(g.off) == 0 {
		return "", nil
	}
	for _, f := range g.strangers() {
		n := &g.Nodes[f.Node]
		own := g.compiles[n.Pkg] || g.cuda[n.Pkg] || slices.Contains(g.Input.Named, n.Name) || slices.ContainsFunc(n.Deps, func(d graph.Dep) bool {
			c := g.Crate(d.To)
			return c != nil && c.Role == catalog.Binding
		})
		b, loose := g.ask.BackendOf(f.Name, g.known)
		means := b == g.backend || b != "" && g.backend == manifest.AnyGPU || b == manifest.AnyGPU
		if !own && !loose && means && slices.ContainsFunc(g.off, func(c gpuCrate) bool { return slices.Contains(g.Way(g.r, c.node), f.Node) }) {
			for i := range g.Below(g.r, f.Node, nil) {
				links = append(links, g.Nodes[i].Name)
			}
			return fmt.Sprintf("`%s` of %s", f.Name, n.Name), links
		}
	}
	return "", nil
}

// names names crates with their versions.
func (k *rootJudge) names(list []gpuCrate) (out []string) {
	for _, c := range list {
		out = manifest.Union(out, []string{k.name(c.node)})
	}
	return out
}

// otherBackend reports whether the request turns a crate of another backend on.
func (g *group) otherBackend() bool {
	return slices.ContainsFunc(g.crates(manifest.AnyGPU), func(c gpuCrate) bool {
		return c.on && c.node != g.r.Node && c.by(g.asks()) && c.backend != g.backend && g.backend != manifest.AnyGPU
	})
}

// through reports whether a package that the request turns on depends on one of some crates that are linked anyway: it may be what calls it.
func (g *group) through(always []gpuCrate) bool {
	return len(always) > 0 && slices.ContainsFunc(g.strangers(), func(f graph.Feature) bool {
		return slices.ContainsFunc(g.Nodes[f.Node].Deps, func(d graph.Dep) bool {
			return slices.ContainsFunc(always, func(c gpuCrate) bool { return d.To == c.node })
		})
	})
}

// devOnly is a dev-dependency to which features of the root lead, and to nothing else; empty where there is none.
func (g *group) devOnly() (found string) {
	if g.pkg == nil {
		return ""
	}
	_, edges := g.pkg.Closure(g.asked)
	for _, e := range edges {
		for _, d := range g.pkg.Dependencies {
			switch {
			case d.Key != e.Dep:
			case d.Kind != manifest.Dev:
				return ""
			default:
				found = d.Key
			}
		}
	}
	return found
}

// ofTests reports whether only tests link what is off, by dev-dependencies of the root.
func (g *group) ofTests() bool {
	plain := *g.r
	plain.Plain = true
	all, program := g.own(g.r, true), g.own(&plain, true)
	return !slices.ContainsFunc(g.off, func(c gpuCrate) bool {
		return program.Has(graph.Feature{Node: c.node}) || !all.Has(graph.Feature{Node: c.node})
	})
}

// mayApply reports whether a table of dependencies may be for what is built here; only cargo knows.
func (k *rootJudge) mayApply(target string) bool {
	return target == "" || strings.Contains(target, k.os) || strings.Contains(target, "unix") && k.os != "windows" ||
		strings.Contains(target, "not(")
}

// byFile reports whether a file decides: where nothing else that could compute is off, or the request turns on a crate that finds it, or
// what depends on one.
func (g *group) byFile() bool {
	return len(g.files) > 0 && (len(g.off) == 0 || g.ofTests() || g.through(g.files) ||
		slices.ContainsFunc(g.files, func(c gpuCrate) bool { return c.by(g.closure) }))
}

// file says what decides where a file does. What is off certainly computes on the CPU.
func (g *group) file() {
	f := g.finding(IDByFile, g.asked[0], "`%s` of %s does not decide: %s", g.asked[0], g.label, g.Crate(g.files[0].node).Notes)
	for _, c := range g.files {
		t, looked := g.torch[c.node]
		if looked {
			f.Message += "; " + t.Says
		}
		if t.CPU {
			f.become(IDFileCPU)
			f.Fix = t.Fix
		}
	}
	if g.find(f); len(g.off) > 0 && !g.ofTests() {
		g.missed = g.off
		g.partial()
	}
}

// finding is about a feature of the root's package.
func (k *rootJudge) finding(id, feature, format string, a ...any) Finding {
	f := newFinding(id, format, a...)
	if f.Root = k.label; k.Input.Alone != nil {
		f.Evidence = "manifests"
	}
	if k.pkg != nil {
		f.Path, f.Line = k.pkg.Manifest, k.pkg.FeatureLine(feature)
	}
	return f
}

// few names at most three.
func few(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

// quoted names features in a sentence, of many the first three.
func quoted(features []string) string {
	if more := len(features) - 3; more > 1 {
		return fmt.Sprintf("%s and %d more", quoted(features[:3]), more)
	}
	return "`" + strings.Join(features, "` and `") + "`"
}

// verb is the form of a verb behind the named.
func verb(named []string, one, several string) string {
	if len(named) == 1 {
		return one
	}
	return several
}

// title is a backend's name in a sentence.
func title(backend string) string {
	names := map[string]string{manifest.CUDA: "CUDA", manifest.ROCm: "ROCm", manifest.Vulkan: "Vulkan", manifest.Metal: "Metal",
		manifest.OpenCL: "OpenCL"}
	return cmp.Or(names[backend], "a GPU")
}

// chainTo is how the request turned a linked node on, as a GPU crate of any backend, or where it is none, anything in it; nil where the
// request did not.
func (k *rootJudge) chainTo(i int) []graph.Step {
	for _, b := range backends {
		if c, is := k.crate(i, b); is && c.on {
			for _, f := range c.features() {
				if k.asks().Has(f) {
					return k.asks().Chain(f)
				}
			}
		}
	}
	if k.first == nil {
		k.first = map[int]graph.Feature{}
		for _, f := range slices.Backward(k.asks().Features()) {
			k.first[f.Node] = f
		}
	}
	if f, on := k.first[i]; on && k.Crate(i) == nil {
		return k.asks().Chain(f)
	}
	return nil
}
