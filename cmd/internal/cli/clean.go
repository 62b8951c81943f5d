package cli

import (
	"context"
	"slices"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func cleanVerb() verb {
	var o app.Options
	return verb{
		name: "clean", usage: "remove what was built of the GPU packages, or of the stale ones alone",
		text: "gpubuild clean --features cuda --release\ngpubuild clean --features cuda --minimal --dry-run\n\n" +
			"Stands in place of cargo's own clean, which is `gpubuild cargo clean`. Takes cargo's selection flags as `cargo build` " +
			"does and removes just these\n" +
			"packages' things, with cargo's own `clean -p`, for that profile and those targets; all versions of a name go, as " +
			"cargo does not tell them apart.\n" +
			"It waits for a cargo that is building there. It refuses a target directory that is /, your home or a package's own " +
			"directory.",
		project: true,
		flags: slices.Concat(
			toolFlags(&o),
			[]*flag{
				toggle("minimal", "only the packages that `gpubuild stale` finds", &o.Minimal),
				toggle("external", "empty what these packages keep outside the target directory, too", &o.CleanExternal),
				dryRun(&o),
			},
			answerFlag(&o),
		),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Clean(ctx, a, o, l)
		},
	}
}
