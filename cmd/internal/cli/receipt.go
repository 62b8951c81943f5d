package cli

import (
	"context"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func receiptVerb() verb {
	var o app.Options
	return verb{
		name: "receipt", usage: "check that a receipt of a proof still holds: `verify FILE [BIN]`",
		text: "gpubuild prove --receipt proof.json target/release/app -- --device cuda\n" +
			"gpubuild receipt verify proof.json target/release/app\n\n" +
			"Ends 0 when the binary is the one that was proven and today's rules, applied to the stored evidence, say the same; " +
			"else 21.\nA receipt is no signature: it is worth as much as the way on which it came.",
		flags: answerFlag(&o),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.ReceiptVerb(ctx, a, o, l)
		},
	}
}
