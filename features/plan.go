package features

import (
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

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
