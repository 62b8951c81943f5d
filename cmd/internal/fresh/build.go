// Package fresh decides what of a target directory is stale although cargo considers it fresh: what was built with another
// toolkit, host compiler, architecture or variable than a build would use now. It asks cargo to remove just that, and checks
// after the build that the device code is what was asked for.
//
// A package takes part if the catalog or the text of its build script shows that it uses the toolkit (features.Answer.Units), or
// if the OUT_DIR of its build script holds device code. What is in doubt counts as stale.
//
// It owns the record of what was built with what (.gpubuild-record.json in cargo's build directory) and the notes of builds that
// were interrupted. It never starts a build itself and never removes anything below a target directory but through `cargo clean`.
//
// Limits: a file that a build script reads and that no rule of inputs.go names is not watched; on Windows a file whose content
// was replaced with the same size and time is taken for the old one.
package fresh

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo"
)

// Build is what a check is about. Nothing in it changes.
type Build struct {
	Machine *session.Machine
	Tool    cargo.Tool
	Line    cargo.Line
	Project *manifest.Project
	Graph   session.Graph
	Reach   *features.Answer
	Tools   tools.Tools // zero before the tools are chosen
	Options Options
	Scan    func(path string) (*fatbin.Report, error) // reads the device code of a program
	Found   func(finding.Finding)                     // takes what is worth a finding; nil: nobody does
}

// Options are the user's wishes.
type Options struct {
	NoClean       bool // --gpu-no-clean
	ForceClean    bool // --gpu-force-clean
	CleanExternal bool // --gpu-clean-external, and --external of `gpubuild clean`
	DryRun        bool // of `gpubuild clean`
	ListPaths     bool // of `gpubuild clean --dry-run`: list what would go on stdout
}

// State is what is known of a target directory: before a build from Inspect, after it from Settle.
type State struct {
	b      *Build
	host   buildenv.Host
	shell  *console.Shell
	hashes *hashes

	record     stale.Record
	recordNote string // what was wrong with the record, if anything
	unkept     bool   // the user knows that the record could not be written

	gpu        []features.ScriptUnit    // the GPU packages of this build
	undeclared map[string]bool          // those of them, by ID, of which only an OUT_DIR shows it
	sets       map[string][]scriptSet   // see scriptSets
	signs      *stale.Want              // how the chosen toolkit signs what it compiles
	inputs     map[string][]stale.Input // of each unit, as they were before the build
	held       map[string]holding       // device code by OUT_DIR; see holds

	units    []stale.Unit
	compared stale.Result
	earlier  []string // what the comparison before the build had found; compared is that after it
	adopted  []adopted
	beside   []*mistake // of OUT_DIRs without a record whose sibling has one
	faults   []Fault    // device code that is not what it should be, where no build looks

	cleaned map[string]bool  // packages that were cleaned in this run
	before  map[string]int64 // when the script of an OUT_DIR had run before the build
	began   int64            // when the build began, in ns
	built   cargorun.Built
}

func newState(b *Build) *State {
	return &State{b: b, host: b.Machine.Host, shell: b.Machine.Shell, hashes: newHashes(b.Machine), inputs: map[string][]stale.Input{},
		held: map[string]holding{}, cleaned: map[string]bool{}, undeclared: map[string]bool{}}
}

// Lock keeps a second gpubuild out of a target directory until release is called, which may be done twice.
func Lock(ctx context.Context, m *session.Machine, places cargo.Places) (release func(), err error) {
	path := lockPath(m, places)
	if err := cache.Make(m.Host.Dir(path)); err != nil {
		return nil, err
	}
	free, err := cache.Lock(ctx, path, func(holder string) {
		m.Shell.Status("Blocking", "waiting for another gpubuild on this target directory (%s)", holder)
	})
	if err != nil {
		return nil, err
	}
	done := false
	return func() {
		if done {
			return
		}
		done = true
		if err := free(); err != nil {
			m.Shell.Warning("lock of the target directory: %v", err)
		}
	}, nil
}

// BuiltFor is the architecture that a target directory's GPU packages were last built for; zero: nothing is recorded.
func BuiltFor(m *session.Machine, places cargo.Places) gpu.Arch {
	record, _ := readRecord(m, places)
	for i := len(record.Entries) - 1; i >= 0; i-- {
		for _, in := range record.Entries[i].Inputs {
			if in.Name != "arch" {
				continue
			}
			if a, err := gpu.ParseArch(in.Value); err == nil {
				return a
			}
		}
	}
	return gpu.Arch{}
}

// Inspect compares what is recorded of the GPU packages with what they would be built with now, and changes nothing. Call it
// under Lock.
func Inspect(ctx context.Context, b Build) (*State, error) {
	s := newState(&b)
	s.record, s.recordNote = readRecord(b.Machine, b.Graph.Places)
	return s, s.compare(ctx)
}

// Clean has cargo remove the packages that are stale, and says why. It is the last step before the build.
func (s *State) Clean(ctx context.Context) error {
	if s.recordNote != "" {
		s.shell.Warning("%s: %s; what the GPU packages were built with is unknown", recordPath(s.host, s.b.Graph.Places), s.recordNote)
	}
	s.tellUntold()
	packages := s.stalePackages()
	if s.b.Options.ForceClean {
		packages = s.Packages()
	}
	s.tellAdopted(packages)
	if len(packages) > 0 {
		if err := s.cleanTold(ctx, packages); err != nil {
			return err
		}
	}
	s.sawBefore()
	return nil
}

// Rebuild builds once more what the first build was to build.
type Rebuild func(context.Context) (cargorun.Built, error)

// Settle takes what cargo built, and the error with which that ended. It records which build scripts came to their end, whatever
// became of the rest. After a good build it compares what could not be compared before, since only cargo knows which OUT_DIRs it
// takes, and reads the device code; what is wrong is cleaned and built again with rebuild, once. What is wrong even then is told,
// and ends with exit.Stale.
func (s *State) Settle(ctx context.Context, built cargorun.Built, buildErr error, rebuild Rebuild) (cargorun.Built, error) {
	s.built, s.held = built, map[string]holding{}
	if buildErr != nil {
		s.keepRecord(false)
		return built, buildErr
	}
	s.findUndeclared()
	packages, err := s.compareRest(ctx)
	if err != nil {
		return built, err
	}
	s.tellAdopted(packages)
	mistakes, err := s.mistakes(ctx, s.outputs(), s.products())
	if err != nil {
		return built, err
	}
	if wrong := s.leftovers(mistakes); len(packages)+len(wrong) > 0 {
		if err := s.cleanAfter(ctx, packages, mistakes, wrong); err != nil {
			return built, err // nothing is recorded of what may not be cleaned
		}
		s.built, buildErr = rebuild(ctx)
		s.held = map[string]holding{}
		s.keepRecord(buildErr == nil)
		if buildErr != nil {
			return s.built, buildErr
		}
		if mistakes, err = s.mistakes(ctx, s.outputs(), s.products()); err != nil {
			return s.built, err
		}
	} else {
		s.keepRecord(true)
	}
	return s.built, s.judgeMistakes(mistakes)
}

// tellUntold says of which packages nothing is said: without a unit graph their sources are not known.
func (s *State) tellUntold() {
	if len(s.b.Reach.Untold) == 0 {
		return
	}
	s.shell.Warning("%s: `cargo tree` and Cargo.lock do not tell which package that is, so nothing is known of what it was built with",
		strings.Join(s.b.Reach.Untold, ", "))
	s.shell.Hint("after a change of toolkit run " + s.b.cleanLine(s.b.Reach.Untold) +
		", or let cargo be asked for its unit graph (" + s.b.Graph.Reason + ")")
}

// cleanLine is the command with which a person removes packages.
func (b *Build) cleanLine(packages []string) string {
	return "cargo " + strings.Join(cargo.Clean(b.Tool, b.Line, packages, b.platforms()).Args, " ")
}

// cleanTold says why packages are cleaned, and cleans them.
func (s *State) cleanTold(ctx context.Context, packages []string) error {
	for _, l := range stale.Lines(s.compared.Reasons) {
		s.shell.Status("Stale", "%s", l)
	}
	for _, d := range s.compared.Unknown {
		s.shell.Status("Unknown", "%s: %s", d.Package, d.Why)
	}
	if s.b.Options.NoClean {
		s.shell.Error("stale artifacts of %s, and --gpu-no-clean forbids to clean them", strings.Join(packages, ", "))
		s.shell.Hint("leave --gpu-no-clean out, or run " + s.b.cleanLine(packages))
		return exit.Code(exit.Stale)
	}
	return s.cleanForBuild(ctx, packages)
}

// stalePackages lists what must be cleaned: what differs, and what is not known to agree.
func (s *State) stalePackages() []string {
	set := map[string]bool{}
	for _, p := range s.compared.Clean {
		set[p] = true
	}
	for _, d := range s.compared.Unknown {
		set[d.Package] = true
	}
	return sorted(set)
}

// Cleaned lists the packages that were cleaned.
func (s *State) Cleaned() []string {
	if s == nil {
		return nil
	}
	return sorted(s.cleaned)
}

// Lines words what was found, one line for each change.
func (s *State) Lines() []string {
	if s == nil {
		return nil
	}
	lines := append(slices.Clone(s.earlier), stale.Lines(s.compared.Reasons)...)
	for _, d := range s.compared.Unknown {
		lines = append(lines, d.Package+": "+d.Why)
	}
	return append(lines, s.faultLines()...)
}

// Packages lists the GPU packages of the selection, as far as they are known.
func (s *State) Packages() []string {
	set := map[string]bool{}
	for _, u := range s.gpu {
		set[u.Name] = true
	}
	return sorted(set)
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for name := range set {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// featureKey is a feature set as the record names it.
func featureKey(list []string) string {
	sorted := append([]string(nil), list...)
	sort.Strings(sorted)
	return strings.Join(sorted, ",")
}

// amount words what was or would be removed, as cargo does.
func amount(files int, bytes int64) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%s, %.1f KiB", counted(files, "file"), float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%s, %.1f MiB", counted(files, "file"), float64(bytes)/(1<<20))
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
