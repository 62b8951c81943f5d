package cli

import (
	"cmp"
	"context"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain/cargo"
)

func bundleVerb() verb {
	var o bundle.Options
	var json *string
	toolkit, prove := "", false
	return verb{
		Verb: help.Verb{
			Name: "bundle", Args: "PROGRAM...", Usage: "put programs and the CUDA libraries that they load into one directory",
			Examples: []string{"gpubuild bundle target/release/app -o dist", "gpubuild bundle target/release/app -o dist --prove",
				"dist/prove/gpubuild prove dist"},
			Text: "The directory starts on a machine that has NVIDIA's driver and no CUDA. gpubuild copies " +
				"every library that the loader takes, except the C library and the driver's, and adds a start script, the names of " +
				"NVIDIA's licences and a manifest of hashes. With --prove it adds what proves the programs there, gpubuild " +
				"included: `DIR/prove/gpubuild prove DIR` needs no compiler.\n" +
				"A library that is missing here or may not be shipped is listed: the other machine must have it. Exits with 11 if a " +
				"program does not start without a library that is missing here. After any other error there is no bundle.",
		},
		flags: []*flag{
			short("o", newFlag("out", cargo.Value, "DIR", "the new directory (PROGRAM-bundle, of the first)", func(v string) error {
				if o.Dir = v; v == "" {
					return usage("no directory is named", "name one: -o DIR")
				}
				return nil
			})),
			list("with", "LIBRARY", "a further library, by its name or path", &o.With),
			text("toolkit", "VERSION|ROOT", "the CUDA toolkit whose libraries come first (the one that a build would use)", &toolkit),
			toggle("prove", "add gpubuild and its probe, to prove the programs there", &prove),
			jsonFlag(&json),
		},
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runBundle(ctx, a, o, json, toolkit, prove, l)
		},
	}
}

func runBundle(ctx context.Context, a *invocation, o bundle.Options, json *string, toolkit string, prove bool, l cargo.Line) error {
	o.Programs = l.Positional
	if o.Dir == "" {
		o.Dir = strings.TrimSuffix(a.Host.Base(o.Programs[0]), ".exe") + "-bundle"
	}
	if h := a.Host; json != nil && *json != "" && h.Below(h.Real(h.Dir(h.Abs(*json))), h.Real(h.Abs(o.Dir))) {
		a.NoteJSON() // the error is not written there either
		return &exit.UsageError{What: "--json=" + *json + " is in the bundle's directory", Fix: "name a file elsewhere"}
	}
	s, err := session.Anywhere(ctx, a.Machine, l)
	if err != nil {
		return err
	}
	if o.Toolkit, err = tools.First(ctx, s, toolkit); err != nil {
		return err
	}
	if prove {
		if o.Prove, err = (proof.Files{}).Tools(ctx, a.Machine, probe.CUDA, proof.Toolkits(a.Machine, o.Toolkit)); err != nil {
			return err
		}
	}
	b, err := bundle.Make(ctx, a.Machine, o)
	if err != nil {
		return err
	}
	if json != nil {
		return cmp.Or(report.Answer(a.Machine, json, "bundle", b.Incomplete() == nil, nil, b), b.Incomplete())
	}
	return cmp.Or(a.Shell.Print(b.Text(a.Machine, o.Dir)), b.Incomplete())
}
