// Package featurecheck asks cargo what command lines build and has features judge the answers. Besides judging one build it has the
// searches that need many: Fix for the missing lines of manifests, Lint for the features of every member, FindRoutes for another command
// line.
//
// It builds nothing. Only Fix writes: manifests of the workspace, and the Cargo.lock that belongs to them. Edits are tried in a shadow of
// the workspace (trial.go) before they are printed or written.
package featurecheck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/toolchain/cargo"
)

// Judged is a build, cargo's answer about it, and what features makes of that.
type Judged struct {
	Session *session.Session // its line is the build's
	Tool    cargo.Tool
	Graph   session.Graph
	Input   features.Input
	Answer  *features.Answer
}

// Judge has features judge cargo's answer about the session's line. o.Strict counts in addition to the configuration's.
func Judge(s *session.Session, tool cargo.Tool, g session.Graph, o Options) (Judged, error) {
	j := Judged{Session: s, Tool: tool, Graph: g}
	var err error
	if j.Input, err = s.Input(g, o.Strict); err != nil {
		return j, err
	}
	if j.Input.Sources = o.sources; o.sources == nil {
		j.Input.Sources = features.NewSources(s.Machine.Host, s.Project)
	}
	j.Answer, err = features.Judge(s.Machine.Host, j.Input)
	return j, err
}

// Verified is the build with fixes of which cargo says that they help: those that do not are left out, and features to request become a
// command. For a build that stops without such a fix another command line is looked for.
func (j Judged) Verified(ctx context.Context) (Judged, error) {
	answer := *j.Answer
	answer.Findings = slices.Clone(answer.Findings)
	j.Answer = &answer
	var outside map[int]features.Finding // what only a manifest outside the workspace fixes: the last resort
	fixed := false
	for i := range answer.Findings {
		f := &answer.Findings[i]
		edits, ask := f.Edits, f.Ask
		if len(edits) == 0 && len(ask) == 0 {
			continue
		}
		f.Edits, f.Ask = nil, nil
		toml := f.Fix
		f.Fix = ""
		if f.Severity == features.Note { // nobody asks what to do about it
			f.Edits = edits
			continue
		}
		if len(edits) > 0 {
			why, err := j.Session.Keep(j.Tool, fmt.Sprintf("trial-1 %s %s %v", f.ID, f.Root, edits), func() ([]byte, error) {
				t, err := j.try(ctx, edits)
				if err != nil {
					return []byte(err.Error()), ctx.Err()
				}
				return []byte(unhelpful(j.Answer, t.Answer, *f)), nil
			})
			if err != nil {
				return j, err
			}
			if len(why) == 0 {
				f.Edits, f.Fix = edits, toml
			} else {
				j.Session.Machine.Shell.Detail("not said, because it does not help: %s: %s", strings.Join(strings.Fields(toml), " "), why)
			}
			if f.Fix != "" && slices.ContainsFunc(edits, func(e edit.Edit) bool { return !j.Session.Project.Member(e.Manifest) }) {
				outside = map[int]features.Finding{i: *f}
				f.Edits, f.Fix = nil, ""
			}
		} else if line, err := j.Session.Line.Change(cargo.Change{Features: ask}); err == nil {
			after, err := Open(ctx, j.Session.Quiet().Machine, line, j.again())
			if ctx.Err() != nil {
				return j, ctx.Err()
			}
			if err == nil && unhelpful(j.Answer, after.Answer, *f) == "" {
				f.Ask, f.Fix = ask, command(line)
			}
		}
		fixed = fixed || f.Fix != "" && f.Severity == features.Error
	}
	defer func() {
		for i, f := range outside {
			if answer.Findings[i].Fix == "" {
				answer.Findings[i].Edits, answer.Findings[i].Fix = f.Edits, f.Fix
			}
		}
	}()
	at := slices.IndexFunc(answer.Findings, func(f features.Finding) bool { return f.Severity == features.Error && len(f.Lacks) > 0 })
	if !answer.Stops || fixed || at < 0 || answer.Findings[at].Fix != "" {
		return j, nil
	}
	found, err := FindRoutes(ctx, j, nil, HintSearch)
	if err != nil {
		if ctx.Err() != nil {
			return j, ctx.Err()
		}
		j.Session.Machine.Shell.Detail("no other command line was looked for: %v", err)
		return j, nil
	}
	if len(found.Routes) > 0 {
		answer.Findings[at].Fix = found.Routes[0].Command
		return j, nil
	}
	found, err = found.Explain(ctx, j)
	answer.Findings[at].Fix = found.TOML
	return j, err
}

// command is a command line as a user types it.
func command(line cargo.Line) string {
	return buildenv.PosixWords(append([]string{"gpubuild"}, line.Words()...)...)
}

// Options say how a build is looked at for one of our own verbs.
type Options struct {
	Strict bool
	Places bool // it is to be known where cargo builds, too
	Write  bool // a Cargo.lock that is missing or out of date is written, as cargo tree does

	sources *features.Sources // read for other questions already; may be nil
}

// again is how another command line of the same project is looked at.
func (j Judged) again() Options { return Options{Strict: j.Input.Strict, sources: j.Input.Sources} }

// Open opens the project of a command line and asks cargo about it, writing nothing of the user's.
func Open(ctx context.Context, m *session.Machine, line cargo.Line, o Options) (Judged, error) {
	tool, err := cargo.Find(m.Host, line)
	if err != nil {
		return Judged{}, err
	}
	s, err := session.OpenOrRefuse(ctx, m, line)
	if err != nil {
		return Judged{}, err
	}
	g, err := s.Graph(ctx, tool, session.Question{Places: o.Places, Own: !o.Write})
	if err != nil {
		return Judged{}, WithMissingFeature(ctx, s, err)
	}
	return Judge(s, tool, g, o)
}

// Shown are the findings that a person should read: notes only when all are wanted, when no GPU code is linked, which they explain, or when
// a feature enables none of what is linked: built alone its package would have no GPU code.
func (j Judged) Shown(all bool) []finding.Finding {
	all = all || !j.Answer.Stops && !slices.ContainsFunc(j.Answer.Roots, func(r features.Root) bool { return r.Reached })
	return slices.DeleteFunc(j.Findings(), func(f finding.Finding) bool {
		return f.Severity == finding.Note && !all && f.ID != features.IDBorrowed
	})
}

// Findings are those of the answer, with paths as people read them.
func (j Judged) Findings() []finding.Finding {
	return shown(j.Session, j.Answer.Findings, "features", "--fix")
}

// shown are findings with paths as people read them, and with the command that writes a fix of many lines.
func shown(s *session.Session, list []features.Finding, fixes ...string) []finding.Finding {
	const most = 2 // lines of a fix that are printed
	var out []finding.Finding
	for _, f := range list {
		f.Path = s.Machine.Shown(f.Path)
		if first, rest, _ := strings.Cut(f.Fix, "\n"); len(f.Edits) > most && fixable(s.Project, f) {
			if first == "[features]" {
				line, _, _ := strings.Cut(rest, "\n")
				first += "\n" + line
			}
			f.Brief = fmt.Sprintf("%s\n# and %d more: `gpubuild %s` writes them", first, len(f.Edits)-1,
				buildenv.PosixWords(s.Line.As(fixes...)...))
		}
		out = append(out, f.Finding)
	}
	return out
}
