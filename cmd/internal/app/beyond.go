package app

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// beyond answers, for a path package whose build script ran, the unit that it is if it compiled kernels although nothing in its sources shows that. What
// was read of a script is never the whole: it may run any program. Of packages of registries the sources tell enough, and their code is not the
// user's own. Without a chosen toolkit there is nothing that code could be held against.
func (j *journey) beyond(m cargo.Message) (features.ScriptUnit, bool) {
	id := manifest.ParsePkgID(m.PackageID)
	if !id.Local() || j.Set.Toolkit == nil {
		return features.ScriptUnit{}, false
	}
	u := features.ScriptUnit{PkgID: m.PackageID, Name: id.Name, Version: id.Version, Dir: id.Dir(j.Host), Inputs: compiles}
	if told, ok := builddir.Features(j.Host, m.OutDir, j.profileDirs()); ok {
		u.Features = told
		return u, true
	}
	for _, a := range j.messages {
		if a.Reason == cargo.Artifact && a.PackageID == m.PackageID && contains(a.Target.Kind, "custom-build") {
			u.Features = a.Features
		}
	}
	return u, true
}

// beyondThere are the outputs of such packages as earlier builds left them.
func (j *journey) beyondThere() []output {
	if j.Set.Toolkit == nil {
		return nil
	}
	var out []output
	for _, p := range j.unseen() {
		for _, dir := range j.tookOuts(p) {
			u := features.ScriptUnit{PkgID: p.PathID(j.Host), Name: p.Name, Version: p.Version, Dir: p.Dir, Inputs: compiles}
			u.Features, _ = builddir.Features(j.Host, dir, j.profileDirs())
			out = append(out, output{unit: u, outDir: dir, beyond: true})
		}
	}
	return out
}

// compiles is what such a package takes from the machine: all that nvcc does. Which variables its script reads is not known.
var compiles = features.Inputs{NVCC: true, Host: true, Arch: true, Root: true}

// unseen are the path packages with a build script whose sources do not show that it runs nvcc.
func (j *journey) unseen() []*manifest.Package {
	shown := map[string]bool{}
	for _, u := range j.reach.Units {
		shown[u.Name] = shown[u.Name] || u.Inputs.NVCC
	}
	var out []*manifest.Package
	for _, list := range [][]*manifest.Package{j.Project.Members, j.Project.Locals} {
		for _, p := range list {
			if p.BuildScript != "" && !shown[p.Name] {
				out = append(out, p)
			}
		}
	}
	return out
}

// compareBeyond adds to the units that are compared those of which only their code shows that they compile kernels, as far as earlier builds left any. The
// code itself tells of nvcc and the architecture; of the host compiler, headers and variables only a record does.
func (j *journey) compareBeyond(h *hashes) error {
	if j.Set.Toolkit == nil {
		return nil
	}
	// For one that compiles its first kernels in this build they are noted, too, where that costs nothing or such a script is expected.
	ahead := j.Undeclared.Package != "" || slices.ContainsFunc(j.reach.Units, func(u features.ScriptUnit) bool { return u.Inputs.Arch })
	if ahead && len(j.unseen()) > 0 {
		if err := j.lookBeyond(h); err != nil {
			return err
		}
	}
	for _, o := range j.beyondThere() {
		if len(j.unitsOf(o.unit.PkgID, o.outDir)) > 0 {
			continue // see withBeyond
		}
		if j.othersTook(o.unit.PkgID, o.outDir) || !j.compilesAsSeen(o.unit, o.outDir) {
			continue // judgeRest compares what the build takes of it
		}
		if err := j.lookBeyond(h); err != nil {
			return err
		}
		u := stale.Unit{Key: j.keyBeyond(o.unit, o.outDir), Package: o.unit.Name, Inputs: j.inputsBeyond, ScriptRan: builddir.Ran(j.Host, o.outDir)}
		for _, e := range j.record.Entries {
			if e.Key != u.Key {
				continue
			}
			linked, err := j.stillLinked(e, h)
			if err != nil {
				return err
			}
			u.Inputs = append(u.Inputs[:len(u.Inputs):len(u.Inputs)], linked...)
		}
		j.isBeyond(u.Key, o.unit)
		j.units = append(j.units, u)
	}
	return nil
}

// lookBeyond notes what such packages would be built with now; all of them with the same.
func (j *journey) lookBeyond(h *hashes) (err error) {
	if j.inputsBeyond == nil {
		j.inputsBeyond, err = j.inputsNow(compiles, h)
	}
	return err
}

// keyBeyond is under what such a unit is recorded.
func (j *journey) keyBeyond(u features.ScriptUnit, outDir string) stale.Key {
	for _, e := range j.record.Entries {
		if e.PkgID == u.PkgID && j.Host.SamePath(e.OutDir, outDir) {
			return e.Key // the features may not be known before the build
		}
	}
	return stale.Key{PkgID: u.PkgID, Features: featureKey(u.Features), OutDir: outDir}
}

// compilesAsSeen says whether an OUT_DIR holds kernels that its script compiled: some of the user's own, or any where earlier builds knew it of the script.
func (j *journey) compilesAsSeen(u features.ScriptUnit, outDir string) bool {
	held, err := j.holds(outDir)
	if err != nil || len(held.code) == 0 {
		return false // that it cannot be read is told when the build is checked
	}
	for _, e := range j.record.Entries {
		if e.PkgID == u.PkgID && j.Host.SamePath(e.OutDir, outDir) && slices.ContainsFunc(e.Inputs, func(in stale.Input) bool { return in.Name == nvccInput }) {
			return true
		}
	}
	ran := builddir.Ran(j.Host, outDir)
	if r := j.openResults(); ran != 0 && r.Foreign[outDir] == ran {
		return false
	}
	if len(j.ownKernels(u, outDir).list) > 0 {
		return true
	}
	j.openResults().foreign(outDir, ran)
	return false
}

// withBeyond adds to the inputs of a unit whose sources show something else that it takes from the toolkit, and not nvcc, what nvcc takes, where its code shows
// that it runs it. Without h what was not looked at before the build is left out: the next one then makes the package anew.
func (j *journey) withBeyond(u features.ScriptUnit, outDir string, inputs []stale.Input, h *hashes) ([]stale.Input, error) {
	if u.Inputs.NVCC || j.Set.Toolkit == nil || !manifest.ParsePkgID(u.PkgID).Local() || !j.compilesAsSeen(u, outDir) {
		return inputs, nil
	}
	if h != nil {
		if err := j.lookBeyond(h); err != nil {
			return nil, err
		}
	}
	out := inputs[:len(inputs):len(inputs)]
	for _, in := range j.inputsBeyond {
		if !slices.ContainsFunc(inputs, func(known stale.Input) bool { return known.Name == in.Name }) {
			out = append(out, in)
		}
	}
	return out, nil
}

// ownKernels are those in an OUT_DIR that are in the user's own sources, and did not come compiled with them.
func (j *journey) ownKernels(u features.ScriptUnit, outDir string) *mistake {
	f := &mistake{unit: u, beyond: true}
	held, err := j.holds(outDir)
	if err != nil {
		return f
	}
	for i, c := range held.code {
		f.list, f.paths = append(f.list, stale.Mismatch{Code: c}), append(f.paths, held.path[i])
	}
	if j.leaveOwn(f); len(f.list) > 0 && j.allShipped(f) {
		f.list, f.paths = nil, nil
	}
	return f
}

// builtBeyond is the unit whose script a message is about, where only its code shows that it compiles kernels. It has no inputs where nobody looked at them
// before the build: then it is not recorded, and the next build takes what it finds as it does of any that nobody recorded.
func (j *journey) builtBeyond(m cargo.Message) (stale.Unit, bool) {
	u, ok := j.beyond(m)
	if !ok || !j.compilesAsSeen(u, m.OutDir) {
		return stale.Unit{}, false
	}
	key := j.keyBeyond(u, m.OutDir)
	j.isBeyond(key, u)
	return stale.Unit{Key: key, Package: u.Name, Inputs: j.inputsBeyond, ScriptRan: builddir.Ran(j.Host, m.OutDir)}, true
}

// tookOuts are the OUT_DIRs of a path package that a build would take, as far as that can be told: those that the last build with these features took.
// Of any other that no build with other features took it is the one that was written last: which cargo would take, only a build shows.
func (j *journey) tookOuts(p *manifest.Package) []string {
	took := j.openResults().Took
	g := j.graph.Units
	if g == nil {
		var out []string
		platforms := j.platforms()
		if len(platforms) == 0 {
			platforms = []string{""}
		}
		for _, platform := range platforms {
			if dir := took[j.tookKey(p.PathID(j.Host), j.askedWords(), platform)]; dir != "" && builddir.Ran(j.Host, dir) != 0 {
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
		others[j.Host.Clean(dir)] = true
	}
	var out []string
	for _, u := range g.Units {
		if u.Mode != "run-custom-build" || u.PkgID != p.PathID(j.Host) {
			continue
		}
		dir := took[j.tookKey(u.PkgID, u.Features, u.Platform)]
		if dir == "" {
			var left []string
			for _, d := range j.outDirs(p.Name) {
				if j.platformOf(d) == u.Platform && !others[j.Host.Clean(d)] {
					left = append(left, d)
				}
			}
			dir = j.newest(left)
		}
		if dir != "" && builddir.Ran(j.Host, dir) != 0 && !contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// othersTook says whether an OUT_DIR is one that only builds took which asked for something else, as far as is known without a unit graph.
func (j *journey) othersTook(pkgID, outDir string) bool {
	if j.graph.Units != nil {
		return false // tookOuts leaves them out
	}
	took := j.openResults().Took
	if j.Host.SamePath(took[j.tookKey(pkgID, j.askedWords(), j.platformOf(outDir))], outDir) {
		return false
	}
	for _, dir := range took {
		if j.Host.SamePath(dir, outDir) {
			return true
		}
	}
	return false
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
	l := j.Line
	words := []string{fmt.Sprintf("asked %v %v %v", l.AllFeatures, l.NoDefault, l.Workspace)}
	for _, list := range [][]string{l.Features, l.Packages, l.Excludes} {
		words = append(words, strings.Join(list, " "))
	}
	return words
}

// tookKey names a package with its features, for a platform and the build's profile.
func (j *journey) tookKey(pkgID string, list []string, platform string) string {
	return strings.Join([]string{pkgID, featureKey(list), platform, j.Line.ProfileName()}, "\n")
}

// platformOf is the platform below whose directory an OUT_DIR lies; empty for the host's own tree.
func (j *journey) platformOf(outDir string) string {
	for _, p := range j.platforms() {
		if j.Host.Below(outDir, j.Host.Join(j.graph.Places.BuildDirectory, p)) {
			return p
		}
	}
	return ""
}

// newest is the OUT_DIR in which a script ran last; empty: none.
func (j *journey) newest(dirs []string) string {
	newest, ran := "", int64(0)
	for _, dir := range dirs {
		if at := builddir.Ran(j.Host, dir); at > ran {
			newest, ran = dir, at
		}
	}
	return newest
}

// localNames are the packages of which beyond may speak.
func (j *journey) localNames() map[string]bool {
	out := map[string]bool{}
	for _, list := range [][]*manifest.Package{j.Project.Members, j.Project.Locals} {
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
			if j.Host.Below(dir, d) {
				return
			}
		}
		dirs = append(dirs, dir)
	}
	add(j.Project.Root)
	for _, list := range [][]*manifest.Package{j.Project.Members, j.Project.Locals} {
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

func (j *journey) isBeyond(k stale.Key, u features.ScriptUnit) {
	if j.unitsBeyond == nil {
		j.unitsBeyond = map[stale.Key]features.ScriptUnit{}
	}
	j.unitsBeyond[k] = u
}
