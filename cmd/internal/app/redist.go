package app

import (
	"context"
	"errors"

	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/install"
)

// planToolkit plans with the pinned wheels, and where none fits or there is no pip with NVIDIA's redistributable archives. Their address is
// the user's word: the flag, or the environment.
func (a *app) planToolkit(ctx context.Context, want install.Want, redist string) (install.Plan, error) {
	catalog, err := install.DefaultCatalog()
	if err == nil {
		err = toolchain.InCache(a.Host, a.CacheDir)
	}
	if err != nil {
		return install.Plan{}, err
	}
	from := install.Redist{Base: redist, Origin: "--redist"}
	if from.Base == "" {
		from = install.Redist{Base: a.Host.Env.Get("GPUBUILD_REDIST"), Origin: "GPUBUILD_REDIST"}
	}
	if from.Base == "" {
		u, err := a.user()
		if err != nil {
			return install.Plan{}, err
		}
		from = install.Redist{Base: u.Redist, Origin: u.Path}
	}
	var first error
	if redist == "" {
		plan, err := install.MakePlan(catalog, a.Host, a.CacheDir, want)
		var none *install.NoFitError
		var noPip *install.NoPipError
		if err == nil {
			err = plan.FindPip(ctx, a.Runner)
		}
		switch {
		case err == nil:
			return plan, nil
		case !want.Exact.IsZero() && !want.MaxVersion.IsZero() && want.Exact.Compare(want.MaxVersion) > 0:
			return plan, err // no other place mends that
		case from.Base == "never", !errors.As(err, &none) && !errors.As(err, &noPip):
			return plan, err
		}
		first = err
	}
	plan, err := install.MakeRedistPlan(ctx, catalog, a.Host, a.CacheDir, want, from)
	if ctx.Err() != nil {
		return plan, ctx.Err()
	}
	if err != nil {
		return plan, &install.RedistError{First: first, Err: err}
	}
	var noPip *install.NoPipError
	switch {
	case plan.Installed:
	case errors.As(first, &noPip):
		a.Shell.Note("there is no pip here: CUDA %s comes from NVIDIA's redistributable archives", plan.Release)
	case first != nil && plan.CUDA.Compare(gpu.Version{Major: 13}) < 0:
		a.Shell.Note("no wheel of CUDA 12 holds nvcc: CUDA %s comes from NVIDIA's redistributable archives", plan.Release)
	}
	return plan, nil
}
