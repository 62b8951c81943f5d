package fresh

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
	"gpubuild/toolchain/nvcc"
)

// changedSince replaces the hash of a file that went into a package and changed before we could read it.
const changedSince = "changed after it was read"

// linked lists what a script links from outside of cargo's own directories, by cargo's message: static libraries, which rustc reads after
// the script, and directories, which must be there when the program is linked. libtorch says its version next to its directory.
func (s *State) linked(m cargo.Message) (list []string) {
	h := s.b.Machine.Host
	for _, p := range m.LinkedPaths {
		if kind, path, ok := strings.Cut(p, "="); ok && !strings.ContainsAny(kind, `/\`) {
			p = path
		}
		if h.IsAbs(p) && !s.b.inOwnDirs(p) && h.IsDir(p) {
			list = append(list, h.Clean(p))
		}
	}
	dirs := list
	for _, dir := range dirs {
		for _, name := range []string{"build-version", "version.py"} {
			if path := h.Join(h.Dir(dir), name); h.IsFile(path) {
				list = append(list, path)
			}
		}
	}
	for _, l := range m.LinkedLibs {
		kind, name, _ := strings.Cut(l, "=")
		name, _, _ = strings.Cut(name, ":") // name:rename
		if kind != "static" && !strings.HasPrefix(kind, "static:") {
			continue
		}
		for _, file := range []string{"lib" + name + ".a", name + ".lib", name} {
			if at := slices.IndexFunc(dirs, func(dir string) bool { return h.IsFile(h.Join(dir, file)) }); at >= 0 {
				list = append(list, h.Join(dirs[at], file))
				break
			}
		}
	}
	return list
}

// In a stamp a path begins with one of these where it is below the toolkit or the package: either may be in another place one day.
const (
	inToolkit = nvcc.InToolkit
	inPackage = "{package}"
)

// place is a path as a stamp names it; empty for what is in the OUT_DIR itself or in gpubuild's cache, and not a toolkit.
func (s *State) place(o outDir, path string) string {
	h, t := s.b.Machine.Host, s.b.Tools.Set.Toolkit
	below := func(dir, as string) string {
		if dir != "" && path != dir && h.Below(path, dir) {
			return as + "/" + filepath.ToSlash(path[len(h.Clean(dir)):][1:])
		}
		return ""
	}
	views := h.Join(s.b.Machine.CacheDir, nvcc.Views)
	if h.Below(path, views) { // VIEW/include/…: links into the toolkit
		_, rest, _ := strings.Cut(below(views, ""), "/")
		_, rest, _ = strings.Cut(rest, "/")
		return inToolkit + "/" + rest
	}
	if below(o.dir, "x") != "" {
		return ""
	}
	var dirs [][2]string
	if t != nil {
		dirs = [][2]string{{t.Root, inToolkit}, {t.Real, inToolkit}, {h.Real(t.Include), inToolkit + "/include"}}
	}
	for _, d := range append(dirs, [2]string{o.pkg.Dir, inPackage}) {
		if at := below(d[0], d[1]); at != "" {
			return at
		}
	}
	if h.Below(path, s.b.Machine.CacheDir) {
		return ""
	}
	return path
}

// path is where a place of a stamp is now.
func (s *State) path(o outDir, place string) string {
	h := s.b.Machine.Host
	if rest, ok := strings.CutPrefix(place, inPackage+"/"); ok {
		return h.Join(o.pkg.Dir, filepath.FromSlash(rest))
	}
	if rest, ok := strings.CutPrefix(place, inToolkit+"/"); ok && s.b.Tools.Set.Toolkit != nil {
		return h.Join(s.b.Tools.Set.Toolkit.Root, filepath.FromSlash(rest))
	}
	return place
}

// nameOf is the input that a place is: the user's own files by themselves, and those of the toolkit and of the system as parts of the
// compiler that brings them, so that another compiler is one reason and not hundreds.
func nameOf(place string) string {
	if rest, ok := strings.CutPrefix(place, inPackage+"/"); ok {
		return stale.Part(inputs.Sources, rest)
	}
	if rest, ok := strings.CutPrefix(place, inToolkit+"/"); ok {
		return stale.Part("CUDA headers", strings.TrimPrefix(rest, "include/"))
	}
	if strings.HasPrefix(place, "/usr/") {
		return stale.Part("host compiler", place)
	}
	return stale.Part(inputs.Sources, place)
}

// readBy lists what compilers and the linker read for an OUT_DIR, each file with the hash of what was seen, and what of it the script wrote
// itself. Of what was linked, and of what a compiler lists by itself, the content that was seen is that of now, unless it changed since.
// Unknown says that our nvcc was not in front of every compilation.
func (s *State) readBy(o outDir, linked []string) (read map[string]string, wrote []string, unknown bool) {
	list := map[string]string{}
	if o.pkg.Inputs.Arch {
		list = nvcc.Read(s.b.Machine.Host, o.dir)
	}
	for path, seen := range list {
		if at := s.path(o, path); at != path {
			delete(list, path)
			list[at] = seen
		}
	}
	for _, path := range linked {
		list[path] = ""
	}
	_, unknown = list[""] // the record says that it is incomplete
	delete(list, "")
	known := !o.pkg.Inputs.Arch
	read, ended := map[string]string{}, builddir.Ended(s.b.Machine.Host, o.dir)
	paths := slices.Sorted(maps.Keys(list))
	now := s.read.hashes.Each(paths...)
	for i, path := range paths {
		seen, place := list[path], s.place(o, path)
		known = known || seen != ""
		if place == "" || seen != nvcc.Absent && now[i] == absent {
			continue // the script removed it
		}
		if now[i] == inputs.NoFile {
			read[place] = now[i]
			continue
		}
		at := s.changedAt(path)
		own := at >= o.ran && at <= ended // the script writes it, if that is so each time
		if own {
			wrote = append(wrote, place)
		}
		switch {
		case seen == nvcc.Absent:
			read[place] = absent
		case own && slices.Contains(o.stamp.Wrote, place) || seen == "" && (at <= o.ran || own || o.stamp.Read[place] == now[i]):
			read[place] = now[i]
		case seen == "":
			read[place] = changedSince
		default:
			read[place] = seen[:min(32, len(seen))]
		}
	}
	return read, wrote, unknown || !known
}

// absent is the hash of a file that is not there.
const absent = "none"

// stillRead compares what was read with what is there now, and returns both as inputs, of those files alone that changed.
func (s *State) stillRead(o outDir) (was, now []stale.Input) {
	places := slices.Sorted(maps.Keys(o.stamp.Read))
	paths := make([]string, len(places))
	for i, place := range places {
		paths[i] = s.path(o, place)
	}
	sums := s.read.hashes.Each(paths...)
	for i, place := range places {
		old := o.stamp.Read[place]
		if old == sums[i] {
			continue
		}
		if old == absent && s.b.Machine.Host.IsDir(paths[i]) && sums[i] == absent {
			continue
		}
		in := stale.Input{Name: nameOf(place), Value: stale.PartName(nameOf(place))}
		if old != absent {
			in.Hash = old
			was = append(was, in)
		}
		if sums[i] != absent {
			in.Hash = sums[i]
			now = append(now, in)
		}
	}
	return was, now
}

// written takes over what a script wrote among its sources, as it left it: compiled kernels, what was not there before, and what changes
// for the second time while the script runs. A person may edit a source meanwhile: then the next build compiles it, once.
func (s *State) written(o outDir, unit inputs.Unit, list []stale.Input, before []string) (now []stale.Input, again []string) {
	h, now := s.b.Machine.Host, slices.Clone(list)
	names, paths := s.read.hashes.SourcesOf(unit) // and what it names that was not there before
	ended := builddir.Ended(h, o.dir)
	for i, path := range paths {
		if at := s.changedAt(path); at < o.ran || at > ended {
			continue
		}
		in := stale.Input{Name: stale.Part(inputs.Sources, names[i]), Value: names[i], Hash: s.read.hashes.Each(path)[0]}
		if at := slices.IndexFunc(now, func(was stale.Input) bool { return was.Name == in.Name }); at < 0 {
			now = append(now, in)
		} else if slices.Contains([]string{".ptx", ".cubin", ".fatbin"}, h.Ext(path)) || slices.Contains(before, names[i]) {
			now[at] = in
		}
		again = append(again, names[i])
	}
	return now, manifest.Union(again, nil)
}

// changedAt is when a file became what it is: one that is put in place of another with its old time has another state since. A time in the
// future says nothing, since a clock was set back or a tool made it up: the content decides alone.
func (s *State) changedAt(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	at := int64(0)
	for _, t := range []int64{fi.ModTime().UnixNano(), cache.StateTimeOf(fi)} {
		if t <= s.b.now().UnixNano() {
			at = max(at, t)
		}
	}
	return at
}
