package features

import (
	"cmp"
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

// goal is the feature by which the user asked for CUDA; empty when nothing was asked.
func (k *rootJudge) goal() string {
	goal := ""
	for _, f := range k.asked {
		if f == "cuda" || goal == "" || manifest.Meaning(goal) == "cudnn" && manifest.Meaning(f) == "cuda" {
			goal = f
		}
	}
	if goal == "" && len(k.qualified()) > 0 {
		return "cuda"
	}
	return goal
}

// qualified lists what was asked of named packages that has to do with GPUs: candle-core/cuda.
func (k *rootJudge) qualified() []string {
	var out []string
	for _, pkg := range slices.Sorted(maps.Keys(k.ask.Qualified)) {
		for _, f := range k.ask.Qualified[pkg] {
			if k.ask.IsCUDA(f) {
				out = append(out, pkg+"/"+f)
			}
		}
	}
	return out
}

// remnant is linked CUDA code that stays off.
type remnant struct {
	node  int // the root itself: its own code
	want  string
	lost  string // what is missing without it
	minor bool   // it is hardly missed
}

// left reports, as one finding, the CUDA code that stays off in a root although that of other crates is on. cudnn without the package's
// own cuda is a fault: nobody asks for cuDNN and means a program without CUDA. Else the program may do without what is off: a warning.
func (k *rootJudge) left() {
	goal := k.goal()
	if len(k.on) == 0 || goal == "" || goal != "cuda" && goal != "cudnn" && k.pkg != nil && k.pkg.Declares("cuda") {
		return // a feature next to the package's cuda is for a part of the CUDA code: embed-cuda
	}
	list := k.remnants()
	for i := range list {
		if p := k.ManifestOf(list[i].node); p != nil && k.pkg != nil && list[i].node != k.r.Node {
			list[i].minor = list[i].minor || k.plans().apart(k.pkg, goal, place{p.Manifest, list[i].want})
		}
	}
	if len(list) == 0 {
		return
	}
	severity, id, names := Note, IDSibling, []string{}
	if slices.ContainsFunc(list, func(m remnant) bool { return !m.minor }) {
		severity = Warning
	}
	lost := ""
	var lacks []Lack
	for _, m := range list {
		if m.minor && severity != Note {
			continue
		}
		names = manifest.Union(names, []string{k.name(m.node)})
		lost = cmp.Or(lost, m.lost)
		lacks = append(lacks, k.lack(m.node, m.want))
	}
	msg := fmt.Sprintf("`%s` of %s leaves %s without `%s`", goal, k.label, few(names), list[0].want)
	if len(k.asked) == 0 {
		msg = fmt.Sprintf("%s links %s without `%s`", k.label, few(names), list[0].want)
	}
	ownCUDA := k.pkg != nil && k.Nodes[k.r.Node].Local && k.pkg.Declares("cuda") && !slices.Contains(k.Nodes[k.r.Node].Features, "cuda") &&
		slices.ContainsFunc(list, func(m remnant) bool { return m.node == k.r.Node || k.wouldReach(m.node) })
	if alone := manifest.Meaning(goal) == "cudnn" && ownCUDA; alone {
		id = IDCudnnAlone
		if severity == Warning {
			severity = Error
		}
		msg = fmt.Sprintf("`%s` of %s does not enable `cuda`: the CUDA code of %s is not compiled", goal, k.label, few(names))
	} else if len(names) == 1 {
		msg += ": " + lost
	}
	f := k.finding(id, severity, goal, "%s", msg)
	f.Evidence += "; " + lost
	f.Lacks = lacks
	switch {
	case id == IDCudnnAlone && k.Project != nil && k.Project.IsMember(k.pkg):
		f.Edits = []edit.Edit{{Manifest: k.pkg.Manifest, Feature: goal, Add: []string{"cuda"}}}
		f.Fix = edit.FeatureLine(goal, manifest.Union([]string{"cuda"}, k.pkg.Features[goal]))
	case ownCUDA:
		f.Ask = []string{"cuda"}
	case len(k.asked) == 0 && k.pkg != nil:
		for _, m := range list {
			if key := k.directKey(m.node); key != "" {
				f.Ask = append(f.Ask, key+"/"+m.want)
			}
		}
	case k.pkg != nil && k.Project != nil:
		if m := k.plans().plan(k.pkg, goal); len(m.edits) > 0 && k.Project.Package(k.pkg.Manifest) == k.pkg {
			last := k.Project.Package(m.edits[len(m.edits)-1].Manifest)
			f.Path, f.Line, f.Fix, f.Edits = last.Manifest, last.FeatureLine(goal), k.toml(m.edits), m.edits
		}
	}
	k.find(f)
}

// remnants lists what stays off: of the root's own package, of other packages of the user's, and of known crates.
func (k *rootJudge) remnants() []remnant {
	var out []remnant
	// A request for a crate's own feature, or by another name than cuda, may be all that the package's own code needs.
	if p, where := k.ownCodeOff(); p != nil &&
		(slices.ContainsFunc(k.asked, func(f string) bool { return manifest.Meaning(f) == "cudnn" }) ||
			len(k.asked) == 0 && slices.ContainsFunc(k.on, func(i int) bool { return i != k.r.Node && k.wouldReach(i) })) {
		out = append(out, remnant{k.r.Node, "cuda", "its CUDA code (" + where + ") is not compiled", false})
	}
	for _, i := range k.r.Linked {
		n, c := &k.Nodes[i], k.Crate(i)
		if i == k.r.Node || k.Nodes[i].ID != "" && k.Nodes[i].ID == k.Nodes[k.r.Node].ID {
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
			g = k.src.GateOf(p, want, k.build(i, true), "")
			if !g.Any() && (c == nil || twin < 0) {
				continue // it only passes the feature on
			}
		}
		m := remnant{node: i, want: want, lost: "its CUDA code is not compiled"}
		if len(g.Files) > 0 {
			m.lost = "its CUDA code (" + listed(n.Name, g.Files) + ") is not compiled"
		}
		if c != nil {
			switch known := c.Lost[want]; {
			case known != "":
				m.lost = known
			case c.Minor[want] != "":
				m.lost, m.minor = c.Minor[want], true
			case p == nil && twin < 0:
				continue
			default:
				m.minor = true // a known crate of which no loss is known: it gates names, not code
			}
		}
		if twin >= 0 {
			m.lost += fmt.Sprintf(" (two copies of %s are linked: %s has it)", n.Name, k.Nodes[twin].Version)
		}
		out = append(out, m)
	}
	return out
}

// twin answers another copy of a crate that is linked into the same root with its CUDA code; -1 when there is none.
func (k *rootJudge) twin(i int, want string) int {
	for _, o := range k.r.Linked {
		if n := &k.Nodes[o]; o != i && n.Name == k.Nodes[i].Name && n.Version != k.Nodes[i].Version &&
			(slices.Contains(n.Features, want) || k.CUDAOn(o)) {
			return o
		}
	}
	return -1
}

// few names at most three.
func few(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
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
	switch g := k.src.GateOf(p, "cuda", k.build(k.r.Node, true), k.main); {
	case len(g.Files) > 0:
		return p, listed(n.Name, g.Files)
	case g.Any():
		return p, "its build script tests it"
	}
	return nil, ""
}

// weak reports x?/f edges whose x is off, where code is missing without it.
func (k *rootJudge) weak() {
	if len(k.on) == 0 { // else the feature itself was judged
		return
	}
	for _, i := range k.r.Linked {
		n, c := &k.Nodes[i], k.Crate(i)
		if !n.Local && (!c.CUDA() || k.goal() == "") {
			continue // of crates that nobody knows nothing is said, nor where CUDA was not asked for
		}
		p := (*manifest.Package)(nil)
		for _, f := range n.Features {
			if !k.ask.IsGPU(f) {
				continue
			}
			if p == nil {
				if p = k.ManifestOf(i); p == nil {
					break
				}
			}
			for _, e := range k.deadEdges(i, p, f) {
				k.weakEdge(i, p, f, e)
			}
		}
	}
}

func (k *rootJudge) weakEdge(i int, p *manifest.Package, f string, e manifest.Edge) {
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
	if turn == "" {
		return
	}
	what, c := "", k.Crate(i)
	switch {
	case c != nil: // sources of others are not searched: twelve megabytes for entrenar alone, at every build
		what = c.Together[e.Dep]
	case k.Nodes[i].Local:
		what = strings.Join(k.src.TestsBoth(p.Dir, turn, f), ", ")
	}
	if what == "" {
		return
	}
	find := k.finding(IDWeak, Warning, f, "%s has CUDA code for %s only with `%s` and `%s`, and `%s` is off",
		k.name(i), what, f, turn, turn)
	if k.Nodes[i].Local {
		find.Path, find.Line = p.Manifest, p.FeatureLine(f)
	}
	if key := k.directKey(i); i == k.r.Node {
		find.Ask = []string{turn}
	} else if key != "" {
		find.Ask = []string{key + "/" + turn}
	}
	k.find(find)
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
		if k.ask.IsGPU(f) {
			wanted = f
		}
	}
	switch {
	case len(k.on) == 0 && len(off) > 0 && wanted != "":
		k.find(k.finding(IDUndeclared, Note, wanted, "%s has no feature `%s`: %s stays without CUDA in it", k.label, wanted, k.names(off)))
	case len(k.on) > 0 && wanted == "" && len(k.qualified()) == 0:
		if path, line, how := k.forcedBy(); how != "" {
			find := k.finding(IDForced, Note, "", "CUDA is on in %s without a feature: %s", k.label, how)
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

// otherwise reports crates whose feature is on and does not decide.
func (k *rootJudge) otherwise() {
	for _, i := range k.r.Linked {
		if n := &k.Nodes[i]; n.Name == "ort" && slices.Contains(n.Features, "cuda") && slices.Contains(n.Features, "load-dynamic") {
			k.find(Finding{Finding: finding.Finding{ID: IDLoadDynamic, Severity: Note, Evidence: k.via(), Message: k.name(i) +
				" is built with load-dynamic: the ONNX Runtime library that it loads decides whether CUDA is used"}, Root: k.label})
		}
	}
}
