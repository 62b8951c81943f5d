package fresh

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

const recordLimit = 64 << 20

// recordPath is where it is remembered what was built with what: in the build directory, so that it goes when the artifacts go.
func recordPath(h buildenv.Host, places cargo.Places) string {
	return h.Join(places.BuildDirectory, ".gpubuild-record.json")
}

// readRecord reads the record; one that cannot be read counts as empty, and is replaced after the build. note says why it cannot.
func readRecord(m *session.Machine, places cargo.Places) (r stale.Record, note string) {
	if places.BuildDirectory == "" {
		return stale.Record{}, ""
	}
	path := recordPath(m.Host, places)
	data, err := m.Host.ReadFile(path, recordLimit)
	if err == nil {
		r, err = stale.Decode(data)
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the path is told beside it
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return stale.Record{}, strings.TrimPrefix(err.Error(), path+": ")
	}
	return r, ""
}

// keepRecord writes down what the GPU packages were built with, from cargo's word that their scripts succeeded. It is written
// after a failed build, too: a mistake in the user's own code must not cost the kernels that were compiled before it.
//
// A good build stays good when nothing can be written: that is told, and the next build finds out anew what it does not know.
// What must not be is an older record that says of what was just built that it is from other tools; see stale.Record.Belies.
func (s *State) keepRecord(good bool) {
	entries, open := s.entries()
	base := s.record
	// Read again: a gpubuild with another cache, which does not know our lock, may have written while cargo made us wait.
	old, readErr := s.host.ReadFile(recordPath(s.host, s.b.Graph.Places), recordLimit)
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
		sweep(recordPath(s.host, s.b.Graph.Places))
		err = cache.WriteFile(recordPath(s.host, s.b.Graph.Places), data, 0o644)
	}
	if err != nil {
		s.notKept(base, entries, err, good)
	}
}

// entries lists what was built with what, and the keys of which nothing can be told.
func (s *State) entries() (entries []stale.Entry, open []stale.Key) {
	for _, e := range s.record.Entries {
		if !s.credible(e) {
			open = append(open, e.Key)
		}
	}
	seen := map[string]bool{}
	for _, m := range s.built.Messages {
		if m.Reason != cargo.ScriptExecuted || seen[m.OutDir] || s.unseen(m) {
			continue
		}
		var units []stale.Unit
		for _, u := range s.unitsOf(m.PackageID, m.OutDir) {
			if inputs := s.looked(u); inputs != nil || !s.undeclared[u.PkgID] { // else the next build finds out what it was built with
				key := stale.Key{PkgID: u.PkgID, Features: featureKey(u.Features), OutDir: m.OutDir}
				units = append(units, stale.Unit{Key: key, Package: u.Name, Inputs: inputs, ScriptRan: builddir.Ran(s.host, m.OutDir)})
			}
		}
		if len(units) == 0 {
			continue
		}
		seen[m.OutDir] = true
		linked, err := s.linked(m)
		if err != nil {
			s.shell.Warning("%s is not recorded: %v; the next build finds out anew what it was built with", units[0].Package, err)
		} else {
			s.linkedThen(m, linked)
		}
		for _, u := range units {
			if err != nil {
				open = append(open, u.Key)
				continue
			}
			u.Inputs = append(slices.Clip(u.Inputs), linked...)
			entries = append(entries, u.Entry())
		}
	}
	return entries, open
}

// notKept says that nothing could be written down, and sees to it that no older record is taken for the truth.
func (s *State) notKept(old stale.Record, entries []stale.Entry, err error, good bool) {
	voided := true
	if old.Belies(entries) {
		voided = void(recordPath(s.host, s.b.Graph.Places))
	}
	if s.unkept {
		return
	}
	s.unkept = true
	const meanwhile = "; until then each build looks at the device code instead, and builds anew what that does not tell"
	f := finding.Finding{
		ID: "stale.unrecorded", Severity: finding.Warning,
		Message: "what the GPU packages were built with is not written down: " + err.Error(),
		Fix:     "make " + s.b.Graph.Places.BuildDirectory + " one that may be written to" + meanwhile,
	}
	switch fi, at := os.Lstat(recordPath(s.host, s.b.Graph.Places)); {
	case !voided:
		f.Message += "; the record of an earlier build cannot be removed either, and speaks of other tools"
		f.Fix = "remove " + recordPath(s.host, s.b.Graph.Places) + " before the next build, or give that one --gpu-force-clean"
	case at == nil && fi.IsDir():
		f.Fix = "remove the directory " + recordPath(s.host, s.b.Graph.Places) + meanwhile
	case !good:
		s.shell.Detail("%s", f.Message)
		return // what is wrong with the disk cargo has said
	}
	if s.b.Found != nil {
		s.b.Found(f)
	}
	s.shell.Warning("%s", f.Message)
	s.shell.Hint(f.Fix)
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

// sweep removes what a writer that was killed left beside a file of ours; cache.WriteFile writes ".NAME.*" there and renames it.
// Call it only under the lock that every writer of the file takes.
func sweep(path string) {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".*"))
	if err != nil {
		return // a directory whose name is a bad pattern: what is left there costs nothing but its bytes
	}
	for _, p := range left {
		_ = os.Remove(p)
	}
}
