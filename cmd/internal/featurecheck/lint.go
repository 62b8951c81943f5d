package featurecheck

import (
	"context"
	"errors"
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
	typed    bool // the command line's own question: asked of cargo as it stands
}

// Checked are the questions about a workspace with their answers.
type Checked struct {
	Session   *session.Session
	Questions []*Question
	extra     []features.Finding // what comparing the members' manifests shows
}

// Manifests checks the feature edges between members and to GPU crates, from manifests alone. No cargo, no network, nothing is run.
func Manifests(ctx context.Context, s *session.Session) (Checked, error) {
	out := Checked{Session: s}
	check, err := features.NewEdgeCheck(s.Machine.Host, s.Project)
	if err != nil {
		return out, err
	}
	if out.Questions, err = questions(s, true); err != nil {
		return out, err
	}
	for _, q := range out.Questions {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if q.Open = s.Project.Doubts; len(q.Open) > 0 {
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
	return out, nil
}

// Lint has cargo answer about every member's GPU features; a fixer, which may be nil, fixes what is found.
func Lint(ctx context.Context, m *session.Machine, line cargo.Line, strict bool, fixer *Fixer) (Checked, error) {
	s, err := session.OpenOrRefuse(ctx, m, line)
	if err != nil {
		return Checked{}, err
	}
	out := Checked{Session: s}
	if out.Questions, err = questions(s, false); err != nil {
		return out, err
	}
	for _, q := range out.Questions {
		if len(q.Open) > 0 {
			continue
		}
		if err := q.ask(ctx, m, line, strict, fixer); err != nil {
			return out, err
		}
	}
	if fixer != nil {
		if out.Session, err = session.Open(m, line); err != nil { // as it is now
			return out, err
		}
	}
	check, err := features.NewEdgeCheck(m.Host, out.Session.Project)
	if err != nil {
		return out, err
	}
	out.extra = check.All(out.Session.Config.GPUFeatures.Value)
	return out, nil
}

// ask has cargo answer a question.
func (q *Question) ask(ctx context.Context, m *session.Machine, line cargo.Line, strict bool, fixer *Fixer) error {
	line, err := q.line(line)
	if err != nil {
		return err
	}
	var j Judged
	if fixer != nil {
		j, err = fixer.Fix(ctx, line)
	} else {
		j, err = Open(ctx, m, line, Options{Strict: strict})
	}
	var refused *cargo.RefusedError
	if errors.As(err, &refused) {
		q.Open = []string{"cargo refuses the question: " + cargo.FirstLine(err)} // for an old lock file or want of a network
		return nil
	}
	if err != nil {
		return err
	}
	q.Decided, q.Open = !j.Answer.Unsure, nil
	q.Stops, q.By, q.findings = j.Answer.Stops, j.Answer.Via, j.Answer.Findings
	if j.Answer.Unsure {
		q.Open = []string{"cargo gives two answers"}
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
	Findings []finding.Finding // each once, those of one line of a manifest together
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
			if f.Severity == features.Note && f.ID != features.IDPropagation && !notes {
				continue
			}
			if key := f.ID + "\x00" + f.Message + "\x00" + f.Path + "\x00" + f.Fix; !seen[key] {
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
	take(c.extra)
	for _, f := range c.extra {
		out.Stops = out.Stops || strict && f.Severity == features.Warning
	}
	out.Findings = shown(c.Session.Machine, features.PerLine(c.Session.Project, all))
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
		{q.request.AllFeatures, "--all-features"}, {q.request.NoDefault, "--no-default-features"}, {l.Offline, "--offline"},
		{l.Locked, "--locked"},
		{l.Frozen, "--frozen"}, {l.Quiet, "--quiet"},
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
