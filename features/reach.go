package features

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
)

// rootJudge judges one root.
type rootJudge struct {
	*judge
	r     *graph.Root
	pkg   *manifest.Package // of the root; nil: its manifest was not found
	label string
	main  string   // source file of a root that is a program
	asked []string // GPU features that are on in the root's package
	on    []int    // CUDA crates that are on
	plan  *planner // made when it is needed
	lent  []string // of asked: those that enable nothing themselves, while CUDA crates are on
}

// requests judges the GPU features that are on in the root's own package. Those that enable nothing are one finding.
func (k *rootJudge) requests() {
	var idle []string
	var off []int
	first, more := map[string]int{}, map[int][]string{} // notes by what they say of any feature
	for _, f := range k.asked {
		before := len(k.out.Findings)
		if nothing, left := k.request(f); nothing {
			idle = append(idle, f)
			for _, i := range left {
				if !slices.Contains(off, i) {
					off = append(off, i)
				}
			}
		}
		for _, note := range slices.Clone(k.out.Findings[before:]) {
			says := note.ID + strings.Replace(note.Message, "`"+f+"`", "", 1)
			if at, known := first[says]; known {
				k.out.Findings, more[at] = slices.Delete(k.out.Findings, before, before+1), append(more[at], "`"+f+"`")
				continue
			}
			first[says] = before
			before++
		}
	}
	for at, others := range more { // one cause, one note
		k.out.Findings[at].Message += "; so with " + few(others)
	}
	switch {
	case len(idle) == 0:
	case !slices.ContainsFunc(idle, k.meant) && (len(idle) < len(k.asked) || k.otherGPU(k.Nodes[k.r.Node].Features) != ""):
		k.lent = append(k.lent, idle...)
		k.find(k.finding(IDUndecided, Note, idle[0], "`%s` of %s, which nobody named, enables nothing",
			strings.Join(idle, "` and `"), k.label))
	default:
		k.unreached(idle, off)
	}
}

// meant says whether a feature was asked for by name or names CUDA: next to one that works, a gpu of the defaults asks for nothing.
func (k *rootJudge) meant(f string) bool {
	return k.in.Request.Names(f) || strings.Contains(f, "cud")
}

// request says whether a feature enables nothing, and which CUDA crates it leaves off. Whatever else is to be said of it is a note.
func (k *rootJudge) request(f string) (nothing bool, off []int) {
	var on []int
	for _, i := range k.r.Linked {
		c := k.Crate(i)
		if !c.CUDA() || i == k.r.Node {
			continue
		}
		switch concerned, has := k.concerns(i, c, f); {
		case has:
			on = append(on, i)
		case concerned:
			off = append(off, i)
		}
	}
	if c := k.Crate(k.r.Node); c.CUDA() && len(off) == 0 && len(on) == 0 {
		return false, nil // the root is itself a GPU crate: its feature is what it says
	}
	if len(on) > 0 { // what stays off is judged elsewhere
		k.borrowed(f, on)
		return false, nil
	}
	where, gated := k.gated(f, false)
	byFile := slices.ContainsFunc(k.r.Linked, func(i int) bool { c := k.Crate(i); return c != nil && c.Role == catalog.ByFile })
	if !gated && len(off) == 0 && !byFile && k.pkg != nil && len(k.pkg.Features[f]) == 0 && !k.plans().canEnable(k.pkg, f) {
		where, gated = k.gated(f, true) // nothing else is there that it could enable
	}
	unknown := k.carriedOn(f)
	switch program := k.artifact(f); {
	case program != "":
		k.find(k.toArtifact(f, program, off))
	case gated:
		msg := fmt.Sprintf("`%s` of %s enables code of its own (%s)", f, k.label, where)
		if len(off) > 0 {
			msg += fmt.Sprintf("; %s stays without CUDA", k.names(off))
		} else if other := k.otherGPU([]string{f}); other != "" {
			msg += " and " + other
		} else {
			msg += "; no known GPU crate is linked"
		}
		find := k.finding(IDUndecided, Note, f, "%s", msg)
		if m := k.plans().plan(k.pkg, f); len(off) > 0 && len(m.edits) > 0 {
			find.Fix, find.Edits = k.toml(m.edits), m.edits
		}
		k.find(find)
	case len(off) > 0 && !(k.another(f)):
		return true, off
	case len(unknown) > 0:
		k.find(k.finding(IDUndecided, Note, f, "`%s` of %s enables %s, of which nothing is known", f, k.label, k.names(unknown)))
	case k.friends(f), k.byFile(f), k.another(f), k.forTests(f):
	default:
		return true, nil
	}
	return false, nil
}

// forTests finds a feature of tests, benchmarks and examples, which leads to a dev-dependency, and says so.
func (k *rootJudge) forTests(f string) bool {
	if _, gated := k.gates(k.r.Node, f, true); !gated || k.pkg == nil {
		return false
	}
	_, edges := k.pkg.Closure([]string{f})
	for _, e := range edges {
		kinds := map[string]bool{}
		for _, d := range k.pkg.Dependencies {
			kinds[d.Kind] = kinds[d.Kind] || d.Key == e.Dep
		}
		if kinds[manifest.Dev] && !kinds[manifest.Normal] && k.ask.IsGPU(e.Feature) {
			k.find(k.finding(IDUndecided, Note, f, "`%s` of %s counts in tests, benchmarks and examples only: %s is a dev-dependency",
				f, k.label, e.Dep))
			return true
		}
	}
	return false
}

// another says whether a feature that is called gpu, without a word of CUDA, enables any dependency, or stands next to the package's own
// cuda with edges of its own or as a part of it: it may mean another kind of GPU.
func (k *rootJudge) another(f string) bool {
	if k.pkg == nil || strings.Contains(f, "cuda") || strings.Contains(f, "cudnn") {
		return false
	}
	if cuda, _ := k.pkg.Closure([]string{"cuda"}); k.pkg.Declares("cuda") && (cuda[f] || len(k.pkg.Features[f]) > 0) {
		return true
	}
	for on := range k.Carried(k.r, graph.Feature{Node: k.r.Node, Name: f}) {
		if on.Node != k.r.Node {
			return true
		}
	}
	return false
}

// plans finds missing edges in view of what the root links.
func (k *rootJudge) plans() *planner {
	if k.plan == nil {
		k.plan = k.planner()
		k.plan.linked = func(p *manifest.Package, d manifest.Dependency) int {
			for _, i := range k.r.Linked {
				if n := &k.Nodes[i]; n.Name == p.Name && k.ManifestOf(i) == p {
					if to := k.DepNode(i, d, k.r.Set); to >= 0 {
						return to
					}
				}
			}
			return -1
		}
	}
	return k.plan
}

// orElse stands between edges of which one is meant.
const orElse = " # or: "

// Choice says whether one of several edges fixes it: which, only the user knows.
func (f *Finding) Choice() bool { return strings.Contains(f.Fix, orElse) }

// nameIt is the hint where a package may compile kernels without showing it.
const nameIt = "if a dependency compiles kernels, name it in gpubuild.toml: gpu-packages = [\"NAME\"]"

// unreached reports features that enable nothing: one cause, with every edge that is missing.
func (k *rootJudge) unreached(idle []string, off []int) {
	k.lent = append(k.lent, idle...)
	meaning := manifest.Meaning(idle[0])
	what := fmt.Sprintf("`%s` of %s enables nothing", strings.Join(idle, "` and `"), k.label)
	if len(idle) > 1 {
		what = fmt.Sprintf("`%s` of %s enable nothing", strings.Join(idle, "` and `"), k.label)
	}
	find := k.finding(IDUnreached, Error, idle[0], "%s", what)
	find.Evidence += k.hostOnly(off)
	for _, i := range off {
		f := meaning
		if c := k.Crate(i); c != nil {
			f = c.Means(meaning)
		}
		find.Lacks = append(find.Lacks, k.lack(i, f))
	}
	var m plan
	if k.pkg != nil && k.Project != nil && k.Project.Package(k.pkg.Manifest) == k.pkg {
		for _, f := range idle {
			one := k.plans().plan(k.pkg, f)
			for _, e := range one.edits {
				same := func(have edit.Edit) bool { return have.Manifest == e.Manifest && have.Feature == e.Feature }
				if !slices.ContainsFunc(m.edits, same) {
					m.edits = append(m.edits, e)
				}
			}
			m.to, m.engines = manifest.Union(m.to, one.to), one.engines
		}
	}
	weak, other := k.weakEdges(idle[0]), k.otherGPU(idle)
	var edges, edgesOf []string
	already := false
	if p := k.pkg; other == "" && len(idle) == 1 && p != nil && k.Project != nil && k.Project.Package(p.Manifest) == p &&
		!strings.Contains(idle[0], "cud") {
		if edges, edgesOf, already = k.backends(); already { // that is what it has, and CUDA is not
			m, find.Lacks, off = plan{}, nil, nil
		}
	}
	switch {
	case other != "":
		find.Message = fmt.Sprintf("`%s` of %s enables %s, and no CUDA", strings.Join(idle, "` and `"), k.label, other)
	case len(off) > 0 && meaning == "cudnn":
		find.Message += fmt.Sprintf(": %s built without cuDNN", areNames(k.each(off)))
	case len(off) > 0:
		find.Message += fmt.Sprintf(": %s built without CUDA", areNames(k.each(off)))
	case len(edges) > 0 && len(m.edits) == 0 && len(m.engines) == 0:
		find.Message += ": it does not forward to " + strings.Join(edgesOf, ", ")
		if already { // so nothing is lost
			find.Severity = Note
			find.Message += ", which has " + strings.Join(edges, ", ") + " on without it"
		}
	case len(weak) > 0:
		find.Message += fmt.Sprintf(": `%s` counts only if something else enables `%s`", weak[0].Text, weak[0].Dep)
		if turn := k.turnsOn(weak[0].Dep); turn != "" {
			find.Ask, m = []string{turn}, plan{}
		}
	case k.elsewhere(m.to) != "":
		find.Message += ": " + k.elsewhere(m.to)
	case len(m.to) > 0:
		find.Message += fmt.Sprintf(": the CUDA code of %s stays off", strings.Join(m.to, ", "))
	case len(m.engines) > 0 || k.pkg != nil && k.plans().dormant(k.pkg):
		find.Message += ": each dependency that can use CUDA is optional and off"
	case k.end(idle[0]) != "":
		end := k.end(idle[0])
		if find.Message += ": " + end; end == graph.NoGPUCrate {
			find.Fix = nameIt
		}
	default:
		find.Message = what + ": no dependency of it can use CUDA"
		find.Fix = nameIt
	}
	switch {
	case len(edges) > 0 && len(m.edits) == 0 && len(m.engines) == 0:
		e := edit.Edit{Manifest: k.pkg.Manifest, Feature: idle[0], Add: edges}
		find.Path, find.Line, find.Fix = e.Manifest, k.pkg.FeatureLine(e.Feature), k.toml([]edit.Edit{e})
		if !already { // cargo would build the same
			find.Edits = []edit.Edit{e}
		}
	case len(edges) > 0 && len(m.engines) <= 1: // only the user knows which backend is meant
		find.Fix = k.toml(m.edits) + orElse + edit.WithEdges(k.pkg, idle[0], edges...)
	case len(m.engines) > 1: // only the user knows which one is meant
		var lines []string
		for _, engine := range slices.Sorted(maps.Keys(m.engines)) {
			lines = append(lines, edit.WithEdges(k.pkg, idle[0], m.engines[engine]...))
		}
		find.Fix = strings.Join(lines, orElse)
	case len(m.edits) > 0:
		last := m.edits[len(m.edits)-1]
		p := k.Project.Package(last.Manifest)
		find.Path, find.Line, find.Fix, find.Edits = p.Manifest, p.FeatureLine(last.Feature), k.toml(m.edits), m.edits
	}
	if len(off) > 0 {
		k.find(find)
		return
	}
	cuda := slices.ContainsFunc(idle, func(f string) bool { return strings.Contains(f, "cud") })
	if b := k.onAnyhow(); b != "" && !cuda && other == "" && find.Severity == Error && (find.Fix == "" || find.Fix == nameIt) {
		find.Severity, find.Fix, find.Message = Note, "", what+": "+b+" is on without it"
	}
	k.idle = append(k.idle, idleRoot{finding: find, platform: k.Nodes[k.r.Node].Platform})
}

// onAnyhow is a linked crate for another GPU than CUDA's that is on whatever was asked for; empty when there is none.
func (k *rootJudge) onAnyhow() string {
	for _, i := range k.r.Linked {
		c := k.Crate(i)
		if st, listed := k.state(i, c, nil, false); c != nil && listed && st.On && !c.CUDA() && c.Role != catalog.Monitor {
			return st.Backend + " in " + k.name(i)
		}
	}
	return ""
}

// otherGPU names the GPUs of other kinds that features enable, and where; empty when there are none.
func (k *rootJudge) otherGPU(features []string) string {
	for _, f := range features {
		carried := k.Carried(k.r, graph.Feature{Node: k.r.Node, Name: f})
		for _, i := range k.r.Linked {
			c, on := k.Crate(i), []string{}
			if c == nil || i == k.r.Node {
				continue
			}
			for _, name := range k.Nodes[i].Features {
				if carried[graph.Feature{Node: i, Name: name}] {
					on = append(on, name)
				}
			}
			kinds := c.Other(on)
			if carried[graph.Feature{Node: i}] && !c.CUDA() && c.Role == catalog.Carrier {
				kinds = []string{c.Backend}
			}
			if len(kinds) > 0 {
				return strings.Join(kinds, ", ") + " in " + k.name(i)
			}
		}
	}
	return ""
}

// backends are the edges by which a feature that is called gpu may mean another backend than CUDA: to the dependencies that have one
// on, else to those that have wgpu.
func (k *rootJudge) backends() (edges, crates []string, on bool) {
	for _, d := range k.pkg.Dependencies {
		c, node := k.Catalog.Crate(d.Package), k.DepNode(k.r.Node, d, k.r.Set)
		if c == nil || node < 0 || d.Kind != manifest.Normal {
			continue
		}
		best, has := "", false
		for f, backend := range c.Backends {
			now := slices.Contains(k.Nodes[node].Features, f)
			switch {
			case !k.Declares(node, f) || !now && (has || backend != "wgpu"):
			case now && !has, f == "wgpu", best == "", best != "wgpu" && f < best:
				best, has = f, now
			}
		}
		if best == "" || on && !has {
			continue
		}
		if has && !on {
			edges, crates, on = nil, nil, true
		}
		edges, crates = append(edges, d.Key+"/"+best), append(crates, d.Package)
	}
	return edges, crates, on
}

// elsewhere says that what would get the feature is a dependency of other targets only; empty if any of it is linked here.
func (k *rootJudge) elsewhere(to []string) string {
	if k.pkg == nil {
		return ""
	}
	out := ""
	for _, d := range k.pkg.Dependencies {
		if !slices.Contains(to, d.Package) || d.Kind != manifest.Normal {
			continue
		}
		if d.Target == "" || k.DepNode(k.r.Node, d, k.r.Set) >= 0 {
			return ""
		}
		out = fmt.Sprintf("%s, which has CUDA code, is a dependency of %s only", d.Package, d.Target)
	}
	return out
}

// end is where the path of a feature ends, if it has one.
func (k *rootJudge) end(f string) string {
	if k.pkg == nil || len(k.pkg.Features[f]) == 0 {
		return ""
	}
	return k.path(k.r, graph.Feature{Node: k.r.Node, Name: f}).End
}

// borrowed reports a feature that reaches nothing itself, while another edge of this build turns the crates on.
func (k *rootJudge) borrowed(f string, on []int) {
	if k.path(k.r, graph.Feature{Node: k.r.Node, Name: f}).Reached || k.Crate(k.r.Node).CUDA() || k.another(f) {
		return
	}
	k.lent = append(k.lent, f)
	if slices.ContainsFunc(k.asked, func(o string) bool { return o != f && k.path(k.r, graph.Feature{Node: k.r.Node, Name: o}).Reached }) {
		return // it is a part of what was asked for: _cuda, which cuda and cuda-13 enable
	}
	if path, line, how := k.forcedBy(); how != "" {
		find := k.finding(IDForced, Note, f, "CUDA is on in %s without `%s`: %s", k.label, f, how)
		find.Path, find.Line = path, line
		k.find(find)
		return
	}
	k.find(k.finding(IDBorrowed, Note, f, "`%s` of %s does not enable %s: another feature of this build does", f, k.label, k.names(on[:1])))
}

// hostOnly reports copies of the same crates that have CUDA but are part of a build script or proc-macro only.
func (k *rootJudge) hostOnly(off []int) string {
	for _, i := range off {
		for o := range k.Nodes {
			if c := k.Crate(o); k.r.Set[o] || k.Nodes[o].Name != k.Nodes[i].Name || !c.On(k.Nodes[o].Features) {
				continue
			}
			if !slices.ContainsFunc(k.Roots, func(r graph.Root) bool { return r.Set[o] }) { // another root may link it
				return "; only a copy of " + k.name(o) + " for build scripts or proc-macros has it"
			}
		}
	}
	return ""
}

// weakEdges lists the weak edges of a feature whose dependency is not linked.
func (k *rootJudge) weakEdges(f string) []manifest.Edge {
	if k.pkg == nil {
		return nil
	}
	return k.deadEdges(k.r.Node, k.pkg, f)
}

func (k *rootJudge) deadEdges(i int, p *manifest.Package, f string) []manifest.Edge {
	var out []manifest.Edge
	if !p.HasWeakEdges() {
		return nil
	}
	_, edges := p.Closure([]string{f})
	for _, e := range edges {
		if e.Weak && len(k.EdgeNodes(k.r, i, p, e)) == 0 {
			out = append(out, e)
		}
	}
	return out
}

// turnsOn answers a feature of the root's package that turns an optional dependency on; empty when there is none.
func (k *rootJudge) turnsOn(dep string) string {
	p := k.pkg
	switch {
	case p == nil:
		return ""
	case p.Implicit(dep):
		return dep
	}
	for _, f := range slices.Sorted(maps.Keys(p.Features)) {
		for _, s := range p.Features[f] {
			if e := manifest.ParseEdge(s); e.Dep == dep && !e.Weak {
				return f
			}
		}
	}
	return ""
}

// concerns says whether a CUDA crate has to do with a feature, and whether it has what the feature means.
func (v *view) concerns(i int, c *catalog.Crate, f string) (concerned, has bool) {
	feats := v.Nodes[i].Features
	if manifest.Meaning(f) == "cudnn" {
		for _, on := range feats {
			if on == "cudnn" || c.Name == "cudarc" && strings.HasPrefix(on, "cudnn") {
				return true, true
			}
		}
		return c.Role == catalog.Gated && v.Declares(i, "cudnn"), false
	}
	if c.Role == catalog.Carrier {
		return true, true
	}
	if c.On(feats) {
		return true, true
	}
	return v.Declares(i, c.Means(f)), false
}

// gated says whether the feature, or a GPU feature of another name that it enables in a dependency, gates code of the user's own linked
// packages, and where.
func (k *rootJudge) gated(f string, choices bool) (string, bool) {
	carried := k.Carried(k.r, graph.Feature{Node: k.r.Node, Name: f})
	for _, i := range k.r.Linked {
		n := &k.Nodes[i]
		if !n.Local || k.Crate(i) != nil && i != k.r.Node {
			continue
		}
		for _, name := range n.Features {
			if name == f || i != k.r.Node && k.ask.IsGPU(name) && carried[graph.Feature{Node: i, Name: name}] {
				if where, yes := k.gates(i, name, choices); yes {
					return where, true
				}
			}
		}
	}
	return "", false
}

// gates says whether a feature of a package gates code of its own, and where.
func (k *rootJudge) gates(i int, f string, choices bool) (string, bool) {
	n, p := &k.Nodes[i], k.ManifestOf(i)
	if p == nil {
		return "", false
	}
	main := ""
	if i == k.r.Node {
		main = k.main
	}
	g := k.src.GateOf(p, f, k.build(i, choices), main)
	for _, dir := range []string{"tests", "benches", "examples"} { // other programs of the package, which this command line does not build
		if choices && i == k.r.Node && !g.Any() {
			g = k.src.GateOf(p, f, k.build(i, choices), k.Host.Join(p.Dir, dir, "any.rs"))
		}
	}
	switch {
	case p.Required(f) != "":
		return n.Name + ": program " + p.Required(f), true
	case len(g.Files) > 0:
		return listed(n.Name, g.Files), true
	case g.Script:
		return n.Name + ": " + k.Host.Base(p.BuildScript), true
	case g.Calls || k.compilesKernels(p):
		return n.Name + ": " + k.Host.Base(p.BuildScript) + " calls nvcc", true
	case slices.Contains(k.in.Named, n.Name):
		return n.Name + ": gpubuild.toml names it in gpu-packages", true
	}
	return "", false
}

// build is what the conditions in a node's sources are judged with.
func (k *rootJudge) build(i int, choices bool) source.Build {
	n := &k.Nodes[i]
	return source.Build{Features: n.Features, OS: source.OSOf(n.Platform, k.Host.OS), Choices: choices}
}

func listed(pkg string, files []string) string {
	if len(files) == 1 {
		return pkg + ": " + files[0]
	}
	return fmt.Sprintf("%s: %s and %d more", pkg, files[0], len(files)-1)
}

// carriedOn lists the linked crates outside the catalog that a feature's edges turn on.
func (k *rootJudge) carriedOn(f string) []int {
	var out []int
	carried := k.Carried(k.r, graph.Feature{Node: k.r.Node, Name: f})
	for _, i := range k.r.Linked {
		if n := &k.Nodes[i]; i != k.r.Node && !n.Local && k.Crate(i) == nil && carried[graph.Feature{Node: i, Name: f}] {
			out = append(out, i)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, i := range k.r.Linked { // edges under another name: cuda = ["engine/accelerated"]
		p := (*manifest.Package)(nil)
		if k.Nodes[i].Local && carried[graph.Feature{Node: i, Name: f}] {
			p = k.ManifestOf(i)
		}
		if p == nil {
			continue
		}
		_, edges := p.Closure([]string{f})
		for _, e := range edges {
			for _, to := range k.EdgeNodes(k.r, i, p, e) {
				n := &k.Nodes[to]
				if !n.Local && k.Crate(to) == nil && (e.Feature == "" || slices.Contains(n.Features, e.Feature)) &&
					!slices.Contains(out, to) && !everyday(n.Name) {
					out = append(out, to)
				}
			}
		}
	}
	return out
}

// everyday says whether a crate is one of those that GPU features turn on for other reasons (entrenar: cuda = [… "tokio" …]).
func everyday(crate string) bool {
	switch crate {
	case "tokio", "rayon", "libc", "log", "tracing", "num_cpus", "half", "bytemuck", "libloading", "once_cell", "lazy_static", "anyhow",
		"serde":
		return true
	}
	return false
}

// friends finds crates in which the feature has another meaning (glam, nalgebra) and says so.
func (k *rootJudge) friends(f string) bool {
	var list []int
	for _, i := range k.r.Linked {
		if c := k.Crate(i); c != nil && (c.Role == catalog.FalseFriend || c.Role == catalog.Monitor) &&
			slices.Contains(k.Nodes[i].Features, "cuda") {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return false
	}
	k.find(k.finding(IDOtherMeaning, Note, f, "`%s` of %s enables %s only: %s", f, k.label, k.names(list), k.Crate(list[0]).Notes))
	return true
}

func (k *rootJudge) byFile(f string) bool {
	for _, i := range k.r.Linked {
		if c := k.Crate(i); c != nil && c.Role == catalog.ByFile {
			find := k.finding(IDByFile, Note, f, "`%s` of %s does not decide: %s", f, k.label, c.Notes)
			if t := k.torch(k.r); t.Says != "" {
				find.Message += "; " + t.Says
				if t.CPU {
					find.Severity, find.Fix = Error, t.Fix
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
	}
	return false
}

func (k *rootJudge) names(list []int) string { return few(k.each(list)) }

// each names nodes, each once.
func (k *rootJudge) each(list []int) []string {
	var out []string
	for _, i := range list {
		out = manifest.Union(out, []string{k.name(i)})
	}
	return out
}

// areNames is the beginning of a sentence about the named.
func areNames(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return few(names) + " are"
}

func (k *rootJudge) via() string {
	if k.Graph != nil {
		return "cargo's unit graph"
	}
	return "cargo tree"
}

// artifact answers the program of another package to which a feature of the root goes, by an artifact dependency; empty when there is none.
func (k *rootJudge) artifact(f string) string {
	if k.pkg == nil || k.Graph == nil {
		return ""
	}
	_, edges := k.pkg.Closure([]string{f})
	for _, e := range edges {
		for _, d := range k.pkg.Dependencies {
			if d.Key != e.Dep || !d.Artifact {
				continue
			}
			for _, nd := range k.Nodes[k.r.Node].Deps {
				if n := &k.Nodes[nd.To]; n.Name == d.Package && k.Graph.Embeds(k.r.Node, nd.To) &&
					(e.Feature == "" || slices.Contains(n.Features, e.Feature)) {
					return n.Name
				}
			}
		}
	}
	return ""
}

// toArtifact says that a feature went to an embedded program and not to the crates that are linked.
func (k *rootJudge) toArtifact(f, program string, off []int) Finding {
	msg := fmt.Sprintf("`%s` of %s goes to %s, an artifact dependency: a program of its own", f, k.label, program)
	if len(off) > 0 {
		msg += fmt.Sprintf("; %s stays without CUDA", k.names(off))
	}
	return k.finding(IDUndecided, Note, f, "%s", msg)
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

// finding is about a feature of the root's package.
func (k *rootJudge) finding(id, severity, feature, format string, a ...any) Finding {
	f := Finding{Finding: finding.Finding{ID: id, Severity: severity, Message: fmt.Sprintf(format, a...), Evidence: k.via()}, Root: k.label}
	if k.pkg != nil {
		f.Path, f.Line = k.pkg.Manifest, k.pkg.FeatureLine(feature)
	}
	return f
}

func (v *view) lack(i int, feature string) Lack {
	return Lack{v.Nodes[i].Name, v.Nodes[i].Version, feature}
}
