package features

import "fmt"

// Artifact dependencies (nightly's -Zbindeps) are programs that a package embeds or starts: built for it, with features that its manifest turns on, and linked
// into nothing. Each is a root of its own here.
// Source: the cargo book, unstable.md, "Artifact dependencies"; seen in unit graphs of 1.97 nightly: a unit of kind bin among the dependencies of another package's.

// embeds says whether a unit depends on another only as a program.
func (g *Graph) embeds(user, dep int) bool {
	d := &g.Units[dep]
	return contains(d.Target.Kind, "bin") && d.Mode != "test" && d.PkgID != g.Units[user].PkgID
}

// embedded lists the programs that what is linked into the given roots embeds, and those that they embed.
func (g *Graph) embedded(roots []int) []int {
	some := false // nearly always there is none: no root is walked for it
	for i := range g.Units {
		for _, d := range g.Units[i].Dependencies {
			some = some || g.embeds(i, d.Index)
		}
	}
	if !some {
		return nil
	}
	var out []int
	seen := map[int]bool{}
	for _, r := range roots {
		seen[r] = true
	}
	for queue := append([]int{}, roots...); len(queue) > 0; queue = queue[1:] {
		for _, i := range g.Linked(queue[0]) {
			for _, d := range g.Units[i].Dependencies {
				if g.embeds(i, d.Index) && !seen[d.Index] {
					seen[d.Index] = true
					out = append(out, d.Index)
					queue = append(queue, d.Index)
				}
			}
		}
	}
	return out
}

// artifact answers the program of another package to which a feature of the root goes, by an artifact dependency; empty when there is none.
func (k *rootJudge) artifact(f string) string {
	p := k.manifestOf(k.r.node)
	if p == nil || k.graph == nil {
		return ""
	}
	_, edges := p.closure([]string{f})
	for _, e := range edges {
		for _, d := range p.Dependencies {
			if d.Key != e.Dep || !d.Artifact {
				continue
			}
			for _, nd := range k.nodes[k.r.node].deps {
				if n := &k.nodes[nd.to]; n.name == d.Package && k.graph.embeds(k.r.node, nd.to) && (e.Feature == "" || contains(n.features, e.Feature)) {
					return n.name
				}
			}
		}
	}
	return ""
}

// toArtifact says that a feature went to an embedded program and not to the crates that are linked.
func (k *rootJudge) toArtifact(f, program string, off []int) Finding {
	msg := fmt.Sprintf("`%s` of %s goes to %s, an artifact dependency: a program of its own, which is judged for itself", f, k.label, program)
	if len(off) > 0 {
		msg += fmt.Sprintf("; %s, which %s links, stays off", k.names(off), k.label)
	}
	return Finding{ID: IDUndecided, Severity: Note, Message: msg, Path: k.manifestPath(), Line: k.featureLine(f), Evidence: k.via(), Root: k.label}
}
