package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"gpubuild/buildenv/cache"
)

const (
	toolkitsDir = "toolkits"
	wheelsDir   = "wheels"
	tmpDir      = "tmp"
	markerFile  = "gpubuild-toolkit.json"
	listFile    = "gpubuild-files.json"
)

// Run does what the plan says and answers the toolkit's root. The caller has asked the user. When it ends in any other way than well,
// interrupted included, no half toolkit is left; wheels that were fetched and checked are kept for the next time. While another gpubuild
// puts the same toolkit there it waits for that. progress gets one line at a time.
func (p Plan) Run(ctx context.Context, run runner, progress func(string)) (root string, err error) {
	defer func() { err = p.explained(err) }()
	if p.Installed {
		return p.Root, nil
	}
	say := serial(progress)
	if err := cache.Make(p.cacheDir); err != nil {
		return "", err
	}
	toolkits, wheels := filepath.Join(p.cacheDir, toolkitsDir), filepath.Join(p.cacheDir, wheelsDir)
	for _, dir := range []string{toolkits, wheels} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	release, err := cache.Lock(ctx, lockFile(p.cacheDir), func(holder string) {
		say(fmt.Sprintf("waiting for another gpubuild (%s) that is installing a toolkit", holder))
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	if in, ok := read(p.host, p.Root); ok && in.satisfies(p) {
		say("another gpubuild has put it there meanwhile")
		return p.Root, nil
	}
	staging, fetching := filepath.Join(toolkits, stagingPrefix+p.name), filepath.Join(wheels, fetchPrefix+p.name)
	if err := p.salvage(wheels); err != nil {
		return "", err
	}
	if err := sweep(p.cacheDir); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, sweep(p.cacheDir)) }()
	for _, dir := range []string{filepath.Join(staging, "root"), filepath.Join(fetching, tmpDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	if err := p.build(ctx, run, say, staging, fetching); err != nil {
		return "", err
	}
	if err := p.publish(staging); err != nil {
		return "", err
	}
	for _, it := range p.Items {
		_ = os.Remove(p.kept(it.Wheel)) // only space; pip's own cache has it as well
	}
	return p.Root, nil
}

// serial lets lines come from several goroutines.
func serial(progress func(string)) func(string) {
	var mu sync.Mutex
	return func(s string) {
		mu.Lock()
		defer mu.Unlock()
		if progress != nil {
			progress(s)
		}
	}
}

// lockFile is one for all toolkits of a cache: they share wheels, and what one has unpacked it removes.
func lockFile(cacheDir string) string { return filepath.Join(cacheDir, toolkitsDir, ".lock") }

const stagingPrefix, removedPrefix, fetchPrefix = ".staging-", ".removed-", ".fetch-"

// sweep removes whatever runs that were killed left behind. The lock is held, so nobody is at work there.
func sweep(cacheDir string) error {
	var errs []error
	for _, pattern := range []string{toolkitsDir + "/" + stagingPrefix + "*", toolkitsDir + "/" + removedPrefix + "*", wheelsDir + "/" + fetchPrefix + "*"} {
		found, err := glob(cacheDir, pattern)
		errs = append(errs, err)
		for _, dir := range found {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// glob lists dir/sub/prefix*; the cache's own path may hold characters that filepath.Glob would read as a pattern.
func glob(cacheDir, pattern string) ([]string, error) {
	dir := filepath.Join(cacheDir, filepath.Dir(filepath.FromSlash(pattern)))
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if ok, _ := filepath.Match(filepath.Base(pattern), e.Name()); ok {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, err
}

// salvage keeps what killed runs had fetched completely.
func (p Plan) salvage(wheels string) error {
	dirs, err := glob(p.cacheDir, wheelsDir+"/"+fetchPrefix+"*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		for _, it := range p.Items {
			path := filepath.Join(dir, it.File)
			if fi, err := os.Stat(path); err != nil || fi.Size() != it.Size || check(path, it.Wheel) != nil {
				continue
			}
			if err := os.Rename(path, filepath.Join(wheels, it.File)); err != nil {
				return err
			}
		}
	}
	return nil
}

// build fetches and unpacks at the same time, then adds what no wheel has.
func (p Plan) build(ctx context.Context, run runner, say func(string), staging, fetching string) error {
	cc := ""
	if p.needsCompiler() { // before anything is fetched
		var err error
		if cc, err = p.findCompiler(); err != nil {
			return err
		}
	}
	t := newTree(filepath.Join(staging, "root"), p.host.CPUs)
	work, stop := context.WithCancel(ctx)
	defer stop()
	type ready struct {
		path  string
		wheel Wheel
	}
	queue, unpacked, headers := make(chan ready, len(p.Items)), make(chan error, 1), make(chan struct{})
	var unpackers sync.WaitGroup
	var once sync.Once
	var failed error
	for i := 0; i < p.unpackers(t); i++ {
		unpackers.Add(1)
		go func() {
			defer unpackers.Done()
			for r := range queue {
				if err := t.unpack(work, r.path, r.wheel); err != nil {
					once.Do(func() { failed = err })
					stop() // fetching the rest would be in vain
					return
				}
				if r.wheel.Part == "runtime" {
					close(headers)
				}
			}
		}()
	}
	go func() {
		unpackers.Wait()
		if failed == nil {
			failed = t.agree()
		}
		unpacked <- failed
	}()
	stubs := make(chan error, 1)
	go func() {
		err := t.addAllStubs(work, run, p, cc, staging, headers)
		if err != nil {
			stop()
		}
		stubs <- err
	}()
	err := p.get(work, run, say, fetching, func(path string, w Wheel) { queue <- ready{path, w} })
	if err != nil {
		stop()
	}
	close(queue)
	e, stubbed := <-unpacked, <-stubs
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case stubbed != nil && !errors.Is(stubbed, context.Canceled):
		return stubbed
	case e != nil && !(err != nil && errors.Is(e, context.Canceled)):
		return e
	case err != nil:
		return err
	}
	say("putting the toolkit together")
	if err := t.finish(p); err != nil {
		return err
	}
	return t.mark(p)
}

// unpackers is how many archives are unpacked at the same time: a wheel's entries keep all cores busy, a .tar.xz is one stream.
func (p Plan) unpackers(t *tree) int {
	if p.source != nil {
		return t.workers
	}
	return 1
}

// get hands over every wheel, checked: first those that are here, then what pip fetches.
func (p Plan) get(ctx context.Context, run runner, say func(string), fetching string, deliver func(string, Wheel)) error {
	var missing []Item
	for _, it := range p.Items {
		mine := p.kept(it.Wheel)
		for _, path := range []string{mine, it.Have} {
			if fi, err := os.Stat(path); path == "" || err != nil || fi.Size() != it.Size {
				continue
			}
			err := check(path, it.Wheel)
			var differs *HashError
			if errors.As(err, &differs) && path == mine {
				err = os.Remove(path) // damaged: fetch it again
				if err == nil {
					continue
				}
			}
			if err != nil {
				return err
			}
			deliver(path, it.Wheel)
			it.SHA256 = ""
			break
		}
		if it.SHA256 != "" {
			missing = append(missing, it)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if p.source != nil {
		return p.getArchives(ctx, say, missing, deliver)
	}
	c, err := p.pip, error(nil)
	if c.path == "" {
		if c, err = p.findPip(ctx, run, fetching); err != nil {
			return err
		}
	}
	say("using " + c.name)
	return p.fetchAll(ctx, run, c, say, fetching, batches(missing, c.multi, p.runs()), deliver)
}

// fetchAll runs a pip for each batch, all at the same time. Each has a directory of its own. The first error stops the others.
func (p Plan) fetchAll(ctx context.Context, run runner, c pip, say func(string), fetching string, all [][]Item, deliver func(string, Wheel)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make(chan error, len(all))
	for i, batch := range all {
		go func() {
			dir := fmt.Sprintf("%s.%d", fetching, i)
			err := os.MkdirAll(filepath.Join(dir, tmpDir), 0o700)
			if err == nil {
				err = p.fetch(ctx, run, c, dir, batch, say, deliver)
			}
			errs <- err
		}()
	}
	var first error
	for range all {
		if err := <-errs; err != nil && first == nil {
			first = err
			stop()
		}
	}
	return first
}

// mark writes the list of files and then, last of all, the file by which a toolkit is known to be complete.
func (t *tree) mark(p Plan) error {
	in := Installation{Schema: 1, CUDA: p.CUDA, Release: p.Release, Platform: p.Platform}
	for _, it := range p.Items {
		in.Parts = append(in.Parts, InstalledPart{Name: it.Part, Package: it.Package, Version: it.Version, SHA256: it.SHA256, Licence: it.Licence})
	}
	in.LinkStubs = p.LinkStubs
	files := t.list()
	for _, f := range files {
		in.Bytes += f.Size
	}
	in.Files = len(files)
	list, err := json.Marshal(files)
	if err != nil {
		return fmt.Errorf("%s: %w", listFile, err)
	}
	if err := t.write(listFile, list); err != nil {
		return err
	}
	in.List = t.files[listFile].SHA256
	marker, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", markerFile, err)
	}
	return t.write(markerFile, append(marker, '\n'))
}

// publish renames the finished tree to where it is found. What stands there has no marker, so nobody uses it.
func (p Plan) publish(staging string) error {
	if _, err := os.Lstat(p.Root); err == nil {
		if err := os.Rename(p.Root, filepath.Join(staging, "old")); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	root := filepath.Join(staging, "root")
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	return os.Rename(root, p.Root)
}
