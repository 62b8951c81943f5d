package app

import (
	"context"
	"errors"
	"io"
	"strings"

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
func (a *app) runManifests(_ context.Context, o Options, l cargo.Line) error {
	j := &journey{app: a, options: o, line: l, env: a.host.Env}
	if err := j.openProject(); err != nil {
		return err
	}
	if err := j.project.Refused(); err != nil { // what cargo will not build is no pass, and nothing can be said of its features
		return err
	}
	list, err := j.fromManifests()
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
func (j *journey) fromManifests() ([]*answered, error) {
	j.speakLike(j.line)
	list, err := j.questions()
	if err != nil {
		return nil, err
	}
	for _, q := range list {
		if err := j.decide(q); err != nil {
			return nil, err
		}
	}
	return list, nil
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

// decide answers a question, or says why that cannot be done here.
func (j *journey) decide(q *answered) error {
	if len(q.Open) > 0 {
		return nil
	}
	if j.line.Toolchain != "" || len(j.line.Config) > 0 || len(j.line.Unstable) > 0 {
		q.Open = []string{"+toolchain, --config or -Z is given"}
		return nil
	}
	plan := j.plan(q)
	if plan == nil {
		q.Decided, q.By = true, "manifests"
		return nil
	}
	if len(plan.Open) > 0 {
		q.Open = plan.Open
		return nil
	}
	answer, err := features.Judge(j.host, features.Input{Project: j.project, Request: q.request, Graph: plan.Graph, Strict: j.options.Strict})
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
func (j *journey) plan(q *answered) *features.Plan {
	if q.typed {
		return j.project.PlanSelection(q.members, q.request)
	}
	if !j.shell.Verbose && j.project.Clear(q.members[0], q.request) {
		return nil
	}
	return j.project.PlanBuild(q.members[0], q.request)
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
	list, err := j.fromManifests()
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
