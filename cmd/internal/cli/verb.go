package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gpubuild/buildenv/exit"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// verb is one of our own: what help says of it, its flags, which set its options, and what it does with them.
type verb struct {
	name, usage, text string // usage: one line; text: the example and what a user should know
	project           bool   // it looks at a project, and takes cargo's selection flags as cargo writes them
	flags             []*flag
	results           *Options // where its result goes; nil where it has none to render
	run               func(ctx context.Context, a *invocation, l cargo.Line) error
}

// parse reads the words behind a verb's name and runs it. urfave parses the flags; because it stops at the first positional word and
// knows nothing of clap's forms, split collects them first.
func (v verb) parse(ctx context.Context, a *invocation, words []string) error {
	line, given, err := v.split(words)
	if err != nil {
		return err
	}
	c := application(ctx, a)
	c.Commands = []*cli.Command{{
		Name: v.name, Flags: v.urfave(),
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return v.wrong(err) },
		Action: func(*cli.Context) error {
			if err := v.noWords(line); err != nil {
				return v.endEarly(a, err)
			}
			return v.endEarly(a, v.inItsFlags(v.run(ctx, a, line)))
		},
	}}
	return c.RunContext(ctx, append([]string{"gpubuild", v.name}, given...))
}

// endEarly renders an error that came before the result.
func (v verb) endEarly(a *invocation, err error) error {
	if v.results == nil {
		return err
	}
	return a.endEarly(*v.results, v.name, err)
}

// split takes the words of a verb apart, and answers its own flags as urfave reads them. The verbs that look at a project read cargo's
// selection flags as `cargo build` does; on the others every flag must be ours.
func (v verb) split(words []string) (cargo.Line, []string, error) {
	own := cargo.OwnFlags{}
	for _, f := range v.flags {
		own["--"+f.Name] = f.kind
	}
	line := append([]string{"build"}, words...)
	if v.project && len(words) > 0 && strings.HasPrefix(words[0], "+") { // rustup's word stands before cargo's verb
		line[0], line[1] = words[0], "build"
	}
	l, owns, err := cargo.Split(line, own)
	if err != nil {
		return cargo.Line{}, nil, err
	}
	for _, w := range l.Args {
		if !v.project && strings.HasPrefix(w, "-") && w != "-" {
			return cargo.Line{}, nil, v.unknown(w)
		}
	}
	var given []string
	for _, o := range owns {
		given = append(given, o.Name+"="+o.Value)
	}
	return l, given, nil
}

func (v verb) unknown(word string) error {
	var known []string
	for _, f := range v.flags {
		known = append(known, "--"+f.Name)
	}
	slices.Sort(known)
	return &exit.UsageError{What: fmt.Sprintf("gpubuild %s knows no flag %s", v.name, word),
		Fix: "it knows " + strings.Join(known, ", ") + "; see `gpubuild " + v.name + " --help`"}
}

// wrong names the flag whose value urfave could not set.
func (v verb) wrong(err error) error {
	for _, f := range v.flags {
		if f.refused != nil {
			shown := Flag{Kind: f.kind, Holder: strings.TrimSpace(f.holder), Meaning: f.Usage}
			return shown.Wrong("--"+f.Name, f.refused)
		}
	}
	return &exit.UsageError{What: err.Error()}
}

// inItsFlags has the hint of an error that the choice of tools ended with name flags as a verb of ours knows them: `gpubuild env
// --toolkit=fetch`.
func (v verb) inItsFlags(err error) error {
	var missing *toolchain.MissingError
	var misfit *toolchain.MisfitError
	knows := slices.ContainsFunc(v.flags, func(f *flag) bool { return f.Name == "toolkit" })
	if !knows || !errors.As(err, &missing) && !errors.As(err, &misfit) {
		return err
	}
	return &ownFlagsError{err, v.name}
}

type ownFlagsError struct {
	error
	verb string
}

func (e *ownFlagsError) Unwrap() error { return e.error }

// Hint is that of the error inside.
func (e *ownFlagsError) Hint() string {
	hint := strings.ReplaceAll(exit.Hint(e.error), "gpubuild --gpu-", "gpubuild "+e.verb+" --")
	for _, name := range []string{"toolkit", "arch", "ccbin"} {
		hint = strings.ReplaceAll(hint, "--gpu-"+name, "--"+name)
	}
	return hint
}

// noWords refuses words that a verb would not look at: `gpubuild features cuda`
// asks for nothing, and its answer would read as "all is well".
func (v verb) noWords(l cargo.Line) error {
	switch v.name {
	case "features", "doctor", "env", "stale", "version":
		if len(l.Positional) > 0 {
			return &exit.UsageError{What: fmt.Sprintf("%s takes no word %q", v.name, l.Positional[0]),
				Fix: "features are asked for with --features, packages with -p; see gpubuild " + v.name + " --help"}
		}
	}
	return nil
}

func asksHelp(words []string) bool {
	for _, w := range words {
		switch w {
		case "--":
			return false
		case "-h", "--help":
			return true
		}
	}
	return false
}

// application is urfave's application without commands.
func application(ctx context.Context, a *invocation) *cli.App {
	c := cli.NewApp()
	c.Name = "gpubuild"
	c.Usage = "cargo with a GPU that is proven to be used"
	c.UsageText = "gpubuild [build|check|run|test|bench|clippy] [CARGO FLAGS] [--gpu-FLAGS]\ngpubuild VERB [FLAGS]\n" +
		"gpubuild cargo WORDS…    plain cargo, whatever the words are"
	c.Description = "Without a verb gpubuild builds: `gpubuild --features cuda,cudnn --release` stands where `cargo build …` stood.\n" +
		"Every flag of cargo passes; our own begin with --gpu- there. Verbs that are not listed here are cargo's.\n" +
		"See also: gpubuild help exit-codes, gpubuild help environment, gpubuild help config, gpubuild help results"
	c.Writer, c.ErrWriter = a.Shell.Out, a.Shell.Err
	c.HideVersion = true
	c.HideHelpCommand = true
	c.ExitErrHandler = func(*cli.Context, error) {} // only cmd/gpubuild exits
	return c
}
