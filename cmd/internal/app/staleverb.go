package app

import (
	"context"
	"fmt"
	"strings"

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
	packages := nonNil(j.stalePackages())
	caches, err := j.outside(packages)
	if err != nil {
		return err
	}
	if j.recordNote != "" {
		a.shell.Warning("%s: %s", j.recordPath(), j.recordNote)
	}
	unknown := []doubt{}
	for _, d := range j.compared.Unknown {
		unknown = append(unknown, doubt{d.Package, d.Why})
	}
	units := j.unitStates()
	if o.JSON == nil {
		for _, line := range stale.Lines(j.compared.Reasons) {
			fmt.Fprintln(a.shell.Out, line)
		}
		for _, d := range unknown {
			fmt.Fprintf(a.shell.Out, "unknown: %s: %s\n", d.Package, d.Why)
		}
		if o.Explain {
			for _, u := range units {
				for _, line := range unitLines(u) {
					fmt.Fprintln(a.shell.Out, line)
				}
			}
		}
	}
	for _, c := range caches {
		j.tellOutside(c, "gpubuild clean --external")
	}
	r := j.reachResult("stale")
	r.Stale, r.Set = j.staleLines(), j.setResult()
	r.Checks = []report.Check{{ID: report.CheckStale, State: report.Passed, Message: "nothing is stale"}}
	var end error
	switch {
	case len(packages) > 0:
		end = codeError(codeStale)
		r.Checks[0].State, r.Checks[0].Message = report.Failed, strings.Join(r.Stale, "; ")
		for _, l := range r.Stale {
			r.Findings = append(r.Findings, report.Finding{ID: "stale.found", Severity: report.SeverityError, Message: l, Fix: "build by gpubuild, which cleans just that"})
		}
		if o.JSON == nil {
			a.shell.Hint("gpubuild build cleans just " + strings.Join(packages, ", ") + " and builds; gpubuild clean --minimal only cleans")
		}
	case o.JSON != nil:
	case len(j.reach.Units) == 0:
		a.shell.Status("Fresh", "no package of this selection takes anything from the GPU's toolchain that cargo does not watch")
	case len(units) == 0:
		a.shell.Status("Fresh", "none of %s is built here yet", counted(len(j.reach.Units), "GPU package"))
	default:
		a.shell.Status("Fresh", "%s built with what would be used now: %s", counted(len(units), "GPU package"), strings.Join(names(units), ", "))
	}
	return a.end(o, end, r, struct {
		Reasons  []stale.Reason `json:"reasons"`
		Unknown  []doubt        `json:"unknown"`
		Clean    []string       `json:"clean"`
		Units    []unitState    `json:"units"`
		External []outsideCache `json:"external"`
	}{nonNil(j.compared.Reasons), unknown, packages, units, nonNil(caches)})
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
		head += ", " + u.Why
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
	return lines
}
