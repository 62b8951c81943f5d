package fresh

import (
	"slices"

	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// runsScript is the mode of a unit that runs a build script (cargo reference, "Unit graph").
const runsScript = "run-custom-build"

// compiles is what a build script takes from the machine that compiles kernels in a way that nothing shows: all that nvcc does.
// Which variables it reads is not known.
var compiles = features.Inputs{NVCC: true, Host: true, Arch: true, Root: true}

// findUnits fills in the GPU packages of the build: those that are known, and those whose OUT_DIRs hold device code. What is
// known of a package and does not say that it compiles kernels is not the whole truth then: its script may run any program.
func (s *State) findUnits() {
	s.gpu = nil
	for _, u := range s.b.Reach.Units {
		s.gpu = append(s.gpu, s.asItShows(u, s.outDirsOf(u)))
	}
	for _, u := range s.scripts() {
		if dirs := s.outDirsOf(u); s.holdsCode(dirs) {
			s.declare(u)
		}
	}
}

// findUndeclared adds what the build just showed: packages that compiled their first kernels in it.
func (s *State) findUndeclared() {
	for _, m := range s.built.Messages {
		if m.Reason != cargo.ScriptExecuted || !s.holdsCode([]string{m.OutDir}) {
			continue
		}
		units := s.unitsOf(m.PackageID, m.OutDir)
		for _, u := range units {
			for i := range s.gpu {
				if s.gpu[i].PkgID == u.PkgID && featureKey(s.gpu[i].Features) == featureKey(u.Features) {
					s.gpu[i] = s.asItShows(s.gpu[i], []string{m.OutDir})
				}
			}
		}
		id := manifest.ParsePkgID(m.PackageID)
		if len(units) > 0 || known(id.Name) {
			continue
		}
		u := features.ScriptUnit{PkgID: m.PackageID, Name: id.Name, Version: id.Version, Dir: id.Dir(s.host)}
		var ok bool
		if u.Features, ok = builddir.Features(s.host, m.OutDir, s.b.profileDirs()); !ok {
			for _, a := range s.built.Messages {
				if a.Reason == cargo.Artifact && a.PackageID == m.PackageID && slices.Contains(a.Target.Kind, "custom-build") {
					u.Features = a.Features
				}
			}
		}
		s.declare(u)
	}
}

// declare counts a package among the GPU packages because of its device code.
func (s *State) declare(u features.ScriptUnit) {
	u.Inputs = compiles
	s.undeclared[u.PkgID] = true
	s.gpu = append(s.gpu, u)
	s.sets = nil
}

// asItShows adds to what is known of a unit what its device code shows.
func (s *State) asItShows(u features.ScriptUnit, dirs []string) features.ScriptUnit {
	if u.Inputs.NVCC && u.Inputs.Arch || s.b.Tools.Set.Toolkit == nil || known(u.Name) || !s.holdsCode(dirs) {
		return u
	}
	in := &u.Inputs
	in.NVCC, in.Version, in.Host, in.Arch, in.Root = true, false, true, true, true
	return u
}

// known says whether the catalog has a crate: it knows what its script takes from the machine, and what code it unpacks.
func known(name string) bool {
	c, err := catalog.Default()
	return err == nil && c.Crate(name) != nil
}

// holdsCode says whether any of some OUT_DIRs holds device code.
func (s *State) holdsCode(outDirs []string) bool {
	for _, dir := range outDirs {
		held, err := s.holds(dir)
		if err != nil {
			s.shell.Detail("%s cannot be read: %v", dir, err)
		}
		if len(held.Code) > 0 {
			return true
		}
	}
	return false
}

// scripts are the build scripts of this build that are not known to take anything from the toolkit. Without a unit graph they are
// those of the project's own packages, with the features that cargo's files name.
func (s *State) scripts() []features.ScriptUnit {
	taken := map[string]bool{}
	for _, u := range s.b.Reach.Units {
		taken[u.PkgID+" "+featureKey(u.Features)] = true
	}
	var out []features.ScriptUnit
	add := func(u features.ScriptUnit) {
		if key := u.PkgID + " " + featureKey(u.Features); !taken[key] && !known(u.Name) {
			taken[key] = true
			out = append(out, u)
		}
	}
	if g := s.b.Graph.Units; g != nil {
		for _, u := range g.Units {
			if u.Mode == runsScript {
				id := manifest.ParsePkgID(u.PkgID)
				add(features.ScriptUnit{
					PkgID: u.PkgID, Name: id.Name, Version: id.Version, Dir: id.Dir(s.host), Features: u.Features, Platform: u.Platform,
				})
			}
		}
		return out
	}
	for _, p := range s.b.localScripts() {
		for _, dir := range s.b.outDirs(p.Name) {
			u := features.ScriptUnit{PkgID: p.PathID(s.host), Name: p.Name, Version: p.Version, Dir: p.Dir}
			u.Features, _ = builddir.Features(s.host, dir, s.b.profileDirs())
			add(u)
		}
	}
	return out
}

// localScripts are the project's own packages with a build script.
func (b *Build) localScripts() []*manifest.Package {
	var out []*manifest.Package
	for _, list := range [][]*manifest.Package{b.Project.Members, b.Project.Locals} {
		for _, p := range list {
			if p.BuildScript != "" {
				out = append(out, p)
			}
		}
	}
	return out
}

// scriptSets are those of the build, by package, including units that do not use the GPU toolchain. Without a unit graph they are
// those of the GPU packages, for platforms that are not known.
func (s *State) scriptSets() map[string][]scriptSet {
	if s.sets != nil {
		return s.sets
	}
	s.sets = map[string][]scriptSet{}
	add := func(pkgID string, list []string, platform string) {
		if set := (scriptSet{featureKey(list), platform}); !slices.Contains(s.sets[pkgID], set) {
			s.sets[pkgID] = append(s.sets[pkgID], set)
		}
	}
	if g := s.b.Graph.Units; g != nil {
		for _, u := range g.Units {
			if u.Mode == runsScript {
				add(u.PkgID, u.Features, u.Platform)
			}
		}
	}
	for _, list := range [][]features.ScriptUnit{s.b.Reach.Units, s.gpu} {
		for _, u := range list {
			add(u.PkgID, u.Features, u.Platform)
		}
	}
	return s.sets
}

// setsOf are the feature sets of which an OUT_DIR of a package may be. A package on which a build script depends as well as the
// program is built twice under one id, each time with features of its own, and cargo's messages tell nothing but where each
// script wrote. Its platform's directory tells them apart, and else what cargo keeps of the script. Several where neither does:
// then it may be any.
func (s *State) setsOf(pkgID, outDir string) map[string]bool {
	left := map[string]bool{}
	sets := s.scriptSets()[pkgID]
	if len(sets) > 1 && s.b.Graph.Units != nil {
		profile := s.host.Base(s.b.profileDirs()[0])
		for _, set := range sets {
			if s.host.Below(outDir, s.host.Join(s.b.Graph.Places.BuildDirectory, cargo.Triple(set.platform, ""), profile)) {
				left[set.features] = true
			}
		}
	}
	if len(left) == 0 {
		for _, set := range sets {
			left[set.features] = true
		}
	}
	if len(left) > 1 {
		if told, ok := builddir.Features(s.host, outDir, s.b.profileDirs()); ok && left[featureKey(told)] {
			left = map[string]bool{featureKey(told): true}
		}
	}
	return left
}

// unitsOf are the GPU units of which an OUT_DIR of a package may be, one for each feature set. None: it is of a unit that takes
// nothing from the GPU's toolchain.
func (s *State) unitsOf(pkgID, outDir string) []features.ScriptUnit {
	if !slices.ContainsFunc(s.gpu, func(u features.ScriptUnit) bool { return u.PkgID == pkgID }) {
		return nil
	}
	left := s.setsOf(pkgID, outDir)
	var out []features.ScriptUnit
	for _, u := range s.gpu {
		if key := featureKey(u.Features); u.PkgID == pkgID && left[key] {
			out = append(out, u)
			delete(left, key)
		}
	}
	return out
}

// mayBe says whether an OUT_DIR may be of a unit.
func (s *State) mayBe(u features.ScriptUnit, outDir string) bool {
	left := s.setsOf(u.PkgID, outDir)
	return len(left) == 0 || left[featureKey(u.Features)]
}

// unitOf is the GPU unit that a key names.
func (s *State) unitOf(k stale.Key) (features.ScriptUnit, bool) {
	for _, u := range s.gpu {
		if u.PkgID == k.PkgID && featureKey(u.Features) == k.Features {
			return u, true
		}
	}
	return features.ScriptUnit{}, false
}

// strictest is the unit of which most is asked: where nothing tells of which one an OUT_DIR is, its device code is held against
// that one's wish.
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
