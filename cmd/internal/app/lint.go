package app

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// answered is one question and its answer.
type answered struct {
	Package string   `json:"package"`
	Feature string   `json:"feature"`
	Decided bool     `json:"decided"`
	Stops   bool     `json:"stops"`
	By      string   `json:"by,omitempty"`   // manifests, or what cargo answered with
	Open    []string `json:"open,omitempty"` // why it is not decided here

	findings []features.Finding
	request  manifest.Request
	member   *manifest.Package
	typed    bool // the command line's own question: asked of cargo as it stands
}

// runManifests is features --manifest-only: the feature edges between members and to GPU crates, from manifests alone. No cargo, no network, nothing is run.
func (a *app) runManifests(ctx context.Context, o Options, l cargo.Line) error {
	j := &journey{app: a, options: o, Line: l, Tools: tools.Tools{Env: a.Host.Env}}
	if err := j.openProject(); err != nil {
		return err
	}
	j.speakLike(l)
	check, err := features.NewEdgeCheck(j.Host, j.Project)
	if err != nil {
		return err
	}
	list, err := j.questions(true)
	if err != nil {
		return err
	}
	for _, q := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if q.Open = j.Project.Doubts; len(q.Open) > 0 {
			continue
		}
		q.Decided, q.By = true, "manifests"
		q.findings = check.Of(manifest.Question{Package: q.member, Feature: q.Feature})
		for i := range q.findings {
			if f := &q.findings[i]; f.Severity == features.Warning { // nothing else will judge it
				f.Severity, q.Stops = features.Error, true
			}
		}
	}
	return j.tellAnswers(list, nil, nil)
}

// questions lists what is to be answered: with features on the command line that build or, where each member is asked for itself, those features of the
// selected members; without them every member's GPU features.
func (j *journey) questions(each bool) ([]*answered, error) {
	var list []*answered
	r := j.request()
	if !each && (len(r.Features) > 0 || r.AllFeatures) {
		name := strings.Join(r.Features, ",")
		if r.AllFeatures {
			name = "all features"
		}
		selected, _ := j.Project.Selection(r)
		var names []string
		for _, p := range selected {
			names = append(names, p.Name)
		}
		return []*answered{{Package: strings.Join(names, ", "), Feature: name, typed: true}}, nil
	}
	asked := j.Project.Questions(r.GPUFeatures)
	if len(r.Packages) > 0 || r.Workspace {
		selected, known := j.Project.Selection(r)
		if !known {
			return nil, &usageError{"-p names no member of the workspace: " + strings.Join(r.Packages, ", "), "see the members in " + j.Shown(j.Project.RootManifest)}
		}
		asked = slices.DeleteFunc(asked, func(q manifest.Question) bool { return !slices.Contains(selected, q.Package) })
	}
	if len(r.Features) > 0 {
		asked = slices.DeleteFunc(asked, func(q manifest.Question) bool { return !r.Names(q.Feature) })
	}
	for _, q := range asked {
		one := manifest.Request{Features: []string{q.Feature}, GPUFeatures: r.GPUFeatures, NoDefault: r.NoDefault, Targets: r.Targets}
		list = append(list, &answered{Package: q.Package.Name, Feature: q.Feature, request: one, member: q.Package})
	}
	if len(list) == 0 && len(j.Project.Doubts) > 0 { // there may be members that were not found
		list = append(list, &answered{Feature: "cuda", Open: j.Project.Doubts})
	}
	return list, nil
}

// tellAnswers prints or writes what came of the questions, and ends with 10 where one of them is an alarm.
func (j *journey) tellAnswers(list []*answered, extra []features.Finding, done []mended) error {
	stops, decided := false, 0
	seen := map[string]bool{}
	var all []features.Finding
	take := func(fs []features.Finding) {
		for _, f := range fs {
			if f.Severity == features.Note && f.ID != features.IDPropagation && !j.Shell.Verbose {
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
	var found []finding.Finding
	for _, f := range features.PerLine(j.Project, all) {
		found = append(found, j.placed(f.Finding))
	}
	if j.options.JSON == nil {
		for _, m := range done {
			if _, err := io.WriteString(j.Shell.Out, m.Diff); err != nil {
				return err
			}
		}
		for _, f := range found {
			j.Shell.Finding(f)
		}
		for _, q := range list {
			if !q.Decided {
				j.Shell.Note("not decided here: `%s`%s: %s", q.Feature, of(q.Package), strings.Join(q.Open, "; "))
			}
		}
		j.Shell.Status("Checked", "%d GPU features of the workspace's members, %d decided", len(list), decided)
	}
	r := report.Result{Verb: "features-lint", Project: j.Shown(j.Project.Manifest), Findings: found}
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

// runLint is features --lint: every member's GPU features, as cargo answers them; with --fix the faults are mended.
func (a *app) runLint(ctx context.Context, o Options, l cargo.Line) error {
	j := &journey{app: a, options: o, Line: l, Tools: tools.Tools{Env: a.Host.Env}}
	opened, err := session.OpenOrRefuse(ctx, a.Machine, l)
	if err != nil {
		return err
	}
	j.opened(opened)
	j.speakLike(j.Line)
	list, err := j.questions(false)
	if err != nil {
		return err
	}
	var done []mended
	plan := &planned{}
	for _, q := range list {
		if len(q.Open) > 0 {
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
			q.Open = []string{"cargo refuses the question: " + firstLine(err)} // for an old lock file or want of a network
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
	check, err := features.NewEdgeCheck(j.Host, j.Project)
	if err != nil {
		return err
	}
	return j.tellAnswers(list, check.All(j.Config.GPUFeatures.Value), done)
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
	words = append(words, "build", "--manifest-path", q.member.Manifest)
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
