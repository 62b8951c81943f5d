// Package fresh decides what of a target directory is stale although cargo considers it fresh: what was built with another
// toolkit, host compiler, architecture or variable than a build would use now. It asks cargo to remove just that, and checks
// after the build that the device code is what was asked for.
//
// A package takes part if the catalog or the text of its build script shows that it uses the toolkit (features.Answer.Units), or
// if the OUT_DIR of its build script holds device code. What is in doubt counts as stale.
//
// It owns the record of what was built with what (.gpubuild-record.json in cargo's build directory) and the notes of builds that
// were interrupted. It never starts a build itself and never removes anything below a target directory but through `cargo clean`.
package fresh

import (
	"context"
	"slices"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

// Lock keeps a second gpubuild out of a target directory until release is called, which may be done twice.
func Lock(ctx context.Context, m *session.Machine, places cargo.Places) (release func(), err error) {
	path := lockPath(m, places)
	if err := cache.Make(m.Host.Dir(path)); err != nil {
		return nil, err
	}
	free, err := cache.Lock(ctx, path, func(holder string) {
		m.Shell.Status("Blocking", "waiting for another gpubuild on this target directory (%s)", holder)
	})
	if err != nil {
		return nil, err
	}
	done := false
	return func() {
		if done {
			return
		}
		done = true
		if err := free(); err != nil {
			m.Shell.Warning("lock of the target directory: %v", err)
		}
	}, nil
}

// BuiltFor is the architecture that a target directory's GPU packages were last built for; zero: nothing is recorded.
func BuiltFor(m *session.Machine, places cargo.Places) gpu.Arch {
	record, _ := readRecord(m, places)
	for i := len(record.Entries) - 1; i >= 0; i-- {
		for _, in := range record.Entries[i].Inputs {
			if in.Name != "arch" {
				continue
			}
			if a, err := gpu.ParseArch(in.Value); err == nil {
				return a
			}
		}
	}
	return gpu.Arch{}
}

// Inspect compares what is recorded of the GPU packages with what they would be
// built with now, and changes nothing. Call it under Lock.
func Inspect(ctx context.Context, b Build) (*State, error) {
	s := newState(&b)
	s.record, s.recordNote = readRecord(b.Machine, b.Graph.Places)
	return s, s.compare(ctx)
}

// Clean has cargo remove the packages that are stale, and says why. It is the last step before the build.
func (s *State) Clean(ctx context.Context) error {
	if s.recordNote != "" {
		s.shell.Warning("%s: %s; what the GPU packages were built with is unknown", recordPath(s.host, s.b.Graph.Places), s.recordNote)
	}
	s.tellUntold()
	packages := s.stalePackages()
	if s.b.Options.ForceClean {
		packages = s.Packages()
	}
	s.tellAdopted(packages)
	if len(packages) > 0 {
		if err := s.cleanTold(ctx, packages); err != nil {
			return err
		}
	}
	s.sawBefore()
	return nil
}

// Rebuild builds once more what the first build was to build.
type Rebuild func(context.Context) (cargorun.Built, error)

// Settle takes what cargo built, and the error with which that ended. It records which build scripts came to their end, whatever
// became of the rest. After a good build it compares what could not be compared before, since only cargo knows which OUT_DIRs it
// takes, and reads the device code; what is wrong is cleaned and built again with rebuild, once. What is wrong even then is told,
// and ends with exit.Stale.
func (s *State) Settle(ctx context.Context, built cargorun.Built, buildErr error, rebuild Rebuild) (cargorun.Built, error) {
	s.built, s.held = built, map[string]holding{}
	if buildErr != nil {
		s.keepRecord(false)
		return built, buildErr
	}
	s.findUndeclared()
	packages, err := s.compareRest(ctx)
	if err != nil {
		return built, err
	}
	s.tellAdopted(packages)
	mistakes, err := s.mistakes(ctx, s.outputs(), s.products())
	if err != nil {
		return built, err
	}
	if wrong := s.leftovers(mistakes); len(packages)+len(wrong) > 0 {
		if err := s.cleanAfter(ctx, packages, mistakes, wrong); err != nil {
			return built, err // nothing is recorded of what may not be cleaned
		}
		s.built, buildErr = rebuild(ctx)
		s.held = map[string]holding{}
		s.keepRecord(buildErr == nil)
		if buildErr != nil {
			return s.built, buildErr
		}
		if mistakes, err = s.mistakes(ctx, s.outputs(), s.products()); err != nil {
			return s.built, err
		}
	} else {
		s.keepRecord(true)
	}
	return s.built, s.judgeMistakes(mistakes)
}

// Cleaned lists the packages that were cleaned.
func (s *State) Cleaned() []string {
	if s == nil {
		return nil
	}
	return sorted(s.cleaned)
}

// cleanAfter cleans after a build what its messages or its code showed to be stale.
func (s *State) cleanAfter(ctx context.Context, packages []string, mistakes []*mistake, wrong []string) error {
	wrong = slices.DeleteFunc(wrong, func(p string) bool { return slices.Contains(packages, p) })
	if len(wrong) > 0 && s.b.Options.NoClean {
		s.tellMistakes(mistakes, wrong)
	}
	if len(packages) > 0 {
		if err := s.cleanTold(ctx, packages); err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return s.cleanWrong(ctx, mistakes, wrong)
	}
	return nil
}

// Find lists the GPU packages of a build and compares nothing; the tools need not be chosen.
func Find(b Build) *State {
	s := newState(&b)
	s.record, s.recordNote = readRecord(b.Machine, b.Graph.Places)
	s.findUnits()
	return s
}
