package features

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// change is one feature of one manifest that lacks edges.
type change struct {
	pkg     *manifest.Package
	feature string
	add     []string
}

// line is the feature as it should stand in the manifest.
func (e *change) line() string { return edit.WithEdges(e.pkg, e.feature, e.add...) }

// mender looks for the edges that would carry a feature from a root to the crates that want it.
type mender struct {
	*rootJudge
	feature string // as the user's packages call it
	cuda    string // what is meant by it: cuda or cudnn
	want    map[int]bool
	leads   map[int]bool // nodes from which a wanted crate is reached
	seen    map[int]bool
	edits   []*change
	editOf  map[*manifest.Package]*change
	blocked []int // packages of others that do not pass the feature on
}

func (k *rootJudge) mend(feature, meaning string, want []int) *mender {
	m := &mender{rootJudge: k, feature: feature, cuda: meaning, want: map[int]bool{}, seen: map[int]bool{},
		editOf: map[*manifest.Package]*change{}}
	for _, i := range want {
		m.want[i] = true
	}
	m.leads = k.LeadingTo(k.r, func(i int) bool { return m.want[i] })
	m.walk(k.r.Node)
	return m
}

func (m *mender) edit(p *manifest.Package) *change {
	if e := m.editOf[p]; e != nil {
		return e
	}
	e := &change{pkg: p, feature: m.feature}
	m.edits, m.editOf[p] = append(m.edits, e), e
	return e
}

// lines is the feature as it should stand in the first manifest, and what the others that lie on the way lack.
func (m *mender) lines(first *change) string {
	out := first.line()
	for _, e := range m.edits {
		if e != first && len(e.add) > 0 {
			out += "  and in " + e.pkg.Name + ":  " + strings.ReplaceAll(e.line(), "\n", " ")
		}
	}
	return out
}

func (m *mender) walk(i int) {
	if m.seen[i] {
		return
	}
	m.seen[i] = true
	p := m.ManifestOf(i)
	if p == nil || !m.Nodes[i].Local {
		return
	}
	deps := slices.Clone(m.Nodes[i].Deps) // cargo's graph and the one from manifests have them in another order
	sort.SliceStable(deps, func(a, b int) bool { return m.Nodes[deps[a].To].Name < m.Nodes[deps[b].To].Name })
	for _, nd := range deps {
		if !m.r.Set[nd.To] || !m.leads[nd.To] {
			continue
		}
		d, ok := m.DepFor(p, nd)
		if !ok {
			continue
		}
		key := d.Key + "/"
		if d.Optional {
			key = d.Key + "?/"
		}
		c := m.Crate(nd.To)
		switch {
		case m.want[nd.To]:
			f := m.feature
			switch p := m.ManifestOf(nd.To); {
			case c != nil:
				f = c.Means(m.cuda)
			case p != nil && !p.Declares(f) && p.Declares("cuda"): // an own crate that has no cudnn
				f = "cuda"
			}
			m.add(p, key+f)
		case m.Nodes[nd.To].Local:
			if !slices.Contains(m.Nodes[nd.To].Features, m.feature) {
				m.add(p, key+m.feature)
			}
			m.walk(nd.To)
		case c != nil && c.On(m.Nodes[nd.To].Features):
		case m.Declares(nd.To, m.cuda) && !slices.Contains(m.Nodes[nd.To].Features, m.cuda):
			m.add(p, key+m.cuda)
		default:
			m.blocked = append(m.blocked, nd.To)
		}
	}
}

func (m *mender) add(p *manifest.Package, edge string) {
	have := p.Features[m.feature]
	if slices.Contains(have, edge) || slices.Contains(have, strings.Replace(edge, "?/", "/", 1)) {
		return
	}
	e := m.edit(p)
	e.add = manifest.Union(e.add, []string{edge})
}

// unreached reports a feature that leaves GPU crates off and gates nothing.
func (k *rootJudge) unreached(f string, off []int) {
	meaning := meaningOf(f)
	m := k.mend(f, meaning, off)
	msg := fmt.Sprintf("`%s` of %s does not reach %s and gates nothing: ", f, k.label, k.names(off))
	if f == "cudnn" {
		msg += "cuDNN is not used"
	} else {
		msg += "the program computes on the CPU"
	}
	evidence := k.via() + k.hostOnly(off)
	made := false
	plan, lacks := m.plan(), k.lacks(off, meaning)
	for _, e := range m.edits {
		if len(e.add) == 0 {
			continue
		}
		find := k.findingIn(e.pkg, IDUnreached, Error, f, "%s", msg)
		find.Fix, find.Evidence, find.Lacks, find.Edits = e.line(), evidence, lacks, plan
		if made { // one fault, which several manifests mend
			find.Message = fmt.Sprintf("%s, which lies on the way from %s, does not pass `%s` on either", e.pkg.Name, k.label, f)
			find.Edits, find.line, find.beside = nil, lineAt{feature: e.feature, edges: e.add}, true
		}
		made = true
		k.find(find)
	}
	if made {
		return
	}
	fix := ""
	if len(m.blocked) > 0 {
		c := k.Nodes[off[0]]
		fix = fmt.Sprintf("%s = [\"%s/%s\"], with %s = \"%s\" among [dependencies]", f, c.Name, meaning, c.Name, c.Version)
		msg += fmt.Sprintf(" (%s does not pass the feature on)", k.names(m.blocked))
	}
	find := k.finding(IDUnreached, Error, f, "%s", msg)
	find.Fix, find.Evidence, find.Lacks = fix, evidence, lacks
	k.find(find)
}

// lacks names the feature that each of these crates is without.
func (k *rootJudge) lacks(off []int, meaning string) []Lack {
	var out []Lack
	for _, i := range off {
		f := meaning
		if c := k.Crate(i); c != nil {
			f = c.Means(meaning)
		}
		out = append(out, k.lack(i, f))
	}
	return out
}

// hostOnly tells of copies of the same crates that have CUDA but are part of a build script or proc-macro only.
func (k *rootJudge) hostOnly(off []int) string {
	for _, i := range off {
		for o := range k.Nodes {
			if c := k.Crate(o); k.r.Set[o] || k.Nodes[o].Name != k.Nodes[i].Name || !c.On(k.Nodes[o].Features) {
				continue
			}
			elsewhere := false // another root may link it
			for _, r := range k.Roots {
				elsewhere = elsewhere || r.Set[o]
			}
			if !elsewhere {
				return "; " + k.name(o) + " has it only in a copy for build scripts or proc-macros, which is not linked"
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

// plan lists the edits of a mend so that each can be written after the ones it leans on: a feature is declared before another package
// names it, and a workspace in which only the first ones were written is still one that cargo reads. It is empty when one of them would
// be in a manifest outside the workspace.
func (m *mender) plan() []edit.Edit {
	var left []*change
	for _, e := range m.edits {
		if len(e.add) == 0 {
			continue
		}
		if m.Project == nil || !m.Project.IsMember(e.pkg) {
			return nil
		}
		left = append(left, e)
	}
	type named struct{ pkg, feature string }
	by := map[named][]int{}
	for i, e := range left {
		by[named{e.pkg.Name, e.feature}] = append(by[named{e.pkg.Name, e.feature}], i)
	}
	leans, carries := make([]int, len(left)), make([][]int, len(left)) // on how many others each leans, and which lean on it
	for i, e := range left {
		for _, s := range e.add {
			edge := manifest.ParseEdge(s)
			for _, d := range e.pkg.Dependencies {
				if d.Key != edge.Dep {
					continue
				}
				for _, o := range by[named{d.Package, edge.Feature}] {
					if o != i {
						leans[i]++
						carries[o] = append(carries[o], i)
					}
				}
			}
		}
	}
	out := make([]edit.Edit, 0, len(left))
	written := make([]bool, len(left))
	for range left {
		at := -1
		for i := range left {
			// packages cannot depend on each other in a circle; if they seem to, the first one goes first
			if !written[i] && (at < 0 || leans[i] == 0) {
				if at = i; leans[i] == 0 {
					break
				}
			}
		}
		written[at] = true
		for _, i := range carries[at] {
			leans[i]--
		}
		out = append(out, edit.Edit{Manifest: left[at].pkg.Manifest, Feature: left[at].feature, Add: left[at].add})
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// ownEdit turns a package's own cuda on by its cudnn.
func (k *rootJudge) ownEdit(p *manifest.Package) []edit.Edit {
	if k.Project == nil || !k.Project.IsMember(p) {
		return nil
	}
	return []edit.Edit{{Manifest: p.Manifest, Feature: "cudnn", Add: []string{"cuda"}}}
}
