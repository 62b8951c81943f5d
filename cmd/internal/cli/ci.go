package cli

import (
	"context"
	"strings"

	"gpubuild/cmd/internal/app"
	"gpubuild/cmd/internal/ci"
	"gpubuild/toolchain/cargo"
)

func ciVerb() verb {
	var o app.Options
	return verb{
		name: "ci", usage: "the matrix of CI: `matrix`, `run ROW`, `init " + ci.ProviderNames("|") + "`",
		text: "gpubuild ci matrix\ngpubuild ci run cuda-cuda13.4-sm_90-linux-x86_64-dev\ngpubuild ci init github --stdout\n\n" +
			"matrix lists the rows that [matrix] in gpubuild.toml makes, those that are left out with the reason. run does on this " +
			"machine what CI does for a row;\n" +
			"a row that proves ends with 21 where there is no GPU. init writes a workflow that runs the rows.",
		project: true,
		flags: append([]*flag{
			dryRun(&o), toggle("stdout", printOnly, &o.Stdout), toggle("force", replace, &o.Force),
			choice("format", strings.Join(ci.Formats(), "|"), "the form of the matrix", &o.Format, ci.Formats()...),
			choice("only", "toolkit|build|prove", "run: one step of the row", &o.Only, "toolkit", "build", "prove"),
			toggle("fetch", "run: let the row's step fetch its toolkit into your cache", &o.Fetch),
		}, answerFlag(&o)...),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.CI(ctx, a, o, l)
		},
	}
}
