package app

import (
	"fmt"
	"strings"

	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

// beyond answers, for a path package whose build script ran, the unit that it is if it compiled kernels although nothing in its sources shows that. What
// was read of a script is never the whole: it may run any program. Of packages of registries the sources tell enough, and their code is not the
// user's own. Without a chosen toolkit there is nothing that code could be held against.
func (j *journey) beyond(m cargo.Message) (features.ScriptUnit, bool) {
	id := features.ParsePkgID(m.PackageID)
	if !id.Local() || j.set.Toolkit == nil {
		return features.ScriptUnit{}, false
	}
	u := features.ScriptUnit{PkgID: m.PackageID, Name: id.Name, Version: id.Version, Dir: id.Dir(j.host), Inputs: features.Inputs{NVCC: true, Host: true, Arch: true}}
	for _, a := range j.messages {
		if a.Reason == cargo.Artifact && a.PackageID == m.PackageID && contains(a.Target.Kind, "custom-build") {
			u.Features = a.Features
		}
	}
	return u, true
}

// beyondThere are the outputs of such packages as earlier builds left them.
func (j *journey) beyondThere() []output {
	if j.set.Toolkit == nil {
		return nil
	}
	compiles := map[string]bool{}
	for _, u := range j.reach.Units {
		compiles[u.Name] = compiles[u.Name] || u.Inputs.NVCC
	}
	var out []output
	for _, list := range [][]*features.Package{j.project.Members, j.project.Locals} {
		for _, p := range list {
			if p.BuildScript == "" || compiles[p.Name] {
				continue
			}
			for _, dir := range j.tookOuts(p) {
				u := features.ScriptUnit{PkgID: p.PathID(j.host), Name: p.Name, Version: p.Version, Dir: p.Dir, Inputs: features.Inputs{NVCC: true, Host: true, Arch: true}}
				out = append(out, output{unit: u, outDir: dir, beyond: true})
			}
		}
	}
	return out
}

// tookOuts are the OUT_DIRs of a path package that a build would take, as far as that can be told: those that the last build with these features took.
// Of any other that no build with other features took it is the one that was written last: which cargo would take, only a build shows.
func (j *journey) tookOuts(p *features.Package) []string {
	took := j.openResults().Took
	g, err := j.answers.graph()
	if err != nil || g == nil {
		var out []string
		platforms := j.platforms()
		if len(platforms) == 0 {
			platforms = []string{""}
		}
		for _, platform := range platforms {
			if dir := took[j.tookKey(p.PathID(j.host), j.askedWords(), platform)]; dir != "" && cargo.ScriptRan(j.host, dir) != 0 {
				out = append(out, dir)
			}
		}
		if newest := j.newest(j.outDirs(p.Name)); newest != "" && len(out) == 0 {
			out = append(out, newest)
		}
		return out
	}
	others := map[string]bool{}
	for _, dir := range took {
		others[j.host.Clean(dir)] = true
	}
	var out []string
	for _, u := range g.Units {
		if u.Mode != "run-custom-build" || u.PkgID != p.PathID(j.host) {
			continue
		}
		dir := took[j.tookKey(u.PkgID, u.Features, u.Platform)]
		if dir == "" {
			var left []string
			for _, d := range j.outDirs(p.Name) {
				if j.platformOf(d) == u.Platform && !others[j.host.Clean(d)] {
					left = append(left, d)
				}
			}
			dir = j.newest(left)
		}
		if dir != "" && cargo.ScriptRan(j.host, dir) != 0 && !contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// keepTook remembers which OUT_DIR a build took of such a package: for its features, and, where without a unit graph they are not known before a build, for
// what the command line asks.
func (j *journey) keepTook(u features.ScriptUnit, outDir string) {
	platform := j.platformOf(outDir)
	for _, list := range [][]string{u.Features, j.askedWords()} {
		j.openResults().took(j.tookKey(u.PkgID, list, platform), outDir)
	}
}

// askedWords are what of the command line decides about features.
func (j *journey) askedWords() []string {
	l := j.line
	words := []string{fmt.Sprintf("asked %v %v %v", l.AllFeatures, l.NoDefault, l.Workspace)}
	for _, list := range [][]string{l.Features, l.Packages, l.Excludes} {
		words = append(words, strings.Join(list, " "))
	}
	return words
}

// tookKey names a package with its features, for a platform and the build's profile.
func (j *journey) tookKey(pkgID string, list []string, platform string) string {
	return strings.Join([]string{pkgID, featureKey(list), platform, j.line.ProfileName()}, "\n")
}

// platformOf is the platform below whose directory an OUT_DIR lies; empty for the host's own tree.
func (j *journey) platformOf(outDir string) string {
	for _, p := range j.platforms() {
		if j.host.Below(outDir, j.host.Join(j.answers.Places.BuildDirectory, p)) {
			return p
		}
	}
	return ""
}

// newest is the OUT_DIR in which a script ran last; empty: none.
func (j *journey) newest(dirs []string) string {
	newest, ran := "", int64(0)
	for _, dir := range dirs {
		if at := cargo.ScriptRan(j.host, dir); at > ran {
			newest, ran = dir, at
		}
	}
	return newest
}

// localNames are the packages of which beyond may speak.
func (j *journey) localNames() map[string]bool {
	out := map[string]bool{}
	for _, list := range [][]*features.Package{j.project.Members, j.project.Locals} {
		for _, p := range list {
			if p.BuildScript != "" {
				out[p.Name] = true
			}
		}
	}
	return out
}

// sourceDirs are where the sources of a package's kernels may lie: in its own directory and, where nothing shows how they come to it, in those of the
// other packages of the project, which are the user's own as well.
func (j *journey) sourceDirs(f *mistake) []string {
	dirs := []string{f.unit.Dir}
	if !f.beyond {
		return dirs
	}
	add := func(dir string) {
		for _, d := range dirs {
			if j.host.Below(dir, d) {
				return
			}
		}
		dirs = append(dirs, dir)
	}
	add(j.project.Root)
	for _, list := range [][]*features.Package{j.project.Members, j.project.Locals} {
		for _, p := range list {
			add(p.Dir)
		}
	}
	return dirs
}

// holdBeyond judges the OUT_DIR of a package of which nothing shows that it compiles kernels. Only kernels that are the user's own count, and none that
// came compiled: what a script unpacked or fetched was made by whoever made it.
func (j *journey) holdBeyond(f *mistake, held holding) {
	f.beyond = true
	j.mismatches(f, held)
	if j.leaveOwn(f); len(f.list) > 0 && j.allShipped(f) {
		f.list, f.paths = nil, nil
	}
}
