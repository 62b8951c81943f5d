package cli

import (
	"context"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/version"
	"gpubuild/toolchain/cargo"
)

// reportOptions are the flags of report.
type reportOptions struct {
	HTML    string
	History string
	Expect  []string
	JSON    *string
}

func reportVerb() verb {
	var o reportOptions
	return verb{
		Verb: help.Verb{
			Name: "report", Args: "FILE|DIR...", Usage: "join the results of a matrix into one table or page",
			Examples: []string{"gpubuild report results/ --html report.html", "gpubuild report results/*.json --expect test-cuda"},
			Text: "Shows for each row what was checked, compiled and proven, on which machine and device, " +
				"between which commits it broke, whether it comes and goes, and which kernels take more registers or memory than " +
				"at the commit before; exits with 23 if they grew beyond [scan] max-registers-growth of gpubuild.toml. Reads receipts " +
				"and results (--json, --gpu-json); in a directory, every .json file below it. GPUBUILD_ROW in the environment of a " +
				"command names the row of its results. The page is one file. cargo's own command is `gpubuild cargo report`.",
		},
		flags: []*flag{
			text("html", "FILE", "write a page instead of printing a table", &o.HTML),
			text("history", "DIR", "compare with earlier results from here, and keep the newest 50 of each row here", &o.History),
			list("expect", "ROW", "exit with 21 if this run has no result of this row", &o.Expect),
			jsonFlag(&o.JSON),
		},
		run: bind(&o, runReport),
	}
}

// runReport joins the results of a matrix.
func runReport(_ context.Context, a *invocation, o reportOptions, l cargo.Line) error {
	found, files, err := report.Collect(a.Machine, l.Positional, o.History, a.real())
	if err != nil {
		return err
	}
	if len(o.Expect) == 0 && !slices.ContainsFunc(found, func(r report.Observation) bool { return !r.Earlier }) {
		return usage("there is no result in "+strings.Join(l.Positional, ", "),
			"give the files that --gpu-receipt, --gpu-json and `prove --receipt` wrote, or their directory")
	}
	rows := report.Join(found, o.Expect)
	if o.History != "" {
		if err := report.WriteHistory(a.Machine, o.History, rows); err != nil {
			return err
		}
	}
	if o.HTML != "" {
		page, err := report.HTML(rows, files, version.Number())
		if err != nil {
			return err
		}
		if err := a.WriteFile(o.HTML, page, 0o644); err != nil {
			return err
		}
		a.Shell.Status("Reported", "%s, in %s", report.Summary(rows), a.Shown(a.Host.Abs(o.HTML)))
	}
	if err := a.answer(o.JSON, "report", true, nil, report.Joined{Rows: rows}); err != nil {
		return err
	}
	if o.HTML == "" && o.JSON == nil {
		if err := a.Shell.Print(report.Table(rows)); err != nil {
			return err
		}
		a.Shell.Status("Reported", "%s", report.Summary(rows))
	}
	if none := report.WithoutResult(rows, o.Expect); len(none) > 0 {
		return exit.Errorf(exit.Unproved, "look at why its job left no file", "no result of %s", strings.Join(none, ", "))
	}
	if slices.ContainsFunc(rows, func(r report.Row) bool { return r.TooMuch }) {
		return exit.Code(exit.Alert) // the table says which
	}
	return nil
}
