package fresh

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/nvcc"
)

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

// knowledge is what is known of what went into an OUT_DIR.
type knowledge struct {
	state, why string            // see stale.Stamp
	read       map[string]string // by place
	unseen     bool              // the reason is an nvcc that is not gpubuild's
	alone      bool              // no compiler but nvcc is known to have run
	records    nvcc.Known
}

// known says how much of what was compiled for an OUT_DIR is recorded, and lists what compilers and the linker read for it, with the hash
// of what they saw. Of what was linked that is the content of now.
func (s *State) known(o outDir, linked []string) knowledge {
	h, k := s.b.Machine.Host, knowledge{state: stale.Complete, read: map[string]string{}}
	if o.pkg.Inputs.Arch {
		k.records = nvcc.Read(h, o.dir)
		other := func(sum string) bool { return !k.records.Made[sum] }
		host := func(f codeFile) bool { return slices.ContainsFunc(f.Host, other) }
		foreign, program := "", ""
		for _, f := range o.content.Code {
			if foreign == "" && slices.ContainsFunc(f.Device, other) {
				foreign = f.Name
			}
			if f.Program {
				program = f.Name
			}
		}
		switch {
		case k.records.Compiled == 0:
			k.state, k.unseen, k.why = stale.None, true, "no compilation by nvcc is recorded"
		case len(k.records.Partial) > 0:
			k.state, k.why = stale.Partial, k.records.Partial[0]
		case foreign != "":
			k.state, k.unseen, k.why = stale.Partial, true, foreign+" holds device code of a compilation that is not recorded"
		case program != "":
			k.state, k.why = stale.Partial, "what the program "+program+" reads is not recorded"
		default:
			k.alone = h.OS != buildenv.Windows && !slices.ContainsFunc(o.content.Code, host) && !s.read.hashes.NamesCompiler(o.pkg.unit(false, false))
		}
	}
	seen := map[string]string{}
	for path, sums := range k.records.Read {
		seen[s.path(o, path)] = sums
	}
	for _, path := range linked {
		seen[path] = cmp.Or(seen[path], linkedNow)
	}
	paths := slices.Sorted(maps.Keys(seen))
	now := s.read.hashes.Each(paths...)
	for i, path := range paths {
		switch place := s.place(o, path); {
		case place == "" || seen[path] != nvcc.Absent && now[i] == absent: // the script removed it
		case now[i] == inputs.NoFile || seen[path] == linkedNow:
			k.read[place] = now[i]
		case seen[path] == nvcc.Absent:
			k.read[place] = absent
		default:
			sums := strings.Fields(seen[path])
			for i, sum := range sums {
				sums[i] = sum[:min(32, len(sum))]
			}
			k.read[place] = strings.Join(sums, " ")
			if old := o.stamp.Read[place]; len(sums) > 1 && (old == k.read[place] || strings.HasPrefix(old, stale.Each)) {
				k.read[place] = stale.Each + k.read[place]
			}
		}
	}
	return k
}

// linkedNow is in place of the hash of a file that no call of nvcc read.
const linkedNow = "linked"

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
		if each, is := strings.CutPrefix(old, stale.Each); old == sums[i] || is && slices.Contains(strings.Fields(each), sums[i]) {
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

// meanwhile takes the sources of a package that no compiler's record holds as they are after its script ran: those that are new, and device
// code, which is what a script makes. Nobody knows which content of one that changed meanwhile the script read: that is why to build it
// once more, after which it is taken as the script leaves it.
func (s *State) meanwhile(o outDir, unit inputs.Unit, before []stale.Input, read map[string]string) (list []stale.Input, why []stale.Reason) {
	h, is, recorded := s.b.Machine.Host, map[string]stale.Input{}, map[string]bool{}
	for place := range read {
		recorded[nameOf(place)] = true
	}
	names, paths := s.read.hashes.SourcesOf(unit)
	for i, sum := range s.read.hashes.Each(paths...) {
		if in := (stale.Input{Name: stale.Part(inputs.Sources, names[i]), Value: names[i], Hash: sum}); sum != absent {
			is[in.Name] = in
		}
	}
	var was, now []stale.Input
	for _, in := range before {
		after, there := is[in.Name]
		delete(is, in.Name)
		source := strings.HasPrefix(in.Name, stale.Part(inputs.Sources, ""))
		made := slices.Contains([]string{".ptx", ".cubin", ".fatbin"}, h.Ext(in.Name))
		switch {
		case recorded[in.Name]:
		case !source || there && after.Hash == in.Hash:
			list = append(list, in)
		case s.again || made:
			if there {
				list = append(list, after)
			}
		default:
			list, was = append(list, in), append(was, in)
			if there {
				now = append(now, after)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if !recorded[name] {
			list = append(list, is[name])
		}
	}
	if s.b.Options.NoClean { // the next build says it
		return list, nil
	}
	return list, stale.Differences(o.pkg.Name, was, now)
}
