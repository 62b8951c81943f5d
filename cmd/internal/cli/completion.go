package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/answer"
	"gpubuild/cmd/internal/help"
	"gpubuild/toolchain/cargo"
)

// completionVerb gets the tables of all verbs as a function, because it is one of them.
func completionVerb(pages func() help.Pages) verb {
	var json *string
	return verb{
		Verb: help.Verb{
			Name: "completion", Args: "SHELL", Usage: "print the completion script of a shell: bash, zsh, fish or pwsh",
			Examples: []string{"source <(gpubuild completion bash)"},
			Text:     "Completes our commands and flags, cargo's, and the features and packages of the project.",
		},
		instead: "gpubuild completion bash",
		flags:   []*flag{jsonFlag(&json)},
		run:     func(_ context.Context, a *invocation, l cargo.Line) error { return complete(a, pages(), json, l) },
	}
}

// complete prints a shell's script.
func complete(a *invocation, pages help.Pages, json *string, l cargo.Line) error {
	word := l.Positional[0]
	text, ok := pages.Script(word)
	if !ok {
		return usage(fmt.Sprintf("no completion for `%s`", word), "the shells are bash, zsh, fish and pwsh")
	}
	if json != nil {
		return a.answer(json, "completion", true, nil, answer.Completion{For: word, Text: text})
	}
	return a.Shell.Data(text)
}

func manVerb(pages func() help.Pages) verb {
	return verb{
		Verb: help.Verb{Name: "man", Usage: "show the manual page", Examples: []string{"gpubuild man", "gpubuild man > gpubuild.1"}},
		run: func(ctx context.Context, a *invocation, _ cargo.Line) error {
			return showManual(ctx, a, pages().Manual())
		},
	}
}

// showManual opens the manual page in man on a terminal, if its -l is known to work; else it prints the page's source.
func showManual(ctx context.Context, a *invocation, page string) error {
	if out, ok := a.Shell.Out.(*os.File); ok && a.Host.OS == buildenv.Linux && local.Terminal(out) {
		if man, err := a.Host.LookPath("man"); err == nil {
			_, err := a.Runner.Run(ctx, buildenv.Cmd{
				Path: man, Args: []string{"-l", "-"}, Env: a.Host.Env.Entries(), Stdin: strings.NewReader(page),
				Stdout: a.Shell.Out, Stderr: a.Shell.Err,
			})
			return err
		}
	}
	return a.Shell.Data(page)
}
