package cli

import (
	"context"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func explainVerb() verb {
	var o app.Options
	return verb{
		name: "explain", usage: "say what a failed build's log means, or a code: `LOG`, `-` or `CODE`",
		text: "gpubuild build --features cuda 2>&1 | gpubuild explain\ngpubuild explain build.log\ngpubuild explain LNK1181\n\n" +
			"Names the first cause that is known, what to do, and where that is written. Ends 1 when the log has errors and none " +
			"is known.",
		flags: answerFlag(&o),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Explain(ctx, a, o, l)
		},
	}
}
