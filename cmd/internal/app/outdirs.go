package app

import (
	"slices"
	"strings"

	"gpubuild/features"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// ofThisBuild says whether an OUT_DIR belongs to the profile and to a platform that the package is built for now. Where cargo gave no unit graph, the
// platform of a package is not known, and it may be any.
func (j *journey) ofThisBuild(u features.ScriptUnit, outDir string) bool {
	dirs := j.profileDirs()
	if j.graph.Units != nil {
		profile := j.Host.Base(dirs[0])
		dirs = nil
		for _, same := range j.reach.Units {
			if same.PkgID == u.PkgID { // a package may be built for the host, too
				dirs = append(dirs, j.Host.Join(j.graph.Places.BuildDirectory, cargo.Triple(same.Platform, ""), profile))
			}
		}
	}
	for _, dir := range dirs {
		if j.Host.Below(outDir, dir) {
			return true
		}
	}
	return false
}

// platforms are what the GPU packages are built for: the triples that the unit graph shows, which know of a build.target in the configuration, and those
// of the command line. The host's own tree has none.
func (j *journey) platforms() []string {
	var out []string
	for _, u := range j.reach.Units {
		if u.Platform != "" && !contains(out, u.Platform) {
			out = append(out, u.Platform)
		}
	}
	if len(out) == 0 && len(j.reach.Units) == 0 { // nothing in the sources shows a GPU package; the code may
		if g := j.graph.Units; g != nil { // what cannot be parsed judge has told
			for _, u := range g.Units {
				if u.Platform != "" && !contains(out, u.Platform) {
					out = append(out, u.Platform)
				}
			}
		}
	}
	for _, t := range j.Line.Target {
		if t = cargo.Triple(t, ""); t != "" && !contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// profileDirs are the build directory's of the profile.
func (j *journey) profileDirs() []string { return j.profileDirsIn(j.graph.Places.BuildDirectory) }

// profileDirsIn are the directories of the profile: the host's and that of each platform. Their names are cargo's documented ones.
func (j *journey) profileDirsIn(build string) []string {
	name := j.Line.ProfileName()
	switch name {
	case "dev", "test":
		name = "debug"
	case "bench":
		name = "release"
	}
	dirs := []string{j.Host.Join(build, name)}
	for _, p := range j.platforms() {
		dirs = append(dirs, j.Host.Join(build, p, name))
	}
	return dirs
}

// compiledWith says whether a package's build script was ever compiled with the unit's features here. Where it was not, no OUT_DIR that lies here is one
// that cargo could take: those are of other features, a build for the CPU for one. Anything that is not understood counts as yes; and if the answer is
// wrong, judgeRest sees it once cargo has said what it took.
func (j *journey) compiledWith(u features.ScriptUnit) bool {
	list := builddir.Compiled(j.Host, j.profileDirs(), u.Name)
	return len(list) == 0 || slices.ContainsFunc(list, func(s builddir.Script) bool { return !s.Told || featureKey(s.Features) == featureKey(u.Features) })
}

// unrecorded lists the OUT_DIRs in the profile's directory in which the package's build script ran and of which no record speaks.
func (j *journey) unrecorded(u features.ScriptUnit) []string {
	if !j.compiledWith(u) {
		return nil
	}
	known := map[string]bool{}
	for _, e := range j.record.Entries {
		if e.PkgID != u.PkgID || j.credible(e) {
			known[j.Host.Clean(e.OutDir)] = true
		}
	}
	var out []string
	for _, dir := range j.outDirs(u.Name) {
		if !known[dir] && j.ofThisBuild(u, dir) && builddir.Ran(j.Host, dir) != 0 && j.mayBe(u, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// outDirs lists where in the profile's directory a package's build script may have an OUT_DIR. The names of these directories are cargo's private
// matter (both layouts are looked at), so what is found here only ever leads to reading or cleaning: a package that is cleaned for nothing costs time,
// not truth.
func (j *journey) outDirs(pkg string) []string { return j.outDirsOf(map[string]bool{pkg: true}) }

func (j *journey) outDirsOf(packages map[string]bool) []string {
	var outs []string
	for _, profile := range j.profileDirs() {
		dir := j.Host.Join(profile, "build")
		for _, e := range j.names(dir) {
			if at := strings.LastIndexByte(e, '-'); at > 0 && packages[e[:at]] {
				outs = append(outs, j.Host.Join(dir, e, "out"))
			}
			if packages[e] {
				for _, hash := range j.names(j.Host.Join(dir, e)) {
					outs = append(outs, j.Host.Join(dir, e, hash, "out"))
				}
			}
		}
	}
	return outs
}

// names lists what is in a directory; one that cannot be read has nothing that cargo could reuse.
func (j *journey) names(dir string) []string { return j.Host.Names(dir) }
