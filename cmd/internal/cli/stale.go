package cli

import (
	"context"
	"slices"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func staleVerb() verb {
	var o app.Options
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
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Stale(ctx, a, o, l)
		},
	}
}
