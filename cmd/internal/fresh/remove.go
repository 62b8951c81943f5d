package fresh

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/buildenv/stale"
)

// TellStale says what is stale of a report.
func (s *State) TellStale(r Report) {
	for _, line := range stale.Lines(r.Reasons) {
		s.shell.Status("Stale", "%s", line)
	}
	for _, d := range s.compared.Unknown {
		s.shell.Status("Unknown", "%s: %s", d.Package, d.Why)
	}
	for _, line := range s.faultLines() {
		s.shell.Status("Wrong", "%s", line)
	}
}

// Platforms are the triples of this build; the host's own tree has none.
func (b *Build) Platforms() []string { return nonNil(b.platforms()) }

// Remove removes packages, or with DryRun says what would go, and what they keep outside the target directory.
func (s *State) Remove(ctx context.Context, packages []string) (Removal, []Cache, error) {
	b := s.b
	caches, err := b.outside(packages)
	if err != nil {
		return Removal{}, nil, err
	}
	if b.Options.DryRun {
		r, err := b.planRemoval(ctx, packages)
		if err == nil {
			s.tellRemoval(packages, r, caches)
		}
		return r, nonNil(caches), err
	}
	if b.Options.CleanExternal {
		if err := mayEmpty(caches); err != nil {
			return Removal{}, caches, err
		}
	}
	r, err := b.removePackages(ctx, packages)
	if err != nil {
		return r, caches, err
	}
	s.shell.Status("Cleaned", "%s (%s): %s", strings.Join(packages, ", "), b.where(), amount(r.Files, r.Bytes))
	for i := range caches {
		if !b.Options.CleanExternal {
			b.tellOutside(caches[i], "--external")
		} else if err := b.empty(&caches[i]); err != nil {
			return r, caches, err
		}
	}
	return r, nonNil(caches), nil
}

// tellRemoval says what Remove would remove.
func (s *State) tellRemoval(packages []string, r Removal, caches []Cache) {
	b := s.b
	for _, l := range b.otherVersions(packages) {
		s.shell.Note("%s", l)
	}
	if b.Options.ListPaths {
		for _, u := range r.Units {
			fmt.Fprintf(s.shell.Out, "%s (%s)\n", b.Machine.Shown(u.Path), amount(u.Files, u.Bytes))
		}
	}
	s.shell.Status("Would clean", "%s (%s): %s", strings.Join(packages, ", "), b.where(), amount(r.Files, r.Bytes))
	for _, o := range caches {
		switch {
		case !b.Options.CleanExternal:
			b.tellOutside(o, "--external")
		case o.Refused != "":
			s.shell.Note("%s would not be emptied: %s", o.Path, o.Refused)
		default:
			s.shell.Status("Would empty", "%s: %s of %s (%s)", o.Path, o.What, o.Package, amount(o.Files, o.Bytes))
		}
	}
}

// where names the profile and the platforms of a build.
func (b *Build) where() string {
	return strings.Join(append([]string{"profile " + b.Line.ProfileName()}, b.platforms()...), ", ")
}
