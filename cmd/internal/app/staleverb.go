package app

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// States of a unit.
const (
	unitFresh   = "fresh"
	unitStale   = "stale"
	unitUnknown = "unknown"
)

// unitState is what is known of one package unit: what it was built with and what it would be built with now.
type unitState struct {
	Package  string       `json:"package"`
	Features string       `json:"features"`
	OutDir   string       `json:"out_dir"`
	State    string       `json:"state"`
	Why      string       `json:"why,omitempty"` // of unknown
	Recorded bool         `json:"recorded"`      // an entry of the record speaks of it; without one no input has a "was"
	Inputs   []stale.Pair `json:"inputs"`
	Holds    []string     `json:"holds"` // its device code
}

// doubt is a unit of which it is not known what it was built with.
type doubt struct {
	Package string `json:"package"`
	Why     string `json:"why"`
}

// runStale says what is stale, and cleans nothing.
func runStale(a *app, ctx context.Context, o Options, l cargo.Line) error {
	j, err := a.prepared(ctx, o, l)
	if err != nil {
		return err
	}
	if err := j.compare(ctx); err != nil {
		return err
	}
	if err := j.readCode(ctx); err != nil {
		return err
	}
	j.tellBeside()
	packages := nonNil(j.stalePackages())
	caches, err := j.outside(packages)
	if err != nil {
		return err
	}
	if j.recordNote != "" {
		a.Shell.Warning("%s: %s; the next build writes it anew", j.recordPath(), j.recordNote)
	}
	unknown := []doubt{}
	for _, d := range j.compared.Unknown {
		unknown = append(unknown, doubt{d.Package, d.Why})
	}
	for _, name := range j.reach.Untold {
		unknown = append(unknown, doubt{name, "`cargo tree` and Cargo.lock do not tell which package that is"})
	}
	units := j.unitStates()
	if o.JSON == nil {
		for _, line := range stale.Lines(j.compared.Reasons) {
			fmt.Fprintln(a.Shell.Out, line)
		}
		for _, d := range unknown {
			fmt.Fprintf(a.Shell.Out, "unknown: %s: %s\n", d.Package, d.Why)
		}
		for _, line := range j.faultLines() {
			fmt.Fprintln(a.Shell.Out, line)
		}
		if o.Explain {
			for _, u := range units {
				for _, line := range unitLines(u) {
					fmt.Fprintln(a.Shell.Out, line)
				}
			}
			for _, f := range j.faults {
				if j.reasoned(f.Package) {
					continue // what it holds stands above
				}
				for _, line := range f.lines() {
					fmt.Fprintln(a.Shell.Out, line)
				}
			}
		}
	}
	for _, c := range caches {
		j.tellOutside(c, "gpubuild clean --external")
	}
	r := j.reachResult("stale")
	r.Stale, r.Set = j.staleLines(), report.SetOf(j.Tools)
	r.Checks = []report.Check{{ID: report.CheckStale, State: report.Passed, Message: "nothing is stale"}}
	end := j.endStale(&r, packages)
	if end == nil && len(j.reach.Untold) > 0 {
		end = exit.Code(exit.Stale)
		r.Checks[0].State, r.Checks[0].Message = report.Failed, "not known of "+strings.Join(j.reach.Untold, ", ")
		j.tellUntold()
	}
	if end == nil && o.JSON == nil {
		known, err := j.gpuPackages()
		if err != nil {
			return err
		}
		switch {
		case len(j.reach.Units) == 0 && len(known) > 0:
			a.Shell.Status("Fresh", "the kernels of %s are what would be made now", strings.Join(known, ", "))
		case len(j.reach.Units) == 0:
			a.Shell.Status("Fresh", "no package of this selection takes anything from the GPU's toolchain that cargo does not watch")
		case len(units) == 0:
			a.Shell.Status("Fresh", "none of %s is built here yet", counted(len(j.reach.Units), "GPU package"))
		default:
			built := names(units)
			line := fmt.Sprintf("%s built with what would be used now: %s", counted(len(built), "GPU package"), strings.Join(built, ", "))
			if left := j.notBuilt(built); len(left) > 0 {
				line += "; not built here yet: " + strings.Join(left, ", ")
			}
			a.Shell.Status("Fresh", "%s", line)
		}
	}
	return a.end(o, end, r, struct {
		Reasons  []stale.Reason `json:"reasons"`
		Unknown  []doubt        `json:"unknown"`
		Clean    []string       `json:"clean"`
		Units    []unitState    `json:"units"`
		Code     []codeFinding  `json:"code"`
		External []outsideCache `json:"external"`
	}{nonNil(j.compared.Reasons), unknown, packages, units, nonNil(j.faults), nonNil(caches)})
}

// endStale is what the verb ends with; it adds the findings to the result and says what to do.
func (j *journey) endStale(r *report.Result, packages []string) error {
	wrong := j.wrongFault()
	if len(packages) == 0 && wrong == nil {
		return nil
	}
	r.Checks[0].State, r.Checks[0].Message = report.Failed, strings.Join(r.Stale, "; ")
	const cleans = "build by gpubuild, which cleans just that"
	for _, l := range r.Stale {
		f := finding.Finding{ID: "stale.found", Severity: finding.Error, Message: l, Fix: cleans}
		for _, fault := range j.faults {
			if fault.Message != l {
				continue
			}
			f.Evidence = strings.Join(fault.Evidence, "\n")
			if fault.State == codeWrong {
				f.Fix = j.remedy(fault.mistake)
			}
		}
		r.Findings = append(r.Findings, f)
	}
	if j.options.JSON == nil {
		if len(packages) > 0 {
			j.Shell.Hint("gpubuild build cleans just " + strings.Join(packages, ", ") + " and builds; gpubuild clean --minimal only cleans")
		}
		if wrong != nil {
			j.Shell.Hint("building " + wrong.Package + " anew did not mend it: " + j.remedy(wrong.mistake))
		}
	}
	return exit.Code(exit.Stale)
}

// notBuilt are the GPU packages of the selection of which nothing was compared.
func (j *journey) notBuilt(built []string) []string {
	var out []string
	for _, u := range j.reach.Units {
		if !contains(built, u.Name) && !contains(out, u.Name) {
			out = append(out, u.Name)
		}
	}
	return out
}

func names(units []unitState) []string {
	var out []string
	for _, u := range units {
		if !contains(out, u.Package) {
			out = append(out, u.Package)
		}
	}
	return out
}

// unitStates puts what is recorded of each unit beside what would be used now.
func (j *journey) unitStates() []unitState {
	out := make([]unitState, 0, len(j.units))
	for _, u := range j.units {
		s := unitState{Package: u.Package, Features: u.Features, OutDir: u.OutDir, State: unitFresh}
		var old []stale.Input
		for _, e := range j.record.Of(u.PkgID, u.Features) {
			if e.OutDir == u.OutDir {
				old, s.Recorded = e.Inputs, true
			}
		}
		s.Inputs = stale.Pairs(old, u.Inputs)
		for _, p := range s.Inputs {
			if !p.Same && contains(j.compared.Clean, u.Package) { // a difference may have been found to be none
				s.State = unitStale
			}
		}
		for _, d := range j.compared.Unknown {
			if d.Key == u.Key {
				s.State, s.Why = unitUnknown, d.Why
			}
		}
		for _, a := range j.adopted {
			if a.Key == u.Key {
				s.Why = a.words()
			}
		}
		for _, f := range j.faults {
			if f.OutDir == u.OutDir && f.State != codeAccepted {
				s.State = unitStale
			}
		}
		s.Holds = []string{}
		if unit, ok := j.unitOf(u.Key); ok && unit.Inputs.Arch {
			if held, err := j.holds(u.OutDir); err == nil { // that it cannot be read was told when it was looked at
				s.Holds = holdsLines(held.code)
			}
		}
		out = append(out, s)
	}
	return out
}

// unitLines words a unit for a person: what it was built with, and what is used now where that is another thing.
func unitLines(u unitState) []string {
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
func (f codeFinding) lines() []string {
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
