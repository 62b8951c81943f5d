package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
	"gpubuild/toolchain/loader"
	"gpubuild/toolchain/nvcc"
)

// evidence is what a build left of a request that only the build decides.
type evidence struct {
	programs  int      // that were looked at
	shown     []string // how one of them shows that it uses the GPU; none: no one does
	anyway    []string // what they show, and bindings may have brought that are linked anyway
	system    []string // what libraries of the system name, which are the same whatever is built
	within    []string // what may name the GPU in a text of it: the name goes on, or a text may have it that calls nothing
	compiled  []string // packages of which kernels were compiled, or a library of the backend is linked
	complete  bool     // every program of the package was built
	unknown   bool     // one of them cannot be looked at
	watches   bool     // one names the library that watches GPUs, which computes nothing
	lost      string   // a library that one of them is loaded with, and that cannot be looked at
	otherUses bool     // another package of the build uses the GPU: a plugin of this one, or its server
}

// decideBuilt is the finding about a request, by what its build left; none where the program shows that it uses the GPU, or nothing is
// certain.
func decideBuilt(o features.Open, root string, e evidence) (f finding.Finding, found bool) {
	is := func(id, severity, format string, a ...any) (finding.Finding, bool) {
		f := finding.Of(finding.Finding{ID: id, Path: o.Path, Line: o.Line, Message: fmt.Sprintf(format, a...)})
		f.Severity = severity
		return f, true
	}
	with := func(f finding.Finding, found bool) (finding.Finding, bool) {
		if f.Fix = o.Fix; o.Listed {
			return f, found
		}
		if hint := fmt.Sprintf("if %s uses the GPU in a way that does not show: gpu-packages = [%q] in gpubuild.toml, or "+
			"--gpu-allow-unreached", root, root); f.Fix == "" {
			f.Fix = hint
		} else {
			f.Fix += "\n# " + hint
		}
		return f, found
	}
	switch {
	case len(e.shown) > 0 && len(o.Off) > 0:
		rest := map[bool]string{true: "is off: it computes", false: "are off: they compute"}[len(o.Off) == 1]
		severity := features.Note
		if len(o.Middle) > 0 && !catalog.Overlap(o.Middle, e.compiled) {
			severity = features.Warning
		}
		f, found = is(features.IDPartial, severity, "%s: the program uses %s, but %s %s on the CPU", o.Feature, o.Title(),
			strings.Join(o.Gates, ", "), rest)
		f.Fix = o.Fix
		return f, found
	case len(e.shown) > 0 || e.unknown:
		return f, false
	case e.programs == 0 && len(o.Off) > 0 && len(e.compiled) == 0 && !o.Bound && !o.Warns:
		return with(is(features.IDUnreached, features.Error, "%s does not enable %s, and nothing else was compiled for a GPU", o.Feature,
			strings.Join(o.Off, ", ")))
	case e.programs == 0:
		return f, false
	case len(e.compiled) > 0:
		return is(features.IDNotInProgram, features.Warning, "%s: kernels of %s were compiled, and nothing of them is in %s", o.Feature,
			strings.Join(e.compiled, ", "), root)
	}
	severity := features.Error
	if o.Warns || !e.complete || e.watches || e.lost != "" || e.otherUses && len(o.Off) == 0 {
		severity = features.Warning
	}
	if len(e.system) > 0 {
		return with(is(features.IDNoDeviceCode, features.Warning, "%s: all that may show in it that it uses %s is %s: a library of the system is "+
			"the same without the feature", o.Feature, o.Title(), strings.Join(e.system, ", ")))
	}
	always, what := strings.Join(o.Always, ", "), "no library, no driver function"
	switch {
	case len(e.within) > 0 && len(e.anyway) == 0: // Rust lets one text begin where another one ends
		return with(is(features.IDNoDeviceCode, features.Warning, "%s: all that may show in it that it uses %s is %s in a text", o.Feature,
			o.Title(), strings.Join(e.within, ", ")))
	case len(e.anyway) > 0 && !o.Blind:
		return with(is(features.IDNoDeviceCode, features.Warning, "%s: %s is linked without it, too, and may be all that uses %s", o.Feature,
			always, o.Title()))
	case e.watches:
		what = "and NVML only watches GPUs"
	case len(e.anyway) > 0:
		what = fmt.Sprintf("and only what %s brings, which is linked anyway", always)
	}
	if e.lost != "" {
		what += "; " + e.lost + ", which it loads, was not found"
	}
	return with(is(features.IDNoDeviceCode, severity, "%s: built, but nothing in it uses %s: no device code, %s", o.Feature, o.Title(), what))
}

// checkBuilt decides what only the build shows of the requested features, before anything runs.
func checkBuilt(c Command, s *session.Session, r Result) (list []finding.Finding, err error) {
	shell, left, uses := c.Machine.Shell, map[string]evidence{}, map[string]bool{}
	stops := false
	say := func(f finding.Finding) {
		if f.Path = c.Machine.Shown(f.Path); f.Severity == features.Warning && (c.Options.Strict || s.Config.Strict.Value) {
			f.Severity = features.Error
		}
		if c.Options.AllowUnreached && f.Severity == features.Error {
			f.Severity = features.Warning
		}
		stops = stops || f.Severity == features.Error
		shell.Finding(f)
		list = append(list, f)
	}
	for _, m := range r.Built.Messages {
		dir := manifest.ParsePkgID(m.PackageID).Dir(c.Machine.Host)
		if m.Reason == cargo.ScriptExecuted && dir != "" && nvcc.Read(c.Machine.Host, m.OutDir).Newest > 0 {
			s.KeepCompiled(dir)
		}
	}
	withoutGPU, err := droppedTorch(c, r)
	if err != nil {
		return list, err
	}
	for _, f := range withoutGPU {
		say(f)
	}
	for _, root := range r.Features.Reach.Roots {
		for _, s := range root.Crates { // one of the catalog that the request turns on, and that computes
			if s.Steps != nil && s.Role != "" && s.Role != catalog.Binding {
				uses[root.Package] = true
			}
		}
		for _, open := range root.Open {
			key := root.Package + " " + open.Feature
			if _, seen := left[key]; seen {
				continue
			}
			if left[key], err = gather(c, r, root.Package, open); err != nil {
				return list, err
			}
			if len(left[key].shown) > 0 {
				uses[root.Package] = true
			}
		}
	}
	for _, root := range r.Features.Reach.Roots {
		for _, open := range root.Open {
			key := root.Package + " " + open.Feature
			e, is := left[key]
			if delete(left, key); !is {
				continue
			}
			e.otherUses = len(uses) > 1 || len(uses) == 1 && !uses[root.Package]
			if by := slices.Concat(e.shown, e.anyway); len(by) > 0 && (len(e.shown) > 0 || !open.Blind) {
				shell.Status("Resolved", "%s: enabled by record: %s", open.Feature, strings.Join(manifest.Union(by), ", "))
			}
			if f, found := decideBuilt(open, root.Package, e); found {
				say(f)
			}
		}
	}
	if stops {
		return list, exit.Code(exit.Unreached)
	}
	return list, nil
}

// droppedTorch is about programs with a libtorch for a GPU of which the linker left the GPU's library out (--as-needed, since nothing
// refers to it): libtorch finds no GPU then, and says nothing. Source: torch-sys 0.26.0 build.rs,
// https://github.com/LaurentMazare/tch-rs/issues/907.
func droppedTorch(c Command, r Result) (list []finding.Finding, err error) {
	var libs, names []string
	for _, m := range r.Built.Messages {
		if m.Reason != cargo.ScriptExecuted || manifest.ParsePkgID(m.PackageID).Name != "torch-sys" {
			continue
		}
		for _, lib := range m.LinkedLibs {
			if lib = lib[strings.LastIndexByte(lib, '=')+1:]; strings.HasPrefix(lib, "torch_cuda") || strings.HasPrefix(lib, "torch_hip") {
				libs, names = append(libs, lib), append(names, "lib"+lib+".", lib+".dll")
			}
		}
	}
	if len(libs) == 0 {
		return nil, nil
	}
	linked, view := map[string]bool{}, r.Features.Facts.View
	for i, root := range r.Features.Reach.Roots {
		linked[root.Package] = linked[root.Package] ||
			slices.ContainsFunc(view.Roots[i].Linked, func(n int) bool { return view.Nodes[n].Name == "torch-sys" })
	}
	arg := "-Wl,--no-as-needed,-l" + libs[0]
	if c.Machine.Host.OS == buildenv.Windows {
		arg = "/INCLUDE:?warp_size@cuda@at@@YAHXZ"
	}
	for _, p := range r.Built.Programs {
		if !linked[p.Package] {
			continue
		}
		found, _, err := fatbin.Names(c.Machine.Host, p.Path, names, nil)
		switch {
		case err != nil && !errors.Is(err, fatbin.ErrFormat):
			return list, err
		case err == nil && len(found) == 0:
			f := finding.Of(finding.Finding{ID: features.IDNotInProgram, Path: p.Path, Message: fmt.Sprintf(
				"the linker left %s out of %s: libtorch finds no GPU there, and the program runs on the CPU", libs[0], p.Name)})
			f.Severity, f.Fix = features.Warning, fmt.Sprintf("println!(%.200q); in build.rs of %s", "cargo:rustc-link-arg="+arg, p.Package)
			list = append(list, f)
		}
	}
	return list, nil
}

// gather looks at what a build left of a package's request.
func gather(c Command, r Result, pkg string, open features.Open) (e evidence, err error) {
	linked, wanted, built := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, root := range r.Features.Reach.Roots {
		if root.Package != pkg {
			continue
		}
		if root.Kind == "bin" && root.Mode == "build" {
			built[root.Target] = true
		}
		view := r.Features.Facts.View
		top := &view.Nodes[view.Roots[i].Node]
		if top.Pkg != nil {
			for _, t := range top.Pkg.Targets {
				missing := slices.ContainsFunc(t.Needs, func(f string) bool { return !slices.Contains(top.Features, f) })
				wanted[t.Name] = wanted[t.Name] || slices.Contains(t.Kind, "bin") && !missing
			}
		}
		for _, n := range view.Roots[i].Linked {
			linked[view.Nodes[n].Name+"@"+view.Nodes[n].Version] = true
		}
	}
	e.complete = len(built) > 0
	for name, counts := range wanted {
		e.complete = e.complete && (!counts || built[name])
	}
	programs := map[string]bool{}
	for _, p := range r.Built.Programs {
		if p.Package == pkg {
			programs[p.Path] = true
		}
	}
	cuda, nvml, known := open.Backend == manifest.CUDA || open.Backend == manifest.AnyGPU, []string{"libnvidia-ml.", "nvml.dll"}, []string{}
	traces, functions, calls := features.Traces(open.Backend, len(open.Off) > 0)
	if len(open.Sources) == 0 {
		calls = nil
	}
	plain, _, _ := features.Traces(open.Backend, true)
	plain = slices.Concat(plain, functions)
	dirs := libraryDirs(c.Machine.Host, r.Session.Project.Root, r.Built.Messages, cargo.Rustflags(c.Machine.Host, c.Tool, c.line()))
	for _, m := range r.Built.Messages {
		id := manifest.ParsePkgID(m.PackageID)
		crate := catalog.Default().Crate(id.Name)
		if m.Reason == cargo.ScriptExecuted && crate != nil { // its features say what it is
			for _, lib := range m.LinkedLibs {
				known = append(known, lib[strings.LastIndexByte(lib, '=')+1:])
			}
		}
		switch {
		case m.Reason == cargo.Artifact && id.Name == pkg && catalog.Overlap(m.Target.Kind, []string{"cdylib", "dylib"}):
			for _, path := range m.Filenames {
				if slices.Contains([]string{".so", ".dylib", ".dll"}, c.Machine.Host.Ext(path)) {
					programs[path], e.complete = true, true
				}
			}
		case m.Reason == cargo.Artifact && id.Name == pkg && slices.Contains(m.Target.Kind, "staticlib"):
			e.complete = false // what another program is linked with
		case m.Reason != cargo.ScriptExecuted || !linked[id.Name+"@"+id.Version] || crate != nil && crate.Role == catalog.Binding:
		case features.LinksFor(m.LinkedLibs, open.Backend),
			cuda && (nvcc.Read(c.Machine.Host, m.OutDir).Newest > 0 || holdsKernels(c.Machine, m, r)):
			e.compiled = manifest.Union(e.compiled, []string{id.Name})
		}
	}
	for _, m := range r.Built.Messages { // of a library for other programs, what is in it and in what it is made of
		id := manifest.ParsePkgID(m.PackageID)
		if len(programs) > 0 || m.Reason != cargo.Artifact || !linked[id.Name+"@"+id.Version] || catalog.Default().Crate(id.Name) != nil {
			continue
		}
		for _, path := range m.Filenames {
			if !cuda || c.Machine.Host.Ext(path) == ".rmeta" {
				continue
			}
			scanned, err := proof.Scan(c.Machine, path)
			if err != nil {
				e.unknown = true
			} else if len(scanned.Images) > 0 {
				e.compiled = manifest.Union(e.compiled, []string{id.Name})
			}
		}
	}
	look := func(path, of string) (names []string, err error) {
		scanned, err := proof.Scan(c.Machine, path)
		if err == nil && len(scanned.Images) > 0 && cuda {
			e.shown = manifest.Union(e.shown, []string{"device code" + of})
		}
		names, within, namesErr := fatbin.Names(c.Machine.Host, path, slices.Concat(traces, nvml, open.Sources), slices.Concat(functions, calls))
		needs, _ := fatbin.Needs(c.Machine.Host, path)
		called := catalog.Overlap(names, open.Sources)
		names = slices.DeleteFunc(names, func(name string) bool {
			brought := open.Backend == manifest.CUDA && of == "" && open.Bound && !open.Listed && !slices.Contains(nvml, name) || slices.Contains(calls, name)
			text := brought && !slices.ContainsFunc(needs, func(lib string) bool { return strings.HasPrefix(c.Machine.Host.Base(lib), name) })
			if slices.Contains(open.Sources, name) {
				return true
			}
			if text {
				within = append(within, name)
			}
			return text
		})
		if called { // code of the binding is in it, and what it names is no text
			names, within = manifest.Union(names, within), nil
		}
		if e.within = manifest.Union(e.within, within); len(open.Always) > 0 && !open.Listed { // as in those of the program
			e.within = nil
		}
		if err = cmp.Or(err, namesErr); errors.Is(err, fatbin.ErrFormat) { // of WebAssembly nothing is known
			c.Machine.Shell.Detail("not looked at: %v", err)
			e.unknown, err = e.unknown || of == "", nil
		}
		return names, err
	}
	for _, path := range slices.Sorted(maps.Keys(programs)) {
		e.programs++
		names, err := look(path, "")
		if err != nil {
			return e, err
		}
		e.watches = e.watches || open.Backend == manifest.AnyGPU && len(open.Off)+len(open.Always) == 0 && catalog.Overlap(names, nvml)
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(nvml, name) })
		if len(open.Always) > 0 && !open.Listed {
			e.anyway = manifest.Union(e.anyway, names)
		} else {
			e.shown = manifest.Union(e.shown, names)
		}
		files, lost := libraries(c.Machine.Host, path, dirs, known)
		e.lost = cmp.Or(e.lost, lost)
		for _, lib := range files {
			stem, _, _ := strings.Cut(c.Machine.Host.Base(lib), ".")
			names, err := look(lib, " of "+stem)
			if err != nil {
				return e, err
			}
			for _, name := range names { // every ONNX Runtime names its plugins: that counts with the file
				missing := !slices.Contains(plain, name) && !slices.ContainsFunc(c.Machine.Host.Names(c.Machine.Host.Dir(lib)), func(file string) bool {
					return strings.HasPrefix(file, name)
				})
				shows := []string{name + " of " + stem}
				switch {
				case slices.Contains(nvml, name) || missing:
				case ofSystem(c.Machine.Host, lib):
					e.system = manifest.Union(e.system, shows)
				default:
					e.shown = manifest.Union(e.shown, shows)
				}
			}
		}
	}
	if len(e.anyway) > 0 && len(e.compiled) > 0 && !open.Blind { // kernels that are loaded from a file
		e.shown = append(e.shown, e.anyway...)
	}
	return e, nil
}

// ofSystem reports whether a library lies where the system's packages put theirs, which people do not build.
func ofSystem(h buildenv.Host, lib string) bool {
	return slices.ContainsFunc(loader.SystemDirs, func(dir string) bool { return dir != "/usr/local/lib" && h.Dir(lib) == dir })
}

// baseLibrary matches the names of what every program is loaded with, which have a version, and of NVML's library, which computes nothing.
var baseLibrary = lazyregexp.New(`^(ld-|lib(c|nvidia-ml)\.|lib(m|dl|rt|pthread|util|resolv|gcc_s|stdc\+\+)\.so\.[0-9]|libstd-)`)

// libraries lists what a program is loaded with, by itself or through another library, outside of the system's base and of GPU toolkits,
// whose names in the program say enough. Nothing is asked of a loader, for the program may be for another machine. lost is one that is in no
// directory that is known.
func libraries(h buildenv.Host, program string, dirs, without []string) (files []string, lost string) {
	toolkits, _, _ := features.Traces(manifest.AnyGPU, false)
	for queue := []string{program}; len(queue) > 0; queue = queue[1:] {
		libs, own := fatbin.Needs(h, queue[0])
		for _, lib := range libs {
			name := h.Base(lib)
			stem, _, _ := strings.Cut(strings.TrimPrefix(name, "lib"), ".")
			if baseLibrary.MatchString(name) || slices.Contains(without, stem) ||
				slices.ContainsFunc(toolkits, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
				continue
			}
			at := lib
			for _, dir := range slices.Concat(own, []string{h.Dir(queue[0]), h.Join(h.Dir(program), "deps")}, dirs, loader.SystemDirs) {
				for _, file := range []string{name, "lib" + stem + ".so"} { // the linker's name of it
					if !h.IsAbs(at) || !h.IsFile(at) {
						at = h.Join(dir, file)
					}
				}
			}
			switch found := h.IsAbs(at) && h.IsFile(at); {
			case found && !slices.Contains(files, at):
				files, queue = append(files, at), append(queue, at)
			case !found && strings.Contains(name, ".so"): // other systems have their own in no directory
				lost = cmp.Or(lost, name)
			}
		}
	}
	return files, lost
}

// libraryDirs are the directories in which the linker looked for libraries, as far as they are known. Cargo starts rustc in the workspace.
func libraryDirs(h buildenv.Host, root string, messages []cargo.Message, configured []string) (dirs []string) {
	for _, m := range messages {
		dirs = append(dirs, m.LinkedPaths...)
	}
	dirs = slices.Concat(dirs, configured, strings.Fields(h.Env.Get("RUSTFLAGS")), strings.Split(h.Env.Get("CARGO_ENCODED_RUSTFLAGS"), "\x1f"))
	for i, dir := range dirs { // -L, native=DIR, -Lnative=DIR, -Clink-arg=-LDIR
		if dir = strings.TrimPrefix(dir[strings.LastIndexByte(dir, '=')+1:], "-L"); dir != "" {
			dir = h.From(root, dir)
		}
		dirs[i] = dir
	}
	for _, list := range []string{"LIBRARY_PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		dirs = append(dirs, strings.Split(h.Env.Get(list), ":")...)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool { return !h.IsAbs(dir) })
}

// holdsKernels reports whether the OUT_DIR of a build script holds device code of its newest run: written in it, or kept and still used.
// What a script left that does not compile any more is there, too, and a build from scratch would not have it.
func holdsKernels(m *session.Machine, script cargo.Message, r Result) (holds bool) {
	text, ran := []string{".rs", ".d", ".h", ".txt", ".json", ".log"}, builddir.Ran(m.Host, script.OutDir)
	used := func(path string) bool {
		name := m.Host.Base(path)
		return slices.ContainsFunc(script.LinkedLibs, func(lib string) bool {
			lib = lib[strings.LastIndexByte(lib, '=')+1:]
			return name == "lib"+lib+".a" || name == lib+".lib"
		}) || slices.ContainsFunc(r.Built.Messages, func(other cargo.Message) bool {
			return other.PackageID == script.PackageID && slices.Contains(compiledFrom(m, r.Session.Project.Root, other), path)
		})
	}
	complete, err := m.Host.Walk(script.OutDir, func(path, _ string, e fs.DirEntry, isDir bool) bool {
		if isDir || holds || slices.Contains(text, m.Host.Ext(path)) || !e.Type().IsRegular() {
			return isDir && !holds
		}
		scanned, err := proof.Scan(m, path)
		if err == nil && len(scanned.Images) > 0 {
			var fi fs.FileInfo
			fi, err = e.Info()
			holds = err == nil && (max(cache.StateTimeOf(fi), fi.ModTime().UnixNano()) >= ran || used(path))
		}
		if err != nil {
			m.Shell.Detail("not looked at: %v", err)
		}
		return false
	})
	if err != nil || !complete {
		m.Shell.Detail("%s was not looked at as a whole: %v", m.Shown(script.OutDir), err)
	}
	return holds
}
