package cli

import (
	"context"
	"fmt"

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
