package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// Outcomes of a fix.
const (
	Kept    = "kept"
	Refused = "refused" // cargo says that it does not help: the old files are back
	Planned = "planned" // by a dry run: cargo was not asked
)

// Fix is what became of one finding's edits.
type Fix struct {
	Finding string      `json:"finding"`
	Edits   []edit.Edit `json:"edits"`
	Outcome string      `json:"outcome"`
	Why     string      `json:"why,omitempty"`
	Diff    string      `json:"diff,omitempty"`
}

// FixOptions say what is fixed.
type FixOptions struct {
	Strict bool
	DryRun bool // nothing is written, and cargo is not asked whether it helps
	Lint   bool // nobody asked for these builds
}

// maxFixes is enough: one fix may show the next fault; a workspace that asks for more is asked about again.
const maxFixes = 100

// Fixer writes missing edges into the manifests of a workspace, for one build after another.
type Fixer struct {
	machine *session.Machine
	options FixOptions
	fixes   []Fix
	tried   map[string]bool // edits
	// of a dry run: the manifests as they would be, and their paths in the order of the fixes
	texts   map[string][]byte
	order   []string
	project *manifest.Project
}

// NewFixer begins with no fix.
func NewFixer(m *session.Machine, o FixOptions) *Fixer {
	return &Fixer{machine: m, options: o, tried: map[string]bool{}, texts: map[string][]byte{}}
}

// Fixes are all of them, the first with the diff of a dry run; never nil.
func (f *Fixer) Fixes() []Fix {
	out := append([]Fix{}, f.fixes...)
	for _, path := range f.order {
		out[0].Diff += edit.Diff(diffName(f.machine.Host, f.project, path), f.project.Text(path), f.texts[path])
	}
	return out
}

// Fix writes the edits of each finding of a build and asks cargo for the build's graph again: a fix stands only if every crate that it is
// about is on now, else the old files come back. It returns the build as it is afterwards.
func (f *Fixer) Fix(ctx context.Context, line cargo.Line) (Judged, error) {
	s, err := session.Open(f.machine, line)
	if err != nil {
		return Judged{}, err
	}
	if !f.options.DryRun {
		release, err := f.lockManifests(ctx, s)
		if err != nil {
			return Judged{}, err
		}
		defer release()
	}
	for n := 0; n < maxFixes; n++ {
		list, j, err := f.faults(ctx, line, s)
		fault := f.next(s.Project, list)
		if fault == nil {
			return j, err
		}
		f.tried[fmt.Sprintf("%#v", fault.Edits)] = true
		fix := Fix{Finding: fault.Message, Edits: fault.Edits, Outcome: Planned}
		undo, err := f.write(s, &fix)
		if err != nil {
			return j, err
		}
		if !f.options.DryRun {
			now, err := Open(ctx, s.Quiet().Machine, line, Options{Write: true, lint: f.options.Lint})
			switch {
			case ctx.Err() != nil:
				return j, errors.Join(ctx.Err(), undo())
			case err != nil:
				fix.Why = "cargo does not accept it: " + cargo.FirstLine(err)
			default:
				fix.Why = unhelpful(now, *fault)
			}
			if fix.Outcome = Kept; fix.Why != "" {
				fix.Outcome = Refused
				if err := undo(); err != nil {
					return j, err
				}
				f.machine.Shell.Warning("%s: no fix: %s", f.machine.Shown(fault.Edits[0].Manifest), fix.Why)
			}
		}
		f.fixes = append(f.fixes, fix)
		for _, e := range fix.Edits {
			if fix.Outcome == Kept {
				f.machine.Shell.Status("Updated", "%s: %s", f.machine.Shown(e.Manifest), e)
			}
		}
		if s, err = session.Open(f.machine, line); err != nil {
			return j, err
		}
	}
	return Open(ctx, f.machine, line, Options{Strict: f.options.Strict, lint: f.options.Lint})
}

// faults are those of a build as it is now. Where cargo refuses it, they are the edges that it refuses, which only together help, or what
// a build without the features lacks that nobody declares.
func (f *Fixer) faults(ctx context.Context, line cargo.Line, s *session.Session) ([]features.Finding, Judged, error) {
	j, err := Open(ctx, f.machine, line, Options{Strict: f.options.Strict, AsIs: true, Edges: true, lint: f.options.Lint})
	var list []features.Finding
	switch _, refused := errors.AsType[*cargo.RefusedError](err); {
	case refused:
		list = suspected(ctx, s, err)
	case err != nil:
		return nil, j, err
	default:
		if list = slices.Clone(j.Reach.Findings); j.Reach.Unknown == "" {
			return list, j, nil
		}
	}
	for len(list) > 1 && list[1].ID == list[0].ID && !list[0].Choice() && !list[1].Choice() {
		list[0].Edits, list[0].Lacks = slices.Concat(list[0].Edits, list[1].Edits), slices.Concat(list[0].Lacks, list[1].Lacks)
		list = slices.Delete(list, 1, 2)
	}
	return list, j, err
}

// next is the first finding that edges of this workspace fix and that was not tried; then one of a feature that enables nothing, which is a
// note until the build has shown it: the fix of another finding may be all that it lacks, which a dry run does not ask.
func (f *Fixer) next(p *manifest.Project, list []features.Finding) (next *features.Finding) {
	for i := range list {
		fault := &list[i]
		certain := fault.Severity != features.Note
		if !fixable(p, *fault) || f.tried[fmt.Sprintf("%#v", fault.Edits)] || !certain && fault.ID != features.IDUndecided {
			continue
		}
		if certain {
			return fault
		}
		if next == nil && !(f.options.DryRun && len(f.fixes) > 0) {
			next = fault
		}
	}
	return next
}

// lockManifests keeps a second gpubuild from fixing the same workspace.
func (f *Fixer) lockManifests(ctx context.Context, s *session.Session) (release func(), err error) {
	m := f.machine
	dir := m.Host.Join(m.CacheDir, "locks")
	if err := cache.Make(dir); err != nil {
		return nil, err
	}
	free, err := cache.Lock(ctx, m.Host.Join(dir, "fix-"+cache.Name(m.Host.Real(s.Project.Root))), func(holder string) {
		m.Shell.Status("Blocking", "waiting for another gpubuild that fixes these manifests (%s)", holder)
	})
	if err != nil {
		return nil, err
	}
	return func() {
		if err := free(); err != nil {
			m.Shell.Warning("lock of the manifests: %v", err)
		}
	}, nil
}

// diffName is a manifest's path below the workspace root, with slashes, as patch and git apply take it there.
func diffName(h buildenv.Host, p *manifest.Project, path string) string {
	if h.Below(path, p.Root) {
		path = path[len(h.Clean(p.Root)):]
	}
	return strings.Trim(strings.ReplaceAll(path, `\`, "/"), "/")
}

// write writes the edited manifests, each to a new file that is renamed; undo brings the old ones back, and Cargo.lock. A manifest that
// is no longer what was judged is somebody else's: the error is a *cache.ChangedError. A dry run only keeps the texts.
func (f *Fixer) write(s *session.Session, fix *Fix) (undo func() error, err error) {
	h := s.Machine.Host
	before, after, order := map[string][]byte{}, map[string][]byte{}, []string{}
	for _, e := range fix.Edits {
		if _, known := after[e.Manifest]; !known {
			order, before[e.Manifest] = append(order, e.Manifest), s.Project.Text(e.Manifest)
			if after[e.Manifest] = before[e.Manifest]; f.texts[e.Manifest] != nil {
				after[e.Manifest] = f.texts[e.Manifest]
			}
		}
		if after[e.Manifest], err = edit.AddEdges(after[e.Manifest], e); err != nil {
			return nil, err
		}
	}
	for _, path := range order { // all are looked at before the first is written
		real := h.Real(path)
		fi, err := h.Files.Stat(real)
		within := h.Real(s.Project.Root)
		if !h.Below(path, s.Project.Root) { // a member elsewhere names the workspace itself, in its manifest
			within = h.Real(h.Dir(path))
		}
		switch {
		case !s.Project.IsMember(s.Project.Package(path)):
			return nil, fmt.Errorf("%s is no member of the workspace", s.Machine.Shown(path))
		case err != nil:
			return nil, err
		case !h.Below(real, within):
			return nil, fmt.Errorf("%s is a link to %s, which is outside the workspace", s.Machine.Shown(path), real)
		case fi.Mode().Perm()&0o200 == 0 && !f.options.DryRun:
			return nil, fmt.Errorf("%s is read-only", real)
		}
	}
	if f.options.DryRun {
		for _, path := range order {
			if f.texts[path] == nil {
				f.order = append(f.order, path)
			}
			f.texts[path], f.project = after[path], s.Project
		}
		return func() error { return nil }, nil
	}
	restore, err := s.LockFile()
	if err != nil {
		return nil, err
	}
	var written []string
	undo = func() error {
		var errs []error
		for _, path := range written {
			err := replace(h, path, after[path], before[path])
			if err != nil {
				err = fmt.Errorf("%w; gpubuild's own change, which does not help, is still in it: %v", err, fix.Edits)
			}
			errs = append(errs, err)
		}
		return errors.Join(append(errs, restore())...)
	}
	for _, path := range order {
		if err := replace(h, path, before[path], after[path]); err != nil {
			return nil, errors.Join(err, undo())
		}
		written = append(written, path)
	}
	return undo, nil
}

func replace(h buildenv.Host, path string, old, text []byte) error {
	real := h.Real(path)
	fi, err := h.Files.Stat(real)
	if err != nil {
		return err
	}
	return cache.Replace(real, old, text, fi.Mode().Perm())
}

// unhelpful says why a fix did not help; empty when every crate that it is about is on now.
func unhelpful(now Judged, f features.Finding) string {
	for _, l := range f.Lacks {
		on := now.Graph.Units != nil && slices.ContainsFunc(now.Graph.Units.Units, func(u graph.Unit) bool {
			return !u.Host() && l.Of(manifest.ParsePkgID(u.PkgID)) && l.On(u.Features)
		})
		if !on {
			return fmt.Sprintf("cargo was asked again, and %s is still off", l)
		}
	}
	for _, g := range now.Reach.Findings {
		if g.ID == f.ID && g.Root == f.Root && g.Message == f.Message {
			return "cargo was asked again, and nothing has changed"
		}
	}
	return ""
}
