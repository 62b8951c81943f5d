package app

import (
	"context"

	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// chooseTools chooses what the build needs of the machine; without a project, for a program that may be anything.
func (j *journey) chooseTools(ctx context.Context) error {
	s := j.session
	if s == nil {
		s = &session.Session{Machine: j.Machine}
	}
	return j.choose(ctx, s)
}

func (j *journey) choose(ctx context.Context, s *session.Session) (err error) {
	o := toolOptions(j.options)
	o.Cargo, o.BuiltFor = j.Tool, fresh.BuiltFor(j.Machine, j.graph.Places)
	if j.Project != nil {
		o.Undeclared = func(asked string) (tools.Undeclared, error) { return fresh.Undeclared(j.freshBuild(), asked), nil }
	}
	if j.Tools, err = tools.Choose(ctx, s.With(j.Line), j.graph, j.reach, o); err == nil {
		j.Tool, j.Line = j.Cargo, j.Tools.Line
	}
	return err
}

// toolOptions are the flags that the choice of tools knows.
func toolOptions(o Options) tools.Options {
	return tools.Options{Toolkit: o.Toolkit, Arch: o.Arch, CCBin: o.CCBin, Backend: o.Backend}
}

// lookAtPlaces opens the project that one of our own verbs is about and asks cargo what it builds, and where, writing nothing of the
// user's.
func (a *app) lookAtPlaces(ctx context.Context, o Options, l cargo.Line) (*journey, error) {
	a.speakLike(l)
	judged, err := featurecheck.Open(ctx, a.Machine, l, featurecheck.Options{Strict: o.Strict, Places: true})
	if err != nil {
		return nil, err
	}
	j := &journey{app: a, options: o, Line: l, Tool: judged.Tool, Tools: tools.Tools{Env: a.Host.Env}}
	j.opened(judged.Session)
	j.graph, j.checked, j.reach, j.findings = judged.Graph, judged, judged.Answer, judged.Findings()
	return j, nil
}

// prepared is a journey that has chosen its tools.
func (a *app) prepared(ctx context.Context, o Options, l cargo.Line) (*journey, error) {
	j, err := a.lookAtPlaces(ctx, o, l)
	if err != nil {
		return nil, err
	}
	s := j.session
	if !a.Shell.Verbose { // what was chosen is no part of this verb's answer
		s = s.Quiet()
	}
	return j, j.choose(ctx, s)
}
