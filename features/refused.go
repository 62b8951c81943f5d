package features

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/xrash/smetrics"

	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// mostRefused bounds the edges for which a right name is looked for, each among all names. Cargo reports one at a time.
const mostRefused = 20

// RefusedEdges finds the edges of a workspace's member that cargo refuses: those that name a feature or dependency that is not there. One
// within two letters of a right one, "dep:" not counted, has that as its fix, or else the one feature of the same dependency that means the
// same GPU. Of a dependency whose manifest nothing here leads to, only cargo knows the features: what it said counts.
// Source: cargo's summary.rs, build_feature_map.
func RefusedEdges(p *manifest.Project, member *manifest.Package, said string) []Finding {
	var out []Finding
	known, open := possible(p, member)
	is := make(map[string]bool, len(known))
	for _, text := range known {
		is[text] = true
	}
	ask := manifest.Asked{}
	for _, feature := range member.FeatureNames() {
		for _, e := range member.Edges(feature) {
			if is[e.Text] && e.Text != feature {
				continue
			}
			if len(out) == mostRefused {
				return out
			}
			if len(member.Entries(e.Text)) > 0 { // one that is not optional
				e.Dep, e.Feature = e.Text, ""
			}
			others := slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == feature }) // none turns itself on
			instead := nearest(e.Text, others)
			if open[e.Dep] && e.Feature != "" && (instead == "" || !strings.Contains(said, e.Feature+"`")) {
				continue
			}
			same := slices.DeleteFunc(others, func(s string) bool { // the same dependency's feature for the same GPU
				o := manifest.ParseEdge(s)
				want, _ := ask.BackendOf(cmp.Or(e.Feature, feature), nil)
				b, loose := ask.BackendOf(o.Feature, nil)
				means := b == want || b == manifest.AnyGPU || want == manifest.AnyGPU && b != ""
				meant := o.Dep == e.Dep || o.Feature == e.Feature && manifest.IsNamed(o.Dep, e.Dep) // candle/cuda: candle-core's
				return e.Dep == "" || !meant || o.Weak != e.Weak || want == "" || loose || !means
			})
			if named := e.Dep + "/" + cmp.Or(e.Feature, feature); slices.Contains(same, named) { // of cuda and cudnn the one of that name
				same = []string{named}
			}
			if same = manifest.Union(same); instead == "" && len(same) == 1 {
				instead = same[0]
			}
			f := newFinding(IDRefused, "`%s` of %s enables `%s`, which cargo refuses: %s", feature, member.Name, e.Text,
				whyRefused(member, feature, e))
			f.Evidence, f.Root, f.Path, f.Line = "manifests", member.Name, member.Manifest, member.FeatureLine(feature)
			if instead != "" {
				f.Edits = []edit.Edit{{Manifest: member.Manifest, Feature: feature, Add: []string{instead}, Instead: e.Text}}
				list := slices.Clone(member.Features[feature])
				list[slices.Index(list, e.Text)] = instead
				f.Fix = edit.FeatureLine(feature, manifest.Union(list))
			} else if len(member.Entries(e.Dep)) > 0 && e.Feature == "" {
				f.Fix = fmt.Sprintf("# leave `%s` out, %s is always linked; or give it optional = true", e.Text, e.Dep)
			}
			for _, d := range member.Dependencies {
				to := p.Declaring(member, d)
				if d.Key == e.Dep && instead == "" && p.IsMember(to) && ask.IsBackend(e.Feature) && catalog.Default().Crate(to.Name) == nil {
					add := gatesOf(to, e.Feature)
					f.Edits = []edit.Edit{{Manifest: to.Manifest, Feature: e.Feature, Add: add}}
					f.Fix = edit.FeatureLine(e.Feature, add) + " # " + to.Name
				}
			}
			out = append(out, f)
		}
	}
	return out
}

// whyRefused says what is wrong with an edge.
func whyRefused(member *manifest.Package, feature string, e manifest.Edge) string {
	switch key := cmp.Or(e.Dep, e.Text); {
	case e.Text == feature:
		return "it is the feature itself"
	case e.Dep != "" && len(member.Entries(key)) == 0:
		return fmt.Sprintf("there is no dependency `%s`", key)
	case len(member.Entries(key)) > 0 && !member.Optional(key) && (e.Feature == "" || e.Weak || e.Dep == ""):
		return fmt.Sprintf("`%s` is not optional", key)
	case e.Dep == "":
		return "there is no such feature"
	}
	return fmt.Sprintf("`%s` has no feature `%s`", e.Dep, e.Feature)
}

// gatesOf lists the edges to the GPU crates that a package depends on itself, for a feature that it has not yet.
func gatesOf(p *manifest.Package, feature string) (add []string) {
	backend, _ := (&manifest.Asked{}).BackendOf(feature, nil)
	for _, d := range p.Dependencies {
		c := catalog.Default().Crate(d.Package)
		if c == nil || d.Kind != manifest.Normal || d.Optional || c.Role != catalog.Gated {
			continue
		}
		if gate, _ := gateOf(c, backend); len(gate) > 0 {
			add = append(add, d.Key+"/"+gate[0])
		}
	}
	return add
}

// possible lists the edges that a package can have, as far as they are known. open are the packages, by their keys, that may have more
// features.
func possible(p *manifest.Project, member *manifest.Package) (known []string, open map[string]bool) {
	known, open = member.FeatureNames(), map[string]bool{}
	for _, d := range member.Dependencies {
		names := []string{"default"}
		locked := p.Locked(d.Package) // of several versions the edge may mean any
		if to := p.Declaring(member, d); to != nil {
			locked = []*manifest.Package{to}
		}
		for _, to := range locked {
			names = append(names, to.FeatureNames()...)
		}
		if len(locked) == 0 {
			open[d.Key] = true
			if c := catalog.Default().Crate(d.Package); c != nil {
				names = slices.Concat(names, slices.Sorted(maps.Keys(c.Features)), c.CUDAFeatures)
			}
		}
		for _, f := range names {
			known = append(known, d.Key+"/"+f)
			if d.Optional {
				known = append(known, d.Key+"?/"+f)
			}
		}
		if d.Optional {
			known = append(known, "dep:"+d.Key)
		}
	}
	return known, open
}

// nearest is the one of some edges that was most likely meant; empty where none is within two letters, "dep:" not counted.
func nearest(edge string, others []string) string {
	word := strings.TrimPrefix(edge, "dep:")
	best, at := "", min(2, len(word)-2)+1
	for _, s := range others {
		other := strings.TrimPrefix(s, "dep:")
		if more := len(word) - len(other); max(more, -more) >= at { // a comparison takes time that grows with both
			continue
		}
		if d := smetrics.WagnerFischer(word, other, 1, 1, 1); d < at && s != edge {
			best, at = s, d
		}
	}
	return best
}
