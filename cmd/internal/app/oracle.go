package app

import (
	"context"
	"path"
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

// What becomes of device code that is not what a build would be asked for.
const (
	codeCleaned  = "stale"    // a build cleans its package, once
	codeWrong    = "wrong"    // building it anew did not mend it
	codeAccepted = "accepted" // it stays, as was told after an earlier build
)

// codeFinding is device code that is not what a build would be asked for, whatever the record says.
type codeFinding struct {
	Package  string   `json:"package"`
	Features string   `json:"features"`
	OutDir   string   `json:"out_dir"`
	State    string   `json:"state"`
	Message  string   `json:"message"`
	Evidence []string `json:"evidence"` // each file and kernel

	mistake *mistake
}

// readCode reads the device code of what earlier builds left, as a build does of what it made, and holds it against what would be asked for. What it
// finds of packages that were not known to be stale is added to what must be cleaned. Which OUT_DIR cargo would take, only a build shows: those that
// were compared are judged, and a program may be of any.
func (j *journey) readCode(ctx context.Context) error {
	there := j.outputsThere()
	compared := map[string]bool{}
	for _, o := range there {
		compared[j.Host.Clean(o.outDir)] = true
	}
	unrecorded := map[string]bool{}
	for _, u := range j.reach.Units {
		for _, dir := range j.unrecorded(u) {
			unrecorded[dir] = true
		}
		for _, dir := range j.outDirs(u.Name) {
			if !compared[j.Host.Clean(dir)] && builddir.Ran(j.Host, dir) != 0 && j.mayBe(u, dir) {
				there = append(there, j.outputThere(u, dir))
			}
		}
	}
	for _, o := range there {
		if !o.beyond {
			continue
		}
		for _, dir := range j.outDirs(o.unit.Name) { // the program may be that of other features, and cargo puts the right one in its place
			if !compared[j.Host.Clean(dir)] && builddir.Ran(j.Host, dir) != 0 {
				there = append(there, output{unit: o.unit, outDir: dir, beyond: true})
			}
		}
	}
	list, err := j.mistakes(ctx, there, j.productsThere())
	if err != nil {
		return err
	}
	known := j.stalePackages()
	for _, f := range list {
		if f.linked != "" && j.relinked(f) {
			continue
		}
		if f.linked == "" && !compared[j.Host.Clean(f.outDir)] {
			if unrecorded[f.outDir] { // what is recorded of another feature set is compared when that is asked for
				j.beside = append(j.beside, f)
			}
			continue
		}
		fault := codeFinding{Package: f.unit.Name, Features: f.features, OutDir: f.outDir, State: codeCleaned, Message: f.words(), Evidence: []string{}, mistake: f}
		for _, m := range f.list {
			if l := m.String(); f.told == "" && !contains(fault.Evidence, l) {
				fault.Evidence = append(fault.Evidence, l)
			}
		}
		concluded, ok := j.concludedOf(f)
		switch {
		case contains(known, f.unit.Name):
		case ok && concluded.Wrong != "":
			fault.State = codeWrong
		case ok, j.allShipped(f):
			fault.State = codeAccepted
		default:
			if !contains(j.compared.Clean, f.unit.Name) {
				j.compared.Clean = append(j.compared.Clean, f.unit.Name)
			}
		}
		j.faults = append(j.faults, fault)
	}
	return nil
}

// tellBeside tells of places in which a package was built, too, and of which nothing is recorded beside one of which something is. Only a build shows
// whether cargo takes what lies there; where it is not what would be asked for, that is worth a word.
func (j *journey) tellBeside() {
	for _, f := range j.beside {
		if contains(j.compared.Clean, f.unit.Name) {
			continue // it goes along
		}
		j.Shell.Note("%s was built in another place, too, which nobody recorded (%s), and %s: a build that takes it (other RUSTFLAGS, another toolchain) cleans it",
			f.unit.Name, j.Shown(f.outDir), strings.TrimPrefix(f.words(), f.unit.Name+" "))
	}
}

// relinked says whether cargo itself links a program anew: it is older than what its package's script made.
func (j *journey) relinked(f *mistake) bool {
	fi, err := j.Host.Files.Stat(f.paths[0])
	return err == nil && fi.ModTime().Before(time.Unix(0, f.scriptRan))
}

// outputsThere are the units that were compared, as earlier builds left them.
func (j *journey) outputsThere() []output {
	var out []output
	for _, s := range j.units {
		if _, beyond := j.unitsBeyond[s.Key]; beyond {
			continue // of those below
		}
		if u, ok := j.unitOf(s.Key); ok && j.Host.IsDir(s.OutDir) {
			out = append(out, j.outputThere(u, s.OutDir))
		}
	}
	return append(out, j.beyondThere()...)
}

func (j *journey) outputThere(u features.ScriptUnit, outDir string) output {
	o := output{unit: u, outDir: outDir}
	if said, err := builddir.Output(j.Host, outDir); err == nil { // a script that told nothing told no version
		o.cfgs = said.Cfgs
	}
	for _, path := range j.openResults().Libraries[outDir] {
		if j.Host.IsFile(path) {
			o.libraries = append(o.libraries, path)
		}
	}
	return o
}

// productsThere are the selection's programs and loadable libraries where cargo puts them (cargo book, "Build cache"), as far as they are there.
func (j *journey) productsThere() []string {
	target := j.graph.Places.TargetDirectory
	if target == "" {
		target = j.graph.Places.BuildDirectory
	}
	var out []string
	add := func(path string) {
		if !contains(out, path) && j.Host.IsFile(path) {
			out = append(out, path)
		}
	}
	for _, profile := range j.productDirs(target) {
		program := func(name string) { add(j.Host.Join(profile, j.Host.Exe(name))) }
		example := func(name string) { add(j.Host.Join(profile, "examples", j.Host.Exe(name))) }
		library := func(name string) { add(j.Host.Join(profile, loadable(j.Host, strings.ReplaceAll(name, "-", "_")))) }
		for _, r := range j.reach.Roots {
			switch r.Kind {
			case "bin":
				program(r.Target)
			case "example":
				example(r.Target)
			case "test", "bench", "custom-build":
			case "": // from cargo tree
				bins, examples, lib := selected(j.Line, r.Programs)
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

// productDirs are the directories of the profile into which this build puts its programs: with a platform that is no longer the host's own.
func (j *journey) productDirs(target string) []string {
	all := j.profileDirsIn(target)
	platforms := map[string]bool{}
	if g := j.graph.Units; g != nil {
		for _, r := range g.Roots {
			platforms[g.Units[r].Platform] = true
		}
	} else {
		for _, t := range j.Line.Target { // a build.target of the configuration is not known here
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
		if dir := j.Host.Join(target, platform, j.Host.Base(all[0])); !contains(out, dir) {
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

// selected leaves of a package's programs and library what a command line builds (cargo book, cargo-build.md, "Target Selection").
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

// faultLines words the device code that counts against a state of "nothing is stale", where no reason of the same package says as much.
func (j *journey) faultLines() []string {
	var out []string
	for _, f := range j.faults {
		if f.State != codeAccepted && !j.reasoned(f.Package) && !contains(out, f.Message) {
			out = append(out, f.Message)
		}
	}
	return out
}

// reasoned says whether the comparison itself found something of a package.
func (j *journey) reasoned(pkg string) bool {
	for _, r := range j.compared.Reasons {
		if r.Package == pkg {
			return true
		}
	}
	for _, d := range j.compared.Unknown {
		if d.Package == pkg {
			return true
		}
	}
	return false
}

// wrongFault is the first package that building anew does not mend.
func (j *journey) wrongFault() *codeFinding {
	for i, f := range j.faults {
		if f.State == codeWrong {
			return &j.faults[i]
		}
	}
	return nil
}

// holdsLines says in words what device code a unit holds.
func holdsLines(code []stale.Code) []string {
	out := []string{}
	for _, c := range code {
		for _, m := range c.Makes {
			if l := (stale.Mismatch{Code: c, Found: m}).String(); !contains(out, l) { // CMake leaves a library in two places
				out = append(out, l)
			}
		}
	}
	return out
}
