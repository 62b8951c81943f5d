package fresh

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
)

// Unit is what is known of one OUT_DIR: what it was built with and what it would be built with now.
type Unit struct {
	Package  string       `json:"package"`
	Features string       `json:"features"`
	OutDir   string       `json:"out_dir"`
	State    string       `json:"state"`
	Why      string       `json:"why,omitempty"`       // of unknown
	Recorded bool         `json:"recorded"`            // it has a stamp; without one no input has a "was"
	Known    string       `json:"known,omitempty"`     // how much of what was compiled is recorded; see stale.Stamp
	Partly   string       `json:"known_why,omitempty"` // why not all of it
	Inputs   []stale.Pair `json:"inputs"`
}

// Doubt is a package of which it is not known what it was built with.
type Doubt struct {
	Package string `json:"package"`
	Why     string `json:"why"`
}

func (d Doubt) String() string { return d.Package + ": " + d.Why }

// Report is what is stale, and why.
type Report struct {
	Reasons []stale.Reason `json:"reasons"`
	Unknown []Doubt        `json:"unknown"`
	Clean   []string       `json:"clean"` // what a build would clean
	Units   []Unit         `json:"units"`
}

// Report says what is stale. It cleans nothing.
func (s *State) Report() Report {
	r := Report{Reasons: s.Reasons(), Unknown: s.doubts(), Clean: s.stalePackages(), Units: []Unit{}}
	for _, o := range s.outs {
		dir := o.dir
		if s.ofMacro(o) { // which has none: where the records are
			dir = s.b.Machine.Host.Dir(dir)
		}
		u := Unit{
			Package: o.pkg.Name, Features: strings.Join(o.pkg.sets, " or "), OutDir: dir, State: o.state, Why: o.why, Recorded: o.stamped,
			Known: o.stamp.Known, Partly: o.stamp.Why, Inputs: stale.Pairs(o.stamp.Inputs, o.inputs),
		}
		for i, in := range u.Inputs {
			u.Inputs[i].Input = stale.PartName(in.Input)
		}
		r.Units = append(r.Units, u)
	}
	if why := s.b.Reach.Unknown; why != "" {
		r.Unknown = append(r.Unknown, Doubt{"the packages of this build", why})
	}
	return r
}

// Text words a report for a person; explain adds what each unit was built with, and a package alone that of its own.
func (s *State) Text(r Report, explain bool, pkg string) (lines []string, err error) {
	if pkg != "" && !slices.Contains(s.Packages(), pkg) {
		return nil, exit.Usagef("gpubuild stale --help", "%s is no GPU package of this build; these are: %s", pkg, strings.Join(s.Packages(), ", "))
	}
	lines = stale.Lines(r.Reasons)
	for _, d := range r.Unknown {
		lines = append(lines, "unknown: "+d.String())
	}
	built := false
	for i, u := range r.Units {
		if built = built || u.Package == pkg; explain || u.Package == pkg {
			lines = append(lines, u.lines(s.b.Machine.Shown(u.OutDir), len(s.outs[i].stamp.Read))...)
		}
	}
	if pkg != "" && !built {
		lines = append(lines, pkg+": not built yet")
	}
	return lines, nil
}

// PrintStale says what is stale.
func (s *State) PrintStale() {
	for _, line := range stale.Lines(s.Reasons()) {
		s.b.Machine.Shell.Status("Stale", "%s", line)
	}
	for _, d := range s.doubts() {
		s.b.Machine.Shell.Status("Unknown", "%s", d)
	}
}

// Verdict says why not everything is known to be up to date, with a finding for each thing that is stale; empty: it is.
func (s *State) Verdict(r Report) (message string, found []finding.Finding) {
	if len(r.Clean) == 0 {
		if s.b.Reach.Unknown != "" {
			return "not known: " + s.b.Reach.Unknown, nil
		}
		return "", nil
	}
	lines := s.Lines()
	for _, l := range lines {
		found = append(found, finding.Of(finding.Finding{ID: "stale.found", Message: l,
			Fix: "gpubuild build cleans only that and rebuilds it"}))
	}
	return strings.Join(lines, "; "), found
}

// PrintFresh says what was looked at where nothing is stale.
func (s *State) PrintFresh(r Report) {
	shell := s.b.Machine.Shell
	var built []string
	for _, u := range r.Units {
		built = append(built, u.Package)
	}
	left := slices.DeleteFunc(s.Packages(), func(name string) bool { return slices.Contains(built, name) })
	built = slices.Compact(slices.Sorted(slices.Values(built)))
	switch {
	case len(s.packages)+len(s.outs) == 0:
		shell.Status("Fresh", "nothing to check: no selected package uses the CUDA toolchain")
	case len(built) == 0:
		shell.Status("Fresh", "no GPU package has been built with these features: %s", strings.Join(left, ", "))
	case len(left) > 0:
		shell.Status("Fresh", "%s: up to date; not built yet: %s", strings.Join(built, ", "), strings.Join(left, ", "))
	default:
		shell.Status("Fresh", "%s: up to date", strings.Join(built, ", "))
	}
}

// lines words a unit for a person: what it was built with, what is used now where that is another thing, and how much is known of what it
// was compiled from.
func (u Unit) lines(outDir string, read int) []string {
	head := u.Package
	if u.Features != "" {
		head += " [" + u.Features + "]"
	}
	head += ": " + u.State
	if u.Why != "" {
		head += " (" + u.Why + ")"
	}
	var changes []string
	for _, p := range u.Inputs {
		was, now := cmp.Or(p.Was, "none"), cmp.Or(p.Now, "none")
		version, _, _ := strings.Cut(p.Was, " ")
		switch {
		case u.State == agrees && slices.Contains([]string{"nvcc", "arch", "host compiler"}, p.Input):
			head += ", " + p.Input + " " + version
		case u.State == agrees:
		case !u.Recorded:
			changes = append(changes, fmt.Sprintf("  %s: now %s", p.Input, p.Now))
		case !p.Same:
			changes = append(changes, fmt.Sprintf("  %s: built with %s, now %s", p.Input, was, now))
		}
	}
	if u.State == agrees {
		head += fmt.Sprintf(": %d inputs and %d places where compilers looked are unchanged", len(u.Inputs), read)
	}
	lines := append([]string{head, "  built in " + outDir}, changes...)
	switch u.Known {
	case stale.Complete:
		lines = append(lines, "  complete: every compilation that gpubuild knows of is recorded, and what it read counts")
	case stale.Partial, stale.None:
		lines = append(lines, fmt.Sprintf("  %s: %s; every file of the package counts", u.Known, u.Partly))
	}
	return lines
}

// Uses reports whether any package of a build uses the toolkit, and whether one compiles for an architecture.
func (s *State) Uses() (toolkit, arch bool) {
	for _, o := range s.outs {
		if in := o.pkg.Inputs; inCatalog(o.pkg.Name) || s.holdsCode(o.pkg) || s.linksCUDA(o.pkg) { // of another script it is known after it ran
			toolkit, arch = toolkit || in.NVCC || in.Root, arch || in.Arch
		}
	}
	return toolkit, arch
}
