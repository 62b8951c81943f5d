package app

import (
	"context"
	"errors"

	"gpubuild/buildenv/cache"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

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
	j := &journey{app: a, options: o, Line: l, Tool: tool, env: a.Host.Env}
	if err := j.askOnly(ctx, places); err != nil {
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
	quiet := a.Shell.Quiet
	a.Shell.Quiet = quiet || !a.Shell.Verbose // what was chosen is no part of this verb's answer
	err = j.chooseTools(ctx)
	a.Shell.Quiet = quiet
	return j, err
}

// openInItsWords is openProject where cargo can be asked: what is wrong with a manifest, cargo says best. Our own words stand where it finds nothing wrong.
func (j *journey) openInItsWords(ctx context.Context) error {
	err := j.openProject()
	var bad *features.ManifestError
	if !errors.As(err, &bad) {
		return err
	}
	if j.Tool.Path == "" {
		tool, missing := cargo.Find(j.Host, j.Line)
		if missing != nil {
			return err
		}
		j.Tool = tool
	}
	private := cargo.Private{Root: j.Host.Join(j.CacheDir, "cargo", hashName(j.Host.Cwd))}
	_, said := cargo.Graph(ctx, j.Host, j.Runner, j.Tool, cargo.Request{Line: j.Line, Asking: cargo.Asking{Private: private, Colour: j.Shell.Colour, NoLockWrite: true}, Mkdir: cache.Make})
	var refused *cargo.RefusedError
	if errors.As(said, &refused) {
		return refused
	}
	return err
}
