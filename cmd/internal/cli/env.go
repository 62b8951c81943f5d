package cli

import (
	"context"
	"slices"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func envVerb() verb {
	var o app.EnvOptions
	return verb{
		name: "env", usage: "print the environment of the build for a shell",
		text: "eval \"$(gpubuild env --shell bash --features cuda)\"\n\n" +
			"Only what a consumer reads is set, and nothing that your environment already answers with the same toolkit. --diff " +
			"says each change with its reason.",
		project: true,
		flags: slices.Concat(
			toolFlags(&o.Options),
			shared(&o.Options, "backend"),
			[]*flag{
				text("shell", "NAME", "the form to print (bash zsh fish pwsh cmd nu github gitlab dotenv direnv vscode cargo-config json)", &o.Shell),
				toggle("diff", "print what would change and why", &o.Diff),
			},
			answerFlag(&o.Options),
		),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.EnvVerb(ctx, a, o, l)
		},
	}
}
