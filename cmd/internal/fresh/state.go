package fresh

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
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
	hashes *inputs.Hashes

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
	return &State{
		b: b, host: b.Machine.Host, shell: b.Machine.Shell, hashes: inputs.NewHashes(b.Machine),
		inputs: map[string][]stale.Input{}, held: map[string]holding{}, cleaned: map[string]bool{}, undeclared: map[string]bool{},
	}
}

// scriptSet is a feature set with which a package's build script runs in this build, for a platform.
type scriptSet struct{ features, platform string }

// output is what there is of one unit of a GPU package.
type output struct {
	unit      features.ScriptUnit
	outDir    string
	cfgs      []string // that its script told rustc
	libraries []string
}

// holding is the device code of some files.
type holding struct {
	Code  []stale.Code `json:"code,omitempty"`
	Path  []string     `json:"path,omitempty"`  // of the file that each of Code lies in
	Hosts []string     `json:"hosts,omitempty"` // host compilers that objects with device code name
	Notes []string     `json:"notes,omitempty"` // caches that build tools keep there
}

// adopted is a unit that was taken over.
type adopted struct {
	stale.Doubt
	trusted []string
	told    bool
}

// words say why a unit was taken over, and on what trust.
func (a adopted) words() string {
	words := a.Why + ", but it holds what would be built now"
	if len(a.trusted) > 0 {
		words += "; taken on trust: " + strings.Join(a.trusted, ", ")
	}
	return words
}

// mistake is one package unit whose code is not what was asked for.
type mistake struct {
	unit      features.ScriptUnit
	features  string
	outDir    string
	scriptRan int64
	want      stale.Want
	code      []stale.Code // all that it holds
	list      []stale.Mismatch
	paths     []string // of the file of each
	linked    string   // the program that holds older code than the package; empty: the package itself
	told      string   // where the mismatches' own words do not fit
}

func (f *mistake) sum() string {
	sum := sha256.Sum256([]byte(f.linked + "\x00" + stale.Sum(f.list)))
	return hex.EncodeToString(sum[:12])
}

func (f *mistake) words() string {
	switch {
	case f.told != "":
		return f.told
	case f.linked != "":
		return fmt.Sprintf("%s holds %s of %s, which was built since", f.linked, f.list[0].Found, f.unit.Name)
	}
	return stale.Told(f.unit.Name, f.list, f.want)
}

// Fault is device code that is not what a build would be asked for, whatever the record says.
type Fault struct {
	Package  string   `json:"package"`
	Features string   `json:"features"`
	OutDir   string   `json:"out_dir"`
	State    string   `json:"state"`
	Message  string   `json:"message"`
	Evidence []string `json:"evidence"` // each file and kernel

	mistake *mistake
}

// featureKey is a feature set as the record names it.
func featureKey(list []string) string {
	sorted := append([]string(nil), list...)
	sort.Strings(sorted)
	return strings.Join(sorted, ",")
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for name := range set {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
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

// faultLines words the device code that counts against a state of "nothing is
// stale", where no reason of the same package says as much.
func (s *State) faultLines() []string {
	var out []string
	for _, f := range s.faults {
		if f.State != codeAccepted && !s.reasoned(f.Package) && !slices.Contains(out, f.Message) {
			out = append(out, f.Message)
		}
	}
	return out
}

// reasoned says whether the comparison itself found something of a package.
func (s *State) reasoned(pkg string) bool {
	for _, r := range s.compared.Reasons {
		if r.Package == pkg {
			return true
		}
	}
	for _, d := range s.compared.Unknown {
		if d.Package == pkg {
			return true
		}
	}
	return false
}

// What becomes of device code that is not what a build would be asked for.
const (
	codeCleaned  = "stale"    // a build cleans its package, once
	codeWrong    = "wrong"    // building it anew did not mend it
	codeAccepted = "accepted" // it stays, as was told after an earlier build
)

// Packages lists the GPU packages of the selection, as far as they are known.
func (s *State) Packages() []string {
	set := map[string]bool{}
	for _, u := range s.gpu {
		set[u.Name] = true
	}
	return sorted(set)
}

// areCleaned says that packages were cleaned, and remembers that what they hold next is new.
func (s *State) areCleaned(packages []string) {
	s.shell.Status("Cleaned", "%s", strings.Join(packages, ", "))
	for _, p := range packages {
		s.cleaned[p] = true
	}
}

// RefusedError is why nothing is removed: it would cost a person more than build products.
type RefusedError struct{ Problem, Fix string }

func (e *RefusedError) Error() string { return e.Problem }

// Hint says how to clean all the same.
func (e *RefusedError) Hint() string { return e.Fix }

// ExitCode is that of a wrong command line: what it names cannot be used.
func (e *RefusedError) ExitCode() int { return exit.Usage }
