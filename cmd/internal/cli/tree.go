package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// commandTree is urfave/cli's tree of commands for one command line. cargo.Split has taken the line of one of our own verbs apart:
// urfave/cli stops at the first argument, takes one hyphen for two, and knows none of cargo's flags.
type commandTree struct {
	*invocation
	form  help.Form
	words []string    // as typed
	line  cargo.Line  // of one of our own verbs
	given []cargo.Own // its flags
	page  io.Writer   // for help
}

// app is the tree with these verbs of ours, and with cargo's.
func (t commandTree) app(ctx context.Context, list []verb) *cli.App {
	app := &cli.App{
		Name: "gpubuild", HelpName: "gpubuild", Usage: help.Summary, CustomAppHelpTemplate: help.RootTemplate,
		Writer: t.page, HideHelp: true,
		Description: help.About, UsageText: help.Synopsis + "\ngpubuild COMMAND [FLAGS]\ngpubuild cargo ARGUMENTS",
		ExitErrHandler: func(*cli.Context, error) {}, // Main ends gpubuild, nobody else
		Action:         func(*cli.Context) error { return t.cargoVerb(ctx, t.words) },
	}
	for _, v := range list {
		app.Commands = append(app.Commands, t.command(ctx, "gpubuild", v))
	}
	skip := func(name, usage string, run func(c *cli.Context) error) {
		app.Commands = append(app.Commands,
			&cli.Command{Name: name, Usage: usage, SkipFlagParsing: true, HideHelp: true, Hidden: usage == "", Action: run})
	}
	skip("cargo", "Run plain cargo with the arguments that follow",
		func(c *cli.Context) error { return t.plainCargo(ctx, c.Args().Slice()) })
	skip("help", "", func(c *cli.Context) error { return t.help(ctx, c, c.Args().Slice()) })
	flags := help.Listed(listedCargoFlags(""), commonCargoFlags, t.form)
	if t.form == help.Manual {
		app.Commands = append(app.Commands, &cli.Command{
			Name: "build", Aliases: []string{"check", "run", "test", "bench", "clippy"}, Flags: flags,
			Usage: "Cargo's own commands, with these flags of gpubuild besides cargo's.",
		})
		return app
	}
	for _, name := range cargo.VerbNames() {
		if app.Command(name) == nil {
			app.Commands = append(app.Commands, &cli.Command{
				Name: name, Aliases: cargo.Aliases(name), Category: help.OfCargo, Hidden: true, HideHelp: true,
				SkipFlagParsing: true, Flags: flags, Action: app.Action,
			})
		}
	}
	return app
}

// commonCargoFlags are those of our flags on cargo's verbs that -h lists.
var commonCargoFlags = []string{
	"gpu-toolkit", "gpu-arch", "gpu-strict", "gpu-no-clean", "gpu-prove", "gpu-require-proof", "gpu-kernel", "gpu-expect", "gpu-on",
	"gpu-json",
}

// listedCargoFlags are our flags on one of cargo's verbs as help lists them.
func listedCargoFlags(verb string) []*flag {
	flags := cargoFlags(&pipeline.Options{})
	if cargo.PurposeOf(verb) == cargo.Documents {
		flags = slices.DeleteFunc(flags, func(f *flag) bool { return f.Category != "Toolchain" })
	}
	for _, f := range flags {
		f.Name = strings.TrimPrefix(prefix, "--") + f.Name
	}
	return flags
}

// command is one of our own verbs with its subcommands.
func (t commandTree) command(ctx context.Context, before string, v verb) *cli.Command {
	for _, s := range v.verbs {
		if t.form != help.Manual { // which shows those of the subcommands
			v.Examples = append(v.Examples, s.Examples[0])
		}
	}
	c := v.Command(before, v.flags, len(v.verbs) > 0, t.form)
	for _, s := range v.verbs {
		s.shellOS = v.shellOS
		c.Subcommands = append(c.Subcommands, t.command(ctx, before+" "+v.Name, s))
	}
	c.Action = func(c *cli.Context) error { return t.act(ctx, v, c) }
	c.OnUsageError = func(c *cli.Context, err error, _ bool) error { return v.refused(c, err) }
	if len(v.verbs) > 0 {
		c.Action = func(c *cli.Context) error { return v.noSubcommand(c.Args().First()) }
		c.Subcommands = append(c.Subcommands, &cli.Command{
			Name: "help", Hidden: true, HideHelp: true, SkipFlagParsing: true,
			Action: func(c *cli.Context) error { return t.help(ctx, c, append([]string{v.Name}, t.line.Positional[1:]...)) },
		})
	}
	return c
}

// called is how the user calls a command.
func called(c *cli.Context) string { return strings.TrimPrefix(c.Command.HelpName, "gpubuild ") }

// refused is the error of a flag that urfave/cli could not set, or that another subcommand has.
func (v verb) refused(c *cli.Context, err error) error {
	for _, f := range v.flags {
		if f.Refused != nil {
			return wrong(f, "--"+f.Name, f.Refused)
		}
	}
	name, foreign := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !foreign {
		return err
	}
	return usage(fmt.Sprintf("`--%s` is not a flag of `gpubuild %s`", name, called(c)),
		fmt.Sprintf("`gpubuild %s --help` lists its flags", called(c)))
}

// act runs one of our own verbs, whose flags are set.
func (t commandTree) act(ctx context.Context, v verb, c *cli.Context) error {
	line := t.line
	line.Positional = c.Args().Slice()
	words := t.words
	if v.Args != "" {
		words = nil // what stands behind --json is one of its arguments
	}
	if err := cmp.Or(t.checkFiles(words, t.given, line.Positional), v.checkArgs(called(c), line)); err != nil {
		if strings.Contains(v.Args, "-- ") {
			t.parts = nil // an argument too many may be meant for the program
		}
		return err
	}
	if v.results != nil {
		t.outcome.Files = *v.results
	}
	return v.run(ctx, t.invocation, line)
}

// run finds out whose verb the words begin with, ours or cargo's, and runs it.
func (a *invocation) run(ctx context.Context, words []string) error {
	return a.runOf(ctx, verbs(), words)
}

func (a *invocation) runOf(ctx context.Context, list []verb, words []string) error {
	var page strings.Builder
	t := commandTree{invocation: a, form: help.Long, words: words, page: &page}
	switch at := slices.IndexFunc(list, func(v verb) bool { return v.Name == words[0] }); {
	case words[0] == "help", words[0] == "cargo":
	case words[0] == "completion" && len(words) > 2 && words[1] == "words" && words[2] == "--": // what the scripts of the shells ask
		return a.Shell.Data(help.Complete(t.app(ctx, list), a.Machine, words[3:]))
	case a.NoCache != nil && !slices.Contains([]string{"version", "doctor", "explain"}, words[0]): // doctor says what else is wrong, too
		return a.NoCache
	case at < 0:
		cache.Adopt(a.CacheDir)
	default:
		v := &list[at]
		v.shellOS = a.Host.OS
		if asked := asksHelp(words[1:]); asked != "" {
			called, _ := v.sub(words[1:])
			if words = append(strings.Fields(called), "--help"); asked == "-h" {
				t.form = help.Short
			}
			break
		}
		cache.Adopt(a.CacheDir)
		var err error
		if t.line, t.given, err = v.split(words[1:]); err != nil {
			return err
		}
		if err := a.prepare(*v, t.line, words[1:]); err != nil {
			return err
		}
		words = v.words(t.line, t.given)
	}
	err := t.app(ctx, list).RunContext(ctx, append([]string{"gpubuild", "--"}, words...))
	if page.Len() > 0 {
		return a.Shell.Page(page.String())
	}
	return err
}

// prepare sets how loud and in what colour one of our own verbs speaks, and what a hint to fetch a toolkit says.
func (a *invocation) prepare(v verb, line cargo.Line, words []string) error {
	fetch := ""
	if findFlag(v.flags, "toolkit", "") != nil {
		fetch = tools.Fetching(v.shellOS, words, 0, v.Name, "--toolkit")
	}
	a.Machine = a.Speaking(line, fetch)
	a.keepParts(line, v.Name)
	if c := line.Color; c != "" && !slices.Contains([]string{"auto", "always", "never"}, c) {
		return usage(fmt.Sprintf("--color: %.200q is none of auto, always, never", c), "")
	}
	a.outcome.Annotated = v.results != nil
	return nil
}

// plainCargo is `gpubuild cargo WORDS`.
func (a *invocation) plainCargo(ctx context.Context, words []string) error {
	if len(words) == 0 {
		words = []string{"help"} // as cargo without a word does; without one a line of ours is a build
	}
	l, _, err := cargo.Split(words, nil)
	if err != nil {
		return err
	}
	return cargorun.Replace(ctx, a.Machine, l, a.Host.Env)
}
