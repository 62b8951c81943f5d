package cli

import (
	"context"
	"fmt"

	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/toolchain/cargo"
)

// help is `gpubuild help WORDS`: a topic, a verb of ours, or one of cargo's.
func (a *invocation) help(ctx context.Context, words []string) error {
	tables := pages()
	text := tables.Root()
	if len(words) > 0 {
		topic, known := help.Topic(words[0])
		_, ours := tables.Find(words...)
		switch {
		case known:
			text = topic
		case ours:
			text = tables.Page(words...)
		case len(words) == 1 && words[0] == "cargo":
			text = cargoHelp
		case pipeline.Judged(words[0]), words[0] == "doc":
			return a.cargoVerb(ctx, append(words, "--help"))
		case help.NearTopic(words[0]) != "":
			return usage(fmt.Sprintf("unknown topic `%s`; did you mean `%s`?", words[0], help.NearTopic(words[0])), "")
		default:
			return a.helpOfCargo(ctx, words)
		}
	}
	return a.Shell.Page(text)
}

const cargoHelp = `Run plain cargo with the arguments that follow

Usage: gpubuild cargo [+TOOLCHAIN] COMMAND [ARGUMENTS]

gpubuild sets nothing, checks nothing and prints nothing.
Cargo's own audit, watch or bundle: gpubuild cargo audit.
`

// helpOfCargo is what cargo says of a command, unless the word is close to one that help knows.
func (a *invocation) helpOfCargo(ctx context.Context, words []string) error {
	if v, ours := find(words[0]); ours {
		if len(v.verbs) == 0 {
			return usage(fmt.Sprintf("`gpubuild %s` has no subcommand `%s`", v.Name, words[1]), "gpubuild help "+v.Name)
		}
		_, _, err := v.subcommand(cargo.Line{Positional: words[1:]}, nil)
		return err
	}
	line, _, err := cargo.Split(words, nil)
	if err != nil {
		return err
	}
	tool, err := cargo.Find(a.Host, line)
	if err != nil {
		return err
	}
	if err := a.misspelled(tool, line); err != nil {
		return err
	}
	if line, _, err = cargo.Split(append([]string{"help"}, words...), nil); err != nil {
		return err
	}
	err = cargorun.Run(ctx, a.Machine, line, a.Host.Env)
	if err != nil {
		a.Shell.Hint("`gpubuild help` lists gpubuild's own commands and topics")
	}
	return err
}
