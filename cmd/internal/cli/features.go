package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

func featuresVerb() verb {
	var o Options
	return verb{
		name: "features", usage: "say whether cuda and cudnn reach the GPU crates of each binary, and why not",
		text: "gpubuild features --features cuda,cudnn -p app\ngpubuild features --features cuda --fix --dry-run\n" +
			"gpubuild features --features cuda --why candle-nn/cuda\ngpubuild features --features cuda --route\n\n" +
			"Takes cargo's selection flags as cargo writes them. Nothing is compiled. Ends 0, or 10 where a feature does not " +
			"reach.\n" +
			"--fix writes into manifests of the workspace only; Cargo.lock is left as it was. --manifest-only, the pre-commit " +
			"hook's way, runs no cargo: it\n" +
			"reads the manifests and fails where a member's GPU feature is not passed on to a direct dependency that has it. " +
			"--lint asks cargo about every member.",
		project: true,
		results: &o,
		flags: slices.Concat(
			shared(&o, "strict"),
			[]*flag{
				toggle("fix", "write the missing edges into the workspace's manifests; "+
					"each is checked by cargo and taken back if it did not help", &o.Fix),
				dryRun(&o),
				newFlag("why", cargo.Value, "CRATE[@VERSION][/FEATURE]", "say why a crate is linked, or why it has a feature or has not",
					func(v string) error { o.Why = v; return checkWhy(v) }),
				choice("graph", "dot|mermaid", "draw what leads to GPU crates", &o.Graph, graph.Dot, graph.Mermaid),
				toggle("manifest-only", "check the feature edges between members and to GPU crates from manifests alone, without cargo",
					&o.ManifestOnly),
				toggle("lint", "every member's GPU features, each as if that package were built alone", &o.Lint),
				toggle("route", "find a command line that reaches without a change to any manifest; cargo is asked about each", &o.Route),
			},
			resultFlags(&o),
		),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runFeatures(ctx, a, o, l)
		},
	}
}

func checkWhy(v string) error {
	if v == "" || strings.HasPrefix(v, "/") || strings.HasSuffix(v, "/") {
		return fmt.Errorf("%q is neither CRATE nor CRATE/FEATURE", v)
	}
	if crate, _, _ := strings.Cut(v, "/"); strings.HasPrefix(crate, "@") || strings.HasSuffix(crate, "@") {
		return fmt.Errorf("%q: a version stands behind the crate's name, as in cudarc@0.19", v)
	}
	return nil
}

func dryRun(o *Options) *flag {
	return toggle("dry-run", "change nothing: print what features --fix would write, clean remove, or ci run start", &o.DryRun)
}

func runFeatures(ctx context.Context, a *invocation, o Options, l cargo.Line) error {
	if err := o.checkFeatures(); err != nil {
		return err
	}
	a.SpeakLike(l)
	switch {
	case o.ManifestOnly:
		return a.runManifests(ctx, o, l)
	case o.Lint:
		return a.runLint(ctx, o, l)
	case o.Fix:
		return a.runFix(ctx, o, l)
	case o.Route:
		return a.runRoute(ctx, o, l)
	}
	j, err := featurecheck.Open(ctx, a.Machine, l, featurecheck.Options{Strict: o.Strict})
	switch {
	case err != nil:
		return err
	case o.Why != "":
		return a.tellWhy(o, j)
	case o.Graph != "":
		return a.draw(o, j)
	}
	if o.JSON == nil {
		if _, err := io.WriteString(a.Shell.Out, report.FeatureTable(j.Answer)); err != nil {
			return err
		}
		for _, f := range j.Findings() {
			a.Shell.Finding(f)
		}
		tellUnasked(j)
	}
	return a.endFeatures(o, j, nil)
}

// endFeatures renders what is said of the features of a build; fixes are nil unless they were asked for.
func (a *invocation) endFeatures(o Options, j featurecheck.Judged, fixes []featurecheck.Fix) error {
	r := report.ReachResult(report.Stages{
		Verb: "features", Manifest: a.Shown(j.Session.Project.Manifest), Answer: j.Answer, Asked: j.Session.Line.Features,
		Findings: j.Findings(),
	})
	var answer any = struct {
		*features.Answer
		Findings *struct{} `json:"findings,omitempty"` // the envelope has them
	}{Answer: j.Answer}
	if fixes != nil {
		answer = struct {
			*features.Answer
			Findings *struct{}          `json:"findings,omitempty"`
			Fixes    []featurecheck.Fix `json:"mends"`
		}{Answer: j.Answer, Fixes: fixes}
	}
	return a.end(o, reachEnd(j.Answer.Stops), r, answer)
}

// checkFeatures refuses flags of `features` that say nothing together.
func (o Options) checkFeatures() error {
	if o.Graph != "" && o.JSON != nil {
		return &usageError{"--graph prints a drawing and has no JSON", "gpubuild features --json has the paths"}
	}
	if o.DryRun && !o.Fix {
		return &usageError{"--dry-run belongs to --fix", "gpubuild features --fix --dry-run"}
	}
	n := 0
	for _, given := range []bool{o.Fix, o.Why != "", o.Graph != "", o.Route} {
		if given {
			n++
		}
	}
	switch {
	case n > 1:
		return &usageError{"--fix, --route, --why and --graph are questions of their own", "ask one of them"}
	case o.ManifestOnly && n > 0:
		return &usageError{"--manifest-only asks no cargo, and --fix, --route, --why and --graph need one", "leave --manifest-only out"}
	case o.Lint && n > 0 && !o.Fix:
		return &usageError{"--lint is about every member, --route, --why and --graph about one build", "leave --lint out"}
	}
	return nil
}

// tellWhy is features --why.
func (a *invocation) tellWhy(o Options, j featurecheck.Judged) error {
	crate, feature, _ := strings.Cut(o.Why, "/")
	view, err := j.Input.View(a.Host)
	if err != nil {
		return err
	}
	reasons := view.Explain(j.Input.Request, crate, feature, a.Shown)
	if o.JSON != nil {
		return a.answer(o, "features-why", true, nil, struct {
			Via     string         `json:"via"`
			Reasons []graph.Reason `json:"reasons"`
		}{j.Answer.Via, reasons})
	}
	_, err = io.WriteString(a.Shell.Out, whyText(a.Machine, reasons))
	return err
}

// whyText words why a feature is on or off.
func whyText(m *session.Machine, reasons []graph.Reason) string {
	var b strings.Builder
	for _, r := range reasons {
		what := orWord(strings.TrimSpace(r.Crate+" "+r.Version), r.Crate)
		switch {
		case !r.Linked:
			fmt.Fprintf(&b, "%s: %s is not linked\n", r.Root, what)
		case r.Feature == "":
			fmt.Fprintf(&b, "%s: %s is linked, with %s\n", r.Root, what, orWord(strings.Join(r.Features, ", "), "no feature"))
		case r.On:
			fmt.Fprintf(&b, "%s: %s has `%s`\n", r.Root, what, r.Feature)
		default:
			fmt.Fprintf(&b, "%s: %s has no `%s` here\n", r.Root, what, r.Feature)
		}
		for i, s := range r.Steps {
			place := ""
			if s.Line > 0 {
				place = fmt.Sprintf("  (%s:%d)", m.Shown(s.Manifest), s.Line)
			}
			fmt.Fprintf(&b, "  %s%s%s\n", strings.Repeat("→ ", min(i, 1)), s.Text, place)
		}
		for _, s := range r.Because {
			fmt.Fprintf(&b, "  %s\n", s)
		}
	}
	return b.String()
}

// draw is features --graph.
func (a *invocation) draw(o Options, j featurecheck.Judged) error {
	view, err := j.Input.View(a.Host)
	if err != nil {
		return err
	}
	text, err := view.Draw(j.Input.Request, o.Graph)
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.Shell.Out, text)
	return err
}

// runFix is features --fix.
func (a *invocation) runFix(ctx context.Context, o Options, l cargo.Line) error {
	fixer := featurecheck.NewFixer(a.Machine, featurecheck.FixOptions{Strict: o.Strict, DryRun: o.DryRun})
	j, err := fixer.Fix(ctx, l)
	if err != nil {
		return err
	}
	fixes := fixer.Fixes(j.Session.Project)
	a.tellLock(fixer, j.Session)
	if o.JSON == nil {
		for _, fix := range fixes {
			if _, err := io.WriteString(a.Shell.Out, fix.Diff); err != nil {
				return err
			}
			if fix.Outcome == featurecheck.Refused && o.DryRun {
				a.Shell.Warning("%s: the mend is %s: %s", a.Shown(fix.Edits[0].Manifest), fix.Outcome, fix.Why)
			}
		}
		switch {
		case len(fixes) > 0:
		case j.Answer.Stops:
			a.Shell.Note("nothing is written: manifests of this workspace alone do not mend it")
		default:
			a.Shell.Note("no edge of this workspace's manifests is missing")
		}
		for _, f := range j.Findings() {
			a.Shell.Finding(f)
		}
	}
	return a.endFeatures(o, j, fixes)
}

// tellLock says once that the lock file is to be brought up to date.
func (a *invocation) tellLock(fixer *featurecheck.Fixer, s *session.Session) {
	if fixer.LockLags() {
		a.Shell.Warning("%s does not hold what the manifests lead to; it is left as it was: `cargo update --workspace` mends it",
			a.Shown(s.Project.LockPath))
	}
}

// runManifests is features --manifest-only.
func (a *invocation) runManifests(ctx context.Context, o Options, l cargo.Line) error {
	s, err := session.Open(a.Machine, l)
	if err != nil {
		return err
	}
	checked, err := featurecheck.Manifests(ctx, s)
	if err != nil {
		return err
	}
	return a.tellChecked(o, checked, nil)
}

// runLint is features --lint: every member's GPU features, as cargo answers them; with --fix the faults are fixed.
func (a *invocation) runLint(ctx context.Context, o Options, l cargo.Line) error {
	var fixer *featurecheck.Fixer
	if o.Fix {
		fixer = featurecheck.NewFixer(a.Machine, featurecheck.FixOptions{Strict: o.Strict, DryRun: o.DryRun, Certain: true})
	}
	checked, err := featurecheck.Lint(ctx, a.Machine, l, o.Strict, fixer)
	if err != nil {
		return err
	}
	var fixes []featurecheck.Fix
	if o.Fix {
		fixes = fixer.Fixes(checked.Session.Project)
		a.tellLock(fixer, checked.Session)
	}
	return a.tellChecked(o, checked, fixes)
}

// tellChecked prints or writes what came of the questions, and ends with 10 where one of them is an alarm.
func (a *invocation) tellChecked(o Options, checked featurecheck.Checked, fixes []featurecheck.Fix) error {
	sum := checked.Summary(o.Strict || checked.Session.Config.Strict.Value, a.Shell.Verbose)
	if o.JSON == nil {
		for _, fix := range fixes {
			if _, err := io.WriteString(a.Shell.Out, fix.Diff); err != nil {
				return err
			}
		}
		for _, f := range sum.Findings {
			a.Shell.Finding(f)
		}
		for _, q := range checked.Questions {
			if !q.Decided {
				a.Shell.Note("not decided here: `%s`%s: %s", q.Feature, q.Of(), strings.Join(q.Open, "; "))
			}
		}
		a.Shell.Status("Checked", "%d GPU features of the workspace's members, %d decided", len(checked.Questions), sum.Decided)
	}
	r := report.Result{Verb: "features-lint", Project: a.Shown(checked.Session.Project.Manifest), Findings: sum.Findings}
	for _, q := range checked.Questions {
		c := report.Check{ID: report.CheckReach, Name: q.Feature + q.Of(), State: report.Passed}
		switch {
		case !q.Decided:
			c.State, c.Message = report.Skipped, "not decided here: "+strings.Join(q.Open, "; ")
		case q.Stops:
			c.State, c.Message = report.Failed, "it does not reach"
		}
		r.Checks = append(r.Checks, c)
	}
	return a.end(o, reachEnd(sum.Stops), r, struct {
		Questions []*featurecheck.Question `json:"questions"`
		Fixes     []featurecheck.Fix       `json:"mends,omitempty"`
	}{append([]*featurecheck.Question{}, checked.Questions...), fixes})
}

// runRoute is features --route: a command line that carries the feature to where it stops, found without a change to any manifest.
func (a *invocation) runRoute(ctx context.Context, o Options, l cargo.Line) error {
	look := featurecheck.Options{Strict: o.Strict}
	j, err := featurecheck.Open(ctx, a.Machine, l, look)
	var refused *cargo.RefusedError
	var gaps []features.Gap
	if errors.As(err, &refused) {
		var without featurecheck.Undeclared
		without, err = featurecheck.OpenWithout(ctx, a.Machine, l, look, err)
		j, gaps = without.Judged, without.Gaps
	}
	if err != nil {
		return err
	}
	found, err := featurecheck.FindRoutes(ctx, j, gaps, featurecheck.WholeSearch)
	if err != nil {
		return err
	}
	if !found.Found() {
		if found, err = found.Explain(j); err != nil {
			return err
		}
	}
	if o.JSON != nil {
		err = a.answer(o, "features-route", found.Found(), j.Findings(), found)
	} else {
		err = a.tellRoutes(j, found)
	}
	if err == nil && !found.Found() {
		return exit.Code(exit.Unreached)
	}
	return err
}

func (a *invocation) tellRoutes(j featurecheck.Judged, found featurecheck.Routed) error {
	switch {
	case found.Already:
		a.Shell.Note("this command line reaches as it is")
		_, err := fmt.Fprintln(a.Shell.Out, buildenv.PosixWords(append([]string{"gpubuild"}, j.Session.Line.Words()...)...))
		return err
	case len(found.Routes) > 0:
		for _, r := range found.Routes {
			if _, err := fmt.Fprintln(a.Shell.Out, r.Command); err != nil {
				return err
			}
		}
		a.Shell.Note("by cargo's answer (%s) %s; nothing was written", found.Routes[0].Via, found.Lacked())
		return nil
	}
	a.Shell.Error("no command line was found by which %s (cargo was asked about %d) [%s]", found.Lacked(), found.Asked,
		features.IDUnreached)
	for _, b := range found.Blocks {
		a.Shell.Note("%s", b.Why)
	}
	if len(found.Blocks) == 0 {
		for _, f := range j.Findings() {
			if f.Severity == finding.Error {
				a.Shell.Note("%s", f.Message)
			}
		}
	}
	switch {
	case j.Fixable():
		a.Shell.Hint("gpubuild features --fix writes the missing edge into a manifest of this workspace")
	case found.Diff != "":
		a.Shell.Hint("a dependency of the package's own would carry it (cargo was not asked about this):\n" +
			strings.TrimRight(found.Diff, "\n"))
	}
	return nil
}

// tellUnasked says that the answer is about the default features where none was asked for.
func tellUnasked(j featurecheck.Judged) {
	r, p, shell := j.Input.Request, j.Session.Project, j.Session.Machine.Shell
	if strings.Trim(strings.Join(r.Features, ""), ", \t") != "" || r.AllFeatures {
		return
	}
	what := "the default features"
	if r.NoDefault {
		what = "no features at all"
	}
	shell.Note("no --features were given: this is the build with %s", what)
	selected, _ := p.Selection(r)
	for _, q := range p.Questions(r.GPUFeatures) {
		if slices.Contains(selected, q.Package) && !isOn(j.Answer, q) {
			words := []string{"gpubuild", "features"}
			if len(selected) > 1 || q.Package != p.Selected {
				words = append(words, "-p", q.Package.Name)
			}
			shell.Hint(buildenv.PosixWords(append(words, "--features", q.Feature)...))
			return
		}
	}
}

// isOn says whether a member's GPU feature is on in a root of the build.
func isOn(answer *features.Answer, q manifest.Question) bool {
	return slices.ContainsFunc(answer.Roots, func(r features.Root) bool {
		return r.Package == q.Package.Name && slices.Contains(r.Asked, q.Feature)
	})
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
