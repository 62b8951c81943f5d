package app

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

const recordLimit = 64 << 20

// recordPath is where it is remembered what was built with what: beside the artifacts, so that it goes when they go.
func (j *journey) recordPath() string {
	return j.host.Join(j.answers.Places.BuildDirectory, ".gpubuild-record.json")
}

// readRecord reads the record; one that cannot be read is told, counts as empty, and is written anew after the build.
func (j *journey) readRecord() {
	if j.record.Schema != 0 || j.recordNote != "" || j.answers.Places.BuildDirectory == "" {
		return
	}
	data, err := j.host.ReadFile(j.recordPath(), recordLimit)
	if err == nil {
		j.record, err = stale.Decode(data)
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // its path is told beside it
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.recordNote = strings.TrimPrefix(err.Error(), j.recordPath()+": ")
	}
}

// builtFor is the architecture that this target directory's GPU packages were last built for.
func (j *journey) builtFor() gpu.Arch {
	j.readRecord()
	for i := len(j.record.Entries) - 1; i >= 0; i-- {
		for _, in := range j.record.Entries[i].Inputs {
			if in.Name != "arch" {
				continue
			}
			if a, err := gpu.ParseArch(in.Value); err == nil {
				return a
			}
		}
	}
	return gpu.Arch{}
}

// lockTarget keeps a second gpubuild out of the same target directory until the build is done.
func (j *journey) lockTarget(ctx context.Context) (func(), error) {
	path := j.lockPath()
	if err := cache.Make(j.host.Dir(path)); err != nil {
		return nil, err
	}
	release, err := cache.Lock(ctx, path, func(holder string) {
		j.shell.Status("Blocking", "waiting for another gpubuild on this target directory (%s)", holder)
	})
	if err != nil {
		return nil, err
	}
	// What was read before, for the architecture, may be older than what the one that was waited for wrote.
	j.record, j.recordNote = stale.Record{}, ""
	done := false
	return func() {
		if !done {
			done = true
			if err := release(); err != nil {
				j.shell.Warning("lock of the target directory: %v", err)
			}
		}
	}, nil
}

// compare holds what is recorded of the GPU packages against what they would be built with now. Which units there are is known from the record
// itself: an entry is about one out_dir, and a package that was never built has nothing that could be stale.
func (j *journey) compare(ctx context.Context) error {
	j.readRecord()
	h := j.openHashes()
	defer h.keep(j.app)
	seen := map[stale.Key]bool{}
	for _, u := range j.reach.Units {
		inputs, err := j.inputsNow(u.Inputs, h)
		if err != nil {
			return err
		}
		key := featureKey(u.Features)
		if j.inputs == nil {
			j.inputs = map[string][]stale.Input{}
		}
		j.inputs[u.PkgID+" "+key] = inputs
		entries := j.entriesOf(u)
		for _, e := range entries {
			if seen[e.Key] {
				continue // on another platform
			}
			seen[e.Key] = true
			ran := cargo.ScriptRan(j.host, e.OutDir)
			if ran == 0 && !j.host.IsDir(e.OutDir) {
				continue // cleaned since: it will be built
			}
			linked, err := j.stillLinked(e, h)
			if err != nil {
				return err
			}
			now, err := j.withBeyond(u, e.OutDir, inputs, h)
			if err != nil {
				return err
			}
			j.units = append(j.units, stale.Unit{Key: e.Key, Package: u.Name, Inputs: append(asRecorded(now, e), linked...), ScriptRan: ran})
		}
		if len(entries) > 0 {
			continue
		}
		for _, out := range j.unrecorded(u) {
			k := stale.Key{PkgID: u.PkgID, Features: key, OutDir: out}
			if !seen[k] {
				seen[k] = true
				now, err := j.withBeyond(u, out, inputs, h)
				if err != nil {
					return err
				}
				j.units = append(j.units, stale.Unit{Key: k, Package: u.Name, Inputs: now, ScriptRan: cargo.ScriptRan(j.host, out)})
			}
		}
	}
	if err := j.compareBeyond(h); err != nil {
		return err
	}
	j.compared = stale.Compare(j.record, j.units)
	if len(j.compared.Unknown) > 0 {
		j.adopt(ctx, h)
	}
	return nil
}

func featureKey(list []string) string {
	sorted := append([]string(nil), list...)
	sort.Strings(sorted)
	return strings.Join(sorted, ",")
}

// ofThisBuild says whether an OUT_DIR belongs to the profile and to a platform that the package is built for now. Where cargo gave no unit graph, the
// platform of a package is not known, and it may be any.
func (j *journey) ofThisBuild(u features.ScriptUnit, outDir string) bool {
	dirs := j.profileDirs()
	if len(j.answers.Graph) > 0 {
		profile := j.host.Base(dirs[0])
		dirs = nil
		for _, same := range j.reach.Units {
			if same.PkgID == u.PkgID { // a package may be built for the host, too
				dirs = append(dirs, j.host.Join(j.answers.Places.BuildDirectory, cargo.Triple(same.Platform, ""), profile))
			}
		}
	}
	for _, dir := range dirs {
		if j.host.Below(outDir, dir) {
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
		if g, err := j.answers.graph(); err == nil && g != nil { // what cannot be parsed judge has told
			for _, u := range g.Units {
				if u.Platform != "" && !contains(out, u.Platform) {
					out = append(out, u.Platform)
				}
			}
		}
	}
	for _, t := range j.line.Target {
		if t = cargo.Triple(t, ""); t != "" && !contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// profileDirs are the build directory's of the profile.
func (j *journey) profileDirs() []string { return j.profileDirsIn(j.answers.Places.BuildDirectory) }

// profileDirsIn are the directories of the profile: the host's and that of each platform. Their names are cargo's documented ones.
func (j *journey) profileDirsIn(build string) []string {
	name := j.line.ProfileName()
	switch name {
	case "dev", "test":
		name = "debug"
	case "bench":
		name = "release"
	}
	dirs := []string{j.host.Join(build, name)}
	for _, p := range j.platforms() {
		dirs = append(dirs, j.host.Join(build, p, name))
	}
	return dirs
}

// compiledWith says whether a package's build script was ever compiled with the unit's features here. Where it was not, no OUT_DIR that lies here is one
// that cargo could take: those are of other features, a build for the CPU for one. Anything that is not understood counts as yes; and if the answer is
// wrong, judgeRest sees it once cargo has said what it took.
func (j *journey) compiledWith(u features.ScriptUnit) bool {
	list := cargo.CompiledScripts(j.host, j.profileDirs(), u.Name)
	return len(list) == 0 || slices.ContainsFunc(list, func(s cargo.CompiledScript) bool { return !s.Told || featureKey(s.Features) == featureKey(u.Features) })
}

// unrecorded lists the OUT_DIRs in the profile's directory in which the package's build script ran and of which no record speaks.
func (j *journey) unrecorded(u features.ScriptUnit) []string {
	if !j.compiledWith(u) {
		return nil
	}
	known := map[string]bool{}
	for _, e := range j.record.Entries {
		if e.PkgID != u.PkgID || j.credible(e) {
			known[j.host.Clean(e.OutDir)] = true
		}
	}
	var out []string
	for _, dir := range j.outDirs(u.Name) {
		if !known[dir] && j.ofThisBuild(u, dir) && cargo.ScriptRan(j.host, dir) != 0 && j.mayBe(u, dir) {
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
		dir := j.host.Join(profile, "build")
		for _, e := range j.names(dir) {
			if at := strings.LastIndexByte(e, '-'); at > 0 && packages[e[:at]] {
				outs = append(outs, j.host.Join(dir, e, "out"))
			}
			if packages[e] {
				for _, hash := range j.names(j.host.Join(dir, e)) {
					outs = append(outs, j.host.Join(dir, e, hash, "out"))
				}
			}
		}
	}
	return outs
}

// names lists what is in a directory; one that cannot be read has nothing that cargo could reuse.
func (j *journey) names(dir string) []string { return j.host.Names(dir) }

// cleanStale cleans just the packages whose inputs changed, with cargo's own clean.
func (j *journey) cleanStale(ctx context.Context) error {
	if err := j.compare(ctx); err != nil {
		return err
	}
	if j.recordNote != "" {
		j.shell.Warning("%s: %s; what the GPU packages were built with is unknown", j.recordPath(), j.recordNote)
	}
	j.tellUntold()
	packages := j.stalePackages()
	if j.options.ForceClean {
		var err error
		if packages, err = j.gpuPackages(); err != nil {
			return err
		}
	}
	j.tellAdopted(packages)
	if len(packages) == 0 {
		return nil
	}
	return j.cleanTold(ctx, packages)
}

// tellUntold says of which packages nothing is said: without a unit graph their sources are not known.
func (j *journey) tellUntold() {
	if len(j.reach.Untold) == 0 {
		return
	}
	j.shell.Warning("%s: `cargo tree` and Cargo.lock do not tell which package that is, so nothing is known of what it was built with", strings.Join(j.reach.Untold, ", "))
	j.shell.Hint("after a change of toolkit run cargo " + strings.Join(cargo.Clean(j.tool, j.line, j.reach.Untold, j.platforms()).Args, " ") + ", or let cargo be asked for its unit graph (" + j.answers.Reason + ")")
}

// cleanTold says why packages are cleaned, and cleans them.
func (j *journey) cleanTold(ctx context.Context, packages []string) error {
	for _, l := range stale.Lines(j.compared.Reasons) {
		j.shell.Status("Stale", "%s", l)
	}
	for _, d := range j.compared.Unknown {
		j.shell.Status("Unknown", "%s: %s", d.Package, d.Why)
	}
	if j.options.NoClean {
		j.shell.Error("stale artifacts of %s, and --gpu-no-clean forbids to clean them", strings.Join(packages, ", "))
		j.shell.Hint("leave --gpu-no-clean out, or run cargo " + strings.Join(cargo.Clean(j.tool, j.line, packages, j.platforms()).Args, " "))
		return codeError(codeStale)
	}
	if err := j.cleanForBuild(ctx, packages); err != nil {
		return err
	}
	j.shell.Status("Cleaned", "%s", strings.Join(packages, ", "))
	j.areCleaned(packages)
	return nil
}

// stalePackages lists what must be cleaned: what differs, and what is not known to agree.
func (j *journey) stalePackages() []string {
	set := map[string]bool{}
	for _, p := range j.compared.Clean {
		set[p] = true
	}
	for _, d := range j.compared.Unknown {
		set[d.Package] = true
	}
	out := make([]string, 0, len(set))
	for p := range set {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}

// unjudged says whether a unit that cargo took as it lay there was compared with nothing: of its package and features another OUT_DIR is recorded, and
// plain cargo made this one (another toolchain, other RUSTFLAGS, another selection of the workspace).
func (j *journey) unjudged(m cargo.Message) bool {
	ran := j.before[j.host.Clean(m.OutDir)]
	if ran == 0 || ran != cargo.ScriptRan(j.host, m.OutDir) {
		return false
	}
	for _, u := range j.units {
		if j.host.SamePath(u.OutDir, m.OutDir) {
			return false
		}
	}
	return true
}

// judgeRest compares what cargo took and what was not compared before the build, since only cargo knows which OUT_DIRs it takes. What does not agree
// is cleaned and built once more.
func (j *journey) judgeRest(ctx context.Context) error {
	var rest []stale.Unit
	for _, m := range j.messages {
		if m.Reason != cargo.ScriptExecuted || !j.unjudged(m) {
			continue
		}
		units := j.unitsOf(m.PackageID, m.OutDir)
		for _, u := range units {
			key := featureKey(u.Features)
			rest = append(rest, stale.Unit{Key: stale.Key{PkgID: u.PkgID, Features: key, OutDir: m.OutDir}, Package: u.Name,
				Inputs: j.inputs[u.PkgID+" "+key], ScriptRan: cargo.ScriptRan(j.host, m.OutDir)})
		}
		if len(units) > 0 {
			continue
		}
		if u, ok := j.builtBeyond(m); ok {
			rest = append(rest, u)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	h := j.openHashes()
	defer h.keep(j.app)
	for i, u := range rest {
		var err error
		if _, beyond := j.unitsBeyond[u.Key]; beyond {
			err = j.lookBeyond(h)
			rest[i].Inputs = j.inputsBeyond
		} else if is, ok := j.unitOf(u.Key); ok {
			rest[i].Inputs, err = j.withBeyond(is, u.OutDir, u.Inputs, h)
		}
		if err != nil {
			return err
		}
	}
	j.compared = stale.Compare(j.record, rest)
	j.adopt(ctx, h)
	j.units = append(j.units, rest...)
	packages := j.stalePackages()
	j.tellAdopted(packages)
	if len(packages) == 0 {
		return nil
	}
	if err := j.cleanTold(ctx, packages); err != nil {
		j.messages = nil // what may not be cleaned must not be recorded as built with the tools of now
		return err
	}
	j.messages, j.programs = nil, nil
	return j.build(ctx)
}
