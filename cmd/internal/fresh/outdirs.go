package fresh

import (
	"slices"

	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// ofThisBuild says whether an OUT_DIR belongs to the profile and to a platform that the package is built for now. Where cargo
// gave no unit graph, the platform of a package is not known, and it may be any.
func (b *Build) ofThisBuild(pkgID, outDir string) bool {
	h, dirs := b.Machine.Host, b.profileDirs()
	if b.Graph.Units != nil {
		profile := h.Base(dirs[0])
		dirs = nil
		for _, u := range b.Graph.Units.Units {
			if u.PkgID == pkgID && u.Mode == runsScript { // a package may be built for the host, too
				dirs = append(dirs, h.Join(b.Graph.Places.BuildDirectory, cargo.Triple(u.Platform, ""), profile))
			}
		}
		for _, u := range b.Reach.Units {
			if u.PkgID == pkgID {
				dirs = append(dirs, h.Join(b.Graph.Places.BuildDirectory, cargo.Triple(u.Platform, ""), profile))
			}
		}
	}
	return slices.ContainsFunc(dirs, func(dir string) bool { return h.Below(outDir, dir) })
}

// platforms are the triples of this build: those that the unit graph shows, which know of a build.target in the configuration,
// and those of the command line. The host's own tree has none.
func (b *Build) platforms() []string {
	var out []string
	add := func(platform string) {
		if platform != "" && !slices.Contains(out, platform) {
			out = append(out, platform)
		}
	}
	if g := b.Graph.Units; g != nil {
		for _, u := range g.Units {
			add(u.Platform)
		}
	}
	for _, u := range b.Reach.Units {
		add(u.Platform)
	}
	for _, t := range b.Line.Target {
		add(cargo.Triple(t, ""))
	}
	return out
}

// profileDirs are the build directory's of the profile.
func (b *Build) profileDirs() []string { return b.profileDirsIn(b.Graph.Places.BuildDirectory) }

func (b *Build) profileDirsIn(build string) []string {
	return builddir.Profiles(b.Machine.Host, build, b.Line.ProfileName(), b.platforms())
}

// outDirs lists where in the profile's directories the build scripts of packages may have an OUT_DIR.
func (b *Build) outDirs(packages ...string) []string {
	return builddir.OutDirs(b.Machine.Host, b.profileDirs(), packages...)
}

// compiledWith says whether a package's build script was ever compiled with the unit's features here. Where it was not, no
// OUT_DIR that lies here is one that cargo could take: those are of other features, a build for the CPU for one. Anything that is
// not understood counts as yes; and if the answer is wrong, Settle sees it once cargo has said what it took.
func (b *Build) compiledWith(u features.ScriptUnit) bool {
	list := builddir.Compiled(b.Machine.Host, b.profileDirs(), u.Name)
	return len(list) == 0 || slices.ContainsFunc(list, func(s builddir.Script) bool {
		return !s.Told || featureKey(s.Features) == featureKey(u.Features)
	})
}

// outDirsOf lists the OUT_DIRs in which the build script of a unit ran, as far as cargo's files tell which unit they are of.
func (s *State) outDirsOf(u features.ScriptUnit) []string {
	var out []string
	for _, dir := range s.b.outDirs(u.Name) {
		if s.b.ofThisBuild(u.PkgID, dir) && builddir.Ran(s.host, dir) != 0 && s.mayBe(u, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// unrecorded lists those of them of which no record speaks.
func (s *State) unrecorded(u features.ScriptUnit) []string {
	if !s.b.compiledWith(u) {
		return nil
	}
	known := map[string]bool{}
	for _, e := range s.record.Entries {
		if e.PkgID != u.PkgID || s.credible(e) {
			known[s.host.Clean(e.OutDir)] = true
		}
	}
	return slices.DeleteFunc(s.outDirsOf(u), func(dir string) bool { return known[dir] })
}

// entriesOf are the recorded entries of a unit that a build could mean.
func (s *State) entriesOf(u features.ScriptUnit) []stale.Entry {
	var out []stale.Entry
	for _, e := range s.record.Of(u.PkgID, featureKey(u.Features)) {
		if s.b.ofThisBuild(u.PkgID, e.OutDir) && s.mayBe(u, e.OutDir) {
			out = append(out, e)
		}
	}
	return out
}

// credible says whether nothing speaks against an entry's features. Earlier gpubuilds recorded all OUT_DIRs of a package under
// those of one of its units; of features that are no unit's of this build nothing is known.
func (s *State) credible(e stale.Entry) bool {
	u, ok := s.unitOf(e.Key)
	return !ok || s.mayBe(u, e.OutDir)
}
