package features

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// EdgeCheck judges feature edges from manifests alone: those between the workspace's members and those to GPU crates. It knows no
// selection; whether a build is hurt is Judge's to say.
type EdgeCheck struct{ *planner }

// NewEdgeCheck prepares a check of a workspace; cargo's answer is not looked at.
func NewEdgeCheck(h buildenv.Host, in Input) (*EdgeCheck, error) {
	if in.Catalog == nil {
		known, err := catalog.Default()
		if err != nil {
			return nil, err
		}
		in.Catalog = known
	}
	in.Graph, in.Tree = &graph.Graph{}, nil
	return &EdgeCheck{newView(h, in).planner()}, nil
}

// Of finds the edges that a member's GPU feature lacks to direct dependencies behind which there is CUDA code, and those that cargo
// refuses.
func (c *EdgeCheck) Of(q manifest.Question) []Finding {
	f := Finding{Finding: finding.Finding{ID: IDPropagation, Severity: Error, Path: q.Package.Manifest,
		Line: q.Package.FeatureLine(q.Feature), Evidence: "manifests"}, Root: q.Package.Name}
	if out := c.refused(q, f); len(out) > 0 { // cargo reads no manifest of the workspace before that is gone
		return out
	}
	if q.Feature != "cuda" && q.Feature != "cudnn" && q.Package.Declares("cuda") && len(q.Package.Features[q.Feature]) > 0 {
		return nil // a feature next to the package's cuda is for a part of the CUDA code: embed-cuda
	}
	if _, edges := q.Package.Closure([]string{q.Feature}); !strings.Contains(q.Feature, "cud") && len(edges) > 0 &&
		!c.leads(q.Package, q.Feature) {
		return nil // it may mean another kind of GPU
	}
	p := c.plan(q.Package, q.Feature)
	at := slices.IndexFunc(p.edits, func(e edit.Edit) bool { return e.Manifest == q.Package.Manifest && e.Feature == q.Feature })
	if at < 0 || !c.Project.IsMember(q.Package) {
		return nil
	}
	missing, to := c.declared(q, p.edits[at])
	if len(missing.Add) == 0 {
		return nil
	}
	if c.leads(q.Package, q.Feature) && !slices.Contains(missing.Add, "cuda") { // as a build judges it: a part stays off
		if f.Severity = Warning; !slices.ContainsFunc(missing.Add, func(s string) bool { return !c.choice(q, s) }) {
			return nil
		}
	}
	f.Edits = []edit.Edit{missing}
	f.Message = fmt.Sprintf("`%s` of %s does not enable the CUDA code of %s", q.Feature, q.Package.Name, strings.Join(to, ", "))
	f.Fix = edit.WithEdges(q.Package, q.Feature, missing.Add...)
	return []Finding{f}
}

// declared is an edit without edges to features that would have to be declared first. For a feature that is only called gpu they must have
// to do with CUDA, and one for a part of the CUDA code (candle-cuda) is not meant for another optional engine.
func (c *EdgeCheck) declared(q manifest.Question, e edit.Edit) (out edit.Edit, to []string) {
	out = e
	out.Add = nil
	part := q.Feature != "cuda" && q.Feature != "cudnn" && q.Feature != "gpu" && c.leads(q.Package, q.Feature)
	for _, s := range e.Add {
		edge := manifest.ParseEdge(s)
		name, known := q.Package.Name, edge.Dep == ""
		for _, d := range q.Package.Dependencies {
			if d.Key == edge.Dep {
				p := c.Project.Declaring(d)
				name, known = d.Package, p == nil || edge.Feature == "" || p.Declares(edge.Feature)
			}
		}
		if known && !(part && edge.Weak) && (strings.Contains(q.Feature, "cud") || c.aboutCUDA(c.through(q.Package, edge))) {
			out.Add, to = append(out.Add, s), manifest.Union(to, []string{name})
		}
	}
	return out, to
}

// choice says whether what an edge enables has a feature of its own in the question's package.
func (c *EdgeCheck) choice(q manifest.Question, edge string) bool {
	e := manifest.ParseEdge(edge)
	return slices.ContainsFunc(q.Package.Dependencies, func(d manifest.Dependency) bool {
		return d.Key == e.Dep && c.apart(q.Package, q.Feature, placeOf(d, c.Project.Declaring(d), e.Feature))
	})
}

// Sure says whether a feature enables CUDA code in any build; latent: else, whether it does in some, with another feature or for another
// target.
func (c *EdgeCheck) Sure(q manifest.Question) (sure, latent bool) {
	return c.sure(q.Package, q.Feature), c.leads(q.Package, q.Feature)
}

// refused finds the features of a package with edges that cargo refuses. What it makes of a question's own feature has the edges that are
// missing, too.
func (c *EdgeCheck) refused(q manifest.Question, about Finding) []Finding {
	var out []Finding
	own, _ := q.Package.Closure([]string{q.Feature})
	for _, name := range q.Package.FeatureNames() {
		keep, whys, add := []string{}, []string{}, []string{}
		edges, _ := q.Package.Edges(name)
		for _, e := range edges {
			why, instead := q.Package.Refused(e)
			if to, missing := c.missing(q.Package, e); why == "" && own[name] && missing {
				why = fmt.Sprintf("%s has no feature `%s`", to, e.Feature)
			}
			switch {
			case why == "":
				keep = append(keep, e.Text)
			case instead != "":
				keep = append(keep, instead)
			}
			if why != "" {
				whys = append(whys, fmt.Sprintf("`%s` of %s enables `%s`, and %s", name, q.Package.Name, e.Text, why))
			}
		}
		if len(whys) == 0 {
			continue
		}
		f := about
		f.Line, f.Message = q.Package.FeatureLine(name), whys[0]
		if len(whys) > 1 {
			f.Message += fmt.Sprintf("; %d more of its entries are wrong", len(whys)-1)
		}
		if name == q.Feature {
			for _, e := range c.plan(q.Package, name).edits {
				if e.Manifest == q.Package.Manifest && e.Feature == name {
					add = e.Add
				}
			}
		}
		f.Fix = edit.FeatureLine(name, manifest.Union(keep, add))
		out = append(out, f)
	}
	return out
}

// missing says whether an edge names a feature that its dependency does not have: cargo refuses every build of the workspace then.
func (c *EdgeCheck) missing(p *manifest.Package, e manifest.Edge) (to string, missing bool) {
	if e.Dep == "" || e.Feature == "" {
		return "", false
	}
	for _, d := range p.Dependencies {
		if d.Key == e.Dep {
			q := c.Project.Declaring(d)
			if q == nil || q.Declares(e.Feature) || e.Feature == "default" {
				return "", false
			}
			to = q.Name
		}
	}
	return to, to != ""
}
