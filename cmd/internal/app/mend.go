package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// mended is one mend and what became of it.
type mended struct {
	Finding string      `json:"finding"`
	Edits   []edit.Edit `json:"edits"`
	Outcome string      `json:"outcome"` // kept, undone, refused; planned with --dry-run
	Why     string      `json:"why,omitempty"`
	Diff    string      `json:"diff,omitempty"`
	lock    bool        // Cargo.lock does not hold all that the edges lead to
}

const maxMends = 100 // one mend may show the next fault; a workspace that asks for more is asked about again

// mendFeatures writes the missing edges into the workspace's manifests, asks cargo after each mend, and takes back what did not help.
func (a *app) mendFeatures(ctx context.Context, o Options, l cargo.Line, plan *planned) (*journey, []mended, error) {
	if o.DryRun {
		j, err := a.lookAt(ctx, o, l) // which writes nothing at all
		if err != nil {
			return nil, nil, err
		}
		done, err := j.planMends(plan)
		return j, done, err
	}
	release, err := a.lockManifests(ctx, o, l)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	j, _, err := a.lookUnlocked(ctx, o, l)
	if err != nil {
		return nil, nil, err
	}
	var done []mended
	tried := map[string]bool{}
	for n := 0; n < maxMends; n++ {
		f := nextMend(j.reach, tried, o)
		if f == nil {
			break
		}
		tried[mendKey(*f)] = true
		m, after, err := j.mend(ctx, *f)
		done = append(done, m)
		if err != nil {
			return j, done, err
		}
		switch m.Outcome {
		case "kept":
			for _, e := range m.Edits {
				a.Shell.Status("Mended", "%s: %s", a.Shown(e.Manifest), e)
			}
			j = after
		default:
			a.Shell.Warning("%s: the mend is %s: %s", a.Shown(f.Edits[0].Manifest), m.Outcome, m.Why) // the finding itself follows
		}
	}
	return j, done, nil
}

// lockManifests keeps a second gpubuild from mending the same workspace, and clears away what a killed one left beside the manifests.
func (a *app) lockManifests(ctx context.Context, o Options, l cargo.Line) (release func(), err error) {
	j := &journey{app: a, options: o, Line: l, Tools: tools.Tools{Env: a.Host.Env}}
	opened, err := session.OpenOrRefuse(ctx, a.Machine, l)
	if err != nil {
		return nil, err
	}
	j.opened(opened)
	dir := j.Host.Join(j.CacheDir, "locks")
	if err := cache.Make(dir); err != nil {
		return nil, err
	}
	free, err := cache.Lock(ctx, j.Host.Join(dir, "mend-"+cache.Name(j.Host.Real(j.Project.Root))), func(holder string) {
		j.Shell.Status("Blocking", "waiting for another gpubuild that mends these manifests (%s)", holder)
	})
	if err != nil {
		return nil, err
	}
	for _, m := range append([]*manifest.Package{{Manifest: j.Project.RootManifest}}, j.Project.Members...) {
		if err := cache.Leftovers(j.Host.Real(m.Manifest)); err != nil {
			j.Shell.Warning("what an earlier run left beside %s: %v", j.Shown(m.Manifest), err)
		}
	}
	return func() {
		if err := free(); err != nil {
			j.Shell.Warning("lock of the manifests: %v", err)
		}
	}, nil
}

// tellLock says once that the lock file is to be brought up to date.
func (j *journey) tellLock(done []mended) {
	lock := false
	for _, m := range done {
		if m.Outcome == "kept" {
			lock = m.lock
		}
	}
	if lock {
		j.Shell.Warning("%s does not hold what the manifests lead to; it is left as it was: `cargo update --workspace` mends it", j.Shown(j.Project.LockPath))
	}
}

func mendKey(f features.Finding) string {
	key := f.ID + "\x00" + f.Root + "\x00" + f.Message
	for _, e := range f.Edits {
		key += "\x00" + e.Manifest + "\x00" + e.String()
	}
	return key
}

// nextMend is the first fault that edges of this workspace can mend and that was not tried.
func nextMend(answer *features.Answer, tried map[string]bool, o Options) *features.Finding {
	for i := range answer.Findings {
		f := &answer.Findings[i]
		if toMend(*f, o) && !tried[mendKey(*f)] {
			return f
		}
	}
	return nil
}

// toMend says whether edges of this workspace mend a finding. A feature that gates code and leaves a GPU crate off is no fault for sure: it is mended
// where somebody asked about that build, and left alone where every member is looked at.
func toMend(f features.Finding, o Options) bool {
	return len(f.Edits) > 0 && (f.Severity != features.Note || f.ID == features.IDUndecided && !o.Lint)
}

// planned is what the mends of one run would make of the manifests: each begins with what the ones before it leave.
type planned struct {
	now, old map[string][]byte
	order    []string
	seen     map[string]bool
}

// tell gives the first mend the diff of all of them, one a file.
func (p *planned) tell(j *journey, done []mended) {
	var b strings.Builder
	for _, path := range p.order {
		if data, ok := p.now[path]; ok {
			b.WriteString(edit.Diff(j.diffName(path), p.old[path], data))
		}
	}
	if len(done) > 0 && b.Len() > 0 {
		done[0].Diff = b.String()
	}
}

// planMends says what would be written; nothing is, so cargo cannot be asked whether it would help.
func (j *journey) planMends(p *planned) ([]mended, error) {
	if p.now == nil {
		*p = planned{now: map[string][]byte{}, old: map[string][]byte{}, seen: map[string]bool{}}
	}
	var done []mended
	for _, f := range j.reach.Findings {
		if !toMend(f, j.options) || p.seen[mendKey(f)] {
			continue
		}
		p.seen[mendKey(f)] = true
		m := mended{Finding: f.Message, Edits: f.Edits, Outcome: "planned"}
		next := map[string][]byte{}
		for _, e := range f.Edits {
			data, ok := next[e.Manifest]
			if !ok {
				data, ok = p.now[e.Manifest]
			}
			if !ok {
				var err error
				if data, err = j.Host.ReadFile(e.Manifest, manifestLimit); err != nil {
					return done, err
				}
				if _, known := p.old[e.Manifest]; !known {
					p.order = append(p.order, e.Manifest)
				}
				p.old[e.Manifest] = data
			}
			out, err := edit.AddEdges(data, e)
			if err != nil {
				m.Outcome, m.Why = "refused", err.Error()
				break
			}
			next[e.Manifest] = out
		}
		if m.Outcome == "planned" {
			for path, data := range next {
				p.now[path] = data
			}
		}
		done = append(done, m)
	}
	return done, nil
}

const manifestLimit = 16 << 20 // as features reads them

// diffName is a manifest's path below the workspace root, with slashes, as patch and git apply take it there.
func (j *journey) diffName(path string) string {
	if j.Host.Below(path, j.Project.Root) {
		path = path[len(j.Host.Clean(j.Project.Root)):]
	}
	return strings.Trim(strings.ReplaceAll(path, `\`, "/"), "/")
}

// written is one file that was changed: as it was, and as we left it.
type written struct {
	path     string // behind links
	old, now []byte
	mode     fs.FileMode
}

// mend writes the edges of one finding, asks cargo, and takes them back if the fault is still there.
func (j *journey) mend(ctx context.Context, f features.Finding) (mended, *journey, error) {
	m := mended{Finding: f.Message, Edits: f.Edits}
	var files []written
	undo := func(outcome, why string) (mended, *journey, error) {
		m.Outcome, m.Why = outcome, why
		return m, nil, j.takeBack(files)
	}
	for _, e := range f.Edits {
		w, err := j.writeEdit(e, files)
		var changed *cache.ChangedError
		if errors.As(err, &changed) {
			_, _, undone := undo("undone", err.Error())
			return m, nil, errors.Join(err, undone)
		}
		if err != nil {
			return undo("refused", err.Error())
		}
		if w != nil {
			files = append(files, *w)
		}
	}
	if len(files) == 0 {
		return undo("refused", "the edges are there already")
	}
	after, lock, err := j.lookUnlocked(ctx, j.options, j.Line)
	if err != nil {
		if ctx.Err() != nil {
			_, _, undone := undo("undone", "interrupted")
			return m, nil, errors.Join(ctx.Err(), undone)
		}
		return undo("undone", "cargo does not take it: "+firstLine(err))
	}
	if why := helped(j.reach, after.reach, f); why != "" {
		return undo("undone", why)
	}
	m.Outcome, m.lock = "kept", lock
	return m, after, nil
}

// writeEdit writes one manifest whole or not at all; nil when nothing was missing in it. One that is no longer what the answer was made from, or what
// was written into it before, is somebody else's: the error is a *cache.ChangedError.
func (j *journey) writeEdit(e edit.Edit, before []written) (*written, error) {
	if !j.Project.Member(e.Manifest) {
		return nil, fmt.Errorf("%s is no member of the workspace", e.Manifest)
	}
	path := j.Host.Real(e.Manifest)
	if dir := j.Host.Real(j.Host.Dir(e.Manifest)); !j.Host.Below(path, dir) && !j.Host.Below(path, j.Host.Real(j.Project.Root)) {
		return nil, fmt.Errorf("%s is a link to %s, which lies outside the workspace: others may have it, too", j.Shown(e.Manifest), path)
	}
	fi, err := j.Host.Files.Stat(path)
	if err != nil {
		return nil, err
	}
	old, err := j.Host.ReadFile(path, manifestLimit)
	if err != nil {
		return nil, err
	}
	read := j.Project.Text(e.Manifest)
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
func (j *journey) takeBack(files []written) error {
	var errs []error
	for i := len(files) - 1; i >= 0; i-- {
		w := files[i]
		errs = append(errs, cache.Replace(w.path, w.now, w.old, w.mode))
	}
	return errors.Join(errs...)
}

// lookUnlocked looks at the project as lookAt does, and also where Cargo.lock is not what the manifests ask for: an edge can lead to crates
// that it does not hold yet, or have been the only one to lead to some. Cargo would then write it, which our verbs never do: the lock file
// is put back as it was, and lock says so.
func (a *app) lookUnlocked(ctx context.Context, o Options, l cargo.Line) (j *journey, lock bool, err error) {
	j, err = a.lookAt(ctx, o, l)
	var refused *cargo.RefusedError
	if !errors.As(err, &refused) || l.Locked || l.Frozen {
		return j, false, err
	}
	tool, findErr := cargo.Find(a.Host, l)
	if findErr != nil {
		return nil, false, findErr
	}
	silent, machine, shell := *a, *a.Machine, *a.Shell
	shell.Err = io.Discard // cargo would tell of a lock file that is put back
	machine.Shell = &shell
	silent.Machine = &machine
	j = &journey{app: &silent, options: o, Line: l, Tool: tool, Tools: tools.Tools{Env: a.Host.Env}}
	if openErr := j.openProject(); openErr != nil || !j.Project.HasLock {
		return nil, false, err
	}
	lock, err = j.lockAsItWas(func() error {
		err := j.ask(ctx, session.Question{})
		if err == nil {
			err = j.judge()
		}
		return err
	})
	j.app = a
	return j, lock, err
}

// helped says why a mend did not help; empty when it did: the fault is gone, no other came in its place, and more is on than before.
func helped(before, after *features.Answer, f features.Finding) string {
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

func firstLine(err error) string {
	var refused *cargo.RefusedError
	text := err.Error()
	if errors.As(err, &refused) {
		text = strings.TrimSpace(string(refused.Stderr))
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}
