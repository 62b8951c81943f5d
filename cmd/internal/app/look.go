package app

import (
	"context"
	"gpubuild/toolchain/cargo"
)

// lookAt opens the project that one of our own verbs is about and asks cargo, writing nothing of the user's.
func (a *app) lookAt(ctx context.Context, o Options, l cargo.Line) (*journey, error) {
	a.speakLike(l)
	tool, err := cargo.Find(a.host, l)
	if err != nil {
		return nil, err
	}
	j := &journey{app: a, options: o, line: l, tool: tool, env: a.host.Env}
	if err := j.openProject(); err != nil {
		return nil, err
	}
	if err := j.askOnly(ctx); err != nil {
		return nil, err
	}
	return j, j.judge()
}

// prepared is a journey that has chosen its tools.
func (a *app) prepared(ctx context.Context, o Options, l cargo.Line) (*journey, error) {
	j, err := a.lookAt(ctx, o, l)
	if err != nil {
		return nil, err
	}
	quiet := a.shell.Quiet
	a.shell.Quiet = quiet || !a.shell.Verbose // what was chosen is no part of this verb's answer
	err = j.chooseTools(ctx)
	a.shell.Quiet = quiet
	return j, err
}
