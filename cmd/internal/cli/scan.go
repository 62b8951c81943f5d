package cli

import (
	"context"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

func scanVerb() verb {
	var o app.ScanOptions
	return verb{
		name: "scan", usage: "list the device code in files: cubins, fatbins, PTX; and the libraries that they load",
		text: "gpubuild scan target/release/app\ngpubuild scan --libraries target/release/app\n\n" +
			"Reads any file, at any byte position; nothing is run. --json has the file's SHA-256, too. With --libraries it follows " +
			"the loader (ld.so, musl's, or Windows' with delay-loaded DLLs) and\n" +
			"ends 11 when a library is missing, 12 when the loader would take one that is a stub or for another machine.",
		flags: append([]*flag{
			toggle("list", "images only: nothing is unpacked, so that packed ones have no kernel names", &o.List),
			toggle("libraries", "say which shared libraries the loader will take, and from where, the libraries' own included", &o.Libraries),
		}, answerFlag(&o.Options)...),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Scan(ctx, a, o, l)
		},
	}
}
