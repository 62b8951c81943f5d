package features

import (
	"maps"
	"slices"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// EdgeCheck judges feature edges from manifests alone: those between the workspace's members and those to GPU crates. It knows no
// selection; whether a build is hurt is Judge's to say.
type EdgeCheck struct {
	*view
	code  map[featureOf]bool               // known answers of hasCode
	reach map[featureOf]map[featureOf]bool // and of carried
}

type featureOf struct{ pkg, feature string }

// NewEdgeCheck prepares a check of a workspace.
func NewEdgeCheck(h buildenv.Host, p *manifest.Project) (*EdgeCheck, error) {
	cat, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	return &EdgeCheck{view: newView(h, p, cat, &graph.Graph{}, nil), code: map[featureOf]bool{},
		reach: map[featureOf]map[featureOf]bool{}}, nil
}

// All checks every GPU feature of every member, and names members that have no such feature although a dependency has one.
func (c *EdgeCheck) All(gpu []string) []Finding {
	var out []Finding
	for _, q := range c.Project.Questions(gpu) {
		out = append(out, c.Of(q)...)
	}
	return append(out, c.undeclared()...)
}

// Of finds the direct dependencies that have a member's GPU feature, too, and to which it is not passed on. A missing edge is a warning
// where CUDA code lies behind it and no other edge of the feature leads there, else a note.
func (c *EdgeCheck) Of(q manifest.Question) []Finding {
	var out []Finding
	passed, carried := q.Package.PassedOn(q.Feature), map[featureOf]bool(nil)
	for _, d := range q.Package.Dependencies {
		crate := c.Catalog.Crate(d.Package)
		if d.Kind != manifest.Normal || crate != nil && crate.Role == catalog.FalseFriend {
			continue
		}
		want := q.Feature
		to := c.Project.Declaring(d)
		switch {
		case to != nil:
			if !to.Declares(want) || to.ProcMacro || implied(passed, d, to, want) {
				continue
			}
		case crate.CUDA() && crate.Role == catalog.Gated && slices.Contains(crate.CUDAFeatures, crate.Means(want)):
			// its sources are not on this machine
			want = crate.Means(want)
		default:
			continue
		}
		if passed[d.Key+"/"+want] {
			continue
		}
		edge := d.Key + "/" + want
		if d.Optional {
			edge = d.Key + "?/" + want
		}
		f := Finding{Finding: finding.Finding{ID: IDPropagation, Severity: Note, Path: q.Package.Manifest,
			Line: q.Package.FeatureLine(q.Feature), Evidence: "manifests", Fix: edit.WithEdges(q.Package, q.Feature, edge)},
			Root: q.Package.Name, line: lineAt{q.Feature, []string{edge}, []string{d.Package}}}
		if carried == nil { // most members lack nothing
			carried = c.carried(q.Package, q.Feature)
		}
		if at := (featureOf{d.Package, want}); !carried[at] && c.hasCode(to, at) {
			f.Severity = Warning
		}
		f.Message = propagationMessage([]Finding{f})
		out = append(out, f)
	}
	return out
}

// carried lists what a feature turns on in other packages, as far as manifests on this machine show it.
func (c *EdgeCheck) carried(p *manifest.Package, feature string) map[featureOf]bool {
	key := featureOf{p.Name, feature}
	if known, ok := c.reach[key]; ok {
		return known
	}
	out := map[featureOf]bool{}
	c.reach[key] = out // packages do not depend on each other in a circle
	_, edges := p.Closure([]string{feature})
	for _, e := range edges {
		for _, d := range p.Dependencies {
			to := featureOf{d.Package, e.Feature}
			if d.Key != e.Dep || d.Kind != manifest.Normal || out[to] {
				continue
			}
			out[to] = true
			if m := c.Project.Declaring(d); m != nil && e.Feature != "" {
				own, _ := m.Closure([]string{e.Feature})
				for f := range own {
					out[featureOf{m.Name, f}] = true
				}
				maps.Copy(out, c.carried(m, e.Feature))
			}
		}
	}
	return out
}

// hasCode says whether CUDA code may lie behind a feature of a dependency: it is a GPU crate, tests the feature, or depends on a package of
// which that is true, whether or not an edge leads there today.
func (c *EdgeCheck) hasCode(p *manifest.Package, at featureOf) bool {
	if known, ok := c.code[at]; ok {
		return known
	}
	c.code[at] = false // for a circle of packages
	crate := c.Catalog.Crate(at.pkg)
	has := crate.CUDA()
	if p != nil && !has && (crate == nil || crate.Role != catalog.FalseFriend) {
		has = c.src.GateOf(p, at.feature, nil, "").Any()
		for _, d := range p.Dependencies {
			has = has || d.Kind == manifest.Normal && c.hasCode(c.Project.Declaring(d), featureOf{d.Package, at.feature})
		}
	}
	c.code[at] = has
	return has
}

// undeclared notes members through which nobody can turn CUDA on, because they have no feature for it: their dependency has one, and no
// edge leads there. That may be meant, and what a crate nobody knows calls cuda may be anything.
func (c *EdgeCheck) undeclared() []Finding {
	var out []Finding
	for _, m := range c.Project.Members {
		if m.ProcMacro || m.Declares("cuda") {
			continue
		}
		on := m.PassedOn(m.FeatureNames()...)
		for _, d := range m.Dependencies {
			crate := c.Catalog.Crate(d.Package)
			if d.Kind != manifest.Normal || on[d.Key+"/cuda"] || crate != nil && !crate.CUDA() || crate == nil && d.Path == "" {
				continue
			}
			to := c.Project.Declaring(d)
			if to == nil || !to.Declares("cuda") || to.ProcMacro || implied(on, d, to, "cuda") {
				continue
			}
			edge := d.Key + "/cuda"
			if d.Optional {
				edge = d.Key + "?/cuda"
			}
			f := Finding{Finding: finding.Finding{ID: IDPropagation, Severity: Note, Path: m.Manifest, Line: m.DependencyLine(d),
				Evidence: "manifests", Fix: edit.WithEdges(m, "cuda", edge)}, Root: m.Name, undeclared: true,
				line: lineAt{"cuda", []string{edge}, []string{d.Package}}}
			f.Message = propagationMessage([]Finding{f})
			out = append(out, f)
		}
	}
	return out
}

// implied says whether a feature that is passed on turns the wanted one on: candle-core/cudnn brings its cuda.
func implied(edges map[string]bool, d manifest.Dependency, to *manifest.Package, want string) bool {
	var given []string
	for _, f := range to.FeatureNames() {
		if edges[d.Key+"/"+f] {
			given = append(given, f)
		}
	}
	on, _ := to.Closure(given)
	return slices.Contains(slices.Sorted(maps.Keys(on)), want)
}
