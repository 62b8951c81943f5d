package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/features"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

func runFeatures(a *app, ctx context.Context, o Options, l cargo.Line) error {
	if err := o.checkFeatures(); err != nil {
		return err
	}
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
	j, err := a.lookAt(ctx, o, l)
	if err != nil {
		return err
	}
	return a.tellFeatures(j)
}

// tellFeatures says what was asked about a build.
func (a *app) tellFeatures(j *journey) error {
	o := j.options
	if o.Why != "" {
		return a.explain(j)
	}
	if o.Graph != "" {
		return a.draw(j)
	}
	if o.JSON == nil {
		if err := a.printFeatures(j); err != nil {
			return err
		}
	}
	return a.end(o, reachEnd(j.reach.Stops), j.reachResult("features"), struct {
		*features.Answer
		Findings *struct{} `json:"findings,omitempty"` // the envelope has them
	}{Answer: j.reach})
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

// explain is features --why.
func (a *app) explain(j *journey) error {
	in, err := j.heard()
	if err != nil {
		return err
	}
	crate, feature, _ := strings.Cut(j.options.Why, "/")
	view, err := in.View(j.Host)
	if err != nil {
		return err
	}
	reasons := view.Explain(in.Request, crate, feature, j.Shown)
	if j.options.JSON != nil {
		return a.answer(j.options, "features-why", true, nil, struct {
			Via     string         `json:"via"`
			Reasons []graph.Reason `json:"reasons"`
		}{j.reach.Via, reasons})
	}
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
				place = fmt.Sprintf("  (%s:%d)", a.Shown(s.Manifest), s.Line)
			}
			fmt.Fprintf(&b, "  %s%s%s\n", strings.Repeat("→ ", min(i, 1)), s.Text, place)
		}
		for _, s := range r.Because {
			fmt.Fprintf(&b, "  %s\n", s)
		}
	}
	_, err = io.WriteString(a.Shell.Out, b.String())
	return err
}

// draw is features --graph.
func (a *app) draw(j *journey) error {
	in, err := j.heard()
	if err != nil {
		return err
	}
	view, err := in.View(j.Host)
	if err != nil {
		return err
	}
	text, err := view.Draw(in.Request, j.options.Graph)
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.Shell.Out, text)
	return err
}

// runFix is features --fix.
func (a *app) runFix(ctx context.Context, o Options, l cargo.Line) error {
	plan := &planned{}
	j, done, err := a.mendFeatures(ctx, o, l, plan)
	if err != nil {
		return err
	}
	plan.tell(j, done)
	j.tellLock(done)
	if o.JSON == nil {
		for _, m := range done {
			if _, err := io.WriteString(a.Shell.Out, m.Diff); err != nil {
				return err
			}
			if m.Outcome == "refused" && o.DryRun {
				a.Shell.Warning("%s: the mend is %s: %s", a.Shown(m.Edits[0].Manifest), m.Outcome, m.Why)
			}
		}
		switch {
		case len(done) > 0:
		case j.reach.Stops:
			a.Shell.Note("nothing is written: manifests of this workspace alone do not mend it")
		default:
			a.Shell.Note("no edge of this workspace's manifests is missing")
		}
		for _, f := range j.findings {
			a.Shell.Finding(f)
		}
	}
	return a.end(o, reachEnd(j.reach.Stops), j.reachResult("features"), struct {
		*features.Answer
		Findings *struct{} `json:"findings,omitempty"` // the envelope has them
		Mends    []mended  `json:"mends"`
	}{Answer: j.reach, Mends: append([]mended{}, done...)})
}

// printFeatures prints for each root a table of what is linked, then the paths of the features, then what is needed.
func (a *app) printFeatures(j *journey) error {
	if _, err := io.WriteString(a.Shell.Out, featureTable(j.reach)); err != nil {
		return err
	}
	for _, f := range j.findings {
		a.Shell.Finding(f)
	}
	j.tellUnasked()
	return nil
}

// tellUnasked says that the answer is about the default features where none was asked for.
func (j *journey) tellUnasked() {
	r := j.request()
	if strings.Trim(strings.Join(r.Features, ""), ", \t") != "" || r.AllFeatures {
		return
	}
	what := "the default features"
	if r.NoDefault {
		what = "no features at all"
	}
	j.Shell.Note("no --features were given: this is the build with %s", what)
	selected, _ := j.Project.Selection(r)
	for _, q := range j.Project.Questions(r.GPUFeatures) {
		if slices.Contains(selected, q.Package) && !j.isOn(q) {
			words := []string{"gpubuild", "features"}
			if len(selected) > 1 || q.Package != j.Project.Selected {
				words = append(words, "-p", q.Package.Name)
			}
			j.Shell.Hint(buildenv.PosixWords(append(words, "--features", q.Feature)...))
			return
		}
	}
}

// isOn says whether a member's GPU feature is on in a root of the build.
func (j *journey) isOn(q manifest.Question) bool {
	for _, r := range j.reach.Roots {
		if r.Package == q.Package.Name && slices.Contains(r.Asked, q.Feature) {
			return true
		}
	}
	return false
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
