package fresh

import (
	"context"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// readCode reads the device code of what earlier builds left, as a build does of what it made, and holds it against what would be
// asked for. What it finds of packages that were not known to be stale is added to what must be cleaned. Which OUT_DIR cargo
// would take, only a build shows: those that were compared are judged, and a program may be of any.
func (s *State) readCode(ctx context.Context) error {
	there := s.outputsThere()
	compared := map[string]bool{}
	for _, o := range there {
		compared[s.host.Clean(o.outDir)] = true
	}
	unrecorded := map[string]bool{}
	for _, u := range s.gpu {
		for _, dir := range s.unrecorded(u) {
			unrecorded[dir] = true
		}
		for _, dir := range s.outDirsOf(u) {
			if !compared[s.host.Clean(dir)] {
				there = append(there, s.outputThere(u, dir))
			}
		}
	}
	list, err := s.mistakes(ctx, there, s.productsThere())
	if err != nil {
		return err
	}
	known := s.stalePackages()
	for _, f := range list {
		if f.linked != "" && s.relinked(f) {
			continue
		}
		if f.linked == "" && !compared[s.host.Clean(f.outDir)] {
			if unrecorded[f.outDir] { // what is recorded of another feature set is compared when that is asked for
				s.beside = append(s.beside, f)
			}
			continue
		}
		fault := Fault{
			Package: f.unit.Name, Features: f.features, OutDir: f.outDir, State: codeCleaned,
			Message: f.words(), Evidence: []string{}, mistake: f,
		}
		for _, m := range f.list {
			if l := m.String(); f.told == "" && !slices.Contains(fault.Evidence, l) {
				fault.Evidence = append(fault.Evidence, l)
			}
		}
		wrong, ok := s.accepted(f)
		switch {
		case slices.Contains(known, f.unit.Name):
		case ok && wrong != "":
			fault.State = codeWrong
		case ok:
			fault.State = codeAccepted
		default:
			if !slices.Contains(s.compared.Clean, f.unit.Name) {
				s.compared.Clean = append(s.compared.Clean, f.unit.Name)
			}
		}
		s.faults = append(s.faults, fault)
	}
	return nil
}

// tellBeside notes OUT_DIRs without a record whose sibling has one. Only a build shows whether cargo takes what lies there; where it
// is not what would be asked for, that is worth a line.
func (s *State) tellBeside() {
	for _, f := range s.beside {
		if slices.Contains(s.compared.Clean, f.unit.Name) {
			continue // it goes along
		}
		s.shell.Note("%s was built in another place, too, which nobody recorded (%s), and %s: "+
			"a build that takes it (other RUSTFLAGS, another toolchain) cleans it",
			f.unit.Name, s.b.Machine.Shown(f.outDir), strings.TrimPrefix(f.words(), f.unit.Name+" "))
	}
}

// relinked says whether cargo itself links a program anew: it is older than what its package's script made.
func (s *State) relinked(f *mistake) bool {
	fi, err := s.host.Files.Stat(f.paths[0])
	return err == nil && fi.ModTime().Before(time.Unix(0, f.scriptRan))
}

// outputsThere are the units that were compared, as earlier builds left them.
func (s *State) outputsThere() []output {
	var out []output
	for _, compared := range s.units {
		if u, ok := s.unitOf(compared.Key); ok && s.host.IsDir(compared.OutDir) {
			out = append(out, s.outputThere(u, compared.OutDir))
		}
	}
	return out
}

func (s *State) outputThere(u features.ScriptUnit, outDir string) output {
	o := output{unit: u, outDir: outDir, libraries: s.keptLibraries(outDir)}
	if said, err := builddir.Output(s.host, outDir); err == nil { // a script that told nothing told no version
		o.cfgs = said.Cfgs
	}
	return o
}

// productsThere are the selection's programs and loadable libraries where cargo puts them (cargo book, "Build cache"), as far as
// they are there.
func (s *State) productsThere() []string {
	target := s.b.Graph.Places.TargetDirectory
	if target == "" {
		target = s.b.Graph.Places.BuildDirectory
	}
	var out []string
	add := func(path string) {
		if !slices.Contains(out, path) && s.host.IsFile(path) {
			out = append(out, path)
		}
	}
	for _, profile := range s.productDirs(target) {
		program := func(name string) { add(s.host.Join(profile, s.host.Exe(name))) }
		example := func(name string) { add(s.host.Join(profile, "examples", s.host.Exe(name))) }
		library := func(name string) { add(s.host.Join(profile, loadable(s.host, strings.ReplaceAll(name, "-", "_")))) }
		for _, r := range s.b.Reach.Roots {
			switch r.Kind {
			case "bin":
				program(r.Target)
			case "example":
				example(r.Target)
			case "test", "bench", "custom-build":
			case "": // from cargo tree
				bins, examples, lib := selected(s.b.Line, r.Programs)
				each(bins, program)
				each(examples, example)
				each(lib, library)
			default: // a library, of which a crate type may be cdylib
				library(r.Target)
			}
		}
	}
	return out
}

// productDirs are the directories of the profile into which this build puts its
// programs: with a platform that is no longer the host's own.
func (s *State) productDirs(target string) []string {
	all := s.b.profileDirsIn(target)
	platforms := map[string]bool{}
	if g := s.b.Graph.Units; g != nil {
		for _, r := range g.Roots {
			platforms[g.Units[r].Platform] = true
		}
	} else {
		for _, t := range s.b.Line.Target { // a build.target of the configuration is not known here
			if t = cargo.Triple(t, ""); t == "" { // the host's own, whose name cargo knows
				return all
			}
			platforms[t] = true
		}
	}
	if len(platforms) == 0 {
		return all
	}
	var out []string
	for platform := range platforms {
		if dir := s.host.Join(target, platform, s.host.Base(all[0])); !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	sort.Strings(out)
	return out
}

func each(names []string, do func(name string)) {
	for _, n := range names {
		do(n)
	}
}

// selected leaves of a package's programs and library what a command line
// builds (cargo book, cargo-build.md, "Target Selection").
func selected(l cargo.Line, p manifest.Programs) (bins, examples, library []string) {
	chosen := l.Lib || l.Bins || l.Examples || l.Tests || l.Benches || len(l.Bin)+len(l.Example)+len(l.Test)+len(l.Bench) > 0
	named := func(names, patterns []string, all bool) (out []string) {
		for _, n := range names {
			take := all || l.AllTargets
			for _, pattern := range patterns {
				is, err := path.Match(pattern, n)
				take = take || is && err == nil
			}
			if take {
				out = append(out, n)
			}
		}
		return out
	}
	usual := !chosen && !l.AllTargets
	bins, examples = named(p.Bins, l.Bin, l.Bins || usual), named(p.Examples, l.Example, l.Examples)
	if p.Library != "" && (usual || l.Lib || l.AllTargets) {
		library = []string{p.Library}
	}
	return bins, examples, library
}

// loadable is the file of a cdylib (cargo book, "Linkage": named by the platform's custom).
func loadable(h buildenv.Host, name string) string {
	switch h.OS {
	case buildenv.Windows:
		return name + ".dll"
	case buildenv.Darwin:
		return "lib" + name + ".dylib"
	}
	return "lib" + name + ".so"
}

// wrongFault is the first package that building anew does not mend.
func (s *State) wrongFault() *Fault {
	for i, f := range s.faults {
		if f.State == codeWrong {
			return &s.faults[i]
		}
	}
	return nil
}

// holdsLines says in words what device code a unit holds.
func holdsLines(code []stale.Code) []string {
	out := []string{}
	for _, c := range code {
		for _, m := range c.Makes {
			if l := (stale.Mismatch{Code: c, Found: m}).String(); !slices.Contains(out, l) { // CMake leaves a library in two places
				out = append(out, l)
			}
		}
	}
	return out
}
