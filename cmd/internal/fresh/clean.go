package fresh

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// removePackages has cargo remove what it built of some packages, for the profile and the platforms of this build and nothing else. It is
// the only way on which anything below a target directory is removed, after mayRemove. Cargo takes its own lock on the directory, so
// nothing goes while another cargo builds there.
func (b *Build) removePackages(ctx context.Context, packages []string) error {
	_, err := cargorun.Clean(ctx, b.Machine, cargo.Clean(b.Tool, b.Line, packages, b.Platforms()), b.Graph.Places, io.Discard)
	return err
}

// mayRemove asks cargo what it would remove, and refuses where that is not cargo's own. waited says that another cargo was at work.
func (b *Build) mayRemove(ctx context.Context, packages []string) (waited bool, err error) {
	if err := b.guard(); err != nil {
		return false, err
	}
	var list bytes.Buffer
	waited, err = cargorun.Clean(ctx, b.Machine, cargo.CleanPlan(b.Tool, b.Line, packages, b.Platforms()), b.Graph.Places, &list)
	if err != nil {
		return waited, err
	}
	var paths []string
	for _, line := range strings.Split(list.String(), "\n") {
		if p := strings.TrimRight(line, "\r"); b.Machine.Host.IsAbs(p) {
			paths = append(paths, p)
		}
	}
	return waited, b.inside(paths)
}

// guard refuses to clean where a slip would cost a person more than build products: the root, the home directory and what it lies
// in, and a directory that holds a manifest. It looks at the directories that cargo itself names, through links: a target
// directory that is a link is common and fine, and what it leads to is judged.
func (b *Build) guard() error {
	for _, dir := range b.ownDirs() {
		real := b.Machine.Host.Real(dir)
		if why := b.precious(real); why != "" {
			at := dir
			if real != dir {
				at += " (" + real + ")"
			}
			return exit.Errorf(exit.Usage, "give the build a directory of its own: --target-dir, CARGO_TARGET_DIR or build.target-dir",
				"nothing is removed in cargo's target directory %s: %s", at, why)
		}
	}
	return nil
}

// ownDirs are the directories that are cargo's own in this build.
func (b *Build) ownDirs() []string {
	p := b.Graph.Places
	if p.TargetDirectory == "" || b.Machine.Host.SamePath(p.TargetDirectory, p.BuildDirectory) {
		return []string{p.BuildDirectory}
	}
	return []string{p.TargetDirectory, p.BuildDirectory}
}

// precious says why a directory, given without links, is none to remove things from; empty when it is not.
func (b *Build) precious(dir string) string {
	h := b.Machine.Host
	home := h.Real(h.Home)
	switch {
	case !h.IsAbs(dir):
		return "it is not an absolute path"
	case h.Dir(dir) == h.Clean(dir):
		return "it is the root of the file system"
	case h.Home != "" && h.SamePath(dir, home):
		return "it is your home directory"
	case h.Home != "" && h.Below(home, dir):
		return "your home directory lies in it"
	case h.IsFile(h.Join(dir, manifest.FileName)):
		return "it holds a " + manifest.FileName + ", so it is a package's own directory"
	}
	return ""
}

// inside refuses when what cargo would remove, or a directory in which it would look for it, lies outside of cargo's own
// directories: a link below them leads there.
func (b *Build) inside(paths []string) error {
	var own []string
	for _, d := range b.ownDirs() {
		own = append(own, b.Machine.Host.Real(d))
	}
	dirs, seen := b.standing(), map[string]bool{}
	for _, p := range paths {
		dirs = append(dirs, b.Machine.Host.Dir(p)) // a link itself goes, not what it leads to
	}
	for _, dir := range dirs {
		if seen[dir] || !b.Machine.Host.IsDir(dir) { // gone since: it cannot be resolved, either
			continue
		}
		seen[dir] = true
		real := b.Machine.Host.Real(dir)
		if slices.ContainsFunc(own, func(own string) bool { return b.Machine.Host.Below(real, own) }) {
			continue
		}
		return exit.Errorf(exit.Usage, "make the target directory itself the link, or set --target-dir",
			"nothing is removed: %s leads to %s, which is outside of cargo's target directory %s", dir, real, strings.Join(own, " and "))
	}
	return nil
}

// standing lists cargo's directories of the profile and those directly in them:
// single files go from there without a word in cargo's list.
func (b *Build) standing() []string {
	var out []string
	for _, profile := range b.profileDirs() {
		dirs := []string{profile}
		if t := b.Graph.Places.TargetDirectory; t != "" && b.Machine.Host.Below(profile, b.Graph.Places.BuildDirectory) {
			dirs = append(dirs, b.Machine.Host.Join(t, strings.TrimPrefix(profile, b.Machine.Host.Clean(b.Graph.Places.BuildDirectory))))
		}
		for _, dir := range dirs {
			if b.Machine.Host.IsDir(dir) {
				out = append(out, dir)
			}
			for _, name := range b.Machine.Host.Names(dir) {
				if sub := b.Machine.Host.Join(dir, name); b.Machine.Host.IsDir(sub) {
					out = append(out, sub)
				}
			}
		}
	}
	return out
}

// WarnUnidentified says so where nothing is known of the packages: without a unit graph their sources are not.
func (s *State) WarnUnidentified() {
	if why := s.b.Reach.Unknown; why != "" {
		s.b.Machine.Shell.Warning("after a change of toolkit nothing is rebuilt: which packages this build has is unknown (%s)", why)
	}
}

// cleanLine is the command with which a person removes packages.
func (b *Build) cleanLine(packages []string) string {
	return "cargo " + strings.Join(cargo.Clean(b.Tool, b.Line, packages, b.Platforms()).Args, " ")
}
