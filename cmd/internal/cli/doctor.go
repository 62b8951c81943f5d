package cli

import (
	"context"
	"slices"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func doctorVerb() verb {
	var o app.DoctorOptions
	var goal string
	return verb{
		name: "doctor", usage: "check this machine and this project, part by part",
		text: "gpubuild doctor --for prove\n\n" +
			"Every check has a stable id. Ends 11 when a part is missing, 12 when parts do not fit.",
		project: true,
		results: &o.Options,
		flags: slices.Concat(
			toolFlags(&o.Options),
			shared(&o.Options, "backend"),
			[]*flag{
				choice("for", "build|prove", "what the machine is to be good for", &goal, "build", "prove"),
				text("save", "FILE", "write what was looked at on this machine, for a bug report: no project, no secrets, no user name; "+
					"look at it before you send it", &o.Save),
			},
			resultFlags(&o.Options),
		),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			o.Prove = goal == "prove"
			return app.Doctor(ctx, a, o, l)
		},
	}
}
