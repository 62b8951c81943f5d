package cli

import (
	"cmp"
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
	Fresh   fresh.Options
	Explain bool
	Clean   bool
	Results report.Files
}

func staleVerb() verb {
	var o staleOptions
	return verb{
		Verb: help.Verb{
			Name: "stale", Usage: "list what cargo considers fresh although a tool has changed", Project: true,
			Examples: []string{"gpubuild stale --features cuda --release", "gpubuild stale --features cuda --clean"},
			Text: "Exits with 13 if something is stale, judged by the records of earlier builds and by the device code in their " +
				"output. --explain shows both. Removes nothing unless --clean is given, and then only the packages that are listed, " +
				"with `cargo clean -p`. `gpubuild clean` is cargo's own.",
		},
		results: &o.Results,
		flags: slices.Concat(
			toolFlags(&o.Tools, "--"),
			[]*flag{
				toggle("explain", "say what each package was built with, and what would be used now", &o.Explain),
				toggle("clean", "remove what is stale, so that any cargo rebuilds it", &o.Clean),
				toggle("clean-external", "also remove what a cleaned package keeps outside the target directory", &o.Fresh.CleanExternal),
			},
			resultFlags(&o.Results),
		),
		run: with(&o, runStale),
	}
}

// runStale says what is stale, and with --clean removes it.
func runStale(ctx context.Context, a *invocation, o staleOptions, l cargo.Line) error {
	p, err := pipeline.Prepare(ctx, a.Machine, l, false, o.Tools)
	if err != nil {
		return err
	}
	if o.Clean {
		unlock, err := fresh.Lock(ctx, a.Machine, p.Features.Graph.Places)
		if err != nil {
			return err
		}
		defer unlock()
	}
	state, err := fresh.Inspect(ctx, p.Fresh(o.Fresh))
	if err != nil {
		return err
	}
	if o.Clean {
		return o.clean(ctx, a, p, state)
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
	state.PrintOutside(found, "gpubuild stale --clean --clean-external")
	r := a.reachResult("stale", p.Features)
	r.Stale, r.Set = state.Lines(), report.SetOf(p.Tools)
	r.Checks = []report.Check{{ID: report.CheckStale, State: report.Passed, Message: "nothing is stale"}}
	var end error
	message, findings, hints := state.Verdict(found)
	if message != "" {
		end = exit.Code(exit.Stale)
		r.Checks[0].State, r.Checks[0].Message = report.Failed, message
		r.Findings = append(r.Findings, findings...)
	} else if end = state.Incomplete(); end != nil {
		r.Checks[0].State, r.Checks[0].Message = report.Failed, end.Error()
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

// clean removes what is stale.
func (o staleOptions) clean(ctx context.Context, a *invocation, p pipeline.Prepared, state *fresh.State) error {
	state, err := state.Clean(ctx)
	found, wrong := state.Report()
	if err = cmp.Or(err, wrong); err == nil && len(state.Cleaned()) == 0 {
		state.PrintFresh(found)
	}
	r := a.reachResult("stale", p.Features)
	r.Stale, r.Cleaned, r.Set = state.Lines(), state.Cleaned(), report.SetOf(p.Tools)
	return a.end(o.Results, err, r, found)
}
