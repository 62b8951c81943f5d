package app

import (
	"context"
	"fmt"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// runStale says what is stale, and cleans nothing.
func runStale(a *app, ctx context.Context, o Options, l cargo.Line) error {
	j, err := a.prepared(ctx, o, l)
	if err != nil {
		return err
	}
	if j.fresh, err = fresh.Inspect(ctx, j.freshBuild()); err != nil {
		return err
	}
	found, err := j.fresh.Report(ctx)
	if err != nil {
		return err
	}
	if o.JSON == nil {
		for _, line := range j.fresh.Text(found, o.Explain) {
			fmt.Fprintln(a.Shell.Out, line)
		}
	}
	j.fresh.TellOutside(found, "gpubuild clean --external")
	r := j.reachResult("stale")
	r.Stale, r.Set = j.fresh.Lines(), report.SetOf(j.Tools)
	r.Checks = []report.Check{{ID: report.CheckStale, State: report.Passed, Message: "nothing is stale"}}
	var end error
	message, findings, hints := j.fresh.Verdict(found)
	if message != "" {
		end = exit.Code(exit.Stale)
		r.Checks[0].State, r.Checks[0].Message = report.Failed, message
		r.Findings = append(r.Findings, findings...)
	}
	switch {
	case o.JSON == nil && len(hints) > 0:
		for _, h := range hints {
			a.Shell.Hint(h)
		}
	case end != nil && len(findings) == 0:
		j.fresh.TellUntold()
	case end == nil && o.JSON == nil:
		j.fresh.TellFresh(found)
	}
	return a.end(o, end, r, found)
}
