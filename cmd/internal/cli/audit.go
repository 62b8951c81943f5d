package cli

import (
	"context"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func auditVerb() verb {
	var o app.Options
	return verb{
		name: "audit", usage: "run a program on drivers that fail, and say whether it fails honestly or falls back",
		text: "gpubuild audit target/release/app -- --device cuda\n\n" +
			"Needs no GPU. The program runs once in each mode (no library, no device, stub, mismatch, out of memory, no code for " +
			"this GPU,\n" +
			"a kernel that fails), without input; what it writes is not shown. Ends 0 when it failed honestly in all, 20 when it " +
			"ended well although the driver had failed, 21 when it could\n" +
			"not be told, as of a program that never asks for the driver.",
		results: &o,
		flags:   append(shared(&o, "timeout"), resultFlags(&o)...),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Audit(ctx, a, o, l)
		},
	}
}
