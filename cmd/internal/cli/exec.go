package cli

import (
	"context"
	"errors"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

func execVerb() verb {
	var o Options
	return verb{
		name: "exec", usage: "run any command in the environment of the build",
		text:  "gpubuild exec -- maturin build --release",
		flags: append(toolFlags(&o), answerFlag(&o)...),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runExec(ctx, a.Machine, o, l)
		},
	}
}

// runExec runs any command in the environment that every CUDA crate would need: which of them the command builds is not known here.
func runExec(ctx context.Context, m *session.Machine, o Options, l cargo.Line) error {
	words := l.Trailing
	if !l.HasTrailing || len(words) == 0 {
		return &exit.UsageError{What: "exec needs a command behind --", Fix: "gpubuild exec -- maturin build --release"}
	}
	needs := &features.Answer{Needs: features.Needs{CUDA: true, NVCC: true, HostCXX: true, CUDALibs: true}}
	wanted := tools.Options{Toolkit: o.Toolkit, Arch: o.Arch, CCBin: o.CCBin}
	chosen, err := tools.Choose(ctx, &session.Session{Machine: m}, session.Graph{}, needs, wanted)
	if err != nil {
		return err
	}
	host := m.Host
	host.Env = chosen.Env // nvcc itself may be the command
	path := words[0]
	if strings.ContainsAny(path, `/\`) {
		path = host.Abs(path)
	} else {
		found, err := host.LookPath(path)
		if err != nil {
			return &exit.UsageError{What: err.Error(), Fix: "install it or give its path"}
		}
		path = found
	}
	out := m.Shell.Out
	if o.JSON != nil && *o.JSON == "" {
		out = m.Shell.Err // stdout belongs to the answer
	}
	res, err := m.Runner.Run(ctx, buildenv.Cmd{
		Path: path, Args: words[1:], Env: chosen.Env.Entries(), Stdin: m.Stdin, Stdout: out, Stderr: m.Shell.Err,
	})
	if errors.Is(err, context.Canceled) {
		return err
	}
	if answered := report.Answer(m, o.JSON, "exec", err == nil, nil, struct {
		Command []string `json:"command"`
		Code    int      `json:"code"`
		buildenv.Delta
	}{words, res.Code, chosen.Delta}); answered != nil {
		return answered
	}
	return err
}
