package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

func execVerb() verb {
	var o tools.Options
	var allow bool
	return verb{
		Verb: help.Verb{
			Name: "exec", Args: "-- COMMAND", Usage: "run any command in the environment of the build", Project: true,
			Examples: []string{"gpubuild exec -- maturin build --release",
				"gpubuild exec --features cuda -p app -- cargo publish --dry-run"},
			Text: "`gpubuild exec -- cargo build` is `gpubuild build`. Any other command gets the variables that any CUDA crate " +
				"needs, and those for the crates that the selection flags enable. In a project, uses [toolchain] of gpubuild.toml.",
		},
		flags: append(toolFlags(&o, "--", fetches)[:3:3],
			toggle("allow-unreached", "of cargo: build although a requested feature does not enable its GPU crates", &allow)),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			c, builds, err := pipeline.CargoOf(a.Machine, l.Trailing, o)
			c.Options.AllowUnreached = allow
			switch c.Args = a.words; {
			case err != nil:
				return err
			case builds && len(l.Features) > 0 && len(c.Line.Features) == 0 && !c.Line.AllFeatures: // it would build without them, silently
				at := len(a.words)
				if i := slices.Index(l.Trailing, "--"); i >= 0 {
					at += i - len(l.Trailing)
				}
				words := slices.Insert(slices.Clone(a.words), at, "--features="+strings.Join(l.Features, ","))
				return usage(fmt.Sprintf("`cargo %s` does not get the features that stand before --", c.Line.Verb),
					"gpubuild "+buildenv.Words(a.Host.OS, words...))
			case builds:
				a.outcome, err = pipeline.Dispatch(ctx, c)
				return err
			}
			return runExec(ctx, a.Machine, o, l)
		},
	}
}

// runExec runs any command in the environment that every CUDA crate would need: which of them the command builds is unknown.
func runExec(ctx context.Context, m *session.Machine, o tools.Options, l cargo.Line) error {
	chosen, err := pipeline.AnyTools(ctx, m, o, l)
	if err != nil {
		return err
	}
	c, err := m.Command(l.Trailing, chosen.Env) // nvcc itself may be the command
	if err == nil {
		_, err = m.Runner.Run(ctx, c)
	}
	return err
}
