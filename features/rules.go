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
	"gpubuild/features/source"
)

// rule is one row of the table.
type rule struct {
	applies func(*group) bool
	find    func(*group)
}

// rules is the table, for each root and backend that was asked for: the first that applies is the answer. As a variable it would need
// itself.
func rules() []rule {
	return []rule{
		{func(g *group) bool { // enabled
			return len(g.missed) == 0 && (len(g.request) > 0 || g.itself && (g.on() || len(g.off) == 0))
		}, func(*group) {}},
		{func(g *group) bool { return len(g.missed) == 0 && len(g.anyway) > 0 }, func(g *group) { g.forced(g.anyway, g.asked[0]) }},
		{func(g *group) bool { return len(g.off) > 0 && !g.on() }, (*group).unreached},
		{func(g *group) bool { return !g.on() && g.byFile() >= 0 }, (*group).file},
		{func(g *group) bool { return !g.on() && g.testsOnly() != "" }, func(g *group) { g.note(g.testsOnly()) }},
		{func(g *group) bool { return !g.on() && g.turnsOn() == "" }, (*group).nothing},
		{func(g *group) bool { return !g.on() }, (*group).undecided},
		{func(g *group) bool { return len(g.missed) > 0 && g.cudnnAlone() == "" }, (*group).partial},
	}
}

// rootJudge judges one root.
type rootJudge struct {
	*judge
	r     *graph.Root
	pkg   *manifest.Package // of the root; nil: its manifest was not found
	label string
	ahead bool // the view is what manifests make possible, and nothing is linked yet

	asked       []string // GPU features that are on in the root's package
	groups      []*group
	loose       []string       // of asked: names that may mean anything
	qualified   []string       // asked of a named package: candle-core/cuda
	request     *graph.Closure // of everything that the command line asks of this root
	ineffective []string       // of asked: those that enable nothing
	cudnn       *group         // what was asked for of cuDNN; nil: nothing
}

// group is one backend that was asked for, with the linked GPU crates of it.
type group struct {
	*rootJudge
	backend string
	asked   []string
	request []gpuCrate // on by the request
	anyway  []gpuCrate // on without it
	off     []gpuCrate
	missed  []gpuCrate // of off, where others are on: those whose code is known to be missed
	itself  bool       // the root is such a crate: its own gate is what was asked for
}

func (g *group) on() bool { return len(g.request)+len(g.anyway) > 0 }

// gpuCrate is a linked crate that can bring GPU code of a backend into a program.
type gpuCrate struct {
	node    int
	backend string
	gate    []string // the features that turn the code on; none: it is there when the crate is linked
	on      bool
	lost    string // what is missed while it is off; empty: nothing that is known
}

// features are those of which one turns the code of a crate on; that without a name is the crate itself.
func (c gpuCrate) features() (out []graph.Feature) {
	for _, f := range c.gate {
		out = append(out, graph.Feature{Node: c.node, Name: f})
	}
	if len(out) == 0 {
		return []graph.Feature{{Node: c.node}}
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
	k := &rootJudge{judge: j, r: r, pkg: n.Pkg, label: n.Name}
	var start []graph.Feature
	take := func(backend, f string) {
		at := slices.IndexFunc(k.groups, func(g *group) bool { return g.backend == backend })
		if at < 0 {
			at, k.groups = len(k.groups), append(k.groups, &group{rootJudge: k, backend: backend})
		}
		k.groups[at].asked = append(k.groups[at].asked, f)
	}
	for _, f := range slices.Concat(n.Features, k.Input.Missing) {
		named := k.ask.Names(n.Name, f) || slices.Contains(k.Input.Missing, f)
		backend, loose := k.ask.BackendOf(f, k.known)
		if !named && backend == "" {
			continue
		}
		start = append(start, graph.Feature{Node: k.r.Node, Name: f})
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
			if !k.r.Set[node] || node == k.r.Node || !slices.Contains(k.Nodes[node].Features, f) {
				continue
			}
			start = append(start, graph.Feature{Node: node}, graph.Feature{Node: node, Name: f})
			k.qualified = append(k.qualified, pkg+"/"+f)
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
	k.request = k.Closure(k.r, start...)
	return k
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

// sort looks which linked GPU crates of a backend are on, and by what.
func (g *group) sort() {
	crates := g.crates(g.backend)
	for _, c := range crates {
		switch root := c.node == g.r.Node; {
		case root && !(c.on && g.compiles(c.node)):
		case !c.on:
			g.off = append(g.off, c)
		case root || c.by(g.rootJudge.request):
			g.request = append(g.request, c)
		default:
			g.anyway = append(g.anyway, c)
		}
	}
	c := g.Crate(g.r.Node)
	g.itself = c != nil && (c.CUDA() || family(c.Backend) == g.backend) && len(g.request) == 0
	if g.on() && g.backend == manifest.AnyGPU { // it may mean any: those of the others are not missed
		g.off = slices.DeleteFunc(g.off, func(c gpuCrate) bool {
			return !slices.ContainsFunc(slices.Concat(g.request, g.anyway), func(o gpuCrate) bool { return o.backend == c.backend })
		})
	}
	if !g.on() && g.devOnly() != "" { // what only tests have says nothing of what merely could forward
		g.off = slices.DeleteFunc(g.off, func(c gpuCrate) bool { return g.Crate(c.node) == nil })
	}
	if g.on() {
		g.missed = slices.DeleteFunc(slices.Clone(g.off), func(c gpuCrate) bool { return c.lost == "" })
	}
	asked := cudnnOf(g.asked)
	if g.backend != manifest.CUDA || len(asked) == 0 {
		return
	}
	g.cudnn = &group{rootJudge: g.rootJudge, backend: manifest.CUDA, asked: asked}
	for _, c := range crates {
		known, on := g.Crate(c.node), c.on
		if known == nil || known.Role != catalog.Gated || c.node == g.r.Node || !g.Declares(c.node, "cudnn") {
			continue
		}
		switch c.gate = []string{"cudnn"}; {
		case slices.Contains(g.Nodes[c.node].Features, "cudnn"):
			g.cudnn.request = append(g.cudnn.request, c)
		case on: // else the rules for CUDA have said it
			g.cudnn.off = append(g.cudnn.off, c)
		}
	}
}

// crates lists the linked GPU crates of a backend: those of the catalog, and the user's packages that forward to one.
func (k *rootJudge) crates(backend string) (out []gpuCrate) {
	for _, i := range k.r.Linked {
		var found gpuCrate
		for _, b := range []string{manifest.CUDA, manifest.ROCm, manifest.Vulkan, manifest.Metal} {
			if k.samePackage(i) || backend != b && backend != manifest.AnyGPU {
				continue
			}
			if c, is := k.crate(i, b); is && (found.backend == "" || c.on && !found.on) { // any backend will do
				found = c
			}
		}
		if known := k.Crate(i); backend == manifest.AnyGPU && known != nil && found.backend != "" && !found.on { // DirectML, SYCL, OpenCL
			for _, f := range k.Nodes[i].Features {
				if b := known.Backends[f]; b != "" {
					found = gpuCrate{node: i, backend: b, gate: []string{f}, on: true}
				}
			}
		}
		if found.backend != "" {
			out = append(out, found)
		}
	}
	return out
}

// crate judges one linked node by the catalog, or by the manifest of one of the user's own packages.
func (k *rootJudge) crate(i int, backend string) (gpuCrate, bool) {
	known, features := k.Crate(i), k.Nodes[i].Features
	if known == nil {
		return k.forwarder(i, backend)
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
	return c, linked || len(gate) > 0
}

// gateOf lists the features with which a crate of the catalog has code of a backend, wgpu before the other ways to Vulkan; linked: it has
// that code whenever it is linked, or, in a version that declares them, with one of the features.
func gateOf(c *catalog.Crate, backend string) (gate []string, linked bool) {
	switch {
	case c.Role == catalog.FalseFriend || c.Role == catalog.Helper || c.Role == catalog.ByFile:
		return nil, false
	case c.Role == catalog.Carrier && family(c.Backend) == backend:
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
		return strings.Compare(key(a), key(b))
	})
	return gate, false
}

// forwarder is a package of the user's whose feature leads to a GPU crate by its manifest: off while that feature is; once it is on, the
// crate speaks for it.
func (k *rootJudge) forwarder(i int, backend string) (c gpuCrate, is bool) {
	p := k.Nodes[i].Pkg
	if p == nil || !k.Nodes[i].Local || i == k.r.Node || k.ahead {
		return c, false
	}
	c = gpuCrate{node: i, backend: backend}
	possible := k.possible(p)
	crates := possible.crates(backend)
	for _, f := range p.FeatureNames() {
		b, loose := k.ask.BackendOf(f, k.known)
		if loose || b != backend && b != manifest.AnyGPU {
			continue
		}
		closure := possible.Closure(possible.r, graph.Feature{Node: possible.r.Node, Name: f})
		if !slices.ContainsFunc(crates, func(c gpuCrate) bool { return c.by(closure) }) {
			continue
		}
		c.gate = append(c.gate, f)
		if t := k.tests[testedFeature{p, f}]; len(t.Code) > 0 {
			c.lost = fmt.Sprintf("its code (%s) is not compiled", place(t.Code[0]))
		}
	}
	return c, len(c.gate) > 0 && !catalog.Overlap(c.gate, k.Nodes[i].Features)
}

// possible is a judge of what the manifests make possible for a package.
func (k *rootJudge) possible(p *manifest.Package) *rootJudge {
	known := k.ways[p]
	if known == nil {
		j, facts := *k.judge, *k.Facts
		j.Facts, facts.View = &facts, graph.Possible(k.Project, k.Catalog, p)
		known = &rootJudge{judge: &j, r: &j.Roots[0], pkg: p, ahead: true}
		k.ways[p] = known
	}
	return known
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
	for _, g := range k.groups {
		if at := slices.IndexFunc(rules(), func(r rule) bool { return r.applies(g) }); at >= 0 {
			rules()[at].find(g)
		}
		if len(g.request) == 0 && !(g.itself && len(g.off) == 0) {
			k.ineffective = append(k.ineffective, g.asked...)
		}
	}
	switch c := k.cudnn; {
	case c == nil:
	case len(c.request) == 0 && len(c.off) > 0:
		c.withoutCudnn()
	case c.cudnnAlone() != "":
		c.withoutCUDA()
	}
	if k.nothingNamed() && len(k.loose) > 0 {
		k.ineffective = append(k.ineffective, k.loose...)
		k.find(k.finding(IDUndecided, k.loose[0],
			"%s of %s: the name does not say that a GPU is meant (`gpu-features` in gpubuild.toml can)", quoted(k.loose), k.label))
	}
	if k.nothingNamed() && len(k.qualified) == 0 {
		k.forced(slices.DeleteFunc(k.crates(manifest.CUDA), func(c gpuCrate) bool { return !c.on || c.node == k.r.Node }), "")
	}
}

// nothingNamed reports whether no backend was asked for by its name, and the request turns no linked GPU crate on.
func (k *rootJudge) nothingNamed() bool {
	return len(k.groups) == 0 && !slices.ContainsFunc(k.crates(manifest.AnyGPU), func(c gpuCrate) bool {
		return c.on && c.node != k.r.Node && c.by(k.request)
	})
}

func cudnnOf(asked []string) []string {
	return slices.DeleteFunc(slices.Clone(asked), func(f string) bool { return !strings.Contains(f, "cudnn") })
}

// compiles reports whether the build script of a node's package compiles kernels.
func (k *rootJudge) compiles(i int) bool {
	c := k.Crate(i)
	return k.does[k.Nodes[i].Pkg].compiles() || c != nil && c.Role == catalog.Carrier
}

// unreached: GPU crates are linked, and the request turns none of them on.
func (g *group) unreached() {
	f := g.finding(IDUnreached, g.asked[0], "%s of %s %s not enable %s", quoted(g.asked), g.label, verb(g.asked, "does", "do"),
		g.crateNames(g.off))
	if at := g.ownCode(); at != "" {
		f.Message += fmt.Sprintf(" (although %s %s %s)", verb(g.asked, "it", "they"), verb(g.asked, "compiles", "compile"), at)
	}
	off := g.off
	for _, c := range g.off {
		if len(cudnnOf(g.asked)) > 0 && g.Crate(c.node) != nil && g.Declares(c.node, "cudnn") {
			c.gate = []string{"cudnn"}
			off = append(off, c)
		}
	}
	g.fix(&f, off)
	if g.backend == manifest.Metal && g.usual() != manifest.Metal { // what it would enable is no part of this build
		f.become(IDUndecided)
	} else if g.Input.Lint && g.pkg != nil && g.waits() {
		f.become(IDConditional)
		f.Message += "; that needs another feature, or another target"
	}
	g.find(f)
}

// waits reports whether in another build the same features turn on a crate that is off: with the optional dependencies for which edges
// wait, or for another target. The others are no reason to stop then, unless code of one is missed in that build, too.
func (g *group) waits() bool {
	p := g.possible(g.pkg)
	view := *p.View
	view.Weak = true
	on := view.Closure(p.r, gpuCrate{node: p.r.Node, gate: g.asked}.features()...).Features()
	then := func(c gpuCrate) bool {
		return slices.ContainsFunc(on, func(f graph.Feature) bool {
			return p.Nodes[f.Node].Name == g.Nodes[c.node].Name && slices.Contains(c.gate, f.Name)
		})
	}
	return slices.ContainsFunc(g.off, then) && !slices.ContainsFunc(g.off, func(c gpuCrate) bool { return c.lost != "" && !then(c) })
}

// usual is what a bare `gpu` means for the system that a root is built for.
func (k *rootJudge) usual() string {
	if at := k.Nodes[k.r.Node].Platform; strings.Contains(at, "apple") || at == "" && k.os == "darwin" {
		return manifest.Metal
	}
	return manifest.CUDA
}

// partial: some GPU crates are on, and others whose code is missed are off.
func (g *group) partial() {
	f := g.finding(IDPartial, g.asked[0], "%s of %s %s %s without %s %s code", quoted(g.asked), g.label, verb(g.asked, "leaves", "leave"),
		g.crateNames(g.missed), map[bool]string{true: "its", false: "their"}[len(g.missed) == 1], title(g.missed[0].backend))
	if len(g.missed) == 1 {
		f.Message += ": " + g.missed[0].lost
	}
	f.Evidence += "; " + g.missed[0].lost
	g.fix(&f, g.missed)
	g.find(f)
}

// withoutCudnn: cuDNN was asked for, and is on in no crate that has it.
func (g *group) withoutCudnn() {
	f := g.finding(IDUnreached, g.asked[0], "%s of %s does not enable `cudnn` of %s: convolutions do not use cuDNN", quoted(g.asked),
		g.label, g.crateNames(g.off))
	g.fix(&f, g.off)
	g.find(f)
}

// cudnnAlone is what is lost where cuDNN is on and the root's own CUDA code is off; empty where nothing is.
func (k *rootJudge) cudnnAlone() (lost string) {
	n, cuda := &k.Nodes[k.r.Node], graph.Feature{Node: k.r.Node, Name: "cuda"}
	off := n.Local && k.pkg != nil && k.pkg.Declares("cuda") && !slices.Contains(n.Features, "cuda")
	if k.cudnn == nil || len(k.cudnn.request) == 0 || !off {
		return ""
	}
	lost, own := k.code(cuda), k.Closure(k.r, cuda)
	for _, c := range k.crates(manifest.CUDA) {
		if lost == "" && !c.on && c.lost != "" && c.by(own) {
			lost = k.name(c.node) + ": " + c.lost
		}
	}
	return lost
}

func (g *group) withoutCUDA() {
	f := g.finding(IDCudnnAlone, g.asked[0], "%s of %s does not enable `cuda`: CUDA code is not compiled (%s)", quoted(g.asked), g.label,
		g.cudnnAlone())
	if g.Input.Lint {
		f.become(IDPartial)
	}
	if g.Project.IsMember(g.pkg) && !strings.Contains(g.asked[0], "/") {
		g.offer(&f, [][]edge{{{g.pkg, g.asked[0], "cuda", 0}}})
	} else {
		f.Ask = []string{"cuda"}
	}
	g.find(f)
}

// forced: GPU crates are on whatever was asked for. Without a feature that was asked for, the package's own defaults are the request.
func (k *rootJudge) forced(on []gpuCrate, asked string) {
	base := k.Closure(k.r, graph.Feature{Node: k.r.Node}, graph.Feature{Node: k.r.Node, Name: "default"})
	var chain []graph.Step
	for _, c := range on {
		for _, w := range c.features() {
			if chain == nil {
				chain = base.Chain(w)
			}
		}
	}
	if asked == "" && (chain == nil || len(chain) > 1 && chain[0].Text == k.Nodes[k.r.Node].Name+"/default") {
		return
	}
	without, why := "a feature", "another part of this build enables "+k.crateNames(on[:1])
	if asked != "" {
		without = "`" + asked + "`"
	}
	var last graph.Step
	if chain != nil {
		last = chain[len(chain)-1]
		from, _, _ := strings.Cut(chain[max(len(chain)-2, 0)].Text, "/")
		why = from + " turns on " + last.Text
	}
	f := k.finding(IDForced, asked, "%s is on in %s without %s: %s", title(on[0].backend), k.label, without, why)
	if last.Line > 0 {
		f.Path, f.Line = last.Manifest, last.Line
	}
	k.find(f)
}

// of is what the features of a group turn on, and not what others do.
func (g *group) of() *graph.Closure {
	if strings.Contains(g.asked[0], "/") {
		return g.rootJudge.request
	}
	var start []graph.Feature
	for _, f := range g.asked {
		start = append(start, graph.Feature{Node: g.r.Node, Name: f})
	}
	return g.Closure(g.r, start...)
}

// code is where a package tests a feature of its own; empty where it does not, but for tests.
func (k *rootJudge) code(f graph.Feature) string {
	t := k.tests[testedFeature{k.Nodes[f.Node].Pkg, f.Name}]
	if len(t.Code) > 0 {
		return place(t.Code[0])
	}
	return t.Script
}

// ownCode names the first place where code of the user's linked packages is compiled by what was asked for.
func (g *group) ownCode() string {
	for _, f := range g.of().Features() {
		at := g.code(f)
		switch {
		case at == "" || !g.Nodes[f.Node].Local || g.Crate(f.Node) != nil:
		case f.Node != g.r.Node:
			return g.Nodes[f.Node].Name + "/" + at
		default:
			return at
		}
	}
	return ""
}

func place(p source.Place) string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// testsOnly says why features count in tests, benchmarks and examples only, or in a program of their own; empty where they do not.
func (g *group) testsOnly() string {
	switch {
	case g.pkg == nil:
		return ""
	case g.Graph != nil && g.Graph.Units[g.r.Node].Host() && g.Graph.Units[g.r.Node].Mode != "test":
		return verb(g.asked, "is", "are") + " for a procedural macro, which runs while other packages are built"
	}
	only := verb(g.asked, "counts", "count") + " in tests, benchmarks and examples only"
	if dev := g.devOnly(); dev != "" {
		return only + ": " + dev + " is a dev-dependency"
	}
	tested := false
	for _, f := range g.asked {
		program, tests := g.pkg.Required(f)
		if program != "" {
			return verb(g.asked, "is", "are") + " for the program " + program
		}
		t := g.tests[testedFeature{g.pkg, f}]
		tested = tested || (tests || len(t.Tests) > 0) && len(t.Code) == 0 && t.Script == ""
	}
	if tested && g.turnsOn() == "" {
		return only
	}
	return ""
}

// note is about features of which the graph alone does not say whether they are right.
func (g *group) note(says string) {
	g.find(g.finding(IDUndecided, g.asked[0], "%s of %s %s", quoted(g.asked), g.label, says))
}

// undecided: no GPU crate is linked, and the features turn something else on.
func (g *group) undecided() {
	g.note(fmt.Sprintf("%s %s; no GPU crate for %s is linked", verb(g.asked, "enables", "enable"), g.turnsOn(), title(g.backend)))
}

// nothing: no GPU crate is linked, and the features enable nothing.
func (g *group) nothing() {
	f := g.finding(IDUnreached, g.asked[0], "%s of %s %s nothing", quoted(g.asked), g.label, verb(g.asked, "enables", "enable"))
	g.fixNothing(&f)
	if g.pkg != nil && g.Input.Lint { // nobody asked for it without what its edges wait for: another feature, another target
		if _, edges := g.pkg.Closure(g.asked); len(edges) > 0 {
			f.become(IDConditional)
		}
	}
	if g.backend == manifest.Metal && g.usual() != manifest.Metal {
		f.become(IDUndecided)
	}
	g.find(f)
}

// turnsOn names what features do turn on where no GPU crate of their backend is linked: code of packages, other packages, a GPU crate of
// another backend.
func (g *group) turnsOn() string {
	var what []string
	for _, f := range g.of().Features() {
		crate, name, code := g.Crate(f.Node), g.name(f.Node), g.code(f)
		if f.Node == g.r.Node {
			crate = nil
		}
		switch {
		case f.Node == g.r.Node && f.Name == "default":
			continue
		case crate != nil && (crate.Role == catalog.FalseFriend || crate.Role == catalog.Monitor):
			name += " only (" + crate.Notes + ")"
		case crate != nil && crate.Backends[f.Name] != "":
			name = crate.Backends[f.Name] + " in " + name
		case f.Name == "":
		case g.Nodes[f.Node].Pkg == nil:
			name = "`" + f.Name + "` of " + name + ", of which nothing is known"
		case code == "":
			continue
		default:
			name = "code of its own (" + g.Nodes[f.Node].Name + ": " + code + ")"
		}
		what = manifest.Union(what, []string{name})
	}
	if g.pkg != nil {
		_, edges := g.pkg.Closure(g.asked)
		for _, e := range edges {
			for _, d := range g.pkg.Dependencies {
				if d.Key == e.Dep && !e.Weak && g.runsHere(d, e.Feature) {
					what = manifest.Union(what, []string{d.Package + ", which runs while this is built"})
				}
			}
		}
	}
	return few(what)
}

// runsHere reports whether a feature of a dependency is on in what runs while the root is built, and is linked into nothing: a
// build-dependency, or a procedural macro.
func (k *rootJudge) runsHere(d manifest.Dependency, feature string) bool {
	if d.Kind != manifest.Normal || k.ahead || k.Graph == nil {
		return d.Kind == manifest.Build
	}
	return slices.ContainsFunc(k.Graph.Units, func(u graph.Unit) bool {
		return slices.Contains(u.Target.Kind, "proc-macro") && manifest.ParsePkgID(u.PkgID).Name == d.Package &&
			(feature == "" || slices.Contains(u.Features, feature))
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

// mayApply reports whether a table of dependencies may be for what is built here; only cargo knows.
func (k *rootJudge) mayApply(target string) bool {
	return target == "" || strings.Contains(target, k.os) || strings.Contains(target, "unix") && k.os != "windows" ||
		strings.Contains(target, "not(")
}

// byFile is the linked crate whose libtorch decides; -1 where there is none.
func (g *group) byFile() int {
	if g.backend != manifest.CUDA && g.backend != manifest.AnyGPU {
		return -1
	}
	return slices.IndexFunc(g.r.Linked, func(i int) bool { c := g.Crate(i); return c != nil && c.Role == catalog.ByFile })
}

// file says what decides where libtorch is linked.
func (g *group) file() {
	f := g.finding(IDByFile, g.asked[0], "`%s` of %s does not decide: %s", g.asked[0], g.label, g.Crate(g.r.Linked[g.byFile()]).Notes)
	if at := slices.IndexFunc(g.r.Linked, func(i int) bool { return g.Nodes[i].Name == "torch-sys" }); at >= 0 {
		t := g.torch[g.r.Linked[at]]
		if f.Message += "; " + t.Says; t.CPU {
			f.become(IDFileCPU)
			f.Fix = t.Fix
		}
	}
	g.find(f)
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

// crateNames names crates, each once.
func (k *rootJudge) crateNames(list []gpuCrate) string {
	var out []string
	for _, c := range list {
		out = manifest.Union(out, []string{k.name(c.node)})
	}
	return few(out)
}

// few names at most three.
func few(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

// quoted names features in a sentence.
func quoted(features []string) string { return "`" + strings.Join(features, "` and `") + "`" }

// verb is the form of a verb behind the named.
func verb(named []string, one, several string) string {
	if len(named) == 1 {
		return one
	}
	return several
}

// title is a backend's name in a sentence.
func title(backend string) string {
	names := map[string]string{manifest.CUDA: "CUDA", manifest.ROCm: "ROCm", manifest.Vulkan: "Vulkan", manifest.Metal: "Metal"}
	return cmp.Or(names[backend], "a GPU")
}

// chainTo is how the request turned a linked node on, as a GPU crate of any backend, or where it is none, anything in it; nil where the
// request did not.
func (k *rootJudge) chainTo(i int) []graph.Step {
	for _, b := range []string{manifest.CUDA, manifest.ROCm, manifest.Vulkan, manifest.Metal} {
		if c, is := k.crate(i, b); is && c.on {
			for _, f := range c.features() {
				if k.request.Has(f) {
					return k.request.Chain(f)
				}
			}
		}
	}
	for _, f := range k.request.Features() {
		if f.Node == i && k.Crate(i) == nil {
			return k.request.Chain(f)
		}
	}
	return nil
}
