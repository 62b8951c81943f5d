package features

import (
	"maps"
	"slices"
	"strings"

	"github.com/xrash/smetrics"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// RefusedEdges finds the edges of a workspace's member that cargo refuses: those that name a feature or dependency that is not there. One
// within two letters of a right one, or with "dep:" too much or too little, has that as its fix.
func RefusedEdges(p *manifest.Project, member *manifest.Package) []Finding {
	var out []Finding
	for _, feature := range member.FeatureNames() {
		for _, e := range member.Edges(feature) {
			if accepts(p, member, feature, e.Text) {
				continue
			}
			f := refused(member, feature, e.Text)
			instead := nearest(e.Text, slices.DeleteFunc(possible(p, member), func(s string) bool { return s == feature }))
			for _, s := range []string{strings.TrimPrefix(e.Text, "dep:"), "dep:" + e.Text, e.Dep + "/" + feature} {
				if s != e.Text && accepts(p, member, feature, s) {
					instead = s
				}
			}
			if instead != "" {
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

func refused(member *manifest.Package, feature, edge string) Finding {
	f := newFinding(IDRefused, "`%s` of %s enables `%s`, which cargo refuses", feature, member.Name, edge)
	f.Evidence, f.Root, f.Path, f.Line = "manifests", member.Name, member.Manifest, member.FeatureLine(feature)
	return f
}

// lacking is how cargo 1.95 says that a dependency has no such feature.
var lacking = lazyregexp.New("package `([^` ]+)[^`]*` depends on `([^`]+)` with feature `([^`]+)` but")

// RefusedBy finds the edges of a package that cargo's refusal names: the dependency may be one whose manifest nothing here leads to, such
// as by [patch].
func RefusedBy(member *manifest.Package, words string) (out []Finding) {
	named := lacking.FindStringSubmatch(words)
	if named == nil || member.Name != named[1] {
		return nil
	}
	for _, d := range member.Dependencies {
		for _, feature := range member.FeatureNames() {
			for _, e := range member.Edges(feature) {
				if d.Package == named[2] && d.Key == e.Dep && e.Feature == named[3] {
					out = append(out, refused(member, feature, e.Text))
				}
			}
		}
	}
	return out
}

// accepts reports whether cargo may accept an edge of a feature; it does where nothing is known of the dependency.
// Source: cargo's summary.rs, build_feature_map.
func accepts(p *manifest.Project, member *manifest.Package, feature, text string) bool {
	e := manifest.ParseEdge(text)
	if e.Dep == "" {
		return text == e.Feature && text != feature && member.Declares(text)
	}
	for _, d := range member.Dependencies {
		if d.Key != e.Dep || (e.Weak || e.Feature == "") && !member.Optional(d.Key) {
			continue
		}
		has, all := featuresOf(p, member, d)
		if e.Feature == "" || e.Feature == "default" || slices.Contains(has, e.Feature) || !all && nearest(e.Feature, has) == "" {
			return true
		}
	}
	return false
}

// featuresOf lists the features of a dependency; all is false for one that is not on this machine, of which the catalog knows some.
func featuresOf(p *manifest.Project, member *manifest.Package, d manifest.Dependency) (names []string, all bool) {
	locked := p.Locked(d.Package)
	if to := p.Declaring(member, d); to != nil {
		locked = []*manifest.Package{to}
	}
	if len(locked) > 0 { // of several versions the edge may mean any
		for _, to := range locked {
			names = manifest.Union(names, to.FeatureNames())
		}
		return names, true
	}
	if c := catalog.Default().Crate(d.Package); c != nil {
		names = manifest.Union(slices.Sorted(maps.Keys(c.Features)), c.CUDAFeatures)
	}
	return names, false
}

// possible lists the edges that a package can have.
func possible(p *manifest.Project, member *manifest.Package) []string {
	out := member.FeatureNames()
	for _, d := range member.Dependencies {
		names, _ := featuresOf(p, member, d)
		for _, f := range names {
			out = append(out, d.Key+"/"+f)
			if d.Optional {
				out = append(out, d.Key+"?/"+f)
			}
		}
		if d.Optional {
			out = append(out, "dep:"+d.Key)
		}
	}
	return out
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
