package cli

import (
	"context"
	"slices"
	"strings"

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
	Why     string
	Clean   bool
	Results report.Files
}

func staleVerb() verb {
	var o staleOptions
	return verb{
		Verb: help.Verb{
			Name: "stale", Usage: "list what cargo considers fresh although a tool has changed", Project: true,
			Common:   []string{"toolkit", "arch", "explain", "clean", "json"},
			Examples: []string{"gpubuild stale --features cuda --release", "gpubuild stale --features cuda --clean"},
			Text: "Exits with 13 if something is stale, judged by the records of earlier builds, which --explain shows. " +
				"Removes nothing unless --clean is given, and then only the packages that are listed, with `cargo clean -p`. " +
				"`gpubuild clean` is cargo's own.",
		},
		results: &o.Results,
		flags: slices.Concat(
			toolFlags(&o.Tools, "--", fetches),
			[]*flag{
				toggle("explain", "say what each package was built with, and how complete its record is", &o.Explain),
				text("why", "PACKAGE", "--explain for one package", &o.Why),
				toggle("clean", "remove what is stale, so that any cargo rebuilds it", &o.Clean),
			},
			resultFlags(&o.Results),
		),
		run: bind(&o, runStale),
	}
}

// runStale says what is stale, and with --clean removes it.
func runStale(ctx context.Context, a *invocation, o staleOptions, l cargo.Line) error {
	p, err := pipeline.Prepare(ctx, a.Machine, l, o.Tools, false)
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
	state := fresh.Inspect(p.Fresh(fresh.Options{}))
	if o.Clean {
		state, err = state.Clean(ctx)
	}
	found := state.Report()
	r := a.reachResult("stale", p.Features)
	r.Stale, r.Cleaned, r.Set = state.Lines(), state.Cleaned(), report.SetOf(p.Tools)
	if o.Clean {
		if err == nil && len(r.Cleaned) == 0 {
			state.PrintFresh(found)
		}
		return a.end(o.Results, err, r, found)
	}
	message, findings := state.Verdict(found)
	r.Checks = []report.Check{{ID: report.CheckStale, State: report.Passed, Message: "nothing is stale"}}
	if message != "" {
		err = exit.Code(exit.Stale)
		r.Checks[0].State, r.Checks[0].Message = report.Failed, message
		r.Findings = append(r.Findings, findings...)
	} else if err = state.Incomplete(); err != nil {
		r.Checks[0].State, r.Checks[0].Message = report.Failed, err.Error()
	}
	text, failed := state.Text(found, o.Explain, o.Why)
	if failed != nil {
		return failed
	}
	if o.Results.JSON == nil {
		for _, line := range text {
			if err := a.Shell.Print(line + "\n"); err != nil {
				return err
			}
		}
		switch {
		case len(found.Clean) > 0:
			a.Shell.Hint("gpubuild build rebuilds only " + strings.Join(found.Clean, ", ") + "; gpubuild stale --clean removes it" +
				o.Tools.Commands(a.Host.OS, l))
		case err == nil && len(text) == 0: // which says it with the reasons
			state.PrintFresh(found)
		}
	}
	if err != nil && len(findings) == 0 {
		state.WarnUnidentified()
	}
	return a.end(o.Results, err, r, found)
}
