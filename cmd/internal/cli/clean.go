package cli

import (
	"context"
	"fmt"
	"slices"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

func cleanVerb() verb {
	var o Options
	return verb{
		name: "clean", usage: "remove what was built of the GPU packages, or of the stale ones alone",
		text: "gpubuild clean --features cuda --release\ngpubuild clean --features cuda --minimal --dry-run\n\n" +
			"Stands in place of cargo's own clean, which is `gpubuild cargo clean`. Takes cargo's selection flags as `cargo build` " +
			"does and removes just these\n" +
			"packages' things, with cargo's own `clean -p`, for that profile and those targets; all versions of a name go, as " +
			"cargo does not tell them apart.\n" +
			"It waits for a cargo that is building there. It refuses a target directory that is /, your home or a package's own " +
			"directory.",
		project: true,
		flags: slices.Concat(
			toolFlags(&o),
			[]*flag{
				toggle("minimal", "only the packages that `gpubuild stale` finds", &o.Minimal),
				toggle("external", "empty what these packages keep outside the target directory, too", &o.CleanExternal),
				dryRun(&o),
			},
			answerFlag(&o),
		),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runClean(ctx, a, o, l)
		},
	}
}

// runClean removes what was built of the GPU packages of a selection, or of those alone that are stale, and nothing else.
func runClean(ctx context.Context, a *invocation, o Options, l cargo.Line) error {
	if len(l.Positional) > 0 {
		return &usageError{fmt.Sprintf("clean takes no %q", l.Positional[0]),
			"packages are selected as cargo build selects them, with -p; cargo's own clean is `gpubuild cargo clean`"}
	}
	a.SpeakLike(l)
	var p pipeline.Prepared
	var err error
	if o.Minimal {
		p, err = pipeline.Prepare(ctx, a.Machine, l, o.Strict, toolOptions(o))
	} else {
		p, err = pipeline.Look(ctx, a.Machine, l, o.Strict)
	}
	if err != nil {
		return err
	}
	release, err := fresh.Lock(ctx, a.Machine, p.Features.Graph.Places)
	if err != nil {
		return err
	}
	defer release()
	build := p.Fresh(o.fresh())
	state, packages, reasons := (*fresh.State)(nil), []string(nil), []stale.Reason{}
	if o.Minimal {
		if state, err = fresh.Inspect(ctx, build); err != nil {
			return err
		}
		found, err := state.Report(ctx)
		if err != nil {
			return err
		}
		state.TellStale(found)
		packages, reasons = found.Clean, found.Reasons
	} else {
		state = fresh.Find(build)
		packages = state.Packages()
	}
	r, caches := fresh.Removal{Units: []fresh.Directory{}}, []fresh.Cache{}
	if len(packages) == 0 {
		a.tellNothingToClean(p.Features.Graph, o.Minimal)
	} else if r, caches, err = state.Remove(ctx, packages); err != nil {
		return err
	}
	return a.answer(o, "clean", true, []finding.Finding{}, struct {
		Packages  []string       `json:"packages"`
		Profile   string         `json:"profile"`
		Platforms []string       `json:"platforms"`
		DryRun    bool           `json:"dry_run"`
		Reasons   []stale.Reason `json:"reasons"`
		fresh.Removal
		External []fresh.Cache `json:"external"`
	}{nonNil(packages), l.ProfileName(), build.Platforms(), o.DryRun, reasons, r, caches})
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *invocation) tellNothingToClean(g session.Graph, minimal bool) {
	switch {
	case minimal:
		a.Shell.Status("Fresh", "nothing is stale, so nothing is removed")
	case g.Units == nil:
		a.Shell.Note("cargo gave no unit graph (%s), so the packages cannot be told; `gpubuild cargo clean -p NAME` removes one",
			g.Reason)
	default:
		a.Shell.Status("Cleaned", "nothing: no package of this selection compiles or links anything of the GPU's toolchain "+
			"(a feature left out? --features cuda)")
	}
}
