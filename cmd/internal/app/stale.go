package app

import (
	"context"
	"errors"
	"io/fs"
	"sort"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/stale"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

const recordLimit = 64 << 20

// recordPath is where it is remembered what was built with what: beside the artifacts, so that it goes when they go.
func (j *journey) recordPath() string {
	return j.Host.Join(j.graph.Places.BuildDirectory, ".gpubuild-record.json")
}

// readRecord reads the record; one that cannot be read is told, counts as empty, and is written anew after the build.
func (j *journey) readRecord() {
	if j.record.Schema != 0 || j.recordNote != "" || j.graph.Places.BuildDirectory == "" {
		return
	}
	data, err := j.Host.ReadFile(j.recordPath(), recordLimit)
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
	if err := cache.Make(j.Host.Dir(path)); err != nil {
		return nil, err
	}
	release, err := cache.Lock(ctx, path, func(holder string) {
		j.Shell.Status("Blocking", "waiting for another gpubuild on this target directory (%s)", holder)
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
				j.Shell.Warning("lock of the target directory: %v", err)
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
			ran := builddir.Ran(j.Host, e.OutDir)
			if ran == 0 && !j.Host.IsDir(e.OutDir) {
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
				j.units = append(j.units, stale.Unit{Key: k, Package: u.Name, Inputs: now, ScriptRan: builddir.Ran(j.Host, out)})
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

// cleanStale cleans just the packages whose inputs changed, with cargo's own clean.
func (j *journey) cleanStale(ctx context.Context) error {
	if err := j.compare(ctx); err != nil {
		return err
	}
	if j.recordNote != "" {
		j.Shell.Warning("%s: %s; what the GPU packages were built with is unknown", j.recordPath(), j.recordNote)
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
	j.Shell.Warning("%s: `cargo tree` and Cargo.lock do not tell which package that is, so nothing is known of what it was built with", strings.Join(j.reach.Untold, ", "))
	j.Shell.Hint("after a change of toolkit run cargo " + strings.Join(cargo.Clean(j.Tool, j.Line, j.reach.Untold, j.platforms()).Args, " ") + ", or let cargo be asked for its unit graph (" + j.graph.Reason + ")")
}

// cleanTold says why packages are cleaned, and cleans them.
func (j *journey) cleanTold(ctx context.Context, packages []string) error {
	for _, l := range stale.Lines(j.compared.Reasons) {
		j.Shell.Status("Stale", "%s", l)
	}
	for _, d := range j.compared.Unknown {
		j.Shell.Status("Unknown", "%s: %s", d.Package, d.Why)
	}
	if j.options.NoClean {
		j.Shell.Error("stale artifacts of %s, and --gpu-no-clean forbids to clean them", strings.Join(packages, ", "))
		j.Shell.Hint("leave --gpu-no-clean out, or run cargo " + strings.Join(cargo.Clean(j.Tool, j.Line, packages, j.platforms()).Args, " "))
		return exit.Code(exit.Stale)
	}
	if err := j.cleanForBuild(ctx, packages); err != nil {
		return err
	}
	j.Shell.Status("Cleaned", "%s", strings.Join(packages, ", "))
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
	ran := j.before[j.Host.Clean(m.OutDir)]
	if ran == 0 || ran != builddir.Ran(j.Host, m.OutDir) {
		return false
	}
	for _, u := range j.units {
		if j.Host.SamePath(u.OutDir, m.OutDir) {
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
				Inputs: j.inputs[u.PkgID+" "+key], ScriptRan: builddir.Ran(j.Host, m.OutDir)})
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
