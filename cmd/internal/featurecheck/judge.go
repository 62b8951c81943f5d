// Package featurecheck asks cargo what command lines build and has features judge the answers. Beside the judgement of one build it has the
// searches that need many: Fix for the missing lines of manifests, Lint for the features of every member, Route for another command line.
//
// It builds nothing. Only Fix writes, and only manifests of the workspace; Cargo.lock is left as it was.
package featurecheck

import (
	"context"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
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

// Judge has features judge cargo's answer about the session's line. strict counts beside the configuration's.
func Judge(s *session.Session, tool cargo.Tool, g session.Graph, strict bool) (Judged, error) {
	j := Judged{Session: s, Tool: tool, Graph: g}
	var err error
	if j.Input, err = s.Input(g, strict); err != nil {
		return j, err
	}
	if j.Answer, err = features.Judge(s.Machine.Host, j.Input); err != nil {
		return j, err
	}
	features.SameHint(s.Project, j.Answer.Findings)
	return j, nil
}

// Options say how a build is looked at for one of our own verbs.
type Options struct {
	Strict bool
	Places bool // it is to be known where cargo builds, too
}

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
	g, err := s.Graph(ctx, tool, session.Question{Places: o.Places, Own: true})
	if err != nil {
		return Judged{}, err
	}
	return Judge(s, tool, g, o.Strict)
}

// Findings are those of the answer, with paths as people read them.
func (j Judged) Findings() []finding.Finding { return shown(j.Session.Machine, j.Answer.Findings) }

func shown(m *session.Machine, list []features.Finding) []finding.Finding {
	var out []finding.Finding
	for _, f := range list {
		f.Path = m.Shown(f.Path)
		out = append(out, f.Finding)
	}
	return out
}
