package app

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/version"
	"gpubuild/toolchain/cargo"
)

// runReport joins the results of a matrix.
func runReport(a *app, _ context.Context, o Options, l cargo.Line) error {
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
