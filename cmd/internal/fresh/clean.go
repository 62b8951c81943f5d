package fresh

import (
	"context"
	"os"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/nvcc"
)

// clean says what is stale of some packages, and has cargo remove what it built of them, for the profile and the platforms of this build.
// Nothing else removes anything below a target directory. Cargo takes its own lock on it, so nothing goes while another cargo builds there.
func (s *State) clean(ctx context.Context, packages []string) error {
	shell, b := s.b.Machine.Shell, s.b
	s.PrintStale()
	line := cargo.Clean(b.Tool, b.Line, packages, b.Platforms())
	if b.Options.NoClean {
		shell.Error("stale, but --gpu-no-clean does not allow cleaning: %s", strings.Join(packages, ", "))
		shell.Hint("leave --gpu-no-clean out, or run cargo " + strings.Join(line.Args, " "))
		return exit.Code(exit.Stale)
	}
	if err := cargo.Accepts(ctx, b.Machine.Runner, b.Tool, b.Line, b.Machine.Shell.Colour); err != nil { // its words are the answer
		return err
	}
	if err := cargorun.Clean(ctx, b.Machine, line, b.Graph.Places.BuildDirectory); err != nil {
		return err
	}
	shell.Status("Cleaned", "%s", strings.Join(packages, ", "))
	for _, name := range packages { // our own lists, of which cargo knows nothing
		if err := os.RemoveAll(b.Machine.Host.Dir(nvcc.MacroOut(s.Macros(), name))); err != nil {
			return err
		}
	}
	return nil
}

// inOwnDirs reports whether a directory lies in cargo's own: then it goes as cargo's things go.
func (b *Build) inOwnDirs(dir string) bool {
	h := b.Machine.Host
	return slices.ContainsFunc(b.ownDirs(), func(own string) bool { return h.Below(h.Real(dir), h.Real(own)) })
}

// ownDirs are the directories that are cargo's own in this build.
func (b *Build) ownDirs() []string {
	p := b.Graph.Places
	if p.TargetDirectory == "" || b.Machine.Host.SamePath(p.TargetDirectory, p.BuildDirectory) {
		return []string{p.BuildDirectory}
	}
	return []string{p.TargetDirectory, p.BuildDirectory}
}

// WarnUnidentified says so where nothing is known of the packages: without a unit graph their sources are not.
func (s *State) WarnUnidentified() {
	if why := s.b.Reach.Unknown; why != "" {
		s.b.Machine.Shell.Warning("after a change of toolkit nothing is rebuilt: which packages this build has is unknown (%s)", why)
	}
}
