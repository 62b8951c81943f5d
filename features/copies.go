package features

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

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

// users names the linked packages that depend on a copy.
func (k *rootJudge) users(to int) []string {
	var out []string
	for _, i := range k.r.Linked {
		for _, d := range k.Nodes[i].Deps {
			if d.To == to {
				out = manifest.Union(out, []string{k.Nodes[i].Name})
			}
		}
	}
	return out
}

// twoCopies says which copy the edges lead to, and who uses the one that they do not.
func (k *rootJudge) twoCopies(i, twin int) string {
	users, verb := k.users(i), "uses"
	if len(users) > 1 {
		verb = "use"
	}
	return fmt.Sprintf("two copies of %s are linked: the edges lead to %s, and %s %s this one", k.Nodes[i].Name, k.Nodes[twin].Version,
		few(users), verb)
}

// strong tells of x/f edges behind a GPU feature of the user's packages that bring all of an optional dependency into the build, which
// nothing else asked for. One that is named beside it (dep:x, or its feature) is meant so.
func (k *rootJudge) strong() {
	for _, i := range k.r.Linked {
		n := &k.Nodes[i]
		p := (*manifest.Package)(nil)
		if n.Local && k.Crate(i) == nil {
			p = k.ManifestOf(i)
		}
		if p == nil {
			continue
		}
		for _, f := range k.ask.GPU {
			if !slices.Contains(n.Features, f) {
				continue
			}
			named, _ := p.Edges(f)
			for _, e := range named {
				if e.Dep == "" || e.Feature == "" || e.Weak || !p.Optional(e.Dep) || k.forGPU(p, f, e.Dep) ||
					k.brought(i, p, f, e.Dep, named) {
					continue
				}
				k.strongEdge(i, p, f, e)
			}
		}
	}
}

// forGPU says whether an optional dependency is there for the GPU alone: a
// crate that is known for it, and that no other feature of the package uses.
func (k *rootJudge) forGPU(p *manifest.Package, f, dep string) bool {
	var c *catalog.Crate
	for _, d := range p.Dependencies {
		if d.Key == dep && c == nil {
			c = k.Catalog.Crate(d.Package)
		}
	}
	if !c.CUDA() {
		return false
	}
	for other := range p.Features {
		edges, _ := p.Edges(other)
		for _, e := range edges {
			if other != f && !slices.Contains(k.ask.GPU, other) && c.Role != catalog.Carrier && !e.Weak &&
				(e.Dep == dep && e.Feature == "" || e.Dep == "" && e.Feature == dep) {
				return false
			}
		}
	}
	return true
}

// brought says whether something else than the edges of f to its features turns an optional dependency on.
func (k *rootJudge) brought(i int, p *manifest.Package, f, dep string, named []manifest.Edge) bool {
	turners := map[string]bool{}
	for _, t := range p.FeatureNames() {
		inside, edges := p.Closure([]string{t})
		for _, e := range edges {
			if e.Dep == dep && !e.Weak && !inside[f] {
				turners[t] = true
			}
		}
	}
	for _, e := range named {
		if e.Dep == dep && e.Feature == "" || e.Dep == "" && turners[e.Feature] {
			return true
		}
	}
	inside, _ := p.Closure([]string{f})
	for _, on := range k.Nodes[i].Features {
		if turners[on] && !inside[on] {
			return true
		}
	}
	if i == k.r.Node {
		for t := range turners {
			if slices.Contains(k.ask.Plain, t) || slices.Contains(k.ask.Qualified[p.Name], t) || k.ask.All {
				return true
			}
		}
	}
	for _, user := range k.r.Linked { // another package asks for it by the dependency's own feature
		up := k.ManifestOf(user)
		if up == nil {
			continue
		}
		for _, d := range up.Dependencies {
			if d.Package != p.Name || k.DepNode(user, d, k.r.Set) != i {
				continue
			}
			if overlap(d.Features, slices.Sorted(maps.Keys(turners))) {
				return true
			}
			_, edges := up.Closure(k.Nodes[user].Features)
			for _, e := range edges {
				if e.Dep == d.Key && turners[e.Feature] {
					return true
				}
			}
		}
	}
	return false
}

// onlyBy says whether all CUDA code of the root comes by way of one linked package.
func (k *rootJudge) onlyBy(through int) bool {
	seen := map[int]bool{k.r.Node: true, through: true}
	for queue := []int{k.r.Node}; len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		if k.CUDAOn(i) {
			return false
		}
		for _, d := range k.Nodes[i].Deps {
			if k.r.Set[d.To] && !seen[d.To] {
				seen[d.To] = true
				queue = append(queue, d.To)
			}
		}
	}
	return len(k.on) > 0
}

func (k *rootJudge) strongEdge(i int, p *manifest.Package, f string, e manifest.Edge) {
	crate, only := e.Dep, false
	for _, d := range p.Dependencies {
		if d.Key == e.Dep {
			if to := k.DepNode(i, d, k.r.Set); to >= 0 {
				crate, only = k.name(to), k.onlyBy(to)
			}
		}
	}
	for _, t := range slices.Sorted(maps.Keys(p.Features)) {
		for _, other := range p.Features[t] {
			only = only && (t == f || other != "dep:"+e.Dep && other != e.Dep)
		}
	}
	if only { // no CUDA without it, and no feature that is there for it: it is what is asked for
		return
	}
	weak := e.Dep + "?/" + e.Feature
	list := []string{}
	for _, s := range p.Features[f] {
		if s == e.Text {
			s = weak
		}
		list = append(list, s)
	}
	find := k.findingIn(p, IDStrong, Note, f, "`%s` in `%s` of %s brings all of %s into the build: "+
		"it is optional, and nothing else asks for it",
		e.Text, f, p.Name, crate)
	find.Fix = "if it is to be used only where another feature turns it on: " + edit.FeatureLine(f, list)
	k.find(find)
}

// hostCopies names crates whose feature only a build script's or proc-macro's copy has, for each fault that is about such a crate.
func (j *judge) hostCopies() {
	if j.Graph == nil || j.Project == nil || j.out.Unsure {
		return
	}
	linked := map[int]bool{}
	for _, i := range j.linkedAnywhere() {
		linked[i] = true
	}
	for _, f := range slices.Clone(j.out.Findings) {
		for _, l := range f.Lacks {
			if f.Severity == Error {
				j.hostCopy(f, l, linked)
			}
		}
	}
}

func (j *judge) hostCopy(fault Finding, l Lack, linked map[int]bool) {
	for i := range j.Nodes {
		if n := &j.Nodes[i]; linked[i] || n.Name != l.Crate || n.Version != l.Version || !slices.Contains(n.Features, l.Feature) {
			continue
		}
		pkg, _, _ := strings.Cut(fault.Root, " (")
		f := Finding{Finding: finding.Finding{ID: IDHostCopy, Severity: Note, Evidence: "cargo's unit graph", Message: fmt.Sprintf(
			"%s %s has `%s` in this build, but only in a copy for build scripts or proc-macros, which is not linked into %s", l.Crate,
			l.Version, l.Feature, pkg)}, Root: pkg}
		for _, m := range j.Project.Members {
			if m.Name == pkg {
				f.Path, f.Line = m.Manifest, m.FeatureLine("cuda")
			}
		}
		j.find(f)
		return
	}
}

// few names at most three.
func few(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}
