package cli

import (
	"context"
	"slices"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// cleanOptions are the flags of clean.
type cleanOptions struct {
	Tools                     tools.Options
	Minimal, External, DryRun bool
	JSON                      *string
}

func cleanVerb() verb {
	var o cleanOptions
	return verb{
		Verb: help.Verb{
			Name: "clean", Usage: "remove the build output of the GPU packages, or only what is stale", Project: true,
			Examples: []string{"gpubuild clean --features cuda --release", "gpubuild clean --features cuda --minimal --dry-run"},
			Text: "Takes the same selection flags as `cargo build`, and removes only the GPU packages of that build, with `cargo clean " +
				"-p`. cargo removes every version of a package. Without a GPU feature it is `cargo clean`.\n" +
				"It waits for a cargo that is building there. It refuses a target directory that is /, your home or a package's own " +
				"directory. `gpubuild cargo clean` is always cargo's own command.",
		},
		instead: "packages are selected with -p; cargo's own command is `gpubuild cargo clean`",
		flags: slices.Concat(
			toolFlags(&o.Tools, "--")[:4],
			[]*flag{
				toggle("minimal", "only the packages that `gpubuild stale` finds", &o.Minimal),
				toggle("external", "also remove what these packages keep outside the target directory", &o.External),
				short("n", toggle("dry-run", "print what would be removed, remove nothing", &o.DryRun)),
			},
			[]*flag{jsonFlag(&o.JSON)},
		),
		run: with(&o, runClean),
	}
}

// runClean removes what was built of the GPU packages of a selection, or of those alone that are stale, and nothing else.
func runClean(ctx context.Context, a *invocation, o cleanOptions, l cargo.Line) error {
	s, err := session.Open(a.Machine, l)
	if err != nil {
		return err
	}
	// cargo's clean takes no features: who gives any means the packages that they enable.
	asksCargo := len(l.Features) == 0 && !l.AllFeatures && !l.NoDefault && !o.Minimal && !o.External
	if work, why := s.GPUWork(); !work && asksCargo {
		a.Shell.Detail("no GPU work: %s", why)
		return a.cleanAll(ctx, o, l)
	}
	var p pipeline.Prepared
	if o.Minimal {
		p, err = pipeline.Prepare(ctx, a.Machine, l, false, o.Tools)
	} else {
		p, err = pipeline.Look(ctx, a.Machine, l, false)
	}
	if err != nil {
		return err
	}
	release, err := fresh.Lock(ctx, a.Machine, p.Features.Graph.Places)
	if err != nil {
		return err
	}
	defer release()
	build := p.Fresh(fresh.Options{CleanExternal: o.External, DryRun: o.DryRun, ListPaths: o.JSON == nil || *o.JSON != ""})
	state, packages, reasons := (*fresh.State)(nil), []string(nil), []stale.Reason{}
	if o.Minimal {
		if state, err = fresh.Inspect(ctx, build); err != nil {
			return err
		}
		found, err := state.Report()
		if err != nil {
			return err
		}
		state.PrintStale()
		packages, reasons = found.Clean, found.Reasons
	} else {
		state = fresh.Find(build)
		packages = state.Packages()
	}
	r, caches := fresh.Removal{Units: []fresh.Directory{}}, []fresh.Cache{}
	if len(packages) == 0 {
		a.noteNothingToClean(p.Features.Graph, o.Minimal)
	} else if r, caches, err = state.Remove(ctx, packages); err != nil {
		return err
	}
	return a.answer(o.JSON, "clean", true, []finding.Finding{}, cleanAnswer{
		nonNil(packages), l.ProfileName(), build.Platforms(), o.DryRun, reasons, r, caches,
	})
}

// cleanAnswer is the answer of `clean`: what it removed.
type cleanAnswer struct {
	Packages  []string       `json:"packages"` // empty: cargo cleaned, if there is no GPU work
	Profile   string         `json:"profile"`
	Platforms []string       `json:"platforms"`
	DryRun    bool           `json:"dry_run"`
	Reasons   []stale.Reason `json:"reasons"`
	fresh.Removal
	External []fresh.Cache `json:"external"`
}

// cleanAll is `cargo clean`, for a command line without GPU work.
func (a *invocation) cleanAll(ctx context.Context, o cleanOptions, l cargo.Line) error {
	line, err := l.AsClean(o.DryRun)
	switch {
	case err != nil:
		return err
	case o.JSON == nil:
		return cargorun.Replace(ctx, a.Machine, line, a.Host.Env)
	}
	if err := cargorun.Plain(ctx, a.Machine, line, a.Host.Env); err != nil {
		return err
	}
	return a.answer(o.JSON, "clean", true, []finding.Finding{}, cleanAnswer{
		[]string{}, l.ProfileName(), append([]string{}, l.Target...), o.DryRun, []stale.Reason{},
		fresh.Removal{Units: []fresh.Directory{}}, []fresh.Cache{},
	})
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *invocation) noteNothingToClean(g session.Graph, minimal bool) {
	switch {
	case minimal:
		a.Shell.Status("Fresh", "nothing is stale, so nothing is removed")
	case g.Units == nil:
		a.Shell.Note("cargo gave no unit graph (%s), so the stale packages are unknown; `gpubuild cargo clean -p NAME` removes one",
			g.Reason)
	default:
		a.Shell.Note("nothing to clean: no selected package uses CUDA. Did you forget --features cuda?")
	}
}
