package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/stale"
	"gpubuild/features/catalog"
)

// outsideCache is a directory outside the target directory in which a package of this build keeps things: no cargo clean reaches it.
type outsideCache struct {
	Package string `json:"package"`
	What    string `json:"what"`
	Path    string `json:"path"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
	Refused string `json:"refused,omitempty"` // why it is not emptied even when asked for
	Emptied bool   `json:"emptied"`

	paths   []string // below Path, as the system writes them, directories after what is in them
	blindTo []string
}

// outside lists what some packages keep outside the target directory; a directory that is not there, or is empty, is none.
func (j *journey) outside(packages []string) ([]outsideCache, error) {
	catalog, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	h := j.Host
	h.Env = j.Env
	var out []outsideCache
	for _, p := range packages {
		c := catalog.Crate(p)
		if c == nil {
			continue
		}
		for i := range c.External {
			x := &c.External[i]
			dir := x.Dir(h)
			if dir == "" || j.inOwnDirs(dir) {
				continue
			}
			o, err := j.lookOutside(p, x, dir)
			if err != nil {
				return nil, err
			}
			if len(o.paths) > 0 || o.Refused != "" {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// inOwnDirs says whether a directory lies in cargo's own: then it goes as cargo's things go, or stays as the user's own.
func (j *journey) inOwnDirs(dir string) bool {
	for _, d := range j.ownDirs() {
		if j.Host.Below(j.Host.Real(dir), j.Host.Real(d)) {
			return true
		}
	}
	return false
}

// lookOutside lists a cache's content and says whether it may be emptied: only where nothing is in it that its crate does not write.
func (j *journey) lookOutside(pkg string, x *catalog.External, dir string) (outsideCache, error) {
	o := outsideCache{Package: pkg, What: x.What, Path: dir, blindTo: x.BlindTo}
	real := j.Host.Real(dir)
	if why := j.precious(real); why != "" {
		o.Refused = why
		return o, nil
	}
	var foreign []string
	err := filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == real {
			return err
		}
		rel, err := filepath.Rel(real, path)
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if !x.Writes(filepath.ToSlash(rel)) || !fi.IsDir() && !fi.Mode().IsRegular() {
			foreign = append(foreign, rel)
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		o.paths = append(o.paths, rel)
		if !fi.IsDir() {
			o.Files++
			o.Bytes += fi.Size()
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("%s of %s: %w", x.What, pkg, err)
	}
	// what lies in a directory goes before it
	sort.Sort(sort.Reverse(sort.StringSlice(o.paths)))
	if len(foreign) > 0 {
		shown := foreign[:min(3, len(foreign))]
		o.Refused = fmt.Sprintf("it holds what %s does not write: %s", pkg, strings.Join(shown, ", "))
		if n := len(foreign) - len(shown); n > 0 {
			o.Refused += fmt.Sprintf(" and %d more", n)
		}
	}
	return o, nil
}

// mayEmpty refuses before anything goes: a package that was cleaned while its cache stayed would be built of old things, and nothing would be stale.
func mayEmpty(caches []outsideCache) error {
	for _, o := range caches {
		if o.Refused != "" {
			return &usageError{fmt.Sprintf("nothing is removed: %s would not be emptied: %s", o.Path, o.Refused),
				"remove by hand what is to go, or give " + o.Package + " a directory of its own"}
		}
	}
	return nil
}

// empty removes what was listed; the directory itself stays, since its crate wants it to be there. Only after mayEmpty.
func (j *journey) empty(o *outsideCache) error {
	real := j.Host.Real(o.Path)
	for _, rel := range o.paths {
		if err := os.Remove(filepath.Join(real, rel)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s of %s: %w", o.What, o.Package, err)
		}
	}
	o.Emptied = true
	j.Shell.Status("Emptied", "%s: %s of %s (%s)", o.Path, o.What, o.Package, amount(o.Files, o.Bytes))
	return nil
}

// tellOutside says that a cache was left as it is, and how it would be emptied.
func (j *journey) tellOutside(o outsideCache, flag string) {
	line := fmt.Sprintf("%s keeps %s in %s (%s), where cargo's clean does not reach", o.Package, o.What, o.Path, amount(o.Files, o.Bytes))
	if o.Refused != "" {
		j.Shell.Note("%s; it will not be emptied: %s", line, o.Refused)
		return
	}
	again := ""
	if len(o.blindTo) > 0 {
		again = "; until then the next build takes them again, whichever nvcc they are from"
	}
	j.Shell.Note("%s; %s empties it%s", line, flag, again)
}

// poisoned lists the caches whose own check does not see one of the reasons: what they hold would be taken again, and be as stale as before.
func poisoned(caches []outsideCache, reasons []stale.Reason) []outsideCache {
	var out []outsideCache
	for _, o := range caches {
		for _, r := range reasons {
			if r.Package == o.Package && contains(o.blindTo, r.Input) && o.Files > 0 {
				out = append(out, o)
				break
			}
		}
	}
	return out
}

// cleanForBuild removes what is stale of some packages before a build. What they keep elsewhere is emptied where that is allowed; where it is not and
// would bring the old things back, the build is not begun.
func (j *journey) cleanForBuild(ctx context.Context, packages []string) error {
	caches, err := j.outside(packages)
	if err != nil {
		return err
	}
	if !j.options.CleanExternal {
		for _, o := range caches {
			j.tellOutside(o, "--gpu-clean-external")
		}
		if bad := poisoned(caches, j.compared.Reasons); len(bad) > 0 {
			for _, o := range bad {
				j.Shell.Error("stale: %s would take its old %s from %s again", o.Package, o.What, o.Path)
			}
			j.Shell.Hint("allow it to be emptied: --gpu-clean-external")
			return exit.Code(exit.Stale)
		}
	}
	if j.options.CleanExternal {
		if err := mayEmpty(caches); err != nil {
			return j.notCleaned(err)
		}
	}
	if _, err := j.removePackages(ctx, packages); err != nil {
		return j.notCleaned(err)
	}
	if j.options.CleanExternal {
		for i := range caches {
			if err := j.empty(&caches[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// notCleaned makes a refusal of ours what it is before a build: something is stale, and stays so.
func (j *journey) notCleaned(err error) error {
	var no *usageError
	if !errors.As(err, &no) {
		return err
	}
	j.Shell.Failure(err)
	return exit.Code(exit.Stale)
}
