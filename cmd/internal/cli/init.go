package cli

import (
	"context"
	"errors"
	"io/fs"

	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/initfile"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
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

const configName = "gpubuild.toml"

// initOptions are the flags of init.
type initOptions struct {
	Stdout, Force bool
}

// runInit writes a commented configuration, with what this project and this machine have.
func runInit(ctx context.Context, a *invocation, o initOptions, l cargo.Line) error {
	if l.Has("--lib", "--bin", "--bins") {
		return usage("gpubuild init writes gpubuild.toml for a project that is there, and takes no target", cargoInit)
	}
	tool, _ := cargo.Find(a.Host, l) // without cargo the programs are not known, and nothing else is lost
	s, err := session.Open(a.Machine, l)
	if err != nil {
		if errors.Is(err, manifest.ErrNotFound) {
			a.Shell.Note("%s", cargoInit)
		}
		var conf *config.Error
		if !errors.As(err, &conf) || !o.Force && !o.Stdout { // a broken gpubuild.toml may be replaced
			return err
		}
	}
	var chosen gpu.Version
	if d, err := doctor.Gather(ctx, a.Machine, l, doctor.Options{}); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		a.Shell.Detail("no toolkit is chosen: %v", err) // the version is an example then
	} else if d.Chosen.Toolkit != nil {
		chosen = d.Chosen.Toolkit.Version
	}
	text := initfile.Text(ctx, s, tool, chosen, ci.ProviderNames)
	path := a.Host.Join(s.Project.Root, configName)
	if o.Stdout {
		return a.Shell.Data(text)
	}
	if err := initfile.Write(path, text, o.Force); err != nil {
		if errors.Is(err, fs.ErrExist) {
			if a.Host.IsDir(path) {
				return usage(a.Shown(path)+" is a directory", "move it: gpubuild.toml is a file")
			}
			return usage(a.Shown(path)+" already exists",
				"gpubuild init --stdout shows what would be written; --force writes it in place of yours")
		}
		return err
	}
	a.Shell.Status("Created", "%s", a.Shown(path))
	return nil
}
