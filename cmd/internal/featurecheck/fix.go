package featurecheck

import (
	"bytes"
	"context"
	"fmt"
	"slices"
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
	Refused = "refused" // cargo says that it does not help
	Planned = "planned" // by a dry run
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
	planned []edit.Edit // of the builds before, in a dry run
	diff    string
}

// NewFixer begins with no fix.
func NewFixer(m *session.Machine, o FixOptions) *Fixer { return &Fixer{machine: m, options: o} }

// Fix asks cargo about the edits of each finding of a build, and then writes those that help, with the Cargo.lock that belongs to them. It
// answers the build as it is afterwards.
func (f *Fixer) Fix(ctx context.Context, line cargo.Line) (Judged, error) {
	if !f.options.DryRun {
		release, err := f.lockManifests(ctx, line)
		if err != nil {
			return Judged{}, err
		}
		defer release()
	}
	j, err := Open(ctx, f.machine, line, Options{Strict: f.options.Strict})
	if err != nil {
		return j, err
	}
	now, edits := tried{Judged: j}, slices.Clone(f.planned)
	if len(edits) > 0 {
		if now, err = j.try(ctx, edits); err != nil {
			return j, err
		}
	}
	seen := map[string]bool{}
	for n := 0; n < maxFixes; n++ {
		fault := f.next(j.Session.Project, now.Answer, seen)
		if fault == nil {
			break
		}
		seen[fixKey(*fault)] = true
		fix := Fix{Finding: fault.Message, Edits: fault.Edits, Outcome: Planned}
		after, err := j.try(ctx, slices.Concat(edits, fault.Edits))
		switch {
		case ctx.Err() != nil:
			return j, ctx.Err()
		case err != nil:
			fix.Outcome, fix.Why = Refused, "cargo does not accept it: "+cargo.FirstLine(err)
		default:
			if fix.Why = unhelpful(now.Answer, after.Answer, *fault); fix.Why != "" {
				fix.Outcome = Refused
			}
		}
		if fix.Why == "" {
			now, edits = after, slices.Concat(edits, fault.Edits)
		} else {
			f.machine.Shell.Warning("%s: no fix: %s", f.machine.Shown(fault.Edits[0].Manifest), fix.Why)
		}
		f.fixes = append(f.fixes, fix)
	}
	if len(edits) == 0 {
		return j, nil
	}
	f.diff = ""
	for _, path := range now.order {
		f.diff += edit.Diff(diffName(f.machine.Host, j.Session.Project, path), j.Session.Project.Text(path), now.texts[path])
	}
	if f.options.DryRun {
		f.planned = edits
		return j, nil
	}
	if err := f.write(j.Session, now); err != nil {
		return j, err
	}
	for i := range f.fixes {
		if f.fixes[i].Outcome == Planned {
			f.fixes[i].Outcome = Kept
		}
	}
	for _, e := range edits {
		f.machine.Shell.Status("Updated", "%s: %s", f.machine.Shown(e.Manifest), e)
	}
	return now.Judged, nil
}

// Fixes are all of them, the first with the diff of a dry run; never nil.
func (f *Fixer) Fixes() []Fix {
	out := append([]Fix{}, f.fixes...)
	if len(out) > 0 && f.options.DryRun {
		out[0].Diff = f.diff
	}
	return out
}

// lockManifests keeps a second gpubuild from fixing the same workspace, and removes what a killed one left next to the manifests.
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
	free, err := cache.Lock(ctx, m.Host.Join(dir, "fix-"+cache.Name(m.Host.Real(s.Project.Root))), func(holder string) {
		m.Shell.Status("Blocking", "waiting for another gpubuild that fixes these manifests (%s)", holder)
	})
	if err != nil {
		return nil, err
	}
	for _, p := range append([]*manifest.Package{{Manifest: s.Project.RootManifest}}, s.Project.Members...) {
		if err := cache.Leftovers(m.Host.Real(p.Manifest)); err != nil {
			m.Shell.Warning("file of an earlier run next to %s: %v", m.Shown(p.Manifest), err)
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
func (f *Fixer) next(p *manifest.Project, answer *features.Answer, seen map[string]bool) *features.Finding {
	for i := range answer.Findings {
		fault := &answer.Findings[i]
		meant := fault.Severity != features.Note || fault.ID == features.IDUndecided && !f.options.Certain
		if fixable(p, *fault) && meant && !seen[fixKey(*fault)] {
			return fault
		}
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

// write writes the edited manifests and the Cargo.lock that cargo made of them. A manifest that is no longer what cargo was asked about is
// somebody else's: the error is a *cache.ChangedError, and nothing more is written.
func (f *Fixer) write(s *session.Session, t tried) error {
	h := s.Machine.Host
	for _, path := range t.order { // all are looked at before the first is written
		real := h.Real(path)
		fi, err := h.Files.Stat(real)
		switch {
		case !s.Project.Member(path):
			return fmt.Errorf("%s is no member of the workspace", s.Machine.Shown(path))
		case err != nil:
			return err
		case !h.Below(real, h.Real(h.Dir(path))) && !h.Below(real, h.Real(s.Project.Root)):
			return fmt.Errorf("%s is a link to %s, which is outside the workspace", s.Machine.Shown(path), real)
		case fi.Mode().Perm()&0o200 == 0:
			return fmt.Errorf("%s is read-only", real)
		}
	}
	for _, path := range t.order {
		real := h.Real(path)
		fi, err := h.Files.Stat(real)
		if err == nil {
			err = cache.Replace(real, s.Project.Text(path), t.texts[path], fi.Mode().Perm())
		}
		if err != nil {
			return err
		}
	}
	if !s.Project.HasLock || len(t.lock) == 0 {
		return nil
	}
	lock := h.Real(s.Project.LockPath)
	old, err := h.ReadFile(lock, manifestLimit)
	if err != nil || bytes.Equal(old, t.lock) {
		return err
	}
	return cache.Replace(lock, old, t.lock, 0o644)
}

// unhelpful says why a fix did not help; empty when it did: the fault is gone, no other came in its place, and more is on than before.
func unhelpful(before, after *features.Answer, f features.Finding) string {
	for _, g := range after.Findings {
		if g.ID == f.ID && g.Root == f.Root && g.Message == f.Message {
			return "cargo was asked again, and nothing has changed"
		}
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
