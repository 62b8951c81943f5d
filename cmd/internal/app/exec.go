package app

import (
	"context"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/toolchain/cargo"
)

// runExec runs any command in the environment that every CUDA crate would need: which of them the command builds is not known here.
func runExec(a *app, ctx context.Context, o Options, l cargo.Line) error {
	words := l.Trailing
	if !l.HasTrailing || len(words) == 0 {
		return &usageError{"exec needs a command behind --", "gpubuild exec -- maturin build --release"}
	}
	t, err := pipeline.ChooseForAny(ctx, a.Machine, toolOptions(o))
	if err != nil {
		return err
	}
	host := a.Host
	host.Env = t.Env // nvcc itself may be the command
	path := words[0]
	if strings.ContainsAny(path, `/\`) {
		path = host.Abs(path)
	} else {
		found, err := host.LookPath(path)
		if err != nil {
			return &usageError{err.Error(), "install it or give its path"}
		}
		path = found
	}
	out := a.Shell.Out
	if o.JSON != nil && *o.JSON == "" {
		out = a.Shell.Err // stdout belongs to the answer
	}
	res, err := a.Runner.Run(ctx, buildenv.Cmd{Path: path, Args: words[1:], Env: t.Env.Entries(), Stdin: a.Stdin, Stdout: out, Stderr: a.Shell.Err})
	if isInterrupted(err) {
		return err
	}
	if answered := a.answer(o, "exec", err == nil, nil, struct {
		Command []string `json:"command"`
		Code    int      `json:"code"`
		buildenv.Delta
	}{words, res.Code, t.Delta}); answered != nil {
		return answered
	}
	return err
}
