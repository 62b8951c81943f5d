package app

import (
	"context"
	"errors"

	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// install is `cargo install`: with --path the build is judged as any other before cargo installs what it made. Of a registry or a repository nothing is here
// before cargo has fetched it, and cargo fetches and builds in one go.
func (j *journey) install(ctx context.Context) error {
	in, ok := j.Line.Install()
	if !ok || in.List {
		return j.plainCargo(ctx, j.Line, j.Host.Env)
	}
	if in.Path == "" {
		for _, f := range []string{"cuda", "cudnn"} {
			if contains(in.Features, f) {
				j.Shell.Note("not judged here whether `%s` reaches: `cargo install` fetches the sources itself; `gpubuild install --path DIR` judges those in DIR", f)
				break
			}
		}
		return j.otherVerb(ctx)
	}
	typed := j.Line
	defer func() { j.Line = typed }()
	j.Line = in.Build
	if err := j.openProject(); err != nil {
		j.Line = typed
		return j.cargoSays(ctx, err)
	}
	if j.Project.Selected == nil { // a virtual manifest: cargo installs packages
		return j.plainCargo(ctx, typed, j.Host.Env)
	}
	if !j.Project.HasLock {
		j.Line = in.Unlocked
	}
	work, why := j.Project.GPUWork(j.request())
	if !work {
		j.Shell.Detail("no GPU work: %s", why)
		return j.plainCargo(ctx, typed, j.Host.Env)
	}
	j.Shell.Detail("GPU work: %s", why)
	j.trace.Phase("features")
	err := j.step(ctx, report.CheckReach, func(ctx context.Context) error {
		// cargo install reads no lock file without --locked, and writes none.
		if _, err := j.session.KeepLock(func() error { return j.askCargo(ctx) }); err != nil {
			return err
		}
		return j.checkReach()
	})
	var refused *cargo.RefusedError
	if errors.As(err, &refused) { // install words it in its own way, or does not mind
		j.Line = typed
		err := j.plainCargo(ctx, typed, j.Host.Env)
		if err == nil {
			j.Shell.Warning("installed without a check of its features: cargo refuses the question: %s", cargo.FirstLine(refused))
		}
		return err
	}
	if err != nil {
		return err
	}
	j.trace.Phase("toolchain")
	if err := j.step(ctx, report.CheckToolchain, j.chooseTools); err != nil {
		return err
	}
	j.trace.Phase(report.PhaseCargo)
	return j.step(ctx, report.CheckBuild, func(ctx context.Context) error { return j.plainCargo(ctx, typed, j.Env) })
}
