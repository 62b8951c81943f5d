// Package install puts a CUDA toolkit into the user's own cache without admin rights. MakePlan says what a toolkit would be: which
// archives, where from, how large, under whose licences. Plan.Run fetches and checks them, and adds them to the toolkit's directory, of
// which there is one for each version and platform.
//
//   - wheel has the user's own pip fetch NVIDIA's pinned wheels;
//   - redist fetches archives of NVIDIA's redistributables: CUDA 12, of which no wheel has nvcc, and of CUDA 13 what is not pinned, or
//     where there is no pip;
//   - tree unpacks archives into one directory, and completes it.
//
// It never asks and never decides whether to fetch: the caller shows Plan.Lines and has the user's consent before it calls Run.
//
// It owns pins.toml and the directories toolkits/ and wheels/ of the cache. Files are added under a lock between processes, each whole,
// and the marker that names the parts is renamed into place last: a toolkit that was cut off before is none. Nothing is synced to the disk:
// of a machine that loses power in that second, only an nvcc, ptxas, fatbinary or cicc that is missing or empty is found. What is
// not pinned comes from NVIDIA's redistributables.
package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/install/wheel"
)

const (
	toolkitsDir = "toolkits"
	wheelsDir   = "wheels"
	// removedPrefix begins the names of directories below toolkits/ that are being removed.
	removedPrefix = ".removed-"
	scratchName   = ".scratch" // below wheels/
)

// Run does what the plan says and returns the toolkit's root. The caller has asked the user. If it fails or is interrupted, the toolkit is
// what it was before; archives that were fetched and checked are kept for the next time. It waits while another gpubuild works in the same
// cache.
func (p Plan) Run(ctx context.Context, run buildenv.Runner, progress tree.Progress) (root string, err error) {
	if p.Installed {
		return p.Root, nil
	}
	defer func() {
		if path, ok := errors.AsType[*fs.PathError](err); ok && path.Op != "fork/exec" && !errors.Is(err, fs.ErrNotExist) {
			err = &cache.WriteError{Path: p.host.Join(p.Root, p.host.Base(path.Path)), Err: err}
		}
	}()
	if progress == nil {
		progress = func(tree.Event) {}
	}
	if err := cache.Make(p.cache); err != nil {
		return "", err
	}
	for _, dir := range []string{toolkitsDir, wheelsDir} {
		if err := os.MkdirAll(filepath.Join(p.cache, dir), 0o700); err != nil {
			return "", err
		}
	}
	release, err := cache.Lock(ctx, lockFile(p.cache), func(holder string) {
		progress.Step(fmt.Sprintf("waiting for another gpubuild (%s) that is installing a toolkit", holder))
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	have := read(p.host, p.Root)
	if p.unneeded(have) {
		progress.Step("another gpubuild has put it there meanwhile")
		return p.Root, nil
	}
	if err := sweep(p.cache); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, sweep(p.cache)) }()
	if have.Problem != "" { // nobody uses what is there
		if p.adds {
			return "", exit.Errorf(exit.Missing, "gpubuild toolchain install "+p.CUDA.String(), "%s: %s", p.Root, have.Problem)
		}
		have = Installation{}
		if err := os.RemoveAll(p.Root); err != nil {
			return "", err
		}
	}
	if err := p.install(ctx, run, have, progress); err != nil {
		return "", err
	}
	for _, it := range p.Items {
		_ = os.Remove(p.kept(it.Archive)) // only space; pip's own cache has it as well
	}
	return p.Root, nil
}

// install fetches, unpacks and completes. The lock is held.
func (p Plan) install(ctx context.Context, run buildenv.Runner, have Installation, progress tree.Progress) (err error) {
	scratch := filepath.Join(p.cache, wheelsDir, scratchName)
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	var cc tree.Compiler
	if p.host.OS == buildenv.Linux { // before anything is fetched: for link stubs
		if cc, err = tree.FindCompiler(p.host, run); err != nil {
			return err
		}
	}
	archives, err := p.fetch(ctx, run, progress, scratch)
	if err != nil {
		return err
	}
	progress.Step("putting the toolkit together")
	t, err := tree.Open(p.Root)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			t.Undo()
		}
		err = errors.Join(err, t.Close())
		if err != nil && have.Schema == 0 {
			err = errors.Join(err, os.RemoveAll(p.Root)) // it never was a toolkit
		}
	}()
	if err := t.Unpack(ctx, archives, p.host.CPUs); err != nil {
		return err
	}
	if err := p.startNVCC(ctx, run); err != nil {
		return err
	}
	in := p.with(have)
	if p.host.OS == buildenv.Linux {
		if err := t.AddStubs(ctx, cc, in, scratch); err != nil {
			return err
		}
	}
	// Before it is complete: nobody looks for leftovers of a killed run once the toolkit is there.
	if err := os.RemoveAll(scratch); err != nil {
		return err
	}
	return t.Complete(in)
}

// startNVCC starts the new nvcc once: an archive may be whole by its hash and still hold none that works on this machine.
func (p Plan) startNVCC(ctx context.Context, run buildenv.Runner) error {
	if !slices.ContainsFunc(p.Items, func(it Item) bool { return it.Part == "nvcc" }) {
		return nil
	}
	nvcc := p.host.Join(p.Root, "bin", p.host.Exe("nvcc"))
	r, err := run.Run(ctx, buildenv.Cmd{Path: nvcc, Args: []string{"--version"}, Dir: p.Root, Env: p.host.Env.Entries()})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("it ends with %d", r.Code)
	}
	if err != nil && ctx.Err() == nil {
		return exit.Errorf(exit.Missing, "gpubuild toolchain list --available",
			"nothing was installed: `%s --version` does not work: %w", nvcc, err)
	}
	return ctx.Err()
}

// fetch returns every archive, checked: those that are here, and those that pip or the source fetches.
func (p Plan) fetch(ctx context.Context, run buildenv.Runner, progress tree.Progress, scratch string) ([]tree.Source, error) {
	var all []tree.Source
	var missing []tree.Archive
	for _, it := range p.Items {
		file, err := p.present(it)
		if err != nil {
			return nil, err
		}
		if file == "" {
			file = p.kept(it.Archive)
			missing = append(missing, it.Archive)
		}
		all = append(all, tree.Source{Archive: it.Archive, From: file})
	}
	wheels := filepath.Join(p.cache, wheelsDir)
	if p.source != nil {
		// One after another: one connection fills most lines.
		for _, a := range missing {
			if err := p.source.Download(ctx, a, wheels, progress); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	if len(missing) == 0 {
		return all, nil
	}
	pip, err := wheel.Find(ctx, p.host, run, scratch)
	if err != nil {
		return nil, err
	}
	progress.Step("using " + pip.Name)
	return all, pip.Download(ctx, missing, wheels, scratch, progress)
}

// present returns a file that is the item's archive; empty: it has to be fetched. Another run may have used up or left files since the
// plan was made.
func (p Plan) present(it Item) (string, error) {
	mine := p.kept(it.Archive)
	for _, file := range []string{mine, it.Have} {
		if fi, err := os.Stat(file); file == "" || err != nil || fi.Size() != it.Size {
			continue
		}
		err := it.Check(file)
		if _, wrong := errors.AsType[*tree.HashError](err); wrong && file == mine { // damaged: fetch it again
			if err := os.Remove(file); err != nil {
				return "", err
			}
			continue
		}
		return file, err
	}
	return "", nil
}

// lockFile is one for all toolkits of a cache: they share wheels, and each run removes those that it has unpacked.
func lockFile(cacheDir string) string { return filepath.Join(cacheDir, toolkitsDir, ".lock") }

// sweep removes what runs leave that are not toolkits, killed ones included. The lock is held, so nobody is at work there.
func sweep(cacheDir string) error {
	dir := filepath.Join(cacheDir, toolkitsDir)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removedPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(cacheDir, wheelsDir, scratchName)))
}
