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

// goal is the feature by which the user asked for GPU work; empty when nothing was asked.
func (k *rootJudge) goal() string {
	for _, f := range append([]string{"cuda"}, k.asked...) {
		if slices.Contains(k.asked, f) {
			return f
		}
	}
	if len(k.qualified()) > 0 {
		return "cuda"
	}
	return ""
}

// qualified lists what was asked of named packages that has to do with GPUs: candle-core/cuda.
func (k *rootJudge) qualified() []string {
	var out []string
	for _, pkg := range slices.Sorted(maps.Keys(k.ask.Qualified)) {
		for _, f := range k.ask.Qualified[pkg] {
			if slices.Contains(k.ask.GPU, f) {
				out = append(out, pkg+"/"+f)
			}
		}
	}
	return out
}

// siblings reports linked crates whose own CUDA code is left off while that of others is on.
func (k *rootJudge) siblings() {
	goal := k.goal()
	if len(k.on) == 0 || goal == "" {
		return
	}
	var found []Finding
	for _, i := range k.r.Linked {
		n, c := &k.Nodes[i], k.Crate(i)
		if i == k.r.Node {
			continue
		}
		want := "cuda"
		switch {
		case c != nil:
			if c.Role != catalog.Gated || !c.CUDA() || c.On(n.Features) {
				continue
			}
			want = c.Means("cuda")
		case !n.Local:
			continue // a crate that nobody knows: its feature may mean anything
		}
		if slices.Contains(n.Features, want) || !k.Declares(i, want) {
			continue
		}
		p := k.ManifestOf(i)
		twin := k.twin(i, want)
		var g source.Gating
		if p != nil {
			g = k.src.GateOf(p, want, n.Features, "")
			if !g.Any() && (c == nil || twin < 0) {
				continue // it only passes the feature on
			}
		}
		gates := fmt.Sprintf("what it gates by `%s`", want)
		if len(g.Files) > 0 && c == nil {
			gates += " (" + listed(n.Name, g.Files) + ")"
		}
		lost := gates + " is not in this build"
		severity := Warning
		if c != nil {
			switch known := c.Lost[want]; {
			case known != "":
				lost = known
			case c.Minor[want] != "":
				lost, severity = c.Minor[want], Note
			case p == nil && twin < 0:
				continue
			default:
				severity = Note // a known crate of which no loss is known: it gates names, not code
			}
		}
		id, msg := IDSibling, fmt.Sprintf("%s is linked without `%s`: %s", k.name(i), want, lost)
		if slices.Contains(n.Features, "cudnn") {
			id, msg = IDCudnnAlone, fmt.Sprintf("%s is linked with `cudnn` but without `%s`: %s", k.name(i), want, lost)
		}
		if twin >= 0 {
			msg += " (" + k.twoCopies(i, twin) + ")"
		}
		evidence := k.via()
		if len(g.Files) > 0 {
			evidence += fmt.Sprintf("; %d of its files test the feature (%s)", len(g.Files), strings.Join(g.Files[:min(3, len(g.Files))],
				", "))
		}
		f := k.finding(id, severity, goal, "%s", msg)
		f.Evidence, f.Lacks = evidence, []Lack{k.lack(i, want)}
		if goal == "cudnn" && k.pkg != nil && k.Nodes[k.r.Node].Local && k.pkg.Declares("cuda") && k.wouldReach(i) {
			f.Fix, f.Edits = ownCUDA(k.pkg), k.ownEdit(k.pkg)
		} else if f.Fix = k.commandLine(i, want); f.Fix == "" {
			m := k.mend(goal, "cuda", []int{i})
			for _, e := range m.edits {
				if len(e.add) > 0 {
					f.Path, f.Line, f.Fix, f.Edits = e.pkg.Manifest, e.pkg.FeatureLine(goal), m.lines(e), m.plan()
					break
				}
			}
		}
		found = append(found, f)
	}
	for _, f := range together(found) {
		k.find(f)
	}
}

// together makes one finding of those that one edit mends: what is lost is told of each crate.
func together(found []Finding) []Finding {
	var out []Finding
	for _, f := range found {
		same := -1
		for i := range out {
			if o := &out[i]; f.Fix != "" && o.ID == f.ID && o.Severity == f.Severity && o.Path == f.Path && o.Fix == f.Fix {
				same = i
			}
		}
		if same < 0 {
			out = append(out, f)
			continue
		}
		out[same].Message += "; " + f.Message
	}
	return out
}

// commandLine mends what was asked as dep/feature on the command line by more of the same; empty where an edge must be written.
func (k *rootJudge) commandLine(i int, want string) string {
	if len(k.asked) > 0 || k.pkg == nil {
		return ""
	}
	if k.pkg.Declares("cuda") && k.wouldReach(i) {
		return "--features cuda"
	}
	if key := k.directKey(i); key != "" {
		return "--features " + strings.Join(append(k.qualified(), key+"/"+want), ",")
	}
	return ""
}

// wouldReach says whether the root's own cuda feature leads to the crate's, by manifests and what is linked.
func (k *rootJudge) wouldReach(i int) bool {
	want := "cuda"
	if c := k.Crate(i); c != nil {
		want = c.Means("cuda")
	}
	return k.Carried(k.r, graph.Feature{Node: k.r.Node, Name: "cuda"})[graph.Feature{Node: i, Name: want}]
}

// ownCodeOff answers the root's package where its own cuda is off and gates code, and where that is; nil where it does not.
func (k *rootJudge) ownCodeOff() (p *manifest.Package, where string) {
	n := &k.Nodes[k.r.Node]
	if p = k.pkg; p == nil || slices.Contains(n.Features, "cuda") || !p.Declares("cuda") {
		return nil, ""
	}
	switch g := k.src.GateOf(p, "cuda", n.Features, k.main); {
	case len(g.Files) > 0:
		return p, listed(n.Name, g.Files)
	case g.Any():
		return p, "its build script tests it"
	}
	return nil, ""
}

// cudnnAlone reports a root whose cudnn is on and whose own code for cuda is off: everything is compiled for the GPU and runs on the CPU.
func (k *rootJudge) cudnnAlone() {
	if !slices.Contains(k.asked, "cudnn") {
		return
	}
	p, where := k.ownCodeOff()
	if p == nil {
		return
	}
	find := k.finding(IDCudnnAlone, Error, "cudnn",
		"`cudnn` of %s does not turn on its own `cuda`, which gates its code (%s): it computes on the CPU", k.label, where)
	find.Fix, find.Lacks, find.Edits = ownCUDA(p), []Lack{k.lack(k.r.Node, "cuda")}, k.ownEdit(p)
	k.find(find)
}

// ownOff reports a root that was asked for the GPU by another feature than its own cuda, or by a feature of a dependency: the crates
// compute on the GPU, and the root's own code for that is not in the program. A cuda of its own that leads to none of these crates belongs
// to another engine.
func (k *rootJudge) ownOff() {
	if len(k.on) == 0 || k.goal() == "" || slices.Contains(k.asked, "cuda") || slices.Contains(k.asked, "cudnn") {
		return
	}
	p, where := k.ownCodeOff()
	if p == nil || !slices.ContainsFunc(k.on, func(i int) bool { return i != k.r.Node && k.wouldReach(i) }) {
		return
	}
	find := k.finding(IDOwnOff, Error, "cuda", "`cuda` of %s is off, and gates its own code (%s): "+
		"the GPU crates are on, and it does not use them", k.label, where)
	find.Fix, find.Lacks = "--features cuda, too", []Lack{k.lack(k.r.Node, "cuda")}
	k.find(find)
}

// ownCUDA is a package's cudnn with its own cuda in front.
func ownCUDA(p *manifest.Package) string {
	return edit.FeatureLine("cudnn", manifest.Union([]string{"cuda"}, p.Features["cudnn"]))
}

// weak reports x?/f edges of the user's packages whose x is off.
func (k *rootJudge) weak() {
	if len(k.on) == 0 { // else the feature itself was judged
		return
	}
	for _, i := range k.r.Linked {
		n := &k.Nodes[i]
		if !n.Local && (!k.Crate(i).CUDA() || k.goal() == "") {
			continue // of crates that nobody knows nothing is said, nor where CUDA was not asked for
		}
		for _, f := range k.ask.GPU {
			if !slices.Contains(n.Features, f) {
				continue
			}
			p := k.ManifestOf(i)
			if p == nil {
				continue
			}
			for _, e := range k.deadEdges(i, p, f) {
				k.weakEdge(i, p, f, e)
			}
		}
	}
}

func (k *rootJudge) weakEdge(i int, p *manifest.Package, f string, e manifest.Edge) {
	find := k.finding(IDWeak, Note, f, "`%s` in `%s` of %s has no effect: nothing turns `%s` on", e.Text, f, p.Name, e.Dep)
	turn := e.Dep
	if !p.Implicit(e.Dep) {
		turn = ""
		for _, name := range slices.Sorted(maps.Keys(p.Features)) {
			if slices.Contains(p.Features[name], "dep:"+e.Dep) {
				turn = name
				break
			}
		}
	}
	mine := k.Nodes[i].Local
	if mine {
		find.Path, find.Line = p.Manifest, p.FeatureLine(f)
	}
	if turn != "" {
		if !mine {
			// Sources of others are not searched: twelve megabytes for entrenar alone, at every build.
			if lost := k.Crate(i).Together[e.Dep]; lost != "" {
				find.Severity = Warning
				find.Message = fmt.Sprintf("%s has CUDA code for %s only with `%s` and `%s` together, and nothing turns `%s` on",
					k.name(i), lost, e.Dep, f, e.Dep)
			}
		} else if files := k.src.TestsBoth(p.Dir, turn, f); len(files) > 0 {
			find.Severity = Warning
			find.Message += fmt.Sprintf("; code that needs `%s` and `%s` together is not in this build", turn, f)
			find.Evidence += fmt.Sprintf("; %s", listed(p.Name, files))
		}
		switch key := k.directKey(i); {
		case i == k.r.Node:
			find.Fix = fmt.Sprintf("--features %s,%s", f, turn)
		case mine || key != "":
			find.Fix = fmt.Sprintf("--features %s,%s/%s", strings.Join(k.commandFeatures(f), ","), orElse(key, p.Name), turn)
		}
	}
	if mine || find.Severity == Warning { // how others write their manifests is their business, unless code is missing
		k.find(find)
	}
}

// directKey is the name by which the root's package depends on another; empty when it does not.
func (k *rootJudge) directKey(i int) string {
	if k.pkg == nil {
		return ""
	}
	for _, d := range k.Nodes[k.r.Node].Deps {
		if dep, ok := k.DepFor(k.pkg, d); ok && d.To == i {
			return dep.Key
		}
	}
	return ""
}

// commandFeatures lists the GPU features as they were asked for; f where none was.
func (k *rootJudge) commandFeatures(f string) []string {
	if len(k.asked) > 0 {
		return k.asked
	}
	if q := k.qualified(); len(q) > 0 {
		return q
	}
	return []string{f}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// unasked judges a root whose own package has no GPU feature on.
func (k *rootJudge) unasked() {
	if len(k.asked) > 0 {
		return
	}
	var off []int
	for _, i := range k.r.Linked {
		if c := k.Crate(i); c.CUDA() && c.Role == catalog.Gated && !c.On(k.Nodes[i].Features) {
			off = append(off, i)
		}
	}
	wanted := ""
	for _, f := range k.ask.Plain {
		if slices.Contains(k.ask.GPU, f) {
			wanted = f
		}
	}
	switch {
	case len(k.on) == 0 && len(off) > 0 && wanted != "":
		k.find(k.finding(IDUndeclared, Note, wanted, "%s has no feature `%s`: %s stays off in it", k.label, wanted, k.names(off)))
	case len(k.on) > 0 && wanted == "" && len(k.qualified()) == 0:
		if path, line, how := k.forcedBy(); how != "" {
			find := k.finding(IDForced, Note, "", "CUDA is on in %s without any feature asked for: %s", k.label, how)
			find.Path, find.Line = path, line
			k.find(find)
		}
	}
}

// forcedBy finds the dependency entry that turns CUDA on whatever features are chosen.
func (k *rootJudge) forcedBy() (path string, line int, how string) {
	for _, i := range k.r.Linked {
		if !k.Nodes[i].Local {
			continue
		}
		p := k.ManifestOf(i)
		if p == nil {
			continue
		}
		for _, d := range p.Dependencies {
			to := k.DepNode(i, d, k.r.Set)
			if to < 0 || d.Optional || d.Kind == manifest.Dev && k.Nodes[i].Name != k.Nodes[k.r.Node].Name {
				continue
			}
			c := k.Crate(to)
			if !c.CUDA() || !c.On(k.Nodes[to].Features) || c.Role == catalog.Gated && !c.On(d.Features) {
				continue
			}
			what := fmt.Sprintf("%s depends on %s", p.Name, c.Name)
			if c.Role == catalog.Gated {
				what = fmt.Sprintf("%s depends on %s with features %s", p.Name, c.Name, strings.Join(d.Features, ", "))
			}
			return p.Manifest, p.DependencyLine(d), what
		}
	}
	return "", 0, ""
}

// otherwise tells of crates whose feature is on and does not decide.
func (k *rootJudge) otherwise() {
	for _, i := range k.r.Linked {
		if n := &k.Nodes[i]; n.Name == "ort" && slices.Contains(n.Features, "cuda") && slices.Contains(n.Features, "load-dynamic") {
			k.find(Finding{Finding: finding.Finding{ID: IDLoadDynamic, Severity: Note, Evidence: k.via(), Message: k.name(i) +
				" is built with load-dynamic: the ONNX Runtime library that it loads decides whether CUDA is used"}, Root: k.label})
		}
	}
}
