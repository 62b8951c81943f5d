package install

import (
	"context"
	"os"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/redist"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/install/wheel"
)

// metaPackage requires, by its extras, the wheels of one release.
const metaPackage = "cuda-toolkit"

// Offered lists the releases of CUDA 13 and later that the user's pip can install, newest first. It reads the index over the network.
func Offered(ctx context.Context, h buildenv.Host, run Runner) ([]string, error) {
	return withPip(ctx, h, run, func(pip wheel.Pip, dir string) ([]string, error) {
		list, err := pip.Versions(ctx, metaPackage, dir)
		return slices.DeleteFunc(list, func(s string) bool {
			v, err := gpu.ParseVersion(s)
			return err != nil || v.Major < 13
		}), err
	})
}

// Available lists the releases in NVIDIA's redistributable archives, newest first.
func Available(ctx context.Context, h buildenv.Host, from Redist) (out []string, err error) {
	if from.Base == "" {
		from.Base = redist.Home
	}
	source, err := redist.Open(h, from.Base)
	if err != nil {
		return nil, err
	}
	releases, err := source.Releases(ctx)
	for _, r := range releases {
		out = append(out, r.String())
	}
	return out, err
}

// Resolve adds a release to the catalog that it does not pin for this platform: pip says which wheels it consists of, and their hashes.
func (c *Catalog) Resolve(ctx context.Context, h buildenv.Host, run Runner, w Want) error {
	offered, err := Offered(ctx, h, run)
	if err != nil {
		return err
	}
	var newest gpu.Version
	for _, release := range offered {
		v, err := gpu.ParseVersion(release)
		if err != nil {
			return err
		}
		if newest.Compare(v) < 0 {
			newest = v
		}
		if w.refuses(v, release) != "" {
			continue
		}
		return c.resolve(ctx, h, run, w, v, release)
	}
	if !newest.IsZero() && (w.Exact.Compare(newest) > 0 || w.Release != "") {
		return exit.Errorf(exit.Usage, "gpubuild toolchain list --available", "there is no CUDA %s; the newest is %s", w.asked(), newest)
	}
	return &NoFitError{Platform: Platform(h), Want: w, Newest: newest}
}

func (c *Catalog) resolve(ctx context.Context, h buildenv.Host, run Runner, w Want, v gpu.Version, release string) error {
	parts, err := c.expand(Platform(h), w.Parts)
	if err != nil {
		return err
	}
	var extras, requirements []string
	for _, name := range parts {
		switch name {
		case "cudnn":
			requirements = append(requirements, c.part(name).Package)
		case "runtime":
			extras = append(extras, "cudart")
		default:
			extras = append(extras, name)
		}
	}
	requirements = append(requirements, metaPackage+"["+strings.Join(extras, ",")+"]=="+release)
	wheels, err := withPip(ctx, h, run, func(pip wheel.Pip, dir string) ([]tree.Archive, error) {
		return pip.Resolve(ctx, requirements, dir)
	})
	if err != nil {
		return err
	}
	set := Set{CUDA: v, Release: release, Platform: map[string]map[string]tree.Archive{Platform(h): {}}}
	for _, a := range wheels {
		for _, p := range c.Parts {
			if p.Package == a.Package {
				a.Part, a.Licence = p.Name, p.Licence
				set.Platform[Platform(h)][p.Name] = a
			}
		}
	}
	c.Sets = append([]Set{set}, c.Sets...)
	return nil
}

// withPip calls ask with the user's pip and an empty directory: nothing there can pass for a module.
func withPip[T any](ctx context.Context, h buildenv.Host, run Runner, ask func(wheel.Pip, string) (T, error)) (T, error) {
	var none T
	dir, err := os.MkdirTemp("", "gpubuild-pip-")
	if err != nil {
		return none, err
	}
	defer os.RemoveAll(dir)
	pip, err := wheel.Find(ctx, h, run, dir)
	if err != nil {
		return none, err
	}
	return ask(pip, dir)
}
