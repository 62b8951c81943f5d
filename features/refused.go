package features

import (
	"fmt"
	"maps"
	"slices"

	"github.com/xrash/smetrics"

	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// RefusedEdges finds the edges of a workspace's members that cargo refuses: those that name a feature or dependency that is not there. One
// within two letters of a right one has that as its fix.
func RefusedEdges(p *manifest.Project, member *manifest.Package) []Finding {
	var out []Finding
	for _, feature := range member.FeatureNames() {
		edges, _ := member.Edges(feature)
		for _, e := range edges {
			why, instead := member.Refused(e)
			if to, names := missingIn(p, member, e); why == "" && to != "" {
				why, instead = fmt.Sprintf("%s has no feature `%s`", to, e.Feature), nearest(e, names)
			} else if why != "" && instead == "" {
				instead = nearestEdge(member, e)
				if to := notOptional(p, member, e); to != nil && to.Declares(feature) {
					instead = e.Dep + "/" + feature
				}
			}
			if why == "" {
				continue
			}
			f := newFinding(IDRefused, "`%s` of %s enables `%s`, and %s", feature, member.Name, e.Text, why)
			f.Evidence, f.Root, f.Path, f.Line = "manifests", member.Name, member.Manifest, member.FeatureLine(feature)
			if instead != "" && instead != e.Text {
				f.Edits = []edit.Edit{{Manifest: member.Manifest, Feature: feature, Add: []string{instead}, Instead: e.Text}}
				list := slices.Clone(member.Features[feature])
				list[slices.Index(list, e.Text)] = instead
				f.Fix = edit.FeatureLine(feature, manifest.Union(list))
			}
			out = append(out, f)
		}
	}
	return out
}

// notOptional is the dependency that `dep:` names although it is not optional; nil where it does not.
func notOptional(p *manifest.Project, member *manifest.Package, e manifest.Edge) *manifest.Package {
	for _, d := range member.Dependencies {
		if e.Feature == "" && d.Key == e.Dep && !d.Optional {
			return p.Declaring(d)
		}
	}
	return nil
}

// missingIn is the dependency that has no such feature as an edge names, and the features that it has; empty where it has one. Of a crate
// that is not on this machine the catalog knows some features: a name within two letters of one of these is a misspelt one.
func missingIn(p *manifest.Project, member *manifest.Package, e manifest.Edge) (name string, has []string) {
	known, _ := catalog.Default()
	for _, d := range member.Dependencies {
		if d.Key != e.Dep || e.Dep == "" || e.Feature == "" || e.Feature == "default" {
			continue
		}
		to, c := p.Declaring(d), known.Crate(d.Package)
		switch {
		case to != nil && !to.Declares(e.Feature):
			return to.Name, to.FeatureNames()
		case to == nil && c != nil && c.Features[e.Feature] == nil:
			has = manifest.Union(slices.Sorted(maps.Keys(c.Features)), c.CUDAFeatures)
			if near(e.Feature, has) != "" && !slices.Contains(has, e.Feature) {
				return d.Package, has
			}
		}
	}
	return "", nil
}

// nearest is an edge with the feature of a dependency that was most likely meant; empty where none is within two letters.
func nearest(e manifest.Edge, names []string) string {
	name := near(e.Feature, names)
	switch {
	case name == "":
		return ""
	case e.Weak:
		return e.Dep + "?/" + name
	}
	return e.Dep + "/" + name
}

func near(word string, names []string) string {
	best, at := "", min(2, len(word)-2)+1
	for _, n := range names {
		if d := smetrics.WagnerFischer(word, n, 1, 1, 1); d < at {
			best, at = n, d
		}
	}
	return best
}

// nearestEdge is an edge with the dependency, or the feature of the package itself, that was most likely meant.
func nearestEdge(p *manifest.Package, e manifest.Edge) string {
	if e.Dep == "" {
		return near(e.Feature, p.FeatureNames())
	}
	var keys []string
	for _, d := range p.Dependencies {
		keys = append(keys, d.Key)
	}
	key := near(e.Dep, keys)
	switch {
	case key == "":
		return ""
	case e.Feature == "":
		return "dep:" + key
	case e.Weak:
		return key + "?/" + e.Feature
	}
	return key + "/" + e.Feature
}
