package app

import (
	"context"

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

// lookAt opens the project that one of our own verbs is about and asks cargo, writing nothing of the user's.
func (a *app) lookAt(ctx context.Context, o Options, l cargo.Line) (*journey, error) {
	return a.looking(ctx, o, l, false)
}

// lookAtPlaces is lookAt where it is to be known where cargo builds, too.
func (a *app) lookAtPlaces(ctx context.Context, o Options, l cargo.Line) (*journey, error) {
	return a.looking(ctx, o, l, true)
}

// looking is lookAt; places says whether it is to be known where cargo builds.
func (a *app) looking(ctx context.Context, o Options, l cargo.Line, places bool) (*journey, error) {
	a.speakLike(l)
	tool, err := cargo.Find(a.Host, l)
	if err != nil {
		return nil, err
	}
	j := &journey{app: a, options: o, Line: l, Tool: tool, Tools: tools.Tools{Env: a.Host.Env}}
	opened, err := session.OpenOrRefuse(ctx, a.Machine, l)
	if err != nil {
		return nil, err
	}
	j.opened(opened)
	if err := j.ask(ctx, session.Question{Places: places, Own: true}); err != nil {
		return nil, err
	}
	return j, j.judge()
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
