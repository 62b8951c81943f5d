package fresh

import (
	"context"
	"fmt"
	"strings"
)

// Remove removes packages, or with DryRun says what would go, and what they keep outside the target directory.
func (s *State) Remove(ctx context.Context, packages []string) (Removal, []Cache, error) {
	b := &s.b
	caches, err := b.outside(packages)
	if err != nil {
		return Removal{}, nil, err
	}
	r, err := b.planRemoval(ctx, packages)
	if err != nil {
		return r, caches, err
	}
	if b.Options.DryRun {
		return r, caches, s.printRemoval(packages, r, caches)
	}
	if b.Options.CleanExternal {
		if err := mayEmpty(caches); err != nil {
			return Removal{}, caches, err
		}
	}
	if r, err = b.removePackages(ctx, packages, r); err != nil {
		return r, caches, err
	}
	s.b.Machine.Shell.Status("Cleaned", "%s (%s): %s", strings.Join(packages, ", "), b.where(), amount(r.Files, r.Bytes))
	for i := range caches {
		if !b.Options.CleanExternal {
			b.noteOutside(caches[i], "--external")
		} else if err := b.empty(&caches[i]); err != nil {
			return r, caches, err
		}
	}
	return r, caches, nil
}

// printRemoval says what Remove would remove.
func (s *State) printRemoval(packages []string, r Removal, caches []Cache) error {
	b := &s.b
	if b.Options.ListPaths {
		for _, u := range r.Units {
			if err := b.Machine.Shell.Print(fmt.Sprintf("%s (%s)\n", b.Machine.Shown(u.Path), amount(u.Files, u.Bytes))); err != nil {
				return err
			}
		}
		if files, bytes := r.unlisted(); files > 0 {
			var in []string
			for _, dir := range b.profileDirs() {
				in = append(in, b.Machine.Shown(dir))
			}
			if err := b.Machine.Shell.Print(fmt.Sprintf("%s: programs, libraries and their .d files (%s)\n", strings.Join(in, ", "),
				amount(files, bytes))); err != nil {
				return err
			}
		}
	}
	s.b.Machine.Shell.Status("Would clean", "%s (%s): %s", strings.Join(packages, ", "), b.where(), amount(r.Files, r.Bytes))
	for _, o := range caches {
		switch {
		case !b.Options.CleanExternal:
			b.noteOutside(o, "--external")
		case o.Refused != "":
			s.b.Machine.Shell.Note("%s would not be emptied: %s", o.Path, o.Refused)
		default:
			s.b.Machine.Shell.Status("Would empty", "%s: %s of %s (%s)", o.Path, o.What, o.Package, amount(o.Files, o.Bytes))
		}
	}
	return nil
}

// unlisted is what of cargo's total is in no directory of the list: cargo does not name the single files that it removes.
func (r Removal) unlisted() (files int, bytes int64) {
	files, bytes = r.Files, r.Bytes
	for _, u := range r.Units {
		files, bytes = files-u.Files, bytes-u.Bytes
	}
	return files, max(bytes, 0)
}

// where names the profile and the platforms of a build.
func (b *Build) where() string {
	return strings.Join(append([]string{"profile " + b.Line.ProfileName()}, b.Platforms()...), ", ")
}
