package app

import (
	"errors"
	"io/fs"
	"os"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// keepRecord writes down what the GPU packages were built with, from cargo's word that their scripts succeeded. It is written after a failed build,
// too: a mistake in the user's own code must not cost the kernels that were compiled before it.
//
// A good build stays good when nothing can be written: that is told, and the next build finds out anew what it does not know. What must not be is an
// older record that says of what was just built that it is from other tools; see stale.Record.Belies.
func (j *journey) keepRecord(good bool) {
	entries, open := j.built()
	base := j.record
	// Read again: a gpubuild with another cache, which does not know our lock, may have written while cargo made us wait.
	old, readErr := j.Host.ReadFile(j.recordPath(), recordLimit)
	if readErr == nil {
		if r, err := stale.Decode(old); err == nil {
			base = r
		}
	}
	data, err := base.Without(open).Merge(entries).Encode()
	if err == nil {
		if readErr == nil && string(old) == string(data) {
			return
		}
		sweep(j.recordPath())
		err = cache.WriteFile(j.recordPath(), data, 0o644)
	}
	if err != nil {
		j.notKept(base, entries, err, good)
	}
}

// built lists what was built with what, and the keys of which nothing can be told.
func (j *journey) built() (entries []stale.Entry, open []stale.Key) {
	h := j.openHashes()
	defer h.keep(j.app)
	for _, e := range j.record.Entries {
		if !j.credible(e) {
			open = append(open, e.Key)
		}
	}
	seen := map[string]bool{}
	for _, m := range j.messages {
		if m.Reason != cargo.ScriptExecuted || seen[m.OutDir] || j.unjudged(m) {
			continue
		}
		var units []stale.Unit
		for _, u := range j.unitsOf(m.PackageID, m.OutDir) {
			key := stale.Key{PkgID: u.PkgID, Features: featureKey(u.Features), OutDir: m.OutDir}
			// Those from before the build: what was replaced while cargo ran is another thing at the next one.
			inputs, _ := j.withBeyond(u, m.OutDir, j.inputs[u.PkgID+" "+key.Features], nil) // nothing is looked at
			units = append(units, stale.Unit{Key: key, Package: u.Name, Inputs: inputs, ScriptRan: builddir.Ran(j.Host, m.OutDir)})
		}
		if len(units) == 0 {
			if u, ok := j.builtBeyond(m); ok && u.Inputs != nil {
				units = append(units, u)
			}
		}
		if len(units) == 0 {
			continue
		}
		seen[m.OutDir] = true
		linked, err := j.linked(m, h)
		if err != nil {
			j.Shell.Warning("%s is not recorded: %v; the next build finds out anew what it was built with", units[0].Package, err)
		} else {
			j.linkedThen(m, linked)
		}
		for _, u := range units {
			if err != nil {
				open = append(open, u.Key)
				continue
			}
			u.Inputs = append(u.Inputs[:len(u.Inputs):len(u.Inputs)], linked...)
			entries = append(entries, u.Entry())
		}
	}
	return entries, open
}

// notKept says that nothing could be written down, and sees to it that no older record is taken for the truth.
func (j *journey) notKept(old stale.Record, entries []stale.Entry, err error, good bool) {
	voided := true
	if old.Belies(entries) {
		voided = void(j.recordPath())
	}
	if j.unkept {
		return
	}
	j.unkept = true
	f := finding.Finding{ID: "stale.unrecorded", Severity: finding.Warning, Message: "what the GPU packages were built with is not written down: " + err.Error(),
		Fix: "make " + j.graph.Places.BuildDirectory + " one that may be written to; until then each build looks at the device code instead, and builds anew what that does not tell"}
	switch fi, at := os.Lstat(j.recordPath()); {
	case !voided:
		f.Message += "; the record of an earlier build cannot be removed either, and speaks of other tools"
		f.Fix = "remove " + j.recordPath() + " before the next build, or give that one --gpu-force-clean"
	case at == nil && fi.IsDir():
		f.Fix = "remove the directory " + j.recordPath() + "; until then each build looks at the device code instead, and builds anew what that does not tell"
	case !good:
		j.Shell.Detail("%s", f.Message)
		return // what is wrong with the disk cargo has said
	}
	j.findings = append(j.findings, f)
	j.sink.Event("finding", f)
	j.Shell.Warning("%s", f.Message)
	j.Shell.Hint(f.Fix)
}

// void takes away a record that must not be believed: the file, or where its directory cannot be changed, what is in it.
func void(path string) bool {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return true
	}
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode().IsRegular() && os.Truncate(path, 0) == nil
}
