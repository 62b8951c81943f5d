package features

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/xrash/smetrics"

	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// RefusedEdges finds the edges of a workspace's member that cargo refuses: those that name a feature or dependency that is not there. One
// within two letters of a right one, or with "dep:" too much or too little, has that as its fix. words are cargo's: they name an edge to
// a dependency whose manifest nothing here leads to, such as by [patch].
// Source: cargo's summary.rs, build_feature_map.
func RefusedEdges(p *manifest.Project, member *manifest.Package, words string) []Finding {
	var out []Finding
	known, open := possible(p, member)
	has := map[string]bool{}
	for _, s := range known {
		has[s] = true
	}
	for _, feature := range member.FeatureNames() {
		for _, e := range member.Edges(feature) {
			if has[e.Text] && e.Text != feature {
				continue
			}
			others := slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == feature }) // none turns itself on
			instead := nearest(e.Text, others)
			named := fmt.Sprintf("depends on `%s` with feature `%s`", open[e.Dep], e.Feature) // cargo 1.95
			if open[e.Dep] != "" && e.Feature != "" && instead == "" && !strings.Contains(words, named) {
				continue
			}
			for _, s := range []string{strings.TrimPrefix(e.Text, "dep:"), "dep:" + e.Text, e.Dep + "/" + feature} {
				if s != e.Text && slices.Contains(others, s) {
					instead = s
				}
			}
			to := declaring(p, member, e.Dep)
			if instead == "" {
				instead = sameBackend(e, others)
			}
			f := newFinding(IDRefused, "`%s` of %s enables `%s`, which cargo refuses", feature, member.Name, e.Text)
			f.Evidence, f.Root, f.Path, f.Line = "manifests", member.Name, member.Manifest, member.FeatureLine(feature)
			if instead != "" {
				f.Edits = []edit.Edit{{Manifest: member.Manifest, Feature: feature, Add: []string{instead}, Instead: e.Text}}
				list := slices.Clone(member.Features[feature])
				list[slices.Index(list, e.Text)] = instead
				f.Fix = edit.FeatureLine(feature, manifest.Union(list))
			} else if ask := (manifest.Asked{}); p.IsMember(to) && ask.IsBackend(e.Feature) {
				f.Edits = []edit.Edit{{Manifest: to.Manifest, Feature: e.Feature}} // what it enables is the next question
				f.Fix = edit.FeatureLine(e.Feature, nil) + " # " + to.Name
			}
			out = append(out, f)
		}
	}
	return out
}

// declaring is the package that a dependency of a member's manifest means; nil where it is not known.
func declaring(p *manifest.Project, member *manifest.Package, key string) *manifest.Package {
	for _, d := range member.Dependencies {
		if d.Key == key {
			return p.Declaring(member, d)
		}
	}
	return nil
}

// sameBackend is the one edge to the same dependency whose feature means the backend of a refused one; empty where there is none.
func sameBackend(e manifest.Edge, others []string) (found string) {
	ask := manifest.Asked{}
	want, _ := ask.BackendOf(e.Feature, nil)
	for _, s := range others {
		o := manifest.ParseEdge(s)
		b, loose := ask.BackendOf(o.Feature, nil)
		switch same := b == want || b == manifest.AnyGPU || want == manifest.AnyGPU && b != ""; {
		case e.Dep == "" || o.Dep != e.Dep || o.Weak != e.Weak || want == "" || loose || !same:
		case found != "":
			return ""
		default:
			found = s
		}
	}
	return found
}

// possible lists the edges that a package can have, as far as they are known. open are the packages, by their keys, that may have more
// features.
func possible(p *manifest.Project, member *manifest.Package) (known []string, open map[string]string) {
	known, open = member.FeatureNames(), map[string]string{}
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
			open[d.Key] = d.Package
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

// nearest is the one of some names that was most likely meant; empty where none is within two letters.
func nearest(word string, names []string) string {
	best, at := "", min(2, len(word)-2)+1
	for _, n := range names {
		if d := smetrics.WagnerFischer(word, n, 1, 1, 1); d < at {
			best, at = n, d
		}
	}
	return best
}
