package featurecheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// Outcomes of a fix.
const (
	Kept    = "kept"
	Undone  = "undone"
	Refused = "refused"
	Planned = "planned" // by a dry run
)

// Fix is what became of one finding's edits.
type Fix struct {
	Finding string      `json:"finding"`
	Edits   []edit.Edit `json:"edits"`
	Outcome string      `json:"outcome"`
	Why     string      `json:"why,omitempty"`
	Diff    string      `json:"diff,omitempty"`
	lock    bool        // Cargo.lock does not hold all that the edits lead to
}

// FixOptions say what is fixed.
type FixOptions struct {
	Strict bool
	DryRun bool // nothing is written
	// Certain leaves alone what may be meant: a feature that only switches code on and leaves a GPU crate off. It is for those who look at
	// every member; who asks about one build means it.
	Certain bool
}

const (
	maxFixes      = 100      // one fix may show the next fault; a workspace that asks for more is asked about again
	manifestLimit = 16 << 20 // as features reads them
)

// Fixer writes missing edges into the manifests of a workspace, for one build after another.
type Fixer struct {
	machine *session.Machine
	options FixOptions
	fixes   []Fix
	plan    planned
}

// NewFixer begins with no fix.
func NewFixer(m *session.Machine, o FixOptions) *Fixer {
	return &Fixer{machine: m, options: o, plan: planned{now: map[string][]byte{}, old: map[string][]byte{}, seen: map[string]bool{}}}
}

// Fix writes the missing edges of one build, asks cargo after each finding's, and takes back those that did not help. It answers the build
// as it is after that.
func (f *Fixer) Fix(ctx context.Context, line cargo.Line) (Judged, error) {
	if f.options.DryRun {
		j, err := Open(ctx, f.machine, line, Options{Strict: f.options.Strict}) // which writes nothing at all
		if err != nil {
			return j, err
		}
		return j, f.planFixes(j)
	}
	release, err := f.lockManifests(ctx, line)
	if err != nil {
		return Judged{}, err
	}
	defer release()
	j, _, err := f.open(ctx, line)
	if err != nil {
		return j, err
	}
	tried := map[string]bool{}
	for n := 0; n < maxFixes; n++ {
		fault := f.next(j.Answer, tried)
		if fault == nil {
			break
		}
		tried[fixKey(*fault)] = true
		fix, after, err := f.apply(ctx, j, *fault)
		f.fixes = append(f.fixes, fix)
		if err != nil {
			return j, err
		}
		if fix.Outcome == Kept {
			for _, e := range fix.Edits {
				f.machine.Shell.Status("Mended", "%s: %s", f.machine.Shown(e.Manifest), e)
			}
			j = after
			continue
		}
		// The finding itself follows.
		f.machine.Shell.Warning("%s: the mend is %s: %s", f.machine.Shown(fault.Edits[0].Manifest), fix.Outcome, fix.Why)
	}
	return j, nil
}

// Fixes are all of them, the first with the diff of a dry run; never nil.
func (f *Fixer) Fixes(p *manifest.Project) []Fix {
	var b strings.Builder
	for _, path := range f.plan.order {
		if data, ok := f.plan.now[path]; ok {
			b.WriteString(edit.Diff(diffName(f.machine.Host, p, path), f.plan.old[path], data))
		}
	}
	out := append([]Fix{}, f.fixes...)
	if len(out) > 0 && b.Len() > 0 {
		out[0].Diff = b.String()
	}
	return out
}

// LockLags says whether Cargo.lock does not hold what the manifests lead to after the fixes.
func (f *Fixer) LockLags() bool {
	lags := false
	for _, fix := range f.fixes {
		if fix.Outcome == Kept {
			lags = fix.lock
		}
	}
	return lags
}

// lockManifests keeps a second gpubuild from fixing the same workspace, and clears away what a killed one left beside the manifests.
func (f *Fixer) lockManifests(ctx context.Context, line cargo.Line) (release func(), err error) {
	m := f.machine
	s, err := session.OpenOrRefuse(ctx, m, line)
	if err != nil {
		return nil, err
	}
	dir := m.Host.Join(m.CacheDir, "locks")
	if err := cache.Make(dir); err != nil {
		return nil, err
	}
	free, err := cache.Lock(ctx, m.Host.Join(dir, "mend-"+cache.Name(m.Host.Real(s.Project.Root))), func(holder string) {
		m.Shell.Status("Blocking", "waiting for another gpubuild that mends these manifests (%s)", holder)
	})
	if err != nil {
		return nil, err
	}
	for _, p := range append([]*manifest.Package{{Manifest: s.Project.RootManifest}}, s.Project.Members...) {
		if err := cache.Leftovers(m.Host.Real(p.Manifest)); err != nil {
			m.Shell.Warning("what an earlier run left beside %s: %v", m.Shown(p.Manifest), err)
		}
	}
	return func() {
		if err := free(); err != nil {
			m.Shell.Warning("lock of the manifests: %v", err)
		}
	}, nil
}

func fixKey(f features.Finding) string {
	key := f.ID + "\x00" + f.Root + "\x00" + f.Message
	for _, e := range f.Edits {
		key += "\x00" + e.Manifest + "\x00" + e.String()
	}
	return key
}

// next is the first finding that edges of this workspace fix and that was not tried.
func (f *Fixer) next(answer *features.Answer, tried map[string]bool) *features.Finding {
	for i := range answer.Findings {
		if fault := &answer.Findings[i]; f.fixable(*fault) && !tried[fixKey(*fault)] {
			return fault
		}
	}
	return nil
}

// fixable says whether edges of this workspace fix a finding, and are meant to.
func (f *Fixer) fixable(fault features.Finding) bool {
	return len(fault.Edits) > 0 && (fault.Severity != features.Note || fault.ID == features.IDUndecided && !f.options.Certain)
}

// planned is what the fixes of a dry run would make of the manifests: each begins with what the ones before it leave.
type planned struct {
	now, old map[string][]byte
	order    []string
	seen     map[string]bool
}

// planFixes says what would be written; nothing is, so cargo cannot be asked whether it would help.
func (f *Fixer) planFixes(j Judged) error {
	p := &f.plan
	for _, fault := range j.Answer.Findings {
		if !f.fixable(fault) || p.seen[fixKey(fault)] {
			continue
		}
		p.seen[fixKey(fault)] = true
		fix := Fix{Finding: fault.Message, Edits: fault.Edits, Outcome: Planned}
		next := map[string][]byte{}
		for _, e := range fault.Edits {
			data, ok := next[e.Manifest]
			if !ok {
				data, ok = p.now[e.Manifest]
			}
			if !ok {
				var err error
				if data, err = f.machine.Host.ReadFile(e.Manifest, manifestLimit); err != nil {
					return err
				}
				if _, known := p.old[e.Manifest]; !known {
					p.order = append(p.order, e.Manifest)
				}
				p.old[e.Manifest] = data
			}
			out, err := edit.AddEdges(data, e)
			if err != nil {
				fix.Outcome, fix.Why = Refused, err.Error()
				break
			}
			next[e.Manifest] = out
		}
		if fix.Outcome == Planned {
			for path, data := range next {
				p.now[path] = data
			}
		}
		f.fixes = append(f.fixes, fix)
	}
	return nil
}

// diffName is a manifest's path below the workspace root, with slashes, as patch and git apply take it there.
func diffName(h buildenv.Host, p *manifest.Project, path string) string {
	if h.Below(path, p.Root) {
		path = path[len(h.Clean(p.Root)):]
	}
	return strings.Trim(strings.ReplaceAll(path, `\`, "/"), "/")
}

// written is one file that was changed: as it was, and as we left it.
type written struct {
	path     string // behind links
	old, now []byte
	mode     fs.FileMode
}

// apply writes the edges of one finding, asks cargo, and takes them back if the fault is still there.
func (f *Fixer) apply(ctx context.Context, j Judged, fault features.Finding) (Fix, Judged, error) {
	fix := Fix{Finding: fault.Message, Edits: fault.Edits}
	var files []written
	undo := func(outcome, why string) (Fix, Judged, error) {
		fix.Outcome, fix.Why = outcome, why
		return fix, Judged{}, takeBack(files)
	}
	for _, e := range fault.Edits {
		w, err := writeEdit(j.Session, e, files)
		var changed *cache.ChangedError
		if errors.As(err, &changed) {
			_, _, undone := undo(Undone, err.Error())
			return fix, Judged{}, errors.Join(err, undone)
		}
		if err != nil {
			return undo(Refused, err.Error())
		}
		if w != nil {
			files = append(files, *w)
		}
	}
	if len(files) == 0 {
		return undo(Refused, "the edges are there already")
	}
	after, lock, err := f.open(ctx, j.Session.Line)
	if err != nil {
		if ctx.Err() != nil {
			_, _, undone := undo(Undone, "interrupted")
			return fix, Judged{}, errors.Join(ctx.Err(), undone)
		}
		return undo(Undone, "cargo does not take it: "+cargo.FirstLine(err))
	}
	if why := unhelpful(j.Answer, after.Answer, fault); why != "" {
		return undo(Undone, why)
	}
	fix.Outcome, fix.lock = Kept, lock
	return fix, after, nil
}

// writeEdit writes one manifest whole or not at all; nil when nothing was missing in it. One that is no longer what the answer was made
// from, or what was written into it before, is somebody else's: the error is a *cache.ChangedError.
func writeEdit(s *session.Session, e edit.Edit, before []written) (*written, error) {
	h := s.Machine.Host
	if !s.Project.Member(e.Manifest) {
		return nil, fmt.Errorf("%s is no member of the workspace", e.Manifest)
	}
	path := h.Real(e.Manifest)
	if dir := h.Real(h.Dir(e.Manifest)); !h.Below(path, dir) && !h.Below(path, h.Real(s.Project.Root)) {
		return nil, fmt.Errorf("%s is a link to %s, which lies outside the workspace: others may have it, too", s.Machine.Shown(e.Manifest),
			path)
	}
	fi, err := h.Files.Stat(path)
	if err != nil {
		return nil, err
	}
	old, err := h.ReadFile(path, manifestLimit)
	if err != nil {
		return nil, err
	}
	read := s.Project.Text(e.Manifest)
	for _, w := range before {
		if w.path == path {
			read = w.now
		}
	}
	if !bytes.Equal(old, read) {
		return nil, &cache.ChangedError{Path: path}
	}
	now, err := edit.AddEdges(old, e)
	if err != nil || bytes.Equal(old, now) {
		return nil, err
	}
	if fi.Mode().Perm()&0o200 == 0 {
		return nil, fmt.Errorf("%s is read-only", path)
	}
	if err := cache.Replace(path, old, now, fi.Mode().Perm()); err != nil {
		return nil, err
	}
	return &written{path: path, old: old, now: now, mode: fi.Mode().Perm()}, nil
}

// takeBack puts files back as they were, the last one first, so that no manifest names what another has not. One that somebody else changed
// in the meantime is left alone and named.
func takeBack(files []written) error {
	var errs []error
	for i := len(files) - 1; i >= 0; i-- {
		w := files[i]
		errs = append(errs, cache.Replace(w.path, w.now, w.old, w.mode))
	}
	return errors.Join(errs...)
}

// open is Open also where Cargo.lock is not what the manifests ask for: an edge can lead to crates that it does not hold yet, or have been
// the only one to lead to some. Cargo would then write it, which our verbs never do: the lock file is put back as it was, and lock says so.
func (f *Fixer) open(ctx context.Context, line cargo.Line) (j Judged, lock bool, err error) {
	j, err = Open(ctx, f.machine, line, Options{Strict: f.options.Strict})
	var refused *cargo.RefusedError
	if !errors.As(err, &refused) || line.Locked || line.Frozen {
		return j, false, err
	}
	tool, findErr := cargo.Find(f.machine.Host, line)
	if findErr != nil {
		return j, false, findErr
	}
	s, openErr := session.Open(f.machine, line)
	if openErr != nil || !s.Project.HasLock {
		return j, false, err
	}
	lock, err = s.KeepLock(func() error {
		g, err := s.Graph(ctx, tool, session.Question{Silent: true}) // cargo would tell of a lock file that is put back
		if err == nil {
			j, err = Judge(s, tool, g, f.options.Strict)
		}
		return err
	})
	return j, lock, err
}

// unhelpful says why a fix did not help; empty when it did: the fault is gone, no other came in its place, and more is on than before.
func unhelpful(before, after *features.Answer, f features.Finding) string {
	for _, g := range after.Findings {
		if g.ID == f.ID && g.Root == f.Root && g.Message == f.Message {
			return "cargo was asked again, and it is still so"
		}
	}
	if after.Unsure && !before.Unsure {
		return "cargo's two answers differ after it"
	}
	if errorsOf(after) > errorsOf(before) {
		return "other faults came in its place"
	}
	if featuresOn(after) <= featuresOn(before) {
		return "no crate of the build has a feature more than before"
	}
	return ""
}

func errorsOf(answer *features.Answer) int {
	n := 0
	for _, f := range answer.Findings {
		if f.Severity == features.Error {
			n++
		}
	}
	return n
}

func featuresOn(answer *features.Answer) int {
	n := 0
	for _, r := range answer.Roots {
		for _, c := range r.Crates {
			n += len(c.Features)
			if c.On { // a crate can be on without any feature
				n++
			}
		}
	}
	return n
}
