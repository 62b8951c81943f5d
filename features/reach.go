package features

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/features/catalog"
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
}

// feature judges one GPU feature that is on in the root's own package.
func (k *rootJudge) feature(f string) {
	var on, off []int
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
		return // the root is itself a GPU crate: its feature is what it says
	}
	if len(on) > 0 { // siblings are judged elsewhere
		k.borrowed(f, on)
		return
	}
	where, gated := k.gated(f)
	unknown := k.carriedOn(f)
	switch program := k.artifact(f); {
	case program != "":
		k.find(k.toArtifact(f, program, off))
	case gated:
		msg := fmt.Sprintf("`%s` of %s gates code of its own (%s)", f, k.label, where)
		if len(off) > 0 {
			msg += fmt.Sprintf(" and leaves %s off", k.names(off))
		} else {
			msg += " and no known GPU crate is linked"
		}
		find := k.finding(IDUndecided, Note, f, "%s", msg+": what the binary holds decides")
		if len(off) == 0 {
			find = k.withOffer(find, f)
		} else if m := k.mend(f, meaningOf(f), off); len(m.plan()) > 0 { // its code may well count on them
			first := m.edits[0]
			find.Path, find.Line, find.Fix, find.Edits = first.pkg.Manifest, first.pkg.FeatureLine(f), first.line(), m.plan()
		}
		k.find(find)
	case len(off) > 0:
		k.unreached(f, off)
	case len(unknown) > 0:
		k.find(k.finding(IDUndecided, Note, f, "`%s` of %s reaches %s, of which nothing is known: what the binary holds decides", f,
			k.label, k.names(unknown)))
	case k.friends(f):
	case k.byFile(f):
	default:
		fix := ""
		msg := fmt.Sprintf("`%s` of %s changes nothing: it turns on nothing, gates nothing, and no GPU crate is linked", f, k.label)
		if weak := k.weakEdges(f); len(weak) > 0 {
			e := weak[0]
			msg = fmt.Sprintf("`%s` of %s changes nothing: `%s` takes effect only when something else turns `%s` on", f, k.label, e.Text,
				e.Dep)
			if turn := k.turnsOn(e.Dep); turn != "" {
				fix = fmt.Sprintf("--features %s,%s", f, turn)
			}
		} else if w := k.path(k.r, graph.Feature{Node: k.r.Node, Name: f}); w.End != "" {
			msg = fmt.Sprintf("`%s` of %s changes nothing: %s, and no GPU crate is linked", f, k.label, w.End)
		}
		find := k.finding(IDUnreached, Error, f, "%s", msg)
		find.Fix = fix
		if fix == "" {
			find = k.withOffer(find, f)
		}
		k.idle = append(k.idle, idleRoot{finding: find, platform: k.Nodes[k.r.Node].Platform})
	}
}

// borrowed tells of a feature that reaches nothing itself, while another edge of this build turns the crates on.
func (k *rootJudge) borrowed(f string, on []int) {
	if k.path(k.r, graph.Feature{Node: k.r.Node, Name: f}).Reached || k.Crate(k.r.Node).CUDA() {
		return
	}
	find := k.finding(IDBorrowed, Note, f, "`%s` of %s does not reach %s itself: "+
		"another edge of this build turns it on, and without that it stays off",
		f, k.label, k.names(on[:1]))
	if path, line, how := k.forcedBy(); how != "" {
		find.ID, find.Path, find.Line = IDForced, path, line
		find.Message = fmt.Sprintf("CUDA is on in %s whatever `%s` says: %s", k.label, f, how)
	}
	k.find(find)
}

// concerns says whether a CUDA crate has to do with a feature, and whether it has what the feature means.
func (v *view) concerns(i int, c *catalog.Crate, f string) (concerned, has bool) {
	feats := v.Nodes[i].Features
	if f == "cudnn" {
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

// gated says whether the feature gates code of the user's own linked packages, and where.
func (k *rootJudge) gated(f string) (string, bool) {
	for _, i := range k.r.Linked {
		n := &k.Nodes[i]
		if !n.Local || !slices.Contains(n.Features, f) || k.Crate(i) != nil && i != k.r.Node {
			continue
		}
		p := k.ManifestOf(i)
		if p == nil {
			continue
		}
		main := ""
		if i == k.r.Node {
			main = k.main
		}
		g := k.src.GateOf(p, f, n.Features, main)
		switch {
		case len(g.Files) > 0:
			return listed(n.Name, g.Files), true
		case g.Script:
			return n.Name + ": " + k.Host.Base(p.BuildScript), true
		case g.Calls && i == k.r.Node:
			return n.Name + ": " + k.Host.Base(p.BuildScript) + " calls nvcc", true
		}
	}
	return "", false
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
	for _, i := range k.r.Linked {
		if n := &k.Nodes[i]; i != k.r.Node && !n.Local && k.Crate(i) == nil && slices.Contains(n.Features, f) {
			out = append(out, i)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, i := range k.r.Linked { // edges under another name: cuda = ["engine/accelerated"]
		p := (*manifest.Package)(nil)
		if k.Nodes[i].Local && slices.Contains(k.Nodes[i].Features, f) {
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
	k.find(k.finding(IDOtherMeaning, Note, f, "`%s` of %s reaches %s only: %s", f, k.label, k.names(list), k.Crate(list[0]).Notes))
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

func (k *rootJudge) names(list []int) string {
	var out []string
	for _, i := range list {
		out = manifest.Union(out, []string{k.name(i)})
	}
	return strings.Join(out, ", ")
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
	msg := fmt.Sprintf("`%s` of %s goes to %s, an artifact dependency: a program of its own, which is judged for itself", f, k.label,
		program)
	if len(off) > 0 {
		msg += fmt.Sprintf("; %s, which %s links, stays off", k.names(off), k.label)
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

// findingIn is about a feature of another package.
func (k *rootJudge) findingIn(p *manifest.Package, id, severity, feature, format string, a ...any) Finding {
	f := k.finding(id, severity, feature, format, a...)
	f.Path, f.Line = p.Manifest, p.FeatureLine(feature)
	return f
}

func (v *view) lack(i int, feature string) Lack {
	return Lack{v.Nodes[i].Name, v.Nodes[i].Version, feature}
}
