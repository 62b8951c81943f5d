package featurecheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// Question is whether a feature of a member enables what it should, and its answer.
type Question struct {
	Package string   `json:"package"`
	Feature string   `json:"feature"`
	Decided bool     `json:"decided"`
	Stops   bool     `json:"stops"`
	By      string   `json:"by,omitempty"`   // manifests, or what cargo answered with
	Open    []string `json:"open,omitempty"` // why it is not decided here

	findings []features.Finding
	request  manifest.Request
	member   *manifest.Package
	latent   bool // only with other features, or for some targets, the feature enables CUDA code
	typed    bool // the command line's own question: asked of cargo as it stands
}

// Checked are the questions about a workspace with their answers.
type Checked struct {
	Session   *session.Session
	Questions []*Question
}

// LintOptions say how members' features are looked at.
type LintOptions struct {
	Strict bool
	Cargo  bool   // cargo is asked about what manifests do not settle; it never writes a Cargo.lock
	Fixer  *Fixer // fixes what is found; may be nil
}

// Lint answers whether every member's GPU features enable what they should, each as if that package were built alone. Manifests show which
// edges are missing; with a Cargo.lock cargo is asked before that is called a fault.
func Lint(ctx context.Context, m *session.Machine, line cargo.Line, o LintOptions) (Checked, error) {
	var out Checked
	s, err := session.Open(m, line)
	if o.Cargo && err != nil {
		s, err = session.OpenOrRefuse(ctx, m, line)
	}
	if err != nil {
		return out, err
	}
	out.Session = s
	in, err := s.Input(session.Graph{}, o.Strict)
	if err != nil {
		return out, err
	}
	in.Sources = features.NewSources(m.Host, s.Project)
	check, err := features.NewEdgeCheck(m.Host, in)
	if err != nil {
		return out, err
	}
	if out.Questions, err = questions(s, !o.Cargo); err != nil {
		return out, err
	}
	for _, q := range out.Questions {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if q.member != nil {
			q.manifests(check, o.Strict)
		}
		missing := slices.ContainsFunc(q.findings, func(f features.Finding) bool { return len(f.Edits) > 0 })
		if o.Fixer != nil || o.Cargo && (q.typed || s.Project.HasLock && (missing || q.latent || !q.Decided && q.member != nil)) {
			if err := q.ask(ctx, m, line, o, in.Sources); err != nil {
				return out, err
			}
		}
	}
	if o.Fixer != nil {
		out.Session, err = session.Open(m, line) // as it is now
	}
	return out, err
}

// manifests answers a question from manifests alone.
func (q *Question) manifests(check *features.EdgeCheck, strict bool) {
	for _, doubt := range check.Project.Doubts {
		if strings.HasPrefix(doubt, q.member.Manifest) {
			q.Open = append(q.Open, doubt)
		}
	}
	about := manifest.Question{Package: q.member, Feature: q.Feature}
	q.findings = check.Of(about)
	sure, some := check.Sure(about)
	if q.latent = some && !sure; !some && !sure && len(q.findings) == 0 {
		q.Open = append(q.Open, "its manifest alone does not show that it enables CUDA code")
	}
	for _, f := range q.findings {
		q.Stops = q.Stops || f.Severity == features.Error || strict
	}
	if q.Decided = len(q.findings) > 0 || len(q.Open) == 0; q.Decided {
		q.By = "manifests"
	}
}

// ask has cargo answer a question. Where it cannot, what manifests show stands.
func (q *Question) ask(ctx context.Context, m *session.Machine, line cargo.Line, o LintOptions, read *features.Sources) error {
	line, err := q.line(line)
	if err != nil {
		return err
	}
	var j Judged
	if o.Fixer != nil {
		j, err = o.Fixer.Fix(ctx, line)
	} else if j, err = Open(ctx, m, line, Options{Strict: o.Strict, sources: read}); err == nil {
		j, err = j.Verified(ctx)
	}
	if _, ok := errors.AsType[*cargo.RefusedError](err); ok {
		if o.Fixer != nil && q.Decided && len(q.findings) > 0 {
			m.Shell.Warning("%s: no fix for `%s`: correct the entry by hand, because cargo refuses the workspace as it is",
				m.Shown(q.member.Manifest), q.Feature)
		}
		if !q.Decided { // for an old lock file or want of a network
			q.Open = []string{"cargo refuses the question: " + cargo.FirstLine(err)}
		}
		return nil
	}
	if err != nil {
		return err
	}
	q.Decided, q.Open = true, nil
	q.Stops, q.By, q.findings = j.Answer.Stops, j.Answer.Via, j.Answer.Findings
	if q.latent { // nobody asked for this build, and another one is as good
		q.Stops = o.Strict && q.Stops
		for i := range q.findings {
			if f := &q.findings[i]; f.ID == features.IDUnreached && len(f.Edits) == 0 {
				f.Severity = features.Warning
			}
			q.Stops = q.Stops || q.findings[i].Severity == features.Error
		}
	}
	return nil
}

// questions lists what is to be answered: with features on the command line that build or, where each member is asked for itself, those
// features of the selected members; without them every member's GPU features.
func questions(s *session.Session, each bool) ([]*Question, error) {
	var list []*Question
	p, r := s.Project, s.Request()
	if !each && (len(r.Features) > 0 || r.AllFeatures) {
		name := strings.Join(r.Features, ",")
		if r.AllFeatures {
			name = "all features"
		}
		selected, _ := p.Selection(r)
		var names []string
		for _, m := range selected {
			names = append(names, m.Name)
		}
		return []*Question{{Package: strings.Join(names, ", "), Feature: name, typed: true}}, nil
	}
	asked := p.Questions(r.GPUFeatures)
	if len(r.Packages) > 0 || r.Workspace {
		selected, known := p.Selection(r)
		if !known {
			return nil, &exit.UsageError{
				What: "-p names no member of the workspace: " + strings.Join(r.Packages, ", "),
				Fix:  "see the members in " + s.Machine.Shown(p.RootManifest),
			}
		}
		asked = slices.DeleteFunc(asked, func(q manifest.Question) bool { return !slices.Contains(selected, q.Package) })
	}
	if len(r.Features) > 0 {
		asked = slices.DeleteFunc(asked, func(q manifest.Question) bool { return !r.Names(q.Feature) })
	}
	for _, q := range asked {
		one := manifest.Request{Features: []string{q.Feature}, GPUFeatures: r.GPUFeatures, NoDefault: r.NoDefault, Targets: r.Targets}
		list = append(list, &Question{Package: q.Package.Name, Feature: q.Feature, request: one, member: q.Package})
	}
	if len(list) == 0 && len(p.Doubts) > 0 { // there may be members that were not found
		list = append(list, &Question{Feature: "cuda", Open: p.Doubts})
	}
	return list, nil
}

// Summary is what all answers together say.
type Summary struct {
	Findings []finding.Finding // each once
	Decided  int
	Stops    bool
}

// Summary joins the answers; notes are left out, unless all are asked for.
func (c Checked) Summary(strict, notes bool) Summary {
	var out Summary
	seen := map[string]bool{}
	var all []features.Finding
	take := func(fs []features.Finding) {
		for _, f := range fs {
			if f.Severity == features.Note && !notes {
				continue
			}
			if key := fmt.Sprintf("%s\x00%s\x00%d\x00%s", f.ID, f.Path, f.Line, cmp.Or(f.Fix, f.Message)); !seen[key] {
				seen[key] = true
				all = append(all, f)
			}
		}
	}
	for _, q := range c.Questions {
		take(q.findings)
		out.Stops = out.Stops || q.Stops
		if q.Decided {
			out.Decided++
		}
	}
	out.Stops = out.Stops || strict && out.Decided == 0 && len(c.Questions) > 0
	out.Findings = shown(c.Session, features.OneOfACause(all), "features", "--lint", "--fix")
	return out
}

// Of names the question's package behind a feature.
func (q *Question) Of() string {
	if q.Package == "" {
		return ""
	}
	return " of " + q.Package
}

// line is the question in cargo's words: the member's own manifest is named, because resolver 1 gives --features to that package only.
func (q *Question) line(l cargo.Line) (cargo.Line, error) {
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
	}{
		{q.request.AllFeatures, "--all-features"}, {q.request.NoDefault, "--no-default-features"}, {l.Has("--offline"), "--offline"},
		{l.Has("--locked"), "--locked"}, {l.Has("--frozen"), "--frozen"}, {l.Has("--quiet"), "--quiet"},
	} {
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
