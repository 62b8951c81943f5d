package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/install/wheel"
)

const (
	toolkitsDir = "toolkits"
	wheelsDir   = "wheels"
	// stagingPrefix and removedPrefix begin the names of directories below toolkits/ that are no toolkits.
	stagingPrefix, removedPrefix = ".staging-", ".removed-"
)

// Runner starts pip and the C compiler.
type Runner interface {
	Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error)
}

// Run does what the plan says and returns the toolkit's root. The caller has asked the user. If it fails or is interrupted, no half
// toolkit is left; archives that were fetched and checked are kept for the next time. It waits while another gpubuild works in the
// same cache. progress gets one line at a time.
func (p Plan) Run(ctx context.Context, run Runner, progress func(string)) (root string, err error) {
	if p.Installed {
		return p.Root, nil
	}
	defer func() { err = p.explained(err) }()
	if progress == nil {
		progress = func(string) {}
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
		progress(fmt.Sprintf("waiting for another gpubuild (%s) that is installing a toolkit", holder))
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	if in, ok := tree.Read(p.host, p.Root); ok && p.satisfiedBy(in) {
		progress("another gpubuild has put it there meanwhile")
		return p.Root, nil
	}
	if err := sweep(p.cache); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, sweep(p.cache)) }()
	if err := p.install(ctx, run, progress); err != nil {
		return "", err
	}
	for _, it := range p.Items {
		_ = os.Remove(p.kept(it.Archive)) // only space; pip's own cache has it as well
	}
	return p.Root, nil
}

// install fetches, unpacks, completes and publishes. The lock is held.
func (p Plan) install(ctx context.Context, run Runner, progress func(string)) error {
	staging := filepath.Join(p.cache, toolkitsDir, stagingPrefix+filepath.Base(p.Root))
	scratch := filepath.Join(staging, "scratch")
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	var cc tree.Compiler
	var err error
	if p.needsCompiler() { // before anything is fetched
		if cc, err = tree.FindCompiler(p.host, run); err != nil {
			return err
		}
	}
	archives, err := p.fetch(ctx, run, progress, scratch)
	if err != nil {
		return err
	}
	progress("putting the toolkit together")
	root := filepath.Join(staging, "root")
	if err := p.build(ctx, cc, archives, root, scratch); err != nil {
		return err
	}
	// What is there has no marker, so nobody uses it.
	if err := os.Rename(p.Root, filepath.Join(staging, "old")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	return os.Rename(root, p.Root)
}

// needsCompiler says whether link stubs will be made: of the libraries that are left out, and of libcuda wherever cuda.h is.
func (p Plan) needsCompiler() bool {
	return p.host.OS == buildenv.Linux && (p.LinkStubs || p.installation().Has("runtime"))
}

// fetch returns every archive, checked: those that are here, and those that pip or the source fetches.
func (p Plan) fetch(ctx context.Context, run Runner, progress func(string), scratch string) ([]tree.Source, error) {
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
	progress("using " + pip.Name)
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
		var wrong *tree.HashError
		if errors.As(err, &wrong) && file == mine { // damaged: fetch it again
			if err := os.Remove(file); err != nil {
				return "", err
			}
			continue
		}
		return file, err
	}
	return "", nil
}

// build puts the toolkit together in an empty directory.
func (p Plan) build(ctx context.Context, cc tree.Compiler, archives []tree.Source, root, scratch string) (err error) {
	t, err := tree.Create(root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := t.Unpack(ctx, archives, p.host.CPUs); err != nil {
		return err
	}
	in := p.installation()
	if p.needsCompiler() {
		if err := t.AddStubs(ctx, cc, in, scratch); err != nil {
			return err
		}
	}
	return t.Complete(in)
}

// lockFile is one for all toolkits of a cache: they share wheels, and each run removes those that it has unpacked.
func lockFile(cacheDir string) string { return filepath.Join(cacheDir, toolkitsDir, ".lock") }

// sweep removes what killed runs left behind. The lock is held, so nobody is at work there.
func sweep(cacheDir string) error {
	dir := filepath.Join(cacheDir, toolkitsDir)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagingPrefix) || strings.HasPrefix(e.Name(), removedPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
