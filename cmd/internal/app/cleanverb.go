package app

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/toolchain/cargo"
)

// runClean removes what was built of the GPU packages of a selection, or of those alone that are stale, and nothing else.
func runClean(a *app, ctx context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) > 0 {
		return &usageError{fmt.Sprintf("clean takes no %q", l.Positional[0]), "packages are selected as cargo build selects them, with -p; cargo's own clean is `gpubuild cargo clean`"}
	}
	look := a.lookAtPlaces
	if o.Minimal {
		look = a.prepared
	}
	j, err := look(ctx, o, l)
	if err != nil {
		return err
	}
	release, err := j.lockTarget(ctx)
	if err != nil {
		return err
	}
	defer release()
	packages, err := j.toClean(ctx, o.Minimal)
	if err != nil {
		return err
	}
	r, caches := removal{Units: []unitOf{}}, []outsideCache{}
	if len(packages) == 0 {
		a.tellNothingToClean(j, o.Minimal)
	} else if r, caches, err = j.cleanSelected(ctx, packages); err != nil {
		return err
	}
	return a.answer(o, "clean", true, []finding.Finding{}, struct {
		Packages  []string       `json:"packages"`
		Profile   string         `json:"profile"`
		Platforms []string       `json:"platforms"`
		DryRun    bool           `json:"dry_run"`
		Reasons   []stale.Reason `json:"reasons"`
		removal
		External []outsideCache `json:"external"`
	}{nonNil(packages), l.ProfileName(), nonNil(j.platforms()), o.DryRun, nonNil(j.compared.Reasons), r, nonNil(caches)})
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// toClean lists the packages: the GPU packages of the selection, or those that are stale.
func (j *journey) toClean(ctx context.Context, minimal bool) ([]string, error) {
	if minimal {
		if err := j.compare(ctx); err != nil {
			return nil, err
		}
		if err := j.readCode(ctx); err != nil {
			return nil, err
		}
		for _, line := range stale.Lines(j.compared.Reasons) {
			j.Shell.Status("Stale", "%s", line)
		}
		for _, d := range j.compared.Unknown {
			j.Shell.Status("Unknown", "%s: %s", d.Package, d.Why)
		}
		for _, line := range j.faultLines() {
			j.Shell.Status("Wrong", "%s", line)
		}
		return j.stalePackages(), nil
	}
	return j.gpuPackages()
}

// gpuPackages are the GPU packages of the selection: those of which it is known, and those of the user's own that left kernels here.
func (j *journey) gpuPackages() ([]string, error) {
	var out []string
	for _, u := range j.reach.Units {
		if !contains(out, u.Name) {
			out = append(out, u.Name)
		}
	}
	local, err := j.localScripts()
	if err != nil {
		return nil, err
	}
	for _, p := range local {
		if contains(out, p.Name) {
			continue
		}
		if _, nvcc := j.madeKernels(p); nvcc != "" {
			out = append(out, p.Name)
		}
	}
	sort.Strings(out)
	return out, nil
}

func (a *app) tellNothingToClean(j *journey, minimal bool) {
	switch {
	case minimal:
		a.Shell.Status("Fresh", "nothing is stale, so nothing is removed")
	case j.graph.Units == nil:
		a.Shell.Note("cargo gave no unit graph (%s), so the packages cannot be told; `gpubuild cargo clean -p NAME` removes one", j.graph.Reason)
	default:
		a.Shell.Status("Cleaned", "nothing: no package of this selection compiles or links anything of the GPU's toolchain (a feature left out? --features cuda)")
	}
}

// cleanSelected removes packages, or says what would go, and what they keep outside the target directory.
func (j *journey) cleanSelected(ctx context.Context, packages []string) (removal, []outsideCache, error) {
	caches, err := j.outside(packages)
	if err != nil {
		return removal{}, nil, err
	}
	where := strings.Join(append([]string{"profile " + j.Line.ProfileName()}, j.platforms()...), ", ")
	if j.options.DryRun {
		r, err := j.planRemoval(ctx, packages)
		if err != nil {
			return r, caches, err
		}
		for _, l := range j.otherVersions(packages) {
			j.Shell.Note("%s", l)
		}
		if j.options.JSON == nil || *j.options.JSON != "" {
			for _, u := range r.Units {
				fmt.Fprintf(j.Shell.Out, "%s (%s)\n", j.Shown(u.Path), amount(u.Files, u.Bytes))
			}
		}
		j.Shell.Status("Would clean", "%s (%s): %s", strings.Join(packages, ", "), where, amount(r.Files, r.Bytes))
		for _, o := range caches {
			if !j.options.CleanExternal {
				j.tellOutside(o, "--external")
			} else if o.Refused != "" {
				j.Shell.Note("%s would not be emptied: %s", o.Path, o.Refused)
			} else {
				j.Shell.Status("Would empty", "%s: %s of %s (%s)", o.Path, o.What, o.Package, amount(o.Files, o.Bytes))
			}
		}
		return r, caches, nil
	}
	if j.options.CleanExternal {
		if err := mayEmpty(caches); err != nil {
			return removal{}, caches, err
		}
	}
	r, err := j.removePackages(ctx, packages)
	if err != nil {
		return r, caches, err
	}
	j.Shell.Status("Cleaned", "%s (%s): %s", strings.Join(packages, ", "), where, amount(r.Files, r.Bytes))
	for i := range caches {
		if !j.options.CleanExternal {
			j.tellOutside(caches[i], "--external")
		} else if err := j.empty(&caches[i]); err != nil {
			return r, caches, err
		}
	}
	return r, caches, nil
}
