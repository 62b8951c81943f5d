package features

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// offer is what a feature that turns nothing on could turn on: the optional dependencies of the packages that have it which bring CUDA
// code, and are off.
type offer struct {
	edits    []*change
	names    []string // the crates
	families int      // kinds of engines among them: only the user knows which of several is meant
}

// offers looks for them in the root's package and in each package of the user's that has the feature on.
func (k *rootJudge) offers(f string) offer {
	var o offer
	meaning := meaningOf(f)
	families := map[string]bool{}
	for _, i := range k.r.Linked {
		n := &k.Nodes[i]
		p := k.ManifestOf(i)
		if p == nil || !n.Local || !slices.Contains(n.Features, f) || k.Project == nil || !k.Project.IsMember(p) {
			continue
		}
		e := &change{pkg: p, feature: f}
		for _, d := range p.Dependencies {
			if !d.Optional || d.Kind != manifest.Normal || d.Target != "" || k.DepNode(i, d, k.r.Set) >= 0 {
				continue
			}
			edge, family := k.offered(p, d, f, meaning)
			if edge == "" || slices.Contains(p.Features[f], edge) {
				continue
			}
			e.add = append(e.add, edge)
			o.names = append(o.names, d.Package)
			families[family] = true
		}
		if len(e.add) > 0 {
			o.edits = append(o.edits, e)
		}
	}
	o.families = len(families)
	return o
}

// offered is the edge to an optional dependency that would bring CUDA code, and
// what engine it belongs to: candle-core and candle-nn are one.
func (k *rootJudge) offered(p *manifest.Package, d manifest.Dependency, f, meaning string) (edge, family string) {
	c := k.Catalog.Crate(d.Package)
	switch {
	case c != nil && c.CUDA() && c.Role == catalog.Gated:
		family, _, _ = strings.Cut(d.Package, "-")
		return d.Key + "/" + c.Means(meaning), family
	case c != nil && c.CUDA() && c.Role == catalog.Carrier && meaning == "cuda":
		if p.Implicit(d.Key) { // a first "dep:" would take away the feature of its name
			return d.Key, d.Package
		}
		return "dep:" + d.Key, d.Package
	case c == nil:
		if to := k.Project.LocalPackage(d); to != nil && to.Declares(f) {
			return d.Key + "/" + f, d.Package
		}
	}
	return "", ""
}

// withOffer adds what is off and could be turned on to a finding about a feature that leads nowhere.
func (k *rootJudge) withOffer(find Finding, f string) Finding {
	o := k.offers(f)
	if len(o.edits) == 0 {
		return find
	}
	are := "is"
	if len(o.names) > 1 {
		are = "are"
	}
	find.Message += fmt.Sprintf("; %s %s optional and off", strings.Join(o.names, ", "), are)
	find.Path, find.Line, find.Fix = o.edits[0].pkg.Manifest, o.edits[0].pkg.FeatureLine(f), o.edits[0].line()
	if o.families == 1 {
		m := &mender{rootJudge: k, edits: o.edits}
		find.Edits = m.plan()
		return find
	}
	var lines []string
	for _, e := range o.edits {
		for _, edge := range e.add {
			lines = append(lines, edit.WithEdges(e.pkg, f, edge))
		}
	}
	find.Fix = strings.Join(lines, "  or  ")
	return find
}

// meaningOf is what a GPU feature of the user's asks of the crates below: cudnn is cudnn, whatever else it is called is CUDA.
func meaningOf(f string) string {
	if f == "cudnn" {
		return f
	}
	return "cuda"
}
