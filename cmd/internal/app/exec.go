package app

import (
	"context"
	"gpubuild/buildenv"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
	"strings"
)

// runExec runs any command in the environment of the build of the project here, or, where there is none, of a toolkit that fits nothing in
// particular.
func runExec(a *app, ctx context.Context, o Options, l cargo.Line) error {
	words := l.Trailing
	if !l.HasTrailing || len(words) == 0 {
		return &usageError{"exec needs a command behind --", "gpubuild exec -- maturin build --release"}
	}
	path := words[0]
	if strings.ContainsAny(path, `/\`) {
		path = a.host.Abs(path)
	} else {
		found, err := a.host.LookPath(path)
		if err != nil {
			return &usageError{err.Error(), "install it or give its path"}
		}
		path = found
	}
	j := &journey{app: a, options: o, env: a.host.Env}
	j.reach = &features.Answer{Needs: features.Needs{CUDA: true, NVCC: true, HostCXX: true, CUDALibs: true}}
	if err := j.chooseTools(ctx); err != nil {
		return err
	}
	_, err := a.run.Run(ctx, buildenv.Cmd{Path: path, Args: words[1:], Env: j.env.Entries(), Stdin: a.stdin, Stdout: a.shell.Out, Stderr: a.shell.Err})
	return err
}
