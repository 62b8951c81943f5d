package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
)

func envVerb() verb {
	var o EnvOptions
	return verb{
		name: "env", usage: "print the environment of the build for a shell",
		text: "eval \"$(gpubuild env --shell bash --features cuda)\"\n\n" +
			"Only what a consumer reads is set, and nothing that your environment already answers with the same toolkit. --diff " +
			"says each change with its reason.",
		project: true,
		flags: slices.Concat(
			toolFlags(&o.Options),
			shared(&o.Options, "backend"),
			[]*flag{
				text("shell", "NAME", "the form to print (bash zsh fish pwsh cmd nu github gitlab dotenv direnv vscode "+
					"cargo-config json)", &o.Shell),
				toggle("diff", "print what would change and why", &o.Diff),
			},
			answerFlag(&o.Options),
		),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runEnv(ctx, a, o, l)
		},
	}
}

// EnvOptions are the flags of env.
type EnvOptions struct {
	Options
	Shell string
	Diff  bool
}

func runEnv(ctx context.Context, a *invocation, o EnvOptions, l cargo.Line) error {
	if o.Shell != "" && !slices.Contains(buildenv.Shells(), o.Shell) {
		return unknownShell(&buildenv.UnknownShellError{Shell: o.Shell})
	}
	a.SpeakLike(l)
	p, err := pipeline.Prepare(ctx, a.Machine, l, o.Strict, toolOptions(o.Options))
	if err != nil {
		return err
	}
	if o.JSON != nil {
		return a.answer(o.Options, "env", true, p.Features.Findings(), struct {
			buildenv.Delta
			Toolkit *cuda.Toolkit `json:"toolkit,omitempty"`
		}{p.Tools.Exported, p.Tools.Set.Toolkit})
	}
	if o.Diff {
		fmt.Fprint(a.Shell.Out, buildenv.Diff(a.Host, p.Tools.ExportFrom, p.Tools.Exported))
		return nil
	}
	shell := o.Shell
	if shell == "" {
		shell = usualShell(a.Host)
	}
	text, err := buildenv.Export(shell, a.Host, p.Tools.ExportFrom, p.Tools.Exported)
	if err != nil {
		return unknownShell(err)
	}
	_, err = fmt.Fprint(a.Shell.Out, text)
	return err
}

func unknownShell(err error) error {
	return &usageError{err.Error(), "name a shell with --shell: " + strings.Join(buildenv.Shells(), " ")}
}

// usualShell is the shell that the user has, as far as the environment tells.
func usualShell(h buildenv.Host) string {
	switch {
	case h.Env.Get("NU_VERSION") != "":
		return "nu"
	case h.OS == buildenv.Windows && h.Env.Get("MSYSTEM") != "": // Git Bash, MSYS2
		return "bash"
	case h.OS == buildenv.Windows:
		return "pwsh"
	}
	switch s := h.Base(h.Env.Get("SHELL")); s {
	case "zsh", "fish", "nu":
		return s
	}
	return "bash"
}
