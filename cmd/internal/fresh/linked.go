package fresh

import (
	"errors"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
	"gpubuild/toolchain/nvcc"
)

// Names of the inputs that are known only once a script has finished, besides the sources that nvcc read. The last one contains a path,
// since a script may name several.
const (
	staticLibrary = "static library "
	linkDirectory = "link directory "
)

// changedSince replaces the hash of a file that went into a package and changed before we could read it.
const changedSince = "changed after it was read"

// linked is what went into a package from outside of cargo's own directories, by cargo's message and by the lists of headers that nvcc or
// CMake left. Of a file that changed after the script began, the content that it saw is unknown: the next build rebuilds the package,
// unless the stamp of the run before has that content. A library of the package's own is made by the script, and read by rustc after it.
func (s *State) linked(m cargo.Message, o out) (list []stale.Input, wrote []string, err error) {
	h := s.b.Machine.Host
	var dirs []string
	for _, p := range m.LinkedPaths {
		if kind, path, ok := strings.Cut(p, "="); ok && !strings.ContainsAny(kind, `/\`) {
			p = path
		}
		if h.IsAbs(p) && !s.b.inOwnDirs(p) && !slices.Contains(dirs, h.Clean(p)) {
			dirs = append(dirs, h.Clean(p))
		}
	}
	ended := builddir.Ended(h, o.dir)
	read := func(name, value, path string, own bool) {
		hash, failed := s.read.hashes.Each(path)
		if err = errors.Join(err, failed); failed != nil {
			return
		}
		in := stale.Input{Name: name, Value: value, Hash: hash[0]}
		if changedAt(path) > o.ran && !own && !slices.Contains(o.stamp.Inputs, in) {
			in.Hash = changedSince
		}
		list = append(list, in)
	}
	for _, l := range m.LinkedLibs {
		kind, name, _ := strings.Cut(l, "=")
		if kind != "static" && !strings.HasPrefix(kind, "static:") {
			continue
		}
		name, _, _ = strings.Cut(name, ":") // name:rename
		if path := firstOf(h, dirs, "lib"+name+".a", name+".lib", name); path != "" {
			read(staticLibrary+h.Base(path), path, path, h.Below(path, o.pkg.Dir) && changedAt(path) <= ended)
		}
	}
	sources, failed := s.readBy(o)
	if err = errors.Join(err, failed); err != nil {
		return nil, nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(sources)) {
		name, seen, at := inputs.NameOf(h, o.pkg.ScriptUnit, path), sources[path], changedAt(path)
		own := at >= o.ran && at <= ended // the script writes it, if that is so each time
		if own {
			wrote = append(wrote, name)
		}
		if own = own && slices.Contains(o.stamp.Wrote, name); seen == "" || own {
			read(stale.Part(inputs.Sources, name), name, path, own)
		} else {
			list = append(list, stale.Input{Name: stale.Part(inputs.Sources, name), Value: name, Hash: seen[:min(32, len(seen))]})
		}
	}
	sort.Slice(list, func(a, b int) bool { return list[a].Name < list[b].Name })
	for _, d := range dirs {
		if h.IsDir(d) {
			list = append(list, stale.Input{Name: linkDirectory + d, Value: "there"})
		}
	}
	return list, wrote, err
}

func firstOf(h buildenv.Host, dirs []string, files ...string) string {
	for _, f := range files {
		for _, d := range dirs {
			if p := h.Join(d, f); h.IsFile(p) {
				return p
			}
		}
	}
	return ""
}

// readBy lists what nvcc and other compilers said that they read and that is no source by another rule, with the hash that nvcc saw.
func (s *State) readBy(o out) (map[string]string, error) {
	if !o.pkg.Inputs.Arch {
		return nil, nil
	}
	h := s.b.Machine.Host
	made := []string{o.dir, s.b.Machine.CacheDir}
	if t := s.b.Tools.Set.Toolkit; t != nil {
		made = append(made, t.Root, h.Real(t.Root), h.Real(t.Include))
	}
	list, err := nvcc.Read(h, o.dir, o.pkg.Dir)
	maps.DeleteFunc(list, func(path, sum string) bool {
		return inputs.Below(h, path, made) || source.Unchanging(h, path) ||
			inputs.Compiled(h, path) && inputs.Below(h, path, o.pkg.Inputs.Sources) || sum != nvcc.Absent && !h.IsFile(path)
	})
	return list, err
}

// written takes over what a script wrote among its sources, as it left it: compiled kernels, what was not there before, and what changes
// for the second time while the script runs. A person may edit a source meanwhile: then the next build compiles it, once.
func (s *State) written(o out, list []stale.Input, before []string) (now []stale.Input, again []string, err error) {
	h, now := s.b.Machine.Host, slices.Clone(list)
	unit := o.pkg.ScriptUnit // and what it names that was not there before
	unit.Inputs.Sources = manifest.Union(unit.Inputs.Sources, s.b.compiling(unit).Sources)
	names, paths, _, err := inputs.SourcesOf(h, unit, s.b.ownDirs())
	ended := builddir.Ended(h, o.dir)
	for i, path := range paths {
		if at := changedAt(path); at < o.ran || at > ended {
			continue
		}
		sums, err := s.read.hashes.Each(path)
		if err != nil {
			return nil, nil, err
		}
		in := stale.Input{Name: stale.Part(inputs.Sources, names[i]), Value: names[i], Hash: sums[0]}
		if at := slices.IndexFunc(now, func(was stale.Input) bool { return was.Name == in.Name }); at < 0 {
			now = append(now, in)
		} else if slices.Contains([]string{".ptx", ".cubin", ".fatbin"}, h.Ext(path)) || slices.Contains(before, names[i]) {
			now[at] = in
		}
		again = append(again, names[i])
	}
	return now, again, err
}

// changedAt is when a file became what it is: one that is put in place of another with its old time has another state since.
func changedAt(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return max(fi.ModTime().UnixNano(), cache.StateTimeOf(fi))
}

// stillLinked lists what of a stamp still exists that only a build shows: cargo reports what a script links only after it ran, and so does
// nvcc what it read.
func (s *State) stillLinked(o out, now []stale.Input) ([]stale.Input, error) {
	h := s.b.Machine.Host
	known := map[string]bool{}
	for _, in := range now {
		known[in.Name] = true
	}
	var list []stale.Input
	for _, in := range o.stamp.Inputs {
		if d, ok := strings.CutPrefix(in.Name, linkDirectory); ok && h.IsDir(d) {
			list = append(list, in)
		}
		path := in.Value
		if !h.IsAbs(path) {
			path = h.Join(o.pkg.Dir, path)
		}
		isSource := strings.HasPrefix(in.Name, stale.Part(inputs.Sources, ""))
		gone := !h.IsFile(path)
		if known[in.Name] || !isSource && !strings.HasPrefix(in.Name, staticLibrary) || gone && in.Hash != nvcc.Absent {
			continue
		}
		if !gone {
			hash, err := s.read.hashes.Each(path)
			if err != nil {
				return nil, err
			}
			in.Hash = hash[0]
		}
		list = append(list, in)
	}
	return list, nil
}
