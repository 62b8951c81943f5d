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

// rootJudge judges one root: for each backend that was asked for, the first of eight rules that applies is the answer.
type rootJudge struct {
	*judge
	r     *graph.Root
	pkg   *manifest.Package // of the root; nil: its manifest was not found
	label string

	asked        []string            // GPU features that are on in the root's package
	by           map[string][]string // of asked, by backend
	backends     []string            // that were asked for, in order
	loose        []string            // of asked: names that may mean anything
	qualified    []string            // asked of a named package: candle-core/cuda
	request      *graph.Closure      // of everything that the command line asks of this root
	idleFeatures []string
	other        string // a backend that was asked for, and is not CUDA; the crates without it
	otherOff     []string
}

// gpuCrate is a linked crate that can bring GPU code of a backend into a program.
type gpuCrate struct {
	node    int
	backend string
	gate    []string // the features that turn the code on; none: it is there when the crate is linked
	on      bool
	lost    string // what is missed while it is off; empty: nothing that is known
}

// asks sorts the features of the root by the backend that they mean.
func (k *rootJudge) asks() {
	n := &k.Nodes[k.r.Node]
	k.by = map[string][]string{}
	var start []graph.Feature
	take := func(backend, f string) {
		if len(k.by[backend]) == 0 {
			k.backends = append(k.backends, backend)
		}
		k.by[backend] = append(k.by[backend], f)
	}
	for _, f := range n.Features {
		named := k.ask.All || slices.Contains(k.ask.Plain, f) || slices.Contains(k.ask.Qualified[n.Name], f)
		if k.pkg != nil && k.pkg.Implicit(f) { // the name of a dependency
			if named {
				start = append(start, graph.Feature{Node: k.r.Node, Name: f})
			}
			continue
		}
		backend, loose := k.ask.BackendOf(f, func(word string) bool { return k.names[word] })
		switch {
		case backend == "" && !named:
			continue
		case backend == "":
		case loose:
			k.loose, k.asked = append(k.loose, f), append(k.asked, f)
		case backend == manifest.AnyGPU && !named: // of the defaults: nobody asked for any GPU
			k.asked = append(k.asked, f)
		default:
			k.asked = append(k.asked, f)
			take(backend, f)
		}
		start = append(start, graph.Feature{Node: k.r.Node, Name: f})
	}
	for _, f := range k.in.Missing {
		if backend, loose := k.ask.BackendOf(f, nil); !loose && k.pkg != nil && k.Project.IsMember(k.pkg) && !k.pkg.Declares(f) {
			k.asked = append(k.asked, f)
			take(backend, f)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(k.ask.Qualified)) {
		for _, f := range k.ask.Qualified[pkg] {
			node := k.dependency(pkg)
			if node < 0 || node == k.r.Node || !slices.Contains(k.Nodes[node].Features, f) {
				continue
			}
			start = append(start, graph.Feature{Node: node}, graph.Feature{Node: node, Name: f})
			k.qualified = append(k.qualified, pkg+"/"+f)
			if c := k.Crate(node); c == nil || c.Role != catalog.FalseFriend {
				if backend, loose := k.ask.BackendOf(f, nil); backend != "" && !loose {
					take(backend, pkg+"/"+f)
				}
			}
		}
	}
	if len(k.backends) > 1 { // a bare gpu next to a backend's name asks for nothing more
		k.backends = slices.DeleteFunc(k.backends, func(b string) bool { return b == manifest.AnyGPU })
	}
	k.request = k.Closure(k.r, start...)
	for _, f := range n.Features { // asked for under another name: accelerated = ["candle-core/cuda"]
		if len(k.asked) > 0 || k.pkg == nil || !slices.Contains(k.ask.Plain, f) {
			continue
		}
		if w := k.path(graph.Feature{Node: k.r.Node, Name: f}); w.Reached {
			k.asked = append(k.asked, f)
		}
	}
}

// dependency answers the linked node that a name of the command line means: a package's, or the root manifest's name for it.
func (k *rootJudge) dependency(name string) int {
	if k.pkg != nil {
		for _, d := range k.pkg.Dependencies {
			if d.Key == name {
				if to := k.DepNode(k.r.Node, d, k.r.Set); to >= 0 {
					return to
				}
			}
		}
	}
	return slices.IndexFunc(k.Nodes, func(n graph.Node) bool { return n.Name == name }) // of no root: it is in none of the sets below
}

// crates lists the linked GPU crates of a backend, those of the root's own package included.
func (k *rootJudge) crates(backend string) []gpuCrate {
	var out []gpuCrate
	for _, i := range k.r.Linked {
		if k.samePackage(i) {
			continue
		}
		for _, b := range []string{manifest.CUDA, manifest.ROCm, manifest.Vulkan, manifest.Metal} {
			if backend != b && backend != manifest.AnyGPU {
				continue
			}
			c, is := k.crate(i, b)
			if !is {
				continue
			}
			at := slices.IndexFunc(out, func(o gpuCrate) bool { return o.node == i })
			switch {
			case at < 0:
				out = append(out, c)
			case c.on && !out[at].on: // any backend will do
				out[at] = c
			}
		}
	}
	return out
}

// crate judges one linked node by the catalog, or by the manifest of one of the user's own packages.
func (k *rootJudge) crate(i int, backend string) (gpuCrate, bool) {
	n, c := &k.Nodes[i], k.Crate(i)
	if c == nil && n.Local && i != k.r.Node {
		return k.forwarder(i, backend)
	}
	gate, linked := gateOf(c, backend)
	out := gpuCrate{node: i, backend: backend, gate: gate}
	if linked && len(gate) > 0 && !k.Declares(i, gate[0]) {
		out.gate = nil
	}
	if !linked && len(gate) == 0 {
		return out, false
	}
	out.on = len(out.gate) == 0 || catalog.Overlap(out.gate, n.Features)
	if out.on {
		return out, true
	}
	declared := slices.DeleteFunc(slices.Clone(out.gate), func(f string) bool { return !k.Declares(i, f) })
	if len(declared) == 0 { // this version of it has no such code
		return out, false
	}
	out.gate = declared
	for _, f := range declared {
		out.lost = cmp.Or(out.lost, c.Lost[f])
	}
	return out, true
}

// gateOf lists the features with which a crate of the catalog has code of a backend, wgpu before the other ways to Vulkan; linked: it has
// that code whenever it is linked, or, in a version that declares them, with one of the features.
func gateOf(c *catalog.Crate, backend string) (gate []string, linked bool) {
	switch {
	case c == nil || c.Role == catalog.FalseFriend || c.Role == catalog.Helper || c.Role == catalog.ByFile:
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
		return strings.Compare(strings.TrimPrefix(a, "wgpu"), strings.TrimPrefix(b, "wgpu"))
	})
	return gate, false
}

// forwarder is a package of the user's whose feature leads to a GPU crate by its manifest: off while that feature is; once it is on, the
// crate speaks for it.
func (k *rootJudge) forwarder(i int, backend string) (gpuCrate, bool) {
	p := k.ManifestOf(i)
	if p == nil {
		return gpuCrate{}, false
	}
	gate := k.forwarding(p, backend)
	if catalog.Overlap(gate, k.Nodes[i].Features) {
		return gpuCrate{}, false
	}
	out := gpuCrate{node: i, backend: backend, gate: gate}
	for _, f := range gate {
		if t := k.src.TestsOf(p, f); len(t.Code) > 0 {
			out.lost = fmt.Sprintf("its code (%s) is not compiled", place(t.Code[0]))
		}
	}
	return out, len(gate) > 0
}

// forwarding lists the features of a package that mean a backend and lead to a GPU crate for it.
func (k *rootJudge) forwarding(p *manifest.Package, backend string) []string {
	return slices.DeleteFunc(p.FeatureNames(), func(f string) bool {
		b, loose := k.ask.BackendOf(f, func(w string) bool { return k.names[w] })
		return loose || b != backend && b != manifest.AnyGPU || !k.leads(p, f, backend, 0)
	})
}

// leads reports whether a feature of a package turns GPU code of a backend on by manifests, whether or not it is linked here.
func (v *view) leads(p *manifest.Package, f, backend string, depth int) bool {
	_, edges := p.Closure([]string{f})
	for _, e := range edges {
		for _, d := range p.Dependencies {
			if d.Key != e.Dep || d.Kind != manifest.Normal {
				continue
			}
			on := append(slices.Clone(d.Features), e.Feature)
			if c := v.Catalog.Crate(d.Package); c != nil {
				gate, linked := gateOf(c, backend)
				if linked && d.Optional && !e.Weak || !linked && catalog.Overlap(gate, on) {
					return true
				}
				continue
			}
			to := v.Project.Declaring(p, d)
			if to == nil || depth > 20 {
				continue
			}
			if d.DefaultFeatures {
				on = append(on, "default")
			}
			for _, next := range on {
				if next != "" && v.leads(to, next, backend, depth+1) {
					return true
				}
			}
		}
	}
	return false
}

// family is the backend by which features ask for a crate's: wgpu computes with Vulkan.
func family(backend string) string {
	if backend == "wgpu" {
		return manifest.Vulkan
	}
	return backend
}

// judge8 applies the rules to each backend that was asked for.
func (k *rootJudge) judge8() {
	for _, b := range k.backends {
		k.backend(b)
	}
	if cudnn := slices.DeleteFunc(slices.Clone(k.by[manifest.CUDA]), func(f string) bool {
		return !strings.Contains(f, "cudnn")
	}); len(cudnn) > 0 {
		k.cudnn(cudnn)
	}
	if len(k.backends) == 0 {
		all := k.crates(manifest.AnyGPU)
		on := slices.ContainsFunc(all, func(c gpuCrate) bool { return c.on && c.node != k.r.Node && k.byRequest(c) })
		if len(k.loose) > 0 && !on {
			k.find(k.finding(IDUndecided, k.loose[0],
				"%s of %s: the name does not say that a GPU is meant (`gpu-features` in gpubuild.toml can)",
				quoted(k.loose), k.label))
			k.idleFeatures = append(k.idleFeatures, k.loose...)
		}
		if all := k.crates(manifest.CUDA); len(k.qualified) == 0 && !on {
			k.forced(slices.DeleteFunc(all, func(c gpuCrate) bool { return !c.on || k.byRequest(c) || c.node == k.r.Node }), "")
		}
	}
	for _, i := range k.r.Linked {
		if n := &k.Nodes[i]; n.Name == "ort" && slices.Contains(n.Features, "cuda") && slices.Contains(n.Features, "load-dynamic") {
			k.find(k.finding(IDLoadDynamic, "",
				"%s is built with load-dynamic: the ONNX Runtime library that it loads decides whether CUDA is used",
				k.name(i)))
		}
	}
}

// byRequest reports whether the closure of what was asked for turns a crate on.
func (k *rootJudge) byRequest(c gpuCrate) bool {
	if c.node == k.r.Node {
		return true
	}
	if len(c.gate) == 0 {
		return k.request.Has(graph.Feature{Node: c.node})
	}
	return slices.ContainsFunc(c.gate, func(f string) bool { return k.request.Has(graph.Feature{Node: c.node, Name: f}) })
}

// turnedOn reports the same of a linked node for any backend, or, where it is no GPU crate, of anything in it.
func (k *rootJudge) turnedOn(i int) bool {
	for _, b := range []string{manifest.CUDA, manifest.ROCm, manifest.Vulkan, manifest.Metal} {
		if c, is := k.crate(i, b); is && c.on && k.byRequest(c) {
			return true
		}
	}
	return slices.ContainsFunc(k.request.Features(), func(f graph.Feature) bool { return f.Node == i && k.Crate(i) == nil })
}

func (k *rootJudge) backend(backend string) {
	asked := k.by[backend]
	var req, anyway, off []gpuCrate
	for _, c := range k.crates(backend) {
		switch {
		case !c.on && c.node == k.r.Node: // its own gate was not asked for; what is missed by that is cudnn's rule
		case !c.on:
			off = append(off, c)
		case k.byRequest(c):
			req = append(req, c)
		default:
			anyway = append(anyway, c)
		}
	}
	if on := slices.Concat(req, anyway); backend == manifest.AnyGPU && len(on) > 0 { // it may mean any: those of the others are not missed
		off = slices.DeleteFunc(off, func(c gpuCrate) bool {
			return !slices.ContainsFunc(on, func(o gpuCrate) bool { return o.backend == c.backend })
		})
	}
	if backend != manifest.CUDA && backend != manifest.AnyGPU {
		k.other = title(backend)
		for _, c := range off {
			k.otherOff = append(k.otherOff, k.name(c.node))
		}
	}
	others := slices.ContainsFunc(req, func(c gpuCrate) bool { return c.node != k.r.Node || k.compiles(c.node) })
	missed := slices.DeleteFunc(slices.Clone(off), func(c gpuCrate) bool { return c.lost == "" })
	// what only tests have says nothing of what merely could forward
	if k.pkg != nil && len(req)+len(anyway) == 0 && k.devOnly(asked) != "" {
		off = slices.DeleteFunc(off, func(c gpuCrate) bool { return k.Crate(c.node) == nil })
		missed = nil
	}
	switch {
	case len(off) > 0 && !others && len(anyway) == 0: // 3
		k.unreached(backend, asked, off)
	case len(missed) > 0 && (len(req) > 0 || len(anyway) > 0): // 7
		k.partial(backend, asked, missed)
	case len(req) > 0: // 1
	case len(anyway) > 0: // 2
		k.forced(anyway, asked[0])
	default:
		k.without(backend, asked)
	}
	if len(req) == 0 || !others && len(off) > 0 {
		k.idleFeatures = append(k.idleFeatures, asked...)
	}
}

// compiles reports whether the build script of a node's package compiles kernels.
func (k *rootJudge) compiles(i int) bool {
	p := k.ManifestOf(i)
	c := k.Crate(i)
	return p != nil && k.scriptDoes(p).compiles() || c != nil && c.Role == catalog.Carrier
}

// unreached is rule 3: GPU crates are linked, and the request turns none of them on.
func (k *rootJudge) unreached(backend string, asked []string, off []gpuCrate) {
	f := k.finding(IDUnreached, asked[0], "%s of %s %s not enable %s", quoted(asked), k.label, verb(asked, "does", "do"), k.crateNames(off))
	if at := k.ownCode(asked); at != "" {
		f.Message += fmt.Sprintf(" (although %s %s %s)", verb(asked, "it", "they"), verb(asked, "compiles", "compile"), at)
	}
	k.lacks(&f, off)
	if backend == manifest.AnyGPU && k.choice(&f, asked) {
		k.find(f)
		return
	}
	k.fix(&f, backend, asked, off)
	if cudnn := slices.IndexFunc(asked, func(f string) bool { return strings.Contains(f, "cudnn") }); cudnn >= 0 &&
		backend == manifest.CUDA {
		var without []gpuCrate
		for _, c := range off {
			if k.Crate(c.node) != nil && k.Declares(c.node, "cudnn") {
				without = append(without, gpuCrate{node: c.node, backend: backend, gate: []string{"cudnn"}})
			}
		}
		if len(without) > 0 && len(asked) > 1 {
			k.fix(&f, "cudnn", asked[cudnn:cudnn+1], without)
		}
	}
	k.find(f)
}

// partial is rule 7.
func (k *rootJudge) partial(backend string, asked []string, off []gpuCrate) {
	msg := fmt.Sprintf("%s of %s %s %s without %s %s code", quoted(asked), k.label, verb(asked, "leaves", "leave"), k.crateNames(off),
		map[bool]string{true: "its", false: "their"}[len(off) == 1], title(off[0].backend))
	if len(off) == 1 {
		msg += ": " + off[0].lost
	}
	f := k.finding(IDPartial, asked[0], "%s", msg)
	f.Evidence += "; " + off[0].lost
	k.lacks(&f, off)
	k.fix(&f, backend, asked, off)
	k.find(f)
}

// cudnn judges features that mean cuDNN: it must be on where crates have it, and is of no use where the same crate's cuda is off.
func (k *rootJudge) cudnn(asked []string) {
	var on, off []gpuCrate
	for _, i := range k.r.Linked {
		c := k.Crate(i)
		if c == nil || !c.CUDA() || c.Role != catalog.Gated || i == k.r.Node || !k.Declares(i, "cudnn") {
			continue
		}
		crate := gpuCrate{node: i, backend: manifest.CUDA, gate: []string{"cudnn"}, on: slices.Contains(k.Nodes[i].Features, "cudnn")}
		if crate.on {
			on = append(on, crate)
		} else if c.On(k.Nodes[i].Features) { // else the rules for CUDA have said it
			off = append(off, crate)
		}
	}
	if len(on) == 0 && len(off) > 0 {
		f := k.finding(IDUnreached, asked[0], "%s of %s does not enable `cudnn` of %s: convolutions do not use cuDNN", quoted(asked),
			k.label,
			k.crateNames(off))
		k.lacks(&f, off)
		k.fix(&f, "cudnn", asked, off)
		k.find(f)
	}
	n := &k.Nodes[k.r.Node]
	if k.pkg == nil || !n.Local || !k.pkg.Declares("cuda") || slices.Contains(n.Features, "cuda") || len(on) == 0 {
		return
	}
	lost := ""
	if t := k.src.TestsOf(k.pkg, "cuda"); len(t.Code) > 0 {
		lost = place(t.Code[0])
	} else if t.Script {
		lost = "its build script tests it"
	}
	own := k.Closure(k.r, graph.Feature{Node: k.r.Node, Name: "cuda"})
	for _, c := range k.crates(manifest.CUDA) {
		if !c.on && c.lost != "" && slices.ContainsFunc(c.gate, func(f string) bool {
			return own.Has(graph.Feature{Node: c.node, Name: f})
		}) {
			lost = cmp.Or(lost, k.name(c.node)+": "+c.lost)
		}
	}
	if lost == "" {
		return
	}
	id := IDCudnnAlone
	if k.in.Lint {
		id = IDPartial
	}
	f := k.finding(id, asked[0], "%s of %s does not enable `cuda`: CUDA code is not compiled (%s)", quoted(asked), k.label, lost)
	if k.Project != nil && k.Project.IsMember(k.pkg) && !strings.Contains(asked[0], "/") {
		k.put(&f, []edge{{k.pkg, asked[0], "cuda", 0}})
	} else {
		f.Ask = []string{"cuda"}
	}
	// it says the same
	k.out.Findings = slices.DeleteFunc(k.out.Findings, func(o Finding) bool { return o.ID == IDPartial && o.Root == k.label })
	k.find(f)
}

// forced is rule 2: GPU crates are on whatever was asked for.
func (k *rootJudge) forced(on []gpuCrate, asked string) {
	if len(on) == 0 {
		return
	}
	base := k.Closure(k.r, graph.Feature{Node: k.r.Node}, graph.Feature{Node: k.r.Node, Name: "default"})
	without := "a feature"
	if asked != "" {
		without = "`" + asked + "`"
	}
	f := k.finding(IDForced, asked, "%s is on in %s without %s", title(on[0].backend), k.label, without)
	for _, c := range on {
		wanted := []graph.Feature{{Node: c.node}}
		for _, g := range c.gate {
			wanted = append(wanted, graph.Feature{Node: c.node, Name: g})
		}
		if len(c.gate) > 0 {
			wanted = wanted[1:]
		}
		for _, w := range wanted {
			chain := base.Chain(w)
			if chain == nil {
				continue
			}
			last := chain[len(chain)-1]
			from := k.label
			for _, s := range chain[:len(chain)-1] {
				from, _, _ = strings.Cut(s.Text, "/")
			}
			f.Message += fmt.Sprintf(": %s turns on %s", from, last.Text)
			if last.Line > 0 {
				f.Path, f.Line = last.Manifest, last.Line
			}
			if asked == "" && len(chain) > 1 && chain[0].Text == k.Nodes[k.r.Node].Name+"/default" {
				return // the package's own defaults are a request
			}
			k.find(f)
			return
		}
	}
	if asked == "" {
		return
	}
	f.Message += fmt.Sprintf(": another part of this build enables %s", k.crateNames(on[:1]))
	k.find(f)
}

// without is what applies where no GPU crate of the backend is linked: rules 4, 5 and 6.
func (k *rootJudge) without(backend string, asked []string) {
	if c := k.Crate(k.r.Node); c != nil && (c.CUDA() || family(c.Backend) == backend) || k.byFile(backend, asked[0]) {
		return
	}
	f := asked[0]
	note := func(format string, a ...any) {
		k.undecided = true
		k.find(k.finding(IDUndecided, f, "%s of %s "+format, append([]any{quoted(asked), k.label}, a...)...))
	}
	closure := k.request
	if !strings.Contains(f, "/") { // not what the other features turn on
		closure = k.of(asked)
	}
	if k.pkg != nil {
		if dev := k.devOnly(asked); dev != "" {
			note("%s in tests, benchmarks and examples only: %s is a dev-dependency", verb(asked, "counts", "count"), dev)
			return
		}
		tests := false
		for _, f := range asked {
			t := k.src.TestsOf(k.pkg, f)
			tests = tests || len(t.Tests) > 0 && !t.Any()
			if program := k.pkg.Required(f); program != "" {
				note("%s for the program %s", verb(asked, "is", "are"), program)
				return
			}
		}
		if at := k.ownCode(asked); tests && at == "" && !k.activates(closure) {
			note("%s in tests, benchmarks and examples only", verb(asked, "counts", "count"))
			return
		}
	}
	if what := k.turnsOn(closure); what != "" {
		if off := k.staysOff(backend); off != "" {
			what += "; " + off
		}
		note("%s %s; no GPU crate for %s is linked", verb(asked, "enables", "enable"), what, title(backend))
		return
	}
	nothing := k.finding(IDUnreached, f, "%s of %s %s nothing", quoted(asked), k.label, verb(asked, "enables", "enable"))
	if why := k.deadEnd(closure); why != "" {
		nothing.Message += ": " + why
	} else if k.pkg != nil && !k.canReach(k.pkg, backend) {
		nothing.Message += ": " + cmp.Or(k.staysOff(backend), "no dependency of it can use "+title(backend))
	}
	k.fixNothing(&nothing, backend, asked)
	if k.in.Lint && k.conditional(closure) {
		nothing.become(IDConditional)
	}
	if backend == manifest.Metal && k.Host.OS != "darwin" { // what it would enable is no part of this build
		nothing.become(IDUndecided)
	}
	k.idle = append(k.idle, idleRoot{finding: nothing, platform: k.Nodes[k.r.Node].Platform})
}

// staysOff names a feature for a backend that a direct dependency declares and that is off, though nothing shows what it compiles; empty
// where there is none.
func (k *rootJudge) staysOff(backend string) string {
	for _, d := range k.Nodes[k.r.Node].Deps {
		c, p := k.Crate(d.To), k.ManifestOf(d.To)
		if p == nil || !k.r.Set[d.To] ||
			c != nil && (c.Role == catalog.FalseFriend || c.Role == catalog.Monitor || c.Role == catalog.Helper) {
			continue
		}
		for _, f := range p.FeatureNames() {
			if b, loose := k.ask.BackendOf(f, nil); b == backend && !loose && !slices.Contains(k.Nodes[d.To].Features, f) {
				return fmt.Sprintf("`%s` of %s stays off", f, k.name(d.To))
			}
		}
	}
	return ""
}

// activates reports whether a closure brings any package in.
func (k *rootJudge) activates(c *graph.Closure) bool {
	return slices.ContainsFunc(c.Features(), func(f graph.Feature) bool { return f.Name == "" })
}

// turnsOn names what features without any GPU crate do turn on: code of packages, other packages, a GPU crate of another backend.
func (k *rootJudge) turnsOn(c *graph.Closure) string {
	var what []string
	add := func(s string) {
		if !slices.Contains(what, s) {
			what = append(what, s)
		}
	}
	for _, f := range c.Features() {
		p, crate := k.ManifestOf(f.Node), k.Crate(f.Node)
		name := k.name(f.Node)
		switch {
		case f.Node == k.r.Node && f.Name == "default":
		case crate != nil && (crate.Role == catalog.FalseFriend || crate.Role == catalog.Monitor) && f.Node != k.r.Node:
			add(name + " only (" + crate.Notes + ")")
		case crate != nil && f.Node != k.r.Node && crate.Backends[f.Name] != "":
			add(crate.Backends[f.Name] + " in " + name)
		case f.Name == "":
			add(name)
		case p == nil:
			add("`" + f.Name + "` of " + name + ", of which nothing is known")
		default:
			t := k.src.TestsOf(p, f.Name)
			switch {
			case len(t.Code) > 0:
				add("code of its own (" + k.Nodes[f.Node].Name + ": " + place(t.Code[0]) + ")")
			case t.Script:
				add("code of its own (" + k.Nodes[f.Node].Name + ": " + k.Host.Base(p.BuildScript) + ")")
			}
		}
	}
	return few(what)
}

// of is what features of the root turn on.
func (k *rootJudge) of(asked []string) *graph.Closure {
	var start []graph.Feature
	for _, f := range asked {
		start = append(start, graph.Feature{Node: k.r.Node, Name: f})
	}
	return k.Closure(k.r, start...)
}

// ownCode names the first place where code of the user's linked packages is compiled by what was asked for.
func (k *rootJudge) ownCode(asked []string) string {
	for _, f := range k.of(asked).Features() {
		p := k.ManifestOf(f.Node)
		if p == nil || f.Name == "" || !k.Nodes[f.Node].Local || k.Crate(f.Node) != nil {
			continue
		}
		if t := k.src.TestsOf(p, f.Name); len(t.Code) > 0 {
			if f.Node != k.r.Node {
				return k.Nodes[f.Node].Name + "/" + place(t.Code[0])
			}
			return place(t.Code[0])
		}
	}
	return ""
}

func place(p source.Place) string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// devOnly is a dev-dependency to which features of the root lead, and to nothing else; empty where there is none.
func (k *rootJudge) devOnly(asked []string) string {
	_, edges := k.pkg.Closure(asked)
	found := ""
	for _, e := range edges {
		for _, d := range k.pkg.Dependencies {
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

// looseEnd is an edge of a feature to a package that is not linked.
type looseEnd struct {
	node    int
	pkg     *manifest.Package
	feature string
	edge    manifest.Edge
	dep     manifest.Dependency
}

// looseEnds lists the edges of what was turned on that lead to nothing that is linked.
func (k *rootJudge) looseEnds(c *graph.Closure) (out []looseEnd) {
	for _, f := range c.Features() {
		p := k.ManifestOf(f.Node)
		if p == nil || f.Name == "" {
			continue
		}
		for _, e := range p.Edges(f.Name) {
			for _, d := range p.Dependencies {
				if e.Dep != "" && d.Key == e.Dep && k.DepNode(f.Node, d, k.r.Set) < 0 {
					out = append(out, looseEnd{f.Node, p, f.Name, e, d})
				}
			}
		}
	}
	return out
}

// deadEnd says which edge of what was asked for leads to nothing that is linked.
func (k *rootJudge) deadEnd(c *graph.Closure) string {
	for _, l := range k.looseEnds(c) {
		switch {
		case l.edge.Weak:
			return fmt.Sprintf("`%s` of %s counts only if something else enables `%s`", l.edge.Text, l.pkg.Name, l.edge.Dep)
		case k.Catalog.Crate(l.dep.Package) == nil && l.dep.Path == "": // what it could bring has nothing to do with a GPU
		case l.dep.Kind == manifest.Build:
			return fmt.Sprintf("%s is a build-dependency of %s", l.dep.Key, l.pkg.Name)
		case l.dep.Target != "" && !k.mayApply(l.dep.Target):
			return fmt.Sprintf("%s is a dependency of %s only", l.dep.Package, l.dep.Target)
		}
	}
	if k.pkg != nil {
		for _, d := range k.pkg.Dependencies {
			if d.Target != "" && !k.mayApply(d.Target) && d.Kind == manifest.Normal && k.Catalog.Crate(d.Package).CUDA() &&
				k.DepNode(k.r.Node, d, k.r.Set) < 0 {
				return fmt.Sprintf("%s, which has CUDA code, is a dependency of %s only", d.Package, d.Target)
			}
		}
	}
	return ""
}

// mayApply reports whether a table of dependencies may be for what is built here; only cargo knows.
func (k *rootJudge) mayApply(target string) bool {
	return strings.Contains(target, k.Host.OS) || strings.Contains(target, "unix") && k.Host.OS != "windows" ||
		strings.Contains(target, "not(")
}

// conditional reports whether another feature, or another target, would make an edge of what was asked for count.
func (k *rootJudge) conditional(c *graph.Closure) bool {
	return slices.ContainsFunc(k.looseEnds(c), func(l looseEnd) bool { return l.edge.Weak || l.dep.Target != "" })
}

// byFile says what decides where libtorch is linked.
func (k *rootJudge) byFile(backend, f string) bool {
	at := slices.IndexFunc(k.r.Linked, func(i int) bool { c := k.Crate(i); return c != nil && c.Role == catalog.ByFile })
	if at < 0 || backend != manifest.CUDA && backend != manifest.AnyGPU {
		return false
	}
	find := k.finding(IDByFile, f, "`%s` of %s does not decide: %s", f, k.label, k.Crate(k.r.Linked[at]).Notes)
	if t := k.torch(k.r); t.Says != "" {
		find.Message += "; " + t.Says
		if t.CPU {
			find.become(IDFileCPU)
			find.Fix = t.Fix
		}
		if t.CUDA && k.Host.OS == "linux" && k.pkg != nil && !k.src.Passes(k.pkg, "no-as-needed") {
			// https://github.com/LaurentMazare/tch-rs/issues/907: a library's build script cannot say so for the program.
			find.Message += "; unless its own build script passes -Wl,--no-as-needed, " +
				"the linker may leave libtorch_cuda out of the program"
		}
	}
	k.find(find)
	return true
}

// torch is the libtorch of a root; it says nothing where none is linked.
func (v *view) torch(r *graph.Root) source.Libtorch {
	for _, i := range r.Linked {
		if v.Nodes[i].Name == "torch-sys" {
			return v.src.LibtorchOf(v.Nodes[i].Features)
		}
	}
	return source.Libtorch{}
}

// paths records for each feature that was asked for by which edges it turned a GPU crate on, or where it ends.
func (k *rootJudge) paths() {
	add := func(name string, from graph.Feature) {
		w := k.path(from)
		w.Root, w.Feature = k.Nodes[k.r.Node].Name, name
		if !slices.ContainsFunc(k.out.Paths, func(o graph.Why) bool {
			return o.Root == w.Root && o.Feature == w.Feature && slices.Equal(o.Steps, w.Steps)
		}) {
			k.out.Paths = append(k.out.Paths, w)
		}
	}
	for _, f := range k.asked {
		add(f, graph.Feature{Node: k.r.Node, Name: f})
	}
	for _, f := range k.ask.Plain { // asked for under another name: flash-attn
		if at := (graph.Feature{Node: k.r.Node, Name: f}); !slices.Contains(k.asked, f) && k.path(at).Reached {
			add(f, at)
		}
	}
	for _, q := range k.qualified {
		pkg, f, _ := strings.Cut(q, "/")
		add(q, graph.Feature{Node: k.dependency(pkg), Name: f})
	}
}

// path follows one feature to a carrier, else to the farthest gated crate that is on.
func (k *rootJudge) path(from graph.Feature) graph.Why {
	c := k.Closure(k.r, from)
	var best []graph.Step
	for _, f := range c.Features() {
		crate := k.Crate(f.Node)
		if crate == nil || f.Node == k.r.Node && f.Name == "" {
			continue
		}
		carrier := crate.Role == catalog.Carrier && crate.Backend != ""
		if !carrier && !(crate.CUDA() && slices.Contains(crate.CUDAFeatures, f.Name)) && crate.Backends[f.Name] == "" {
			continue
		}
		if chain := c.Chain(f); len(chain) > len(best) || carrier {
			if best = chain; carrier {
				break
			}
		}
	}
	w := graph.Why{Reached: best != nil}
	for _, s := range best {
		w.Steps = append(w.Steps, s.Text)
	}
	if best == nil {
		w.Steps = []string{k.Nodes[from.Node].Name + "/" + from.Name}
		w.End = cmp.Or(k.deadEnd(c), "it enables no GPU crate")
	}
	return w
}

// finding is about a feature of the root's package.
func (k *rootJudge) finding(id, feature, format string, a ...any) Finding {
	f := newFinding(id, format, a...)
	if f.Root = k.label; k.in.Alone != nil {
		f.Evidence = "manifests"
	}
	if k.pkg != nil {
		f.Path, f.Line = k.pkg.Manifest, k.pkg.FeatureLine(feature)
	}
	return f
}

func (k *rootJudge) lacks(f *Finding, off []gpuCrate) {
	for _, c := range off {
		f.Lacks = append(f.Lacks, Lack{k.Nodes[c.node].Name, k.Nodes[c.node].Version, c.gate[0]})
	}
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
	switch backend {
	case manifest.CUDA:
		return "CUDA"
	case manifest.ROCm:
		return "ROCm"
	case manifest.Vulkan:
		return "Vulkan"
	case manifest.Metal:
		return "Metal"
	}
	return "a GPU"
}
