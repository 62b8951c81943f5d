package cli

import (
	"context"

	"gpubuild/cmd/internal/app"
	"gpubuild/toolchain/cargo"
)

// What the flags of init and ci init mean.
const (
	printOnly = "init, ci init: print the file and write none"
	replace   = "init, ci init: replace a file that is there"
)

func initVerb() verb {
	var o app.InitOptions
	return verb{
		name: "init", usage: "write a gpubuild.toml with every key, commented and filled in; cargo's own is `gpubuild cargo init`",
		text: "gpubuild init\ngpubuild init --stdout\n\n" +
			"It stands in front of cargo's init: a new package is made by `gpubuild cargo init`. A gpubuild.toml that is there " +
			"stays, unless\nwith --force. Nothing that runs or fetches is turned on by it.",
		project: true,
		flags:   append([]*flag{toggle("stdout", printOnly, &o.Stdout), toggle("force", replace, &o.Force)}, answerFlag(&o.Options)...),
		run: func(ctx context.Context, a *app.App, l cargo.Line) error {
			return app.Init(ctx, a, o, l)
		},
	}
}
