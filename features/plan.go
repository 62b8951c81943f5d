package features

// plan lists the edits of a mend so that each can be written after the ones it leans on: a feature is declared before another package
// names it, and a workspace in which only the first ones were written is still one that cargo reads. It is empty when one of them would
// be in a manifest outside the workspace.
func (m *mender) plan() []Edit {
	var left []*edit
	for _, e := range m.edits {
		if len(e.add) == 0 {
			continue
		}
		if m.project == nil || !m.project.isMember(e.pkg) {
			return nil
		}
		left = append(left, e)
	}
	var out []Edit
	for len(left) > 0 {
		at := 0 // packages cannot depend on each other in a circle; if they seem to, the first one goes first
		for i, e := range left {
			if !leansOn(e, left) {
				at = i
				break
			}
		}
		out = append(out, Edit{Manifest: left[at].pkg.Manifest, Feature: left[at].feature, Add: left[at].add})
		left = append(left[:at:at], left[at+1:]...)
	}
	return out
}

// leansOn says whether an edit names a feature that another one of the list is yet to write.
func leansOn(e *edit, list []*edit) bool {
	for _, s := range e.add {
		edge := ParseEdge(s)
		for _, d := range e.pkg.Dependencies {
			if d.Key != edge.Dep {
				continue
			}
			for _, o := range list {
				if o != e && o.pkg.Name == d.Package && o.feature == edge.Feature {
					return true
				}
			}
		}
	}
	return false
}

// ownEdit turns a package's own cuda on by its cudnn.
func (k *rootJudge) ownEdit(p *Package) []Edit {
	if k.project == nil || !k.project.isMember(p) {
		return nil
	}
	return []Edit{{Manifest: p.Manifest, Feature: "cudnn", Add: []string{"cuda"}}}
}
