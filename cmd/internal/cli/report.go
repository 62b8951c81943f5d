package cli

import (
	"context"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func reportVerb() verb {
	var o app.Options
	return verb{
		name: "report", usage: "join the results of a matrix into one page: which row is compiled, which proven, on which device, since when",
		text: "gpubuild report results/ --html report.html\ngpubuild report results/*.json results/*.xml\n\n" +
			"Reads receipts, answers (--json, --gpu-json), JUnit files and the list of `gpubuild ci matrix --format json`; of a " +
			"directory every .json\n" +
			"and .xml below it. The page needs nothing beside itself. cargo has a word `report`, too: that is `gpubuild cargo " +
			"report`.",
		flags: append([]*flag{
			text("html", "FILE", "report: write the page here; without it a table is printed", &o.HTML),
			toggle("skip-bad", "report: leave out files that are no results, instead of stopping", &o.SkipBad),
		}, answerFlag(&o)...),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Report(ctx, a, o, l)
		},
	}
}
