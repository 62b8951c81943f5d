package cli

import (
	"context"
	"fmt"
	"slices"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

func staleVerb() verb {
	var o Options
	return verb{
		name: "stale", usage: "say which artifacts cargo believes fresh although a tool changed",
		text: "gpubuild stale --features cuda --release\n\n" +
			"Cleans nothing. Ends 13 when something is stale: by what is recorded of earlier builds, and by the device code of " +
			"what they left (--explain shows both).",
		project: true,
		results: &o,
		flags: slices.Concat(
			toolFlags(&o),
			shared(&o, "backend"),
			[]*flag{
				toggle("explain", "say what each package was built with, and what would be used now", &o.Explain),
			},
			resultFlags(&o),
		),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runStale(ctx, a, o, l)
		},
	}
}

// runStale says what is stale, and cleans nothing.
func runStale(ctx context.Context, a *invocation, o Options, l cargo.Line) error {
	a.SpeakLike(l)
	p, err := pipeline.Prepare(ctx, a.Machine, l, o.Strict, toolOptions(o))
	if err != nil {
		return err
	}
	state, err := fresh.Inspect(ctx, p.Fresh(o.fresh()))
	if err != nil {
		return err
	}
	found, err := state.Report(ctx)
	if err != nil {
		return err
	}
	if o.JSON == nil {
		for _, line := range state.Text(found, o.Explain) {
			fmt.Fprintln(a.Shell.Out, line)
		}
	}
	state.TellOutside(found, "gpubuild clean --external")
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
	switch {
	case o.JSON == nil && len(hints) > 0:
		for _, h := range hints {
			a.Shell.Hint(h)
		}
	case end != nil && len(findings) == 0:
		state.TellUntold()
	case end == nil && o.JSON == nil:
		state.TellFresh(found)
	}
	return a.end(o, end, r, found)
}
