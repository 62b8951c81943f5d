package app

import (
	"context"
	"fmt"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
	"strings"
)

func runStale(a *app, ctx context.Context, o Options, l cargo.Line) error {
	j, err := a.prepared(ctx, o, l)
	if err != nil {
		return err
	}
	if err := j.compare(ctx); err != nil {
		return err
	}
	packages := j.stalePackages()
	reasons := j.compared.Reasons
	if reasons == nil {
		reasons = []stale.Reason{}
	}
	type doubt struct {
		Package string `json:"package"`
		Why     string `json:"why"`
	}
	unknown := []doubt{}
	for _, d := range j.compared.Unknown {
		unknown = append(unknown, doubt{d.Package, d.Why})
	}
	if j.recordNote != "" {
		a.shell.Warning("%s: %s", j.recordPath(), j.recordNote)
	}
	if o.JSON == nil {
		for _, line := range stale.Lines(reasons) {
			fmt.Fprintln(a.shell.Out, line)
		}
		for _, d := range unknown {
			fmt.Fprintf(a.shell.Out, "unknown: %s: %s\n", d.Package, d.Why)
		}
		if o.Explain {
			for _, u := range j.units {
				fmt.Fprintf(a.shell.Out, "%s [%s] %s\n", u.Package, u.Features, u.OutDir)
				for _, in := range u.Inputs {
					fmt.Fprintf(a.shell.Out, "  %s: %s\n", in.Name, in.Value)
				}
			}
		}
		if len(packages) == 0 {
			a.shell.Status("Fresh", "%d GPU packages were built with what would be used now", len(j.units))
		}
	}
	r := j.reachResult("stale")
	r.Stale, r.Set = j.staleLines(), j.setResult()
	r.Checks = []report.Check{{ID: report.CheckStale, State: report.Passed, Message: "nothing is stale"}}
	var end error
	if len(packages) > 0 {
		end = codeError(codeStale)
		r.Checks[0].State, r.Checks[0].Message = report.Failed, strings.Join(r.Stale, "; ")
		for _, l := range r.Stale {
			r.Findings = append(r.Findings, report.Finding{ID: "stale.found", Severity: report.SeverityError, Message: l, Fix: "build by gpubuild, which cleans just that"})
		}
	}
	return a.end(o, end, r, struct {
		Reasons []stale.Reason `json:"reasons"`
		Unknown []doubt        `json:"unknown"`
		Clean   []string       `json:"clean"`
	}{reasons, unknown, packages})
}
