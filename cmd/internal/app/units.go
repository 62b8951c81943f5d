package app

import (
	"slices"

	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// scriptSet is a feature set with which a package's build script runs in this build, for a platform.
type scriptSet struct{ features, platform string }

// scriptSets are those of the build, by package; what the GPU's toolchain is nothing to is among them. Without a unit graph they are those of the GPU
// packages, for platforms that are not known.
func (j *journey) scriptSets() map[string][]scriptSet {
	if j.sets != nil {
		return j.sets
	}
	j.sets = map[string][]scriptSet{}
	add := func(pkgID string, list []string, platform string) {
		if s := (scriptSet{featureKey(list), platform}); !slices.Contains(j.sets[pkgID], s) {
			j.sets[pkgID] = append(j.sets[pkgID], s)
		}
	}
	if g := j.graph.Units; g != nil { // what cannot be parsed judge has told
		for _, u := range g.Units {
			if u.Mode == "run-custom-build" {
				add(u.PkgID, u.Features, u.Platform)
			}
		}
	}
	for _, u := range j.reach.Units {
		add(u.PkgID, u.Features, u.Platform)
	}
	return j.sets
}

// unitsOf are the GPU units of which an OUT_DIR of a package may be, one for each feature set. A package on which a build script depends as well as the
// program is built twice under one id, each time with features of its own, and cargo's messages tell nothing but where each script wrote. Its platform's
// directory tells them apart, and else what cargo keeps of the script. Several where neither does: then it is of any. None: it is of a unit that takes
// nothing from the GPU's toolchain.
func (j *journey) unitsOf(pkgID, outDir string) []features.ScriptUnit {
	if !slices.ContainsFunc(j.reach.Units, func(u features.ScriptUnit) bool { return u.PkgID == pkgID }) {
		return nil
	}
	left := map[string]bool{}
	sets := j.scriptSets()[pkgID]
	if len(sets) > 1 && j.graph.Units != nil {
		profile := j.Host.Base(j.profileDirs()[0])
		for _, s := range sets {
			if j.Host.Below(outDir, j.Host.Join(j.graph.Places.BuildDirectory, cargo.Triple(s.platform, ""), profile)) {
				left[s.features] = true
			}
		}
	}
	if len(left) == 0 {
		for _, s := range sets {
			left[s.features] = true
		}
	}
	if len(left) > 1 {
		if told, ok := builddir.Features(j.Host, outDir, j.profileDirs()); ok && left[featureKey(told)] {
			left = map[string]bool{featureKey(told): true}
		}
	}
	var out []features.ScriptUnit
	for _, u := range j.reach.Units {
		if key := featureKey(u.Features); u.PkgID == pkgID && left[key] {
			out = append(out, u)
			delete(left, key)
		}
	}
	return out
}

// mayBe says whether an OUT_DIR may be of a unit.
func (j *journey) mayBe(u features.ScriptUnit, outDir string) bool {
	for _, is := range j.unitsOf(u.PkgID, outDir) {
		if featureKey(is.Features) == featureKey(u.Features) {
			return true
		}
	}
	return false
}

// entriesOf are the recorded entries of a unit that a build could mean.
func (j *journey) entriesOf(u features.ScriptUnit) []stale.Entry {
	var out []stale.Entry
	for _, e := range j.record.Of(u.PkgID, featureKey(u.Features)) {
		if j.ofThisBuild(u, e.OutDir) && j.mayBe(u, e.OutDir) {
			out = append(out, e)
		}
	}
	return out
}

// credible says whether nothing speaks against an entry's features. Earlier gpubuilds recorded all OUT_DIRs of a package under those of one of its units;
// of features that are no unit's of this build nothing is known.
func (j *journey) credible(e stale.Entry) bool {
	u, ok := j.unitOf(e.Key)
	return !ok || j.mayBe(u, e.OutDir)
}

// unitOf is the unit that a key names.
func (j *journey) unitOf(k stale.Key) (features.ScriptUnit, bool) {
	for _, u := range j.reach.Units {
		if u.PkgID == k.PkgID && featureKey(u.Features) == k.Features {
			return u, true
		}
	}
	u, ok := j.unitsBeyond[k]
	return u, ok
}

// strictest is the unit of which most is asked: where nothing tells of which one an OUT_DIR is, its device code is held against that one's wish.
func strictest(units []features.ScriptUnit) (best features.ScriptUnit, ok bool) {
	weight := func(u features.ScriptUnit) int {
		switch {
		case u.Inputs.Arch:
			return 2
		case u.Inputs.NVCC:
			return 1
		}
		return 0
	}
	for i, u := range units {
		if i == 0 || weight(u) > weight(best) {
			best = u
		}
	}
	return best, len(units) > 0
}
