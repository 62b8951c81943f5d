package fresh

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
	"gpubuild/toolchain/nvcc"
)

// Package is a GPU package of a build, with what the build scripts of all its units take from the machine.
type Package struct {
	features.ScriptUnit
	sets       []string // the feature sets with which it is built, each joined with commas
	dirs       []string // the profile's directories of the platforms that it is built for
	undeclared bool     // nothing but device code in its OUT_DIR shows it
	script     source.Script
}

// unit is the package as its inputs are asked.
func (p Package) unit(all, unknown bool) inputs.Unit {
	return inputs.Unit{ScriptUnit: p.ScriptUnit, Script: p.script, All: all || unknown, Unknown: unknown}
}

// runsScript is the mode of a unit that runs a build script (cargo reference, "Unit graph").
const runsScript = "run-custom-build"

// featureKey is a feature set as a stamp names it.
func featureKey(list []string) string {
	return strings.Join(slices.Sorted(slices.Values(list)), ",")
}

// findPackages lists the GPU packages of the build: those that are known, and those whose OUT_DIRs hold device code.
func (s *State) findPackages() []Package {
	var list []Package
	at := func(u features.ScriptUnit) *Package {
		for i := range list {
			if list[i].PkgID == u.PkgID {
				return &list[i]
			}
		}
		list = append(list, Package{ScriptUnit: u})
		return &list[len(list)-1]
	}
	for _, u := range s.b.Reach.Units {
		p := at(u)
		p.Inputs = union(p.Inputs, u.Inputs)
		p.add(featureKey(u.Features), s.b.profileDir(u.Platform))
	}
	known := len(list)
	for _, u := range append(s.b.scripts(), s.macros()...) {
		if slices.Contains(s.b.Reach.LeftOff, u.PkgID) && !slices.Contains(s.b.Named, u.Name) { // what it left is of another build
			continue
		}
		p := at(u)
		p.add(featureKey(u.Features), s.b.profileDir(u.Platform))
	}
	for _, p := range list {
		s.read.scripts[p.Name] = true
	}
	s.read.outs = builddir.Outs(s.b.Machine.Host, s.b.profileDirs(), s.read.scripts)
	counts := map[string]bool{}
	for i := range list {
		p, named := &list[i], slices.Contains(s.b.Named, list[i].Name)
		counts[p.PkgID] = i < known || named
		switch {
		case inCatalog(p.Name) || p.Inputs.NVCC && p.Inputs.Arch:
		case named || s.holdsCode(*p):
			p.Inputs, p.undeclared = union(p.Inputs, compiling), !counts[p.PkgID]
			for _, u := range s.b.Reach.Others {
				if u.PkgID == p.PkgID { // as in a build whose features make it a known one
					p.Inputs = union(p.Inputs, u.Inputs)
				}
			}
			counts[p.PkgID] = true
		case s.linksCUDA(*p):
			p.Inputs, p.undeclared, counts[p.PkgID] = union(p.Inputs, features.Inputs{Root: true}), true, true
		}
	}
	list = slices.DeleteFunc(list, func(p Package) bool { return !counts[p.PkgID] })
	for i := range list {
		list[i].Dir = cmp.Or(list[i].Dir, s.b.Machine.Host.Dir(s.b.scriptFile(list[i].ScriptUnit)))
		list[i].script = s.scriptOf(list[i].ScriptUnit)
	}
	return list
}

func (p *Package) add(set, dir string) {
	p.sets, p.dirs = manifest.Union(p.sets, []string{set}), manifest.Union(p.dirs, []string{dir})
}

// union is what two build scripts take from the machine together.
func union(a, b features.Inputs) features.Inputs {
	a.Version = (a.Version || !a.NVCC) && (b.Version || !b.NVCC)
	a.NVCC, a.Host, a.Arch, a.Root = a.NVCC || b.NVCC, a.Host || b.Host, a.Arch || b.Arch, a.Root || b.Root
	a.Version = a.Version && a.NVCC
	a.PassesCXX = a.PassesCXX || b.PassesCXX
	a.Binds, a.CUDNN, a.CXX, a.Torch = a.Binds || b.Binds, a.CUDNN || b.CUDNN, a.CXX || b.CXX, a.Torch || b.Torch
	a.Env = manifest.Union(a.Env, b.Env)
	for _, h := range b.Headers {
		if !slices.ContainsFunc(a.Headers, func(have catalog.Header) bool { return have.File == h.File }) {
			a.Headers = append(a.Headers, h)
		}
	}
	return a
}

// compiling is what a build script takes from the machine that compiles kernels although nothing in its text says so.
var compiling = features.Inputs{NVCC: true, Host: true, Arch: true, Root: true}

// scriptOf is the build script of a package, with the packages that it is built with: the user's own, and those from git and registries
// that name nvcc.
func (s *State) scriptOf(u features.ScriptUnit) (script source.Script) {
	script.Source = s.b.scriptFile(u)
	g := s.b.Graph.Units
	if g == nil {
		return script
	}
	for _, unit := range g.Units {
		if unit.PkgID == u.PkgID && !slices.Contains(unit.Target.Kind, "custom-build") && !slices.Contains(script.Crates, unit.Target.SrcPath) {
			script.Crates = append(script.Crates, unit.Target.SrcPath)
		}
	}
	run := slices.IndexFunc(g.Units, func(unit graph.Unit) bool { return unit.PkgID == u.PkgID && unit.Mode == runsScript })
	if run < 0 || g.Compiled(run) < 0 {
		return script
	}
	var foreign []string
	queue := []int{g.Compiled(run)}
	for i := 0; i < len(queue); i++ {
		for _, d := range g.Units[queue[i]].Dependencies {
			unit := &g.Units[d.Index]
			if unit.Host() || slices.Contains(queue, d.Index) {
				continue
			}
			queue = append(queue, d.Index)
			if id := manifest.ParsePkgID(unit.PkgID); id.Local() {
				script.Locals = append(script.Locals, unit.Target.SrcPath)
			} else if !inCatalog(id.Name) {
				foreign = append(foreign, unit.Target.SrcPath)
			}
		}
	}
	script.Locals = append(script.Locals, s.read.hashes.NamesNvcc(foreign)...)
	return script
}

// scriptFile is the file of a package's build script.
func (b *Build) scriptFile(u features.ScriptUnit) string {
	if g := b.Graph.Units; g != nil {
		for _, unit := range g.Units {
			if unit.PkgID == u.PkgID && unit.Mode == runsScript {
				return unit.Target.SrcPath
			}
		}
	}
	return b.Machine.Host.Join(u.Dir, "build.rs")
}

// inCatalog reports whether the catalog has a crate: it knows what its script takes from the machine, and what code it unpacks.
func inCatalog(name string) bool {
	return catalog.Default().Crate(name) != nil
}

// holdsCode reports whether nvcc was run for any OUT_DIR of a package, or one holds device code.
func (s *State) holdsCode(p Package) bool {
	h := s.b.Machine.Host
	return slices.ContainsFunc(s.outDirs(p), func(o builddir.Out) bool {
		return nvcc.Read(h, o.Dir).Calls > 0 || len(s.contentOf(o.Dir).Made) > 0
	})
}

// linksCUDA reports whether the build script of a package last had a library of the toolkit linked.
func (s *State) linksCUDA(p Package) bool {
	return slices.ContainsFunc(s.outDirs(p), func(o builddir.Out) bool {
		printed, err := builddir.Output(s.b.Machine.Host, o.Dir) // what a script that failed printed is no matter
		return err == nil && slices.ContainsFunc(printed.Rules, func(rule string) bool {
			lib, links := strings.CutPrefix(rule, "rustc-link-lib=")
			return links && features.LinksFor([]string{lib}, manifest.CUDA)
		})
	})
}

// contentOf is what an OUT_DIR holds. Of one that cannot be read only the inputs are compared.
func (s *State) contentOf(dir string) content {
	found, err := s.read.contentOf(dir)
	if err != nil {
		found = content{Files: []string{"not read"}}
		s.b.Machine.Shell.Detail("%s cannot be read: %v", dir, err)
	}
	return found
}

// outDirs lists where scripts of a package ran for the platforms of this build.
func (s *State) outDirs(p Package) []builddir.Out {
	return slices.DeleteFunc(slices.Clone(s.read.outs), func(o builddir.Out) bool {
		below := func(dir string) bool { return s.b.Machine.Host.Below(o.Dir, dir) }
		return o.Package != p.Name || s.b.Graph.Units != nil && !slices.ContainsFunc(p.dirs, below)
	})
}

// scripts are the build scripts of this build that are not known to take anything from the toolkit.
func (b *Build) scripts() (out []features.ScriptUnit) {
	if b.Graph.Units == nil {
		return nil
	}
	known := map[string]bool{}
	for _, u := range b.Reach.Units {
		known[u.PkgID+" "+featureKey(u.Features)] = true
	}
	for _, u := range b.Graph.Units.Units {
		id := manifest.ParsePkgID(u.PkgID)
		if u.Mode == runsScript && !known[u.PkgID+" "+featureKey(u.Features)] && !inCatalog(id.Name) {
			out = append(out, features.ScriptUnit{
				PkgID: u.PkgID, Name: id.Name, Version: id.Version, Dir: id.Dir(b.Machine.Host),
				Features: u.Features, Platform: u.Platform,
			})
		}
	}
	return out
}

// Platforms are the triples of this build: those that the unit graph shows, which know of a build.target in the configuration, and those
// of the command line. The host's own tree has none.
func (b *Build) Platforms() []string {
	all := []string{""}
	if g := b.Graph.Units; g != nil {
		for _, u := range g.Units {
			all = append(all, u.Platform)
		}
	}
	for _, u := range b.Reach.Units {
		all = append(all, u.Platform)
	}
	for _, t := range b.Line.Target {
		all = append(all, cargo.Triple(t, ""))
	}
	return manifest.Union(all)[1:]
}

// profileDirs are the build directory's of the profile.
func (b *Build) profileDirs() []string {
	return builddir.Profiles(b.Machine.Host, b.Graph.Places.BuildDirectory, b.Line.ProfileName(), b.Platforms())
}

// profileDir is the one of a platform.
func (b *Build) profileDir(platform string) string {
	h := b.Machine.Host
	return h.Join(b.Graph.Places.BuildDirectory, cargo.Triple(platform, ""), h.Base(builddir.Profiles(h, "", b.Line.ProfileName(), nil)[0]))
}

// BuiltFor are the architectures that a target directory's GPU packages were last built for; none: unknown. The tools need not be
// chosen.
func BuiltFor(b Build) (archs []gpu.Arch) {
	if b.Graph.Places.BuildDirectory == "" {
		return nil
	}
	h, wanted := b.Machine.Host, map[string]bool{}
	for _, u := range b.Reach.Units {
		wanted[u.Name] = u.Inputs.Arch || wanted[u.Name]
	}
	for _, name := range b.Named {
		wanted[name] = true
	}
	var last int64
	profiles := append(b.profileDirs(), builddir.Profiles(h, b.Graph.Places.BuildDirectory, "dev", nil)...)
	for _, o := range builddir.Outs(h, append(profiles, builddir.Profiles(h, b.Graph.Places.BuildDirectory, "release", nil)...), wanted) {
		stamp, ok := readStamp(h, o.Dir)
		for _, in := range stamp.Inputs {
			if list, err := gpu.ParseArchs(in.Value); ok && in.Name == "arch" && err == nil && stamp.Ran > last {
				archs, last = list, stamp.Ran
			}
		}
	}
	return archs
}

// branch is where a build script decides by the architecture that it was given: compute_cap < 80, or of other scripts 800.
var branch = lazyregexp.New(`(?i)comput\w*cap\w*\s*(<=?|>=?)\s*(\d{2,4})\b`)

// Branches refuses several architectures where a build script decides for all of them by the lowest, which is what it is given: candle-kernels
// leaves out its bfloat16 kernels if that is below 8.0.
func (b Build) Branches() error {
	archs := b.Tools.Set.Archs()
	for _, u := range b.Reach.Units {
		if len(archs) < 2 || !u.Inputs.Arch {
			continue
		}
		text, _ := b.Machine.Host.ReadFile(b.scriptFile(u), buildenv.Source) // cargo says what is wrong with it
		for _, m := range branch.FindAllStringSubmatch(string(text), -1) {
			at, _ := strconv.Atoi(m[2])
			if at >= 500 { // 800 means 8.0
				at /= 10
			}
			if m[1] == "<=" || m[1] == ">" {
				at++
			}
			split := func(a gpu.Arch) bool { return a.Capability.Major*10+a.Capability.Minor >= at }
			if !split(archs[0]) && split(archs[len(archs)-1]) {
				return b.Tools.Set.OneArch(fmt.Sprintf("the build script of %s decides once for all of them (`%s`)", u.Name, m[0]),
					"give a list on one side of this")
			}
		}
	}
	return nil
}

// Undeclared finds a package that compiles kernels although nothing in the sources shows it: one that gpubuild.toml names, one whose
// script left some here earlier, or, where the user asked for a toolkit or an architecture with a flag or a variable, one that has a
// script, of the user's own if there is one. It is a reason to choose a toolkit, so b has none yet.
func Undeclared(b Build, asked string) tools.Undeclared {
	s := find(b)
	for _, p := range s.packages {
		if slices.Contains(b.Named, p.Name) {
			return tools.Undeclared{Package: p.Name, Why: "gpubuild.toml names it in gpu-packages", Named: true}
		}
	}
	for _, p := range s.packages {
		found := tools.Undeclared{Package: p.Name}
		for _, o := range s.outDirs(p) {
			for _, m := range s.contentOf(o.Dir).Made {
				// machine code is for one architecture; PTX for that one and all that follow
				if m.NVCC != "" && (found.Why == "" || m.PTX == "") {
					found.Archs, found.Why = []gpu.Arch{m.Arch}, "its build script left kernels here that nvcc "+m.NVCC+" compiled"
				}
			}
		}
		if p.undeclared && found.Why != "" {
			return found
		}
	}
	if asked == "" {
		return tools.Undeclared{}
	}
	var found tools.Undeclared
	for _, u := range b.scripts() {
		if own := strings.HasPrefix(u.PkgID, "path+"); own || found.Package == "" {
			if found = (tools.Undeclared{Package: u.Name, Why: asked + " was given"}); own {
				break
			}
		}
	}
	return found
}
