package cli

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/version"
	"gpubuild/toolchain/cargo"
)

func reportVerb() verb {
	var o Options
	return verb{
		name: "report",
		usage: "join the results of a matrix into one page: " +
			"which row is compiled, which proven, on which device, since when",
		text: "gpubuild report results/ --html report.html\ngpubuild report results/*.json results/*.xml\n\n" +
			"Reads receipts, answers (--json, --gpu-json), JUnit files and the list of `gpubuild ci matrix --format json`; of a " +
			"directory every .json\n" +
			"and .xml below it. The page needs nothing beside itself. cargo has a word `report`, too: that is `gpubuild cargo " +
			"report`.",
		flags: append([]*flag{
			text("html", "FILE", "report: write the page here; without it a table is printed", &o.HTML),
			toggle("skip-bad", "report: leave out files that are no results, instead of stopping", &o.SkipBad),
		}, answerFlag(&o)...),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runReport(ctx, a, o, l)
		},
	}
}

// runReport joins the results of a matrix.
func runReport(_ context.Context, a *invocation, o Options, l cargo.Line) error {
	if len(l.Positional) == 0 {
		return &usageError{"report needs the files of results", "gpubuild report results/*.json results/*.xml --html report.html"}
	}
	found, err := report.Collect(a.Machine, l.Positional, a.real())
	if err != nil {
		return err
	}
	if len(found.Bad) > 0 && (!o.SkipBad || len(found.Observations) == 0) {
		return &report.BadFilesError{Bad: found.Bad, Files: found.Files}
	}
	for _, f := range found.Bad {
		a.Shell.Warning("%s: %s; left out", f.File, f.Why)
	}
	if len(found.Observations) == 0 && len(found.Expected) == 0 {
		return &usageError{"there is no result in " + strings.Join(l.Positional, ", "),
			"give the files that --gpu-receipt, --gpu-json, --gpu-junit and `prove --receipt` wrote, or their directory"}
	}
	rows := report.Join(found.Observations, found.Expected)
	if o.HTML != "" {
		page, err := report.HTML(rows, found.Files-len(found.Bad), version.Number())
		if err != nil {
			return err
		}
		if err := a.WriteFile(o.HTML, page, 0o644); err != nil {
			return err
		}
		a.Shell.Status("Reported", "%s in %s", report.Count(len(rows), "row"), a.Shown(a.Host.Abs(o.HTML)))
	}
	if err := a.answer(o, "report", true, nil, struct {
		Rows []report.Row     `json:"rows"`
		Bad  []report.BadFile `json:"bad"`
	}{rows, found.Bad}); err != nil {
		return err
	}
	if o.HTML == "" && o.JSON == nil {
		_, err = fmt.Fprint(a.Shell.Out, report.Table(rows))
	}
	return err
}
