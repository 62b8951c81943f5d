package app

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// install is `cargo install`: with --path the build is judged as any other before cargo installs what it made. Of a registry or a repository nothing is here
// before cargo has fetched it, and cargo fetches and builds in one go.
func (j *journey) install(ctx context.Context) error {
	in, ok := j.line.Install()
	if !ok || in.List {
		return j.plainCargo(ctx, j.line, j.host.Env)
	}
	if in.Path == "" {
		for _, f := range []string{"cuda", "cudnn"} {
			if contains(in.Features, f) {
				j.shell.Note("not judged here whether `%s` reaches: `cargo install` fetches the sources itself; `gpubuild install --path DIR` judges those in DIR", f)
				break
			}
		}
		return j.otherVerb(ctx)
	}
	typed := j.line
	defer func() { j.line = typed }()
	j.line = in.Build
	if err := j.openProject(); err != nil {
		j.line = typed
		return j.cargoSays(ctx, err)
	}
	if j.project.Selected == nil { // a virtual manifest: cargo installs packages
		return j.plainCargo(ctx, typed, j.host.Env)
	}
	if !j.project.HasLock {
		j.line = in.Unlocked
	}
	work, why := j.project.GPUWork(j.request())
	if !work {
		j.shell.Detail("no GPU work: %s", why)
		return j.plainCargo(ctx, typed, j.host.Env)
	}
	j.shell.Detail("GPU work: %s", why)
	j.watch.step("features")
	err := j.step(ctx, report.CheckReach, func(ctx context.Context) error {
		// cargo install reads no lock file without --locked, and writes none.
		if _, err := j.lockAsItWas(func() error { return j.askCargo(ctx) }); err != nil {
			return err
		}
		return j.checkReach()
	})
	var refused *cargo.RefusedError
	if errors.As(err, &refused) { // install words it in its own way, or does not mind
		j.line = typed
		err := j.plainCargo(ctx, typed, j.host.Env)
		if err == nil {
			j.shell.Warning("installed without a check of its features: cargo refuses the question: %s", firstLine(refused))
		}
		return err
	}
	if err != nil {
		return err
	}
	j.watch.step("toolchain")
	if err := j.step(ctx, report.CheckToolchain, j.chooseTools); err != nil {
		return err
	}
	j.watch.step(stepCargo)
	return j.step(ctx, report.CheckBuild, func(ctx context.Context) error { return j.plainCargo(ctx, typed, j.env) })
}

// lockAsItWas does something that lets cargo write Cargo.lock, and puts that back as it was, or takes it away again; changed says that it had to.
func (j *journey) lockAsItWas(do func() error) (changed bool, err error) {
	path := j.host.Real(j.project.LockPath)
	mode := os.FileMode(0o644)
	read := func() ([]byte, bool, error) {
		fi, err := j.host.Files.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		mode = fi.Mode().Perm()
		data, err := j.host.ReadFile(path, lockLimit)
		return data, true, err
	}
	old, there, err := read()
	if err != nil {
		return false, err
	}
	was := mode
	err = do()
	now, is, readErr := read()
	switch {
	case readErr == nil && there == is && bytes.Equal(old, now):
		return false, err
	case !there:
		return true, errors.Join(err, os.Remove(path))
	}
	return true, errors.Join(err, cache.WriteFile(path, slices.Clip(old), was))
}

const lockLimit = 64 << 20
