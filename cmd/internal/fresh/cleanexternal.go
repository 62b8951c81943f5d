package fresh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/stale"
	"gpubuild/features/catalog"
)

// Cache is a directory outside the target directory in which a package of this build keeps things: no cargo clean reaches it.
type Cache struct {
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
func (b *Build) outside(packages []string) ([]Cache, error) {
	catalog, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	h := b.Machine.Host
	h.Env = b.Tools.Env
	out := []Cache{}
	for _, p := range packages {
		c := catalog.Crate(p)
		if c == nil {
			continue
		}
		for i := range c.External {
			x := &c.External[i]
			dir := x.Dir(h)
			if dir == "" || b.inOwnDirs(dir) {
				continue
			}
			o, err := b.lookOutside(p, x, dir)
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
func (b *Build) inOwnDirs(dir string) bool {
	h := b.Machine.Host
	return slices.ContainsFunc(b.ownDirs(), func(own string) bool { return h.Below(h.Real(dir), h.Real(own)) })
}

// lookOutside lists a cache's content and says whether it may be emptied: only
// where nothing is in it that its crate does not write.
func (b *Build) lookOutside(pkg string, x *catalog.External, dir string) (Cache, error) {
	o := Cache{Package: pkg, What: x.What, Path: dir, blindTo: x.BlindTo}
	real := b.Machine.Host.Real(dir)
	if why := b.precious(real); why != "" {
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
		o.Refused = fmt.Sprintf("it holds what %s does not write: %s", pkg, strings.Join(foreign[:min(3, len(foreign))], ", "))
		if n := len(foreign) - 3; n > 0 {
			o.Refused += fmt.Sprintf(" and %d more", n)
		}
	}
	return o, nil
}

// mayEmpty refuses before anything goes: a package that was cleaned while its cache stayed would be built of old things, and
// nothing would be stale.
func mayEmpty(caches []Cache) error {
	for _, o := range caches {
		if o.Refused != "" {
			return exit.Errorf(exit.Usage, "remove by hand what is to go, or give "+o.Package+" a directory of its own",
				"nothing is removed: %s would not be emptied: %s", o.Path, o.Refused)
		}
	}
	return nil
}

// empty removes what was listed; the directory itself stays, since its crate wants it to be there. Only after mayEmpty.
func (b *Build) empty(o *Cache) error {
	real := b.Machine.Host.Real(o.Path)
	for _, rel := range o.paths {
		if err := os.Remove(filepath.Join(real, rel)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s of %s: %w", o.What, o.Package, err)
		}
	}
	o.Emptied = true
	b.Machine.Shell.Status("Emptied", "%s: %s of %s (%s)", o.Path, o.What, o.Package, amount(o.Files, o.Bytes))
	return nil
}

// noteOutside says that a cache was left as it is, and how it would be emptied.
func (b *Build) noteOutside(o Cache, flag string) {
	line := fmt.Sprintf("%s keeps %s in %s (%s), where cargo's clean does not reach", o.Package, o.What, o.Path, amount(o.Files, o.Bytes))
	if o.Refused != "" {
		b.Machine.Shell.Note("%s; it will not be emptied: %s", line, o.Refused)
		return
	}
	again := ""
	if len(o.blindTo) > 0 {
		again = "; until then the next build takes them again, whichever nvcc they are from"
	}
	b.Machine.Shell.Note("%s; %s empties it%s", line, flag, again)
}

// poisoned lists the caches whose own check does not see one of the reasons:
// what they hold would be taken again, and be as stale as before.
func poisoned(caches []Cache, reasons []stale.Reason) []Cache {
	return slices.DeleteFunc(slices.Clone(caches), func(o Cache) bool {
		return o.Files == 0 || !slices.ContainsFunc(reasons, func(r stale.Reason) bool {
			return r.Package == o.Package && slices.Contains(o.blindTo, r.Input)
		})
	})
}

// cleanForBuild removes what is stale of some packages before a build, and says why. What they keep elsewhere is emptied where that is
// allowed; where it is not and would bring the old things back, the build is not begun. Where another cargo was at work, what it left is
// compared again instead.
func (s *State) cleanForBuild(ctx context.Context, packages []string) (again *State, err error) {
	shell, b := s.b.Machine.Shell, s.b
	if !b.Options.NoClean {
		waited, err := b.mayRemove(ctx, packages)
		if err != nil {
			return nil, s.notCleaned(err)
		}
		if waited && s.before == nil && !b.Options.ForceClean {
			return Inspect(ctx, b)
		}
	}
	s.PrintStale()
	if b.Options.NoClean {
		shell.Error("stale artifacts of %s, and --gpu-no-clean forbids to clean them", strings.Join(packages, ", "))
		shell.Hint("leave --gpu-no-clean out, or run " + b.cleanLine(packages))
		return nil, exit.Code(exit.Stale)
	}
	caches, err := b.outside(packages)
	if err != nil {
		return nil, err
	}
	if b.Options.CleanExternal {
		if err := mayEmpty(caches); err != nil {
			return nil, s.notCleaned(err)
		}
	} else {
		for _, o := range caches {
			b.noteOutside(o, "--gpu-clean-external")
		}
		if bad := poisoned(caches, s.Reasons()); len(bad) > 0 {
			for _, o := range bad {
				shell.Error("stale: %s would take its old %s from %s again", o.Package, o.What, o.Path)
			}
			shell.Hint("allow it to be emptied: --gpu-clean-external")
			return nil, exit.Code(exit.Stale)
		}
	}
	if err := b.removePackages(ctx, packages); err != nil {
		return nil, s.notCleaned(err)
	}
	for i := 0; b.Options.CleanExternal && i < len(caches); i++ {
		if err := b.empty(&caches[i]); err != nil {
			return nil, err
		}
	}
	shell.Status("Cleaned", "%s", strings.Join(packages, ", "))
	return nil, nil
}

// notCleaned makes a refusal of ours what it is before a build: something is stale, and stays so.
func (s *State) notCleaned(err error) error {
	if exit.Of(err) != exit.Usage {
		return err
	}
	s.b.Machine.Shell.Failure(err)
	return exit.Code(exit.Stale)
}

// amount words what was or would be removed, as cargo does.
func amount(files int, bytes int64) string {
	word := "files"
	if files == 1 {
		word = "file"
	}
	if bytes < 1<<20 {
		return fmt.Sprintf("%d %s, %.1f KiB", files, word, float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%d %s, %.1f MiB", files, word, float64(bytes)/(1<<20))
}
