package cli

import (
	"context"
	"fmt"

	"gpubuild/cmd/internal/help"
	"gpubuild/toolchain/cargo"
)

func completionVerb() verb {
	return verb{
		Verb: help.Verb{
			Name: "completion", Args: "bash|zsh|fish|pwsh", Usage: "print the completion script of a shell: bash, zsh, fish or pwsh",
			Examples: []string{"source <(gpubuild completion bash)"},
			Text:     "Completes our commands and flags, cargo's, and the features and packages of the project.",
		},
		instead: "gpubuild completion bash",
		run: func(_ context.Context, a *invocation, l cargo.Line) error {
			text, ok := help.Script(l.Positional[0])
			if !ok {
				return usage(fmt.Sprintf("no completion for `%s`", l.Positional[0]), "the shells are bash, zsh, fish and pwsh")
			}
			return a.Shell.Data(text)
		},
	}
}

func manVerb() verb {
	return verb{
		Verb: help.Verb{
			Name: "man", Usage: "print the manual page",
			Examples: []string{"gpubuild man | man -l -", "gpubuild man > gpubuild.1"},
		},
		run: func(ctx context.Context, a *invocation, _ cargo.Line) error {
			page, err := help.ManualPage(commandTree{invocation: a, form: help.Manual}.app(ctx, verbs()))
			if err != nil {
				return err
			}
			return a.Shell.Data(page)
		},
	}
}
