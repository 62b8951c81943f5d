package cli

import (
	"context"
	"slices"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// staleOptions are the flags of stale.
type staleOptions struct {
	Tools   tools.Options
	Explain bool
	Results report.Files
}

func staleVerb() verb {
	var o staleOptions
	return verb{
		Verb: help.Verb{
			Name: "stale", Usage: "list what cargo considers fresh although a tool has changed", Project: true,
			Examples: []string{"gpubuild stale --features cuda --release"},
			Text: "Cleans nothing. Exits with 13 if something is stale, judged by the records of earlier builds and by the device code " +
				"in their output. --explain shows both.",
		},
		results: &o.Results,
		flags: slices.Concat(
			toolFlags(&o.Tools, "--"),
			[]*flag{toggle("explain", "say what each package was built with, and what would be used now", &o.Explain)},
			resultFlags(&o.Results),
		),
		run: with(&o, runStale),
	}
}

// runStale says what is stale, and cleans nothing.
func runStale(ctx context.Context, a *invocation, o staleOptions, l cargo.Line) error {
	p, err := pipeline.Prepare(ctx, a.Machine, l, false, o.Tools)
	if err != nil {
		return err
	}
	state, err := fresh.Inspect(ctx, p.Fresh(fresh.Options{}))
	if err != nil {
		return err
	}
	found, err := state.Report()
	if err != nil {
		return err
	}
	if o.Results.JSON == nil {
		for _, line := range state.Text(found, o.Explain) {
			if err := a.Shell.Print(line + "\n"); err != nil {
				return err
			}
		}
	}
	state.PrintOutside(found, "gpubuild clean --external")
	r := a.reachResult("stale", p.Features)
	r.Stale, r.Set = state.Lines(), report.SetOf(p.Tools)
	r.Checks = []report.Check{{ID: report.CheckStale, State: report.Passed, Message: "nothing is stale"}}
	var end error
	message, findings, hints := state.Verdict(found)
	if message != "" {
		end = exit.Code(exit.Stale)
		r.Checks[0].State, r.Checks[0].Message = report.Failed, message
		r.Findings = append(r.Findings, findings...)
	}
	if len(found.Clean) > 0 {
		hints[0] += o.Tools.Commands(l)
	}
	switch {
	case o.Results.JSON == nil && len(hints) > 0:
		for _, h := range hints {
			a.Shell.Hint(h)
		}
	case end != nil && len(findings) == 0:
		state.WarnUnidentified()
	case end == nil && o.Results.JSON == nil:
		state.PrintFresh(found)
	}
	return a.end(o.Results, end, r, found)
}
