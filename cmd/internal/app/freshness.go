package app

import (
	"context"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/fresh"
)

// freshBuild is what this walk is about, as package fresh takes it.
func (j *journey) freshBuild() fresh.Build {
	o := j.options
	return fresh.Build{
		Machine: j.Machine, Tool: j.Tool, Line: j.Line, Project: j.Project, Graph: j.graph, Reach: j.reach, Tools: j.Tools, Scan: j.scan,
		Options: fresh.Options{
			NoClean: o.NoClean, ForceClean: o.ForceClean, CleanExternal: o.CleanExternal, DryRun: o.DryRun, ListPaths: o.JSON == nil || *o.JSON != "",
		},
		Found: func(f finding.Finding) {
			j.findings = append(j.findings, f)
			j.sink.Event("finding", f)
		},
	}
}

// cleanStale cleans just the packages whose inputs changed.
func (j *journey) cleanStale(ctx context.Context) (err error) {
	if j.fresh, err = fresh.Inspect(ctx, j.freshBuild()); err != nil {
		return err
	}
	return j.fresh.Clean(ctx)
}

// settleBuild checks and records a build, which ended with buildErr.
func (j *journey) settleBuild(ctx context.Context, buildErr error) error {
	now := func() cargorun.Built { return cargorun.Built{Messages: j.messages, Programs: j.programs} }
	_, err := j.fresh.Settle(ctx, now(), buildErr, func(ctx context.Context) (cargorun.Built, error) {
		err := j.build(ctx)
		return now(), err
	})
	return err
}
