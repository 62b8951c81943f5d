package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/report"
	"gpubuild/features"
	"gpubuild/features/graph"
	"gpubuild/toolchain/cargo"
)

// featuresOptions are the flags of features.
type featuresOptions struct {
	Results      report.Files
	Strict       bool
	Fix          bool
	DryRun       bool
	Why          string // CRATE[/FEATURE]
	ManifestOnly bool
	Lint         bool
}

func featuresVerb() verb {
	var o featuresOptions
	return verb{
		Verb: help.Verb{
			Name: "features", Usage: "say whether cuda and cudnn enable the GPU crates of each binary, and why not", Project: true,
			Common: []string{"fix", "dry-run", "why", "lint", "strict", "json"},
			Examples: []string{
				"gpubuild features --features cuda,cudnn -p app", "gpubuild features --features cuda --fix --dry-run",
				"gpubuild features --features cuda --why candle-nn/cuda",
			},
			Text: "Compiles nothing. Exits with 10 if a requested feature does not enable its GPU crates. A feature is judged if its " +
				"name means a backend (cuda, cudnn, gpu, rocm, hip, wgpu, vulkan, metal, also as in use-cuda or cuda12), or if " +
				"`gpu-features` in gpubuild.toml names it. --verbose prints how each crate was turned on, and all notes.\n" +
				"Without --fix nothing is written: where cargo cannot answer without another Cargo.lock, it changes a copy (an old " +
				"cargo: yours, which is put back). --fix writes only manifests of the workspace and the Cargo.lock that belongs to them. --lint checks every " +
				"member, as the pre-commit hook does: with a Cargo.lock it asks cargo before it reports a missing one. --manifest-only, also " +
				"with --lint, runs no more of cargo than `cargo metadata --no-deps --offline`.",
		},
		results: &o.Results,
		flags: slices.Concat(
			[]*flag{
				toggle("strict", "treat warnings of the feature check as errors", &o.Strict),
				toggle("fix", "make the workspace's manifests forward the features; cargo checks each change", &o.Fix),
				toggle("dry-run", "print what --fix would write, write nothing", &o.DryRun),
				newFlag("why", cargo.Value, "CRATE[@VERSION][/FEATURE]", "say by which steps a crate is linked, or has a feature",
					func(v string) error { o.Why = v; return nil }),
				toggle("manifest-only", "check the features of members against their manifests alone", &o.ManifestOnly),
				toggle("lint", "check every member's GPU features, each as if that package were built alone", &o.Lint),
			},
			resultFlags(&o.Results),
		),
		run: bind(&o, runFeatures),
	}
}

// whyAnswer is what --why --json writes.
type whyAnswer struct {
	Reasons []graph.Reason `json:"reasons"`
}

func runFeatures(ctx context.Context, a *invocation, o featuresOptions, l cargo.Line) error {
	if err := o.checkFeatures(); err != nil {
		return err
	}
	switch {
	case o.Lint, o.ManifestOnly:
		return a.runLint(ctx, o, l)
	case o.Fix:
		return a.runFix(ctx, o, l)
	}
	j, err := reach.Open(ctx, a.Machine, l, reach.Options{Strict: o.Strict, AsIs: true, Edges: o.Why == ""})
	switch {
	case err != nil:
		return err
	case o.Why != "":
		return a.printWhy(o, j)
	}
	j.Session.WarnUnmatched()
	if o.Results.JSON == nil {
		lines := report.ReachLines(j.Reach, a.Shell.Verbose)
		if a.Shell.Verbose {
			lines = append(lines, report.Ways(j.Reach)...)
		}
		if err := a.Shell.Print(strings.Join(append(lines, ""), "\n")); err != nil {
			return err
		}
	}
	return a.endFeatures(o, j, nil)
}

// endFeatures prints what is wrong with a build, and the fixes where they were asked for. Notes are for --verbose, unless nothing of the
// build uses a GPU: then they say why.
func (a *invocation) endFeatures(o featuresOptions, j reach.Judged, fixes []reach.Fix) error {
	if o.Results.JSON == nil {
		for _, f := range j.Shown(a.Shell.Verbose) {
			a.Shell.Finding(f)
		}
		if !o.Fix {
			j.NoteUnasked()
		}
	}
	return a.end(o.Results, reachEnd(j.Reach.Stops), a.reachResult("features", j), featuresAnswer{Reach: j.Reach, Fixes: fixes})
}

// checkFeatures refuses flags of `features` that say nothing together.
func (o featuresOptions) checkFeatures() error {
	switch {
	case o.DryRun && !o.Fix:
		return usage("--dry-run needs --fix", "gpubuild features --fix --dry-run")
	case o.Why != "" && (o.Fix || o.Lint || o.ManifestOnly), o.ManifestOnly && o.Fix:
		return usage("--why, --lint, --fix and --manifest-only exclude each other, but for --lint with --fix", "give only one of them")
	}
	return nil
}

// printWhy is features --why.
func (a *invocation) printWhy(o featuresOptions, j reach.Judged) error {
	crate, feature, _ := strings.Cut(o.Why, "/")
	if j.Reach.Unknown != "" {
		return exit.Errorf(0, "", "cargo gives no unit graph: %s", j.Reach.Unknown)
	}
	reasons := j.Facts.Explain(j.Facts.Input.Request, crate, feature)
	if len(reasons) == 0 {
		return usage(fmt.Sprintf("this command line links no crate called `%s`", crate),
			"`cargo tree --all-features -i "+crate+"` shows which features bring it")
	}
	if o.Results.JSON != nil {
		return a.answer(o.Results.JSON, "features-why", true, nil, whyAnswer{Reasons: reasons})
	}
	err := a.Shell.Print(report.WhyText(a.Machine, reasons))
	a.Shell.Hint(buildenv.Words(a.Host.OS, append([]string{"cargo"}, j.Session.Line.AsTree(crate)...)...))
	return err
}

// runFix is features --fix.
func (a *invocation) runFix(ctx context.Context, o featuresOptions, l cargo.Line) error {
	fixer := reach.NewFixer(a.Machine, reach.FixOptions{Strict: o.Strict, DryRun: o.DryRun})
	j, err := reach.FixMembers(ctx, fixer, l)
	fixes := fixer.Fixes()
	if err != nil { // cargo refuses the manifests as they are: this is what would be written first
		return errors.Join(a.printDiffs(o, fixes), err)
	}
	if err := a.printDiffs(o, fixes); err != nil {
		return err
	}
	var opens []features.Open
	for _, r := range j.Reach.Roots {
		opens = append(opens, r.Open...)
	}
	switch {
	case o.Results.JSON != nil || len(fixes) > 0:
	case slices.ContainsFunc(j.Reach.Findings, func(f features.Finding) bool { return f.Choice() }):
		a.Shell.Note("nothing written: several changes are possible; choose one of those below")
	case slices.ContainsFunc(j.Reach.Findings, func(f features.Finding) bool { return len(f.Ask) > 0 }):
		a.Shell.Note("nothing written: another feature has to be requested, too; see the hint below")
	case j.Reach.Stops:
		a.Shell.Note("nothing written: no change to this workspace's manifests fixes it")
	case len(opens) > 0 && len(opens[0].Off) > 0:
		a.Shell.Note("nothing written: %s does not enable %s, and whether it enables something else is known after the build", opens[0].Feature,
			strings.Join(opens[0].Off, ", "))
		if !slices.ContainsFunc(j.Reach.Findings, func(f features.Finding) bool { return f.Fix == opens[0].Fix }) {
			a.Shell.Hint(opens[0].Fix)
		}
	case len(opens) > 0:
		a.Shell.Note("nothing written: what %s does is known after the build", opens[0].Feature)
	default:
		a.Shell.Note("nothing to fix: no linked GPU crate is off")
	}
	return a.endFeatures(o, j, fixes)
}

// printDiffs prints what a dry run would write.
func (a *invocation) printDiffs(o featuresOptions, fixes []reach.Fix) error {
	if o.Results.JSON != nil || len(fixes) == 0 {
		return nil
	}
	return a.Shell.Data(fixes[0].Diff) // of all of them
}

// runLint is features --lint, which asks cargo, and --manifest-only: every member's GPU features; with --fix the faults are fixed. It ends
// with 10 where one of them is an alarm.
func (a *invocation) runLint(ctx context.Context, o featuresOptions, l cargo.Line) error {
	fixer := reach.NewFixer(a.Machine, reach.FixOptions{Strict: o.Strict, DryRun: o.DryRun, Lint: true})
	checked, err := reach.Lint(ctx, a.Machine, l, o.Strict, !o.ManifestOnly)
	for fixed := -1; err == nil && o.Fix && len(fixer.Fixes()) > fixed; { // one fix may show the next fault
		fixed = len(fixer.Fixes())
		if err = fixer.FixEach(ctx, l, checked.Suspects); err == nil && !o.DryRun {
			checked, err = reach.Lint(ctx, a.Machine, l, o.Strict, !o.ManifestOnly)
		}
	}
	if err != nil {
		return err
	}
	if checked.Refused != "" {
		a.Shell.Warning("cargo refuses the workspace: %s", checked.Refused)
	}
	if checked.Unfetched != "" {
		a.Shell.Note("%s: checked as far as the workspace's manifests show; cargo knows more after `cargo fetch` or a build", checked.Unfetched)
	}
	fixes := fixer.Fixes()
	if err := a.printDiffs(o, fixes); err != nil {
		return err
	}
	findings, stops := checked.Summary(a.Shell.Verbose)
	if o.Results.JSON == nil {
		for _, f := range findings {
			a.Shell.Finding(f)
		}
		features := map[bool]string{true: "GPU feature", false: "GPU features"}[len(checked.Questions) == 1]
		a.Shell.Status("Checked", "%d %s of the workspace's members", len(checked.Questions), features)
	}
	p := checked.Session.Project
	r := report.Result{Verb: "features-lint", Project: a.Shown(p.Manifest), Name: p.Name(), Findings: findings}
	for _, q := range checked.Questions {
		c := report.Check{ID: report.CheckReach, Name: q.Feature + " of " + q.Package, State: report.Passed}
		if q.Stops {
			c.State, c.Message = report.Failed, "it does not enable what it should"
		}
		r.Checks = append(r.Checks, c)
	}
	end := reachEnd(stops)
	if end == nil && checked.Refused != "" {
		end = exit.Code(exit.Config)
	}
	return a.end(o.Results, end, r, lintAnswer{append([]*reach.Question{}, checked.Questions...), fixes})
}

// lintAnswer is the answer of `features --lint`.
type lintAnswer struct {
	Questions []*reach.Question `json:"questions"`
	Fixes     []reach.Fix       `json:"fixes,omitempty"`
}

// featuresAnswer is the answer of `features`.
type featuresAnswer struct {
	*features.Reach
	Findings *struct{}   `json:"findings,omitempty"` // the envelope has them
	Fixes    []reach.Fix `json:"fixes,omitempty"`
}
