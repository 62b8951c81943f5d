package cli

import (
	"context"
	"errors"

	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/initfile"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

func initVerb() verb {
	var o initOptions
	return verb{
		Verb: help.Verb{
			Name: "init", Usage: "write a commented gpubuild.toml, filled in for this project", Project: true,
			Examples: []string{"gpubuild init", "gpubuild init --stdout"},
			Text: "A new package is created by `gpubuild cargo init`. An existing gpubuild.toml is kept, except with --force.\n" +
				"Nothing in the file runs a program or downloads anything until you edit it.",
		},
		instead: cargoInit,
		flags: []*flag{
			toggle("stdout", "print the file instead of writing it", &o.Stdout), toggle("force", "replace an existing file", &o.Force),
		},
		run: bind(&o, runInit),
	}
}

const cargoInit = "for a new package: gpubuild cargo init"

// initOptions are the flags of init.
type initOptions struct {
	Stdout, Force bool
}

func runInit(ctx context.Context, a *invocation, o initOptions, l cargo.Line) error {
	if l.Has("--lib", "--bin", "--bins") {
		return usage("gpubuild init writes gpubuild.toml for a project that is there, and takes no target", cargoInit)
	}
	err := initfile.Run(ctx, a.Machine, l, ci.ProviderNames, o.Stdout, o.Force)
	if errors.Is(err, manifest.ErrNotFound) {
		a.Shell.Note("%s", cargoInit)
	}
	return err
}
