package fresh

import (
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// Names of what linked records. A path is part of the second, since a script may have named several.
const (
	staticLibrary = "static library "
	linkDirectory = "link directory "
)

// linked is what a script told cargo to link from outside of cargo's own directories, by cargo's message: a static library goes
// into the crate's own file with its content, and a directory must still be there when the program is linked.
func (s *State) linked(m cargo.Message) ([]stale.Input, error) {
	var dirs []string
	for _, p := range m.LinkedPaths {
		if kind, path, ok := strings.Cut(p, "="); ok && !strings.ContainsAny(kind, `/\`) {
			p = path
		}
		if s.host.IsAbs(p) && !s.b.inOwnDirs(p) && !slices.Contains(dirs, s.host.Clean(p)) {
			dirs = append(dirs, s.host.Clean(p))
		}
	}
	var out []stale.Input
	libraries := s.bundled(dirs, m.LinkedLibs)
	for file, p := range libraries {
		hash, err := s.hashes.Together(p)
		if err != nil {
			return nil, err
		}
		out = append(out, stale.Input{Name: staticLibrary + file, Value: p, Hash: hash})
	}
	sort.Slice(out, func(a, b int) bool { return out[a].Name < out[b].Name })
	for _, d := range dirs {
		if s.host.IsDir(d) {
			out = append(out, stale.Input{Name: linkDirectory + d, Value: "there"})
		}
	}
	return out, nil
}

// replacedSince stands for the content of a library that went into a package's own file and was replaced before we could read it.
const replacedSince = "replaced after it was linked"

// linkedThen corrects what was read of static libraries after the build to what went into the package: of a package that was not
// made anew that is what was there before the build; of one that was, what is there now, unless it is newer than the file into
// which it went and not known to have had that content before cargo began: a new hard link to it, as package managers make them,
// changes its state, too. What that held is not known then, and the next build makes the package anew.
func (s *State) linkedThen(m cargo.Message, linked []stale.Input) {
	before, began := map[string]stale.Input{}, map[string]stale.Input{}
	for _, u := range s.units {
		if !s.host.SamePath(u.OutDir, m.OutDir) {
			continue
		}
		for _, in := range u.Inputs {
			began[in.Name] = in
			if u.ScriptRan != 0 && u.ScriptRan == builddir.Ran(s.host, m.OutDir) {
				before[in.Name] = in
			}
		}
	}
	made, fresh := s.madeAt(m.PackageID)
	for i, in := range linked {
		if !strings.HasPrefix(in.Name, staticLibrary) {
			continue
		}
		if old, ok := before[in.Name]; ok && fresh && old.Value == in.Value {
			linked[i] = old
		} else if !fresh && made != 0 && began[in.Name] != in && changedAt(in.Value) > made {
			linked[i].Hash = replacedSince
		}
	}
}

// madeAt is when the first of a package's libraries was written, in
// nanoseconds, and whether all of them lay there already; 0: it has none.
func (s *State) madeAt(pkgID string) (made int64, fresh bool) {
	fresh = true
	for _, m := range s.built.Messages {
		if m.Reason != cargo.Artifact || m.PackageID != pkgID || slices.Contains(m.Target.Kind, "custom-build") {
			continue
		}
		fresh = fresh && m.Fresh
		for _, path := range m.Filenames {
			fi, err := s.host.Files.Stat(path)
			if err == nil && s.host.Ext(path) == ".rlib" && (made == 0 || fi.ModTime().UnixNano() < made) {
				made = fi.ModTime().UnixNano()
			}
		}
	}
	return made, fresh
}

// changedAt is when a file became what it is. A file that is put in place of another with its old time, as package managers do,
// has another state since.
func changedAt(path string) int64 {
	at := int64(0)
	if id, err := cache.Identify(path); err == nil {
		at = id.MTime
	}
	if state, err := cache.StateTime(path); err == nil && state > at {
		at = state
	}
	return at
}

// bundled finds the static libraries that a script had linked from outside of cargo's own directories, by the names of their files.
func (s *State) bundled(dirs, libs []string) map[string]string {
	outside := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return !s.host.IsAbs(d) || s.b.inOwnDirs(d) })
	return inputs.StaticLibraries(s.host, outside, libs)
}

// stillLinked is what of a recorded entry's linked things is there now: before
// the script runs, cargo has no word on what it would link.
func (s *State) stillLinked(e stale.Entry) ([]stale.Input, error) {
	var out []stale.Input
	for _, in := range e.Inputs {
		if d, ok := strings.CutPrefix(in.Name, linkDirectory); ok && s.host.IsDir(d) {
			out = append(out, in)
		}
		if strings.HasPrefix(in.Name, staticLibrary) && s.host.IsFile(in.Value) {
			hash, err := s.hashes.Together(in.Value)
			if err != nil {
				return nil, err
			}
			out = append(out, stale.Input{Name: in.Name, Value: in.Value, Hash: hash})
		}
	}
	return out, nil
}
