// Package fresh decides what of a target directory is stale although cargo considers it fresh: what was built with another toolkit, host
// compiler, architecture, variable or header than a build would use now. It asks cargo to remove just that, and warns after the build
// of device code that the chosen nvcc did not make.
//
// A package takes part if the catalog shows that it uses the toolkit or a requested feature may have it do so (features.Reach.Units), if
// gpubuild.toml names it, or if its build script left device code in its OUT_DIR or linked a library of CUDA. An OUT_DIR is up to date if
// the stamp next to it names today's inputs and the content that it has; everything else is rebuilt, once.
//
// It owns the stamps. It never starts a build itself and never removes anything below a target directory but through `cargo clean`.
//
// Limits: which OUT_DIR cargo takes, only cargo knows. Before a build those are compared that have a stamp for the features of the build,
// and after it every one that cargo named. A cargo that runs a script and ends between our look and our own cargo's lock goes unnoticed.
// `cargo clean` knows packages by name alone: one of a registry that has the name of a stale local one is cleaned, too (cargo 1.95).
package fresh

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// Build is what a check is about.
type Build struct {
	Machine *session.Machine
	Tool    cargo.Tool
	Line    cargo.Line
	Project *manifest.Project
	Graph   session.Graph
	Reach   *features.Reach
	Named   []string    // packages that gpubuild.toml names
	Tools   tools.Tools // zero before the tools are chosen
	Options Options
}

// Options are the user's wishes.
type Options struct {
	NoClean    bool // --gpu-no-clean
	ForceClean bool // --gpu-force-clean
}

// State is what is known of a target directory. Each step returns a new one.
type State struct {
	b        Build
	read     *reader
	packages []Package // the GPU packages of this build
	outs     []outDir  // the OUT_DIRs that were compared
	before   map[string]Before
	cleaned  []string          // packages that were cleaned in this run
	found    []finding.Finding // besides what is stale
	noted    []string          // notes of this build
	earlier  []string          // what was stale before the build
	again    bool              // it is the second build of this run
}

// Before is what was known of an OUT_DIR before a build.
type Before struct {
	Ran    int64 `json:"ran"`
	Agreed bool  `json:"agreed"`
}

// Before is what was known of each OUT_DIR as cargo began.
func (s *State) Before() map[string]Before { return s.before }

// Lock keeps a second gpubuild out of a target directory until release is called, which may be done twice. The lock lies in our cache: a
// target directory that we made would lack what cargo puts into its own (CACHEDIR.TAG).
func Lock(ctx context.Context, m *session.Machine, places cargo.Places) (release func(), err error) {
	path := m.Host.Join(m.CacheDir, "locks", cache.Name(m.Host.Real(places.BuildDirectory)))
	if err := cache.Make(m.Host.Dir(path)); err != nil {
		if _, readOnly := errors.AsType[*cache.ReadOnlyError](err); !readOnly {
			return nil, err
		}
		m.Shell.Warning("%v: no kernel is cached, and a second gpubuild is not kept out of this target directory", err)
		return func() {}, nil
	}
	free, err := cache.Lock(ctx, path, func(holder string) {
		m.Shell.Status("Blocking", "waiting for another gpubuild on this target directory (%s)", holder)
	})
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		if err := free(); err != nil {
			m.Shell.Warning("lock of the target directory: %v", err)
		}
	}), nil
}

// Inspect compares what the GPU packages were built with to what they would be built with now, and changes nothing. Call it under Lock.
func Inspect(b Build) *State {
	s := find(b)
	s.compare()
	return s
}

// Incomplete returns an error if not all of a directory was looked at: nothing is known to be up to date then.
func (s *State) Incomplete() error {
	if len(s.read.hashes.Incomplete) == 0 {
		return nil
	}
	return exit.Errorf(exit.Config, "move files that are no sources out of it", "%s holds too many files, or some that cannot be read: "+
		"whether what is built of them is up to date is not known", strings.Join(s.read.hashes.Incomplete, ", "))
}

// find lists the GPU packages of a build and compares nothing.
func find(b Build) *State {
	s := &State{b: b, read: newReader(b)}
	s.packages = s.findPackages()
	return s
}

// Clean has cargo remove the packages that are stale, and says why. It is the last step before the build.
func (s *State) Clean(ctx context.Context) (*State, error) {
	s.WarnUnidentified()
	packages := s.stalePackages()
	if s.b.Options.ForceClean {
		packages = s.Packages()
	}
	next := *s
	if len(packages) > 0 {
		if err := s.clean(ctx, packages); err != nil {
			return s, err
		}
		next.cleaned = manifest.Union(s.cleaned, packages)
	} else if s.b.Options.NoClean {
		if err := s.Incomplete(); err != nil { // it asks whether anything is stale, and that is not known
			return s, err
		}
	}
	next.earlier = s.Lines()
	next.before = next.seen()
	return &next, nil
}

// Rebuild builds once more what the first build was to build.
type Rebuild func(context.Context) (cargorun.Built, error)

// RecordAndVerify takes what cargo built, and the error with which that ended. It writes the stamps of what was built well, after a failed
// build, too: a mistake in the user's own code must not cost the kernels that were compiled before it. It compares what only cargo's
// messages show, and reads the device code; what is in doubt is cleaned and built again with rebuild, once. After a failed build that is
// done only where an OUT_DIR has no stamp: what was lost from it may be why.
func (s *State) RecordAndVerify(ctx context.Context, built cargorun.Built, failed error, rebuild Rebuild) (*State, cargorun.Built, error) {
	next := s.after(built)
	unrecorded := func(o outDir) bool { return o.state != agrees && !o.stamped }
	if failed != nil && (built.Interrupted || !slices.ContainsFunc(next.outs, unrecorded)) {
		next.keepFailed(built)
		return next, built, failed
	}
	if packages := next.stalePackages(); len(packages) > 0 {
		if err := next.clean(ctx, packages); err != nil {
			return next, built, err // no stamp is written of what may not be cleaned
		}
		cleaned := *next
		cleaned.cleaned, cleaned.earlier = manifest.Union(next.cleaned, packages), next.Lines()
		cleaned.before, cleaned.again = cleaned.seen(), true
		built, failed = rebuild(ctx)
		next = cleaned.after(built)
		if failed != nil {
			next.keepFailed(built)
			return next, built, failed
		}
		if len(next.stalePackages()) > 0 {
			return next, built, next.stillStale()
		}
	}
	return next, built, nil
}

// stillStale says that something changed again while it was built.
func (s *State) stillStale() error {
	for _, l := range s.current() {
		s.b.Machine.Shell.Error("%s", l)
	}
	s.b.Machine.Shell.Hint("another cargo works in " + s.b.Machine.Shown(s.b.Graph.Places.BuildDirectory) + "; end it and build again")
	return exit.Code(exit.Stale)
}

// Cleaned lists the packages that were cleaned.
func (s *State) Cleaned() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(slices.Values(s.cleaned))
}

// Findings are those besides what is stale.
func (s *State) Findings() []finding.Finding {
	if s == nil {
		return nil
	}
	return s.found
}

// Packages lists the GPU packages of the selection, as far as they are known.
func (s *State) Packages() []string {
	set := map[string]bool{}
	for _, p := range s.packages {
		set[p.Name] = true
	}
	return sorted(set)
}

// stalePackages lists what must be cleaned.
func (s *State) stalePackages() []string {
	set := map[string]bool{}
	for _, o := range s.outs {
		if o.state != agrees {
			set[o.pkg.Name] = true
		}
	}
	return sorted(set)
}

// Lines words what was found, before the build too, one line for each change.
func (s *State) Lines() []string {
	if s == nil {
		return nil
	}
	said := func(line string) bool { return slices.Contains(s.earlier, line) }
	return append(slices.Clip(s.earlier), slices.DeleteFunc(s.current(), said)...)
}

// current words what differs now.
func (s *State) current() []string {
	lines := stale.Lines(s.Reasons())
	for _, d := range s.doubts() {
		lines = append(lines, d.String())
	}
	return lines
}

// doubts lists once each what is not known.
func (s *State) doubts() []Doubt {
	out := []Doubt{}
	for _, o := range s.outs {
		if d := (Doubt{o.pkg.Name, o.why}); o.state == unknown && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// Reasons lists what differs.
func (s *State) Reasons() []stale.Reason {
	out, seen := []stale.Reason{}, map[stale.Reason]bool{}
	for _, o := range s.outs {
		for _, r := range o.reasons {
			if !seen[r] {
				seen[r] = true
				out = append(out, r)
			}
		}
	}
	return out
}
