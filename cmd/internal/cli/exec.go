package cli

import (
	"context"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func execVerb() verb {
	var o app.Options
	return verb{
		name: "exec", usage: "run any command in the environment of the build",
		text:  "gpubuild exec -- maturin build --release",
		flags: append(tools(&o), answer(&o)...),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Exec(ctx, a, o, l)
		},
	}
}
