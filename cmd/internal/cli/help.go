package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/help"
	"gpubuild/toolchain/cargo"
)

// help is `gpubuild help WORDS`: a topic, a verb of ours, or one of cargo's. Without words it is the overview.
func (a *invocation) help(ctx context.Context, c *cli.Context, words []string) error {
	if len(words) == 0 {
		return cli.ShowAppHelp(c)
	}
	line, _, err := cargo.Split(words, nil) // perhaps an alias of cargo's (r)
	topic, known := help.Topic(words[0])
	_, ours := find(words[0])
	switch {
	case known:
		return a.Shell.Page(topic)
	case ours && help.Find(c.App, words...) != nil:
		return a.run(ctx, append(words, "--help"))
	case len(words) == 1 && words[0] == "cargo":
		return a.Shell.Page(cargoHelp)
	case err == nil && (line.Purpose().Compiles() || line.Verb == "nextest"):
		return a.cargoVerb(ctx, append(words, "--help"))
	case help.NearTopic(words[0]) != "":
		return usage(fmt.Sprintf("unknown topic `%s`; did you mean `%s`?", words[0], help.NearTopic(words[0])), "")
	}
	return a.helpOfCargo(ctx, words)
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
		return v.noSubcommand(words[1])
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
