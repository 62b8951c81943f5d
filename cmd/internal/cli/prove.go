package cli

import (
	"context"
	"slices"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func proveVerb() verb {
	var o app.Options
	return verb{
		name: "prove", usage: "run a program and prove that its kernel ran on the GPU",
		text: "gpubuild prove target/release/app -- --device cuda\n\n" +
			"The program runs with its own input and output under a probe that the CUDA driver loads. Ends 0 only when proven;\n" +
			"20 it ran on the CPU, 21 not proven, 22 other kernels only; the program's own code when that is not the expected one.\n" +
			"With --expect cpu it ends 0 only when it certainly ran on the CPU, 22 when it used the GPU, 21 when neither is known.",
		results: &o,
		flags: slices.Concat(
			shared(&o, "kernel", "expect-exit", "min", "device", "child", "expect", "counterfactual"),
			[]*flag{text("trace", "FILE", "write when each kernel ran as Chrome trace JSON, which Perfetto opens", &o.Trace)},
			shared(&o, "receipt", "timeout", "probe", "cupti"),
			resultFlags(&o),
		),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Prove(ctx, a, o, l)
		},
	}
}
