package app

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gpubuild/cmd/internal/report"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

// answered is one question that was answered without cargo, or that was not.
type answered struct {
	Package string   `json:"package"`
	Feature string   `json:"feature"`
	Decided bool     `json:"decided"`
	Stops   bool     `json:"stops"`
	By      string   `json:"by,omitempty"`   // manifests, or what cargo answered with
	Open    []string `json:"open,omitempty"` // why it is not decided here

	findings []features.Finding
	request  features.Request
	members  []*features.Package // that are built together
	typed    bool                // the command line's own question: asked of cargo as it stands
}

// runManifests is features --manifest-only: no cargo, no network, nothing is run. It alarms where it is certain and says where it is not.
func (a *app) runManifests(ctx context.Context, o Options, l cargo.Line) error {
	j := &journey{app: a, options: o, line: l, env: a.host.Env}
	if err := j.openProject(); err != nil {
		return err
	}
	if err := j.project.Refused(); err != nil { // what cargo will not build is no pass, and nothing can be said of its features
		return err
	}
	list, err := j.fromManifests(ctx)
	if err != nil {
		return err
	}
	var extra []features.Finding
	if o.Lint {
		if extra, err = j.project.Propagation(j.config.GPUFeatures.Value); err != nil {
			return err
		}
	}
	return j.tellAnswers(list, extra, nil)
}

// fromManifests answers the questions of a command line, or without features on it those of every member, from manifests and Cargo.lock.
func (j *journey) fromManifests(ctx context.Context) ([]*answered, error) {
	j.speakLike(j.line)
	list, err := j.questions()
	if err != nil {
		return nil, err
	}
	return list, j.decideAll(ctx, list, alone)
}

// alone is how long questions are answered one after another before others help: nearly all workspaces are done by then, and each helper reads the manifests anew.
const alone = 100 * time.Millisecond

// decideAll decides each question. Where it takes long (hundreds of members that pass nothing on: what one lacks, everything above it lacks, too), all processors
// take part, each with the manifests to itself, because a Project remembers what it found out.
func (j *journey) decideAll(ctx context.Context, list []*answered, alone time.Duration) error {
	var next atomic.Int64
	work := func(p *features.Project) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(list) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := j.decide(p, list[i]); err != nil {
				return err
			}
		}
	}
	errs := make([]error, max(1, min(j.host.CPUs, len(list)/16)))
	enough := make(chan struct{})
	var wait sync.WaitGroup
	for i := 1; i < len(errs); i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			select {
			case <-enough:
				return
			case <-time.After(alone):
			}
			own, err := features.Load(j.host, j.project.Manifest)
			if err == nil {
				err = work(own)
			}
			errs[i] = err
		}()
	}
	errs[0] = work(j.project)
	close(enough)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (j *journey) questions() ([]*answered, error) {
	var list []*answered
	r := j.request()
	if len(r.Features) > 0 || r.AllFeatures {
		selected, known := j.project.Selection(r)
		name := strings.Join(r.Features, ",")
		if r.AllFeatures {
			name = "all features"
		}
		if !known || len(selected) == 0 {
			return []*answered{{Feature: name, Open: []string{"the packages asked for are not among the manifests"}}}, nil
		}
		var names []string
		for _, p := range selected {
			names = append(names, p.Name)
		}
		return []*answered{{Package: strings.Join(names, ", "), Feature: name, request: r, members: selected, typed: true}}, nil
	}
	chosen := map[*features.Package]bool{}
	if len(r.Packages) > 0 || r.Workspace {
		selected, known := j.project.Selection(r)
		if !known {
			return nil, &usageError{"-p names no member of the workspace: " + strings.Join(r.Packages, ", "), "see the members in " + j.shown(j.project.RootManifest)}
		}
		for _, p := range selected {
			chosen[p] = true
		}
	}
	for _, q := range j.project.Questions(r.GPUFeatures) {
		if len(chosen) > 0 && !chosen[q.Package] {
			continue
		}
		one := features.Request{Features: []string{q.Feature}, GPUFeatures: r.GPUFeatures, NoDefault: r.NoDefault, Targets: r.Targets}
		list = append(list, &answered{Package: q.Package.Name, Feature: q.Feature, request: one, members: []*features.Package{q.Package}})
	}
	if len(list) == 0 && len(j.project.Doubts) > 0 { // there may be members that were not found
		list = append(list, &answered{Feature: "cuda", Open: j.project.Doubts})
	}
	return list, nil
}

// decide answers a question from a project's manifests, or says why that cannot be done here.
func (j *journey) decide(p *features.Project, q *answered) error {
	if len(q.Open) > 0 {
		return nil
	}
	if j.line.Toolchain != "" || len(j.line.Config) > 0 || len(j.line.Unstable) > 0 {
		q.Open = []string{"+toolchain, --config or -Z is given"}
		return nil
	}
	plan := j.plan(p, q)
	if plan == nil {
		q.Decided, q.By = true, "manifests"
		return nil
	}
	if len(plan.Open) > 0 {
		q.Open = plan.Open
		return nil
	}
	answer, err := features.Judge(j.host, features.Input{Project: p, Request: q.request, Graph: plan.Graph, Strict: j.options.Strict})
	if err != nil {
		return err
	}
	q.Decided, q.Stops, q.By = true, answer.Stops, "manifests"
	for _, f := range answer.Findings {
		f.Evidence = strings.Replace(f.Evidence, "cargo's unit graph", "manifests and Cargo.lock", 1)
		q.findings = append(q.findings, f)
	}
	return nil
}

// plan is what the question's build links; nil where it is clear without one, and no notes are to be told.
func (j *journey) plan(p *features.Project, q *answered) *features.Plan {
	if q.typed { // the only question, of j's own project
		return p.PlanSelection(q.members, q.request)
	}
	member := q.members[0]
	if p != j.project {
		if member = p.Local(member.Dir); member == nil {
			return &features.Plan{Open: []string{q.members[0].Manifest + " changed in the meantime"}}
		}
	}
	if !j.shell.Verbose && p.Clear(member, q.request) {
		return nil
	}
	return p.PlanBuild(member, q.request)
}

// tellAnswers prints or writes what came of the questions, and ends with 10 where one of them is an alarm.
func (j *journey) tellAnswers(list []*answered, extra []features.Finding, done []mended) error {
	stops, decided := false, 0
	seen := map[string]bool{}
	var all []features.Finding
	take := func(fs []features.Finding) {
		for _, f := range fs {
			if f.Severity == features.Note && f.ID != features.IDPropagation && !j.shell.Verbose {
				continue
			}
			if key := f.ID + "\x00" + f.Message + "\x00" + f.Path + "\x00" + f.Fix; !seen[key] {
				seen[key] = true
				all = append(all, f)
			}
		}
	}
	for _, q := range list {
		take(q.findings)
		stops = stops || q.Stops
		if q.Decided {
			decided++
		}
	}
	take(extra)
	for _, f := range extra {
		stops = stops || j.options.Strict && f.Severity == features.Warning
	}
	var found []report.Finding
	for _, f := range j.project.PerLine(all) {
		found = append(found, report.Finding{ID: f.ID, Severity: f.Severity, Message: f.Message, Path: j.shown(f.Path), Line: f.Line, Fix: f.Fix, Evidence: f.Evidence})
	}
	if j.options.JSON == nil {
		for _, m := range done {
			if _, err := io.WriteString(j.shell.Out, m.Diff); err != nil {
				return err
			}
		}
		for _, f := range found {
			j.shell.Finding(f)
		}
		for _, q := range list {
			if !q.Decided {
				j.shell.Note("not decided here: `%s`%s: %s", q.Feature, of(q.Package), strings.Join(q.Open, "; "))
			}
		}
		j.shell.Status("Checked", "%d GPU features of the workspace's members, %d decided", len(list), decided)
	}
	r := report.Result{Verb: "features-lint", Project: j.shown(j.project.Manifest), Findings: found}
	for _, q := range list {
		c := report.Check{ID: report.CheckReach, Name: q.Feature + of(q.Package), State: report.Passed}
		switch {
		case !q.Decided:
			c.State, c.Message = report.Skipped, "not decided here: "+strings.Join(q.Open, "; ")
		case q.Stops:
			c.State, c.Message = report.Failed, "it does not reach"
		}
		r.Checks = append(r.Checks, c)
	}
	return j.end(j.options, reachEnd(stops), r, struct {
		Questions []*answered `json:"questions"`
		Mends     []mended    `json:"mends,omitempty"`
	}{append([]*answered{}, list...), done})
}

func of(pkg string) string {
	if pkg == "" {
		return ""
	}
	return " of " + pkg
}

// runLint is features --lint: every member's GPU features. What manifests cannot decide, and every fault that they show, is asked of cargo;
// with --fix the faults are mended.
func (a *app) runLint(ctx context.Context, o Options, l cargo.Line) error {
	j := &journey{app: a, options: o, line: l, env: a.host.Env}
	if err := j.openInItsWords(ctx); err != nil {
		return err
	}
	list, err := j.fromManifests(ctx)
	if err != nil {
		return err
	}
	var done []mended
	plan := &planned{}
	for _, q := range list {
		if len(q.members) == 0 || q.Decided && !q.Stops && !faulty(q.findings) {
			continue
		}
		line, err := q.line(l)
		if err != nil {
			return err
		}
		var after *journey
		if o.Fix {
			var mends []mended
			after, mends, err = a.mendFeatures(ctx, o, line, plan)
			done = append(done, mends...)
		} else {
			after, err = a.lookAt(ctx, o, line)
		}
		var refused *cargo.RefusedError
		if errors.As(err, &refused) {
			// What manifests decided stands: cargo cannot be asked, for an old lock file or want of a network.
			why := "cargo refuses the question: " + firstLine(err)
			if q.Decided {
				a.shell.Warning("`%s` of %s is known from manifests alone; %s", q.Feature, q.Package, why)
			} else {
				q.Open = append(q.Open, why)
			}
			continue
		}
		if err != nil {
			return err
		}
		q.Decided, q.Open = !after.reach.Unsure, nil
		q.Stops, q.By, q.findings = after.reach.Stops, after.reach.Via, after.reach.Findings
		if after.reach.Unsure {
			q.Open = []string{"cargo gives two answers"}
		}
	}
	plan.tell(j, done)
	if o.Fix && !o.DryRun {
		if err := j.openProject(); err != nil { // as it is now
			return err
		}
	}
	j.tellLock(done)
	extra, err := j.project.Propagation(j.config.GPUFeatures.Value)
	if err != nil {
		return err
	}
	return j.tellAnswers(list, extra, done)
}

func faulty(list []features.Finding) bool {
	for _, f := range list {
		if f.Severity != features.Note {
			return true
		}
	}
	return false
}

// line is the question in cargo's words: the member's own manifest is named, because resolver 1 gives --features to that package only.
func (q *answered) line(l cargo.Line) (cargo.Line, error) {
	if q.typed {
		return l, nil
	}
	var words []string
	if l.Toolchain != "" {
		words = append(words, "+"+l.Toolchain)
	}
	words = append(words, "build", "--manifest-path", q.members[0].Manifest)
	for _, f := range q.request.Features {
		words = append(words, "--features", f)
	}
	for _, given := range []struct {
		is   bool
		word string
	}{{q.request.AllFeatures, "--all-features"}, {q.request.NoDefault, "--no-default-features"}, {l.Offline, "--offline"}, {l.Locked, "--locked"}, {l.Frozen, "--frozen"}, {l.Quiet, "--quiet"}} {
		if given.is {
			words = append(words, given.word)
		}
	}
	for _, t := range q.request.Targets {
		words = append(words, "--target", t)
	}
	for _, c := range l.Config {
		words = append(words, "--config", c)
	}
	out, _, err := cargo.Split(words, nil)
	return out, err
}
