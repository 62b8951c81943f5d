package fresh

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
)

// States of a unit.
const (
	unitFresh   = "fresh"
	unitStale   = "stale"
	unitUnknown = "unknown"
)

// Unit is what is known of one package unit: what it was built with and what it would be built with now.
type Unit struct {
	Package  string       `json:"package"`
	Features string       `json:"features"`
	OutDir   string       `json:"out_dir"`
	State    string       `json:"state"`
	Why      string       `json:"why,omitempty"` // of unknown
	Recorded bool         `json:"recorded"`      // an entry of the record speaks of it; without one no input has a "was"
	Inputs   []stale.Pair `json:"inputs"`
	Holds    []string     `json:"holds"` // its device code
}

// Doubt is a unit of which it is not known what it was built with.
type Doubt struct {
	Package string `json:"package"`
	Why     string `json:"why"`
}

// Report is what is stale, and why.
type Report struct {
	Reasons  []stale.Reason `json:"reasons"`
	Unknown  []Doubt        `json:"unknown"`
	Clean    []string       `json:"clean"` // what a build would clean
	Units    []Unit         `json:"units"`
	Code     []Fault        `json:"code"`
	External []Cache        `json:"external"`
}

// Report reads the device code that earlier builds left, too, and says what is stale. It cleans nothing.
func (s *State) Report(ctx context.Context) (Report, error) {
	if err := s.readCode(ctx); err != nil {
		return Report{}, err
	}
	s.tellBeside()
	r := Report{
		Reasons: nonNil(s.compared.Reasons), Unknown: []Doubt{}, Clean: s.stalePackages(), Units: s.unitStates(), Code: nonNil(s.faults),
	}
	caches, err := s.b.outside(r.Clean)
	if err != nil {
		return Report{}, err
	}
	r.External = nonNil(caches)
	if s.recordNote != "" {
		s.shell.Warning("%s: %s; the next build writes it anew", recordPath(s.host, s.b.Graph.Places), s.recordNote)
	}
	for _, d := range s.compared.Unknown {
		r.Unknown = append(r.Unknown, Doubt{d.Package, d.Why})
	}
	for _, name := range s.b.Reach.Untold {
		r.Unknown = append(r.Unknown, Doubt{name, "`cargo tree` and Cargo.lock do not tell which package that is"})
	}
	return r, nil
}

// Text words a report for a person; explain adds what each unit was built with.
func (s *State) Text(r Report, explain bool) []string {
	lines := stale.Lines(r.Reasons)
	for _, d := range r.Unknown {
		lines = append(lines, fmt.Sprintf("unknown: %s: %s", d.Package, d.Why))
	}
	lines = append(lines, s.faultLines()...)
	if !explain {
		return lines
	}
	for _, u := range r.Units {
		lines = append(lines, u.lines()...)
	}
	for _, f := range r.Code {
		if !s.reasoned(f.Package) { // else what it holds stands above
			lines = append(lines, f.lines()...)
		}
	}
	return lines
}

// Verdict is the check that nothing is stale, with a finding for each thing that is, and what to do about it.
func (s *State) Verdict(r Report) (message string, found []finding.Finding, hints []string) {
	wrong := s.wrongFault()
	if len(r.Clean) == 0 && wrong == nil {
		if len(s.b.Reach.Untold) > 0 {
			return "not known of " + strings.Join(s.b.Reach.Untold, ", "), nil, nil
		}
		return "", nil, nil
	}
	lines := s.Lines()
	const cleans = "build by gpubuild, which cleans just that"
	for _, l := range lines {
		f := finding.Finding{ID: "stale.found", Severity: finding.Error, Message: l, Fix: cleans}
		for _, fault := range s.faults {
			if fault.Message != l {
				continue
			}
			f.Evidence = strings.Join(fault.Evidence, "\n")
			if fault.State == codeWrong {
				f.Fix = s.remedy(fault.mistake)
			}
		}
		found = append(found, f)
	}
	if len(r.Clean) > 0 {
		hints = append(hints, "gpubuild build cleans just "+strings.Join(r.Clean, ", ")+" and builds; gpubuild clean --minimal only cleans")
	}
	if wrong != nil {
		hints = append(hints, "building "+wrong.Package+" anew did not mend it: "+s.remedy(wrong.mistake))
	}
	return strings.Join(lines, "; "), found, hints
}

// TellFresh says what was looked at where nothing is stale.
func (s *State) TellFresh(r Report) {
	switch {
	case len(s.b.Reach.Units) == 0 && len(s.gpu) > 0:
		s.shell.Status("Fresh", "the kernels of %s are what would be made now", strings.Join(s.Packages(), ", "))
	case len(s.gpu) == 0:
		s.shell.Status("Fresh", "no package of this selection takes anything from the GPU's toolchain that cargo does not watch")
	case len(r.Units) == 0:
		s.shell.Status("Fresh", "none of %s is built here yet", counted(len(s.b.Reach.Units), "GPU package"))
	default:
		built := names(r.Units)
		line := fmt.Sprintf("%s built with what would be used now: %s", counted(len(built), "GPU package"), strings.Join(built, ", "))
		if left := s.notBuilt(built); len(left) > 0 {
			line += "; not built here yet: " + strings.Join(left, ", ")
		}
		s.shell.Status("Fresh", "%s", line)
	}
}

// TellOutside says what packages keep outside the target directory.
func (s *State) TellOutside(r Report, flag string) {
	for _, c := range r.External {
		s.b.tellOutside(c, flag)
	}
}

// TellUntold says of which packages nothing is known.
func (s *State) TellUntold() { s.tellUntold() }

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// notBuilt are the GPU packages of the selection of which nothing was compared.
func (s *State) notBuilt(built []string) []string {
	var out []string
	for _, u := range s.gpu {
		if !slices.Contains(built, u.Name) && !slices.Contains(out, u.Name) {
			out = append(out, u.Name)
		}
	}
	return out
}

func names(units []Unit) []string {
	var out []string
	for _, u := range units {
		if !slices.Contains(out, u.Package) {
			out = append(out, u.Package)
		}
	}
	return out
}

// unitStates puts what is recorded of each unit beside what would be used now.
func (s *State) unitStates() []Unit {
	out := make([]Unit, 0, len(s.units))
	for _, u := range s.units {
		now := Unit{Package: u.Package, Features: u.Features, OutDir: u.OutDir, State: unitFresh}
		var old []stale.Input
		for _, e := range s.record.Of(u.PkgID, u.Features) {
			if e.OutDir == u.OutDir {
				old, now.Recorded = e.Inputs, true
			}
		}
		now.Inputs = stale.Pairs(old, u.Inputs)
		for _, p := range now.Inputs {
			if !p.Same && slices.Contains(s.compared.Clean, u.Package) { // a difference may have been found to be none
				now.State = unitStale
			}
		}
		for _, d := range s.compared.Unknown {
			if d.Key == u.Key {
				now.State, now.Why = unitUnknown, d.Why
			}
		}
		for _, a := range s.adopted {
			if a.Key == u.Key {
				now.Why = a.words()
			}
		}
		for _, f := range s.faults {
			if f.OutDir == u.OutDir && f.State != codeAccepted {
				now.State = unitStale
			}
		}
		now.Holds = []string{}
		if unit, ok := s.unitOf(u.Key); ok && unit.Inputs.Arch {
			if held, err := s.holds(u.OutDir); err == nil { // that it cannot be read was told when it was looked at
				now.Holds = holdsLines(held.Code)
			}
		}
		out = append(out, now)
	}
	return out
}

// lines words a unit for a person: what it was built with, and what is used now where that is another thing.
func (u Unit) lines() []string {
	head := u.Package
	if u.Features != "" {
		head += " [" + u.Features + "]"
	}
	head += ": " + u.State
	if u.Why != "" {
		head += " (" + u.Why + ")"
	}
	lines := []string{head}
	if u.OutDir != "" {
		lines = append(lines, "  built in "+u.OutDir)
	}
	for _, p := range u.Inputs {
		switch {
		case !u.Recorded:
			lines = append(lines, fmt.Sprintf("  %s: now %s", p.Input, p.Now))
		case p.Same && p.Was == p.Now:
			lines = append(lines, fmt.Sprintf("  %s: %s", p.Input, p.Was))
		case p.Same:
			lines = append(lines, fmt.Sprintf("  %s: %s, now %s with the same content", p.Input, p.Was, p.Now))
		case p.Was == "":
			lines = append(lines, fmt.Sprintf("  %s: built without, now %s", p.Input, p.Now))
		case p.Now == "":
			lines = append(lines, fmt.Sprintf("  %s: built with %s, now without", p.Input, p.Was))
		default:
			lines = append(lines, fmt.Sprintf("  %s: built with %s, now %s", p.Input, p.Was, p.Now))
		}
	}
	const most = 12
	for i, h := range u.Holds {
		if i == most {
			lines = append(lines, fmt.Sprintf("  and %d more", len(u.Holds)-most))
			break
		}
		lines = append(lines, "  holds "+h)
	}
	return lines
}

// lines words device code that is not what it should be: what it is, what becomes of it, and where it was seen.
func (f Fault) lines() []string {
	head := f.Message + ": " + map[string]string{
		codeCleaned:  "a build cleans it once and builds it anew",
		codeWrong:    "building it anew did not mend it",
		codeAccepted: "it stays, as was told after an earlier build",
	}[f.State]
	lines := []string{head}
	for _, e := range f.Evidence {
		lines = append(lines, "  "+e)
	}
	return lines
}
