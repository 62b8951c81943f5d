package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// cargoVerb runs a subcommand of cargo: an alias of the user's may bring further flags of ours.
func (a *invocation) cargoVerb(ctx context.Context, words []string) error {
	var o pipeline.Options
	flags := cargoFlags(&o)
	own := ownFlags(flags, prefix)
	line, _, err := cargo.Split(words, own)
	if err != nil {
		return err
	}
	a.keep(line)
	a.Machine = a.Speaking(line, tools.Fetching(a.Host.OS, words, slices.Index(words, line.VerbWord)+1, "", prefix+"toolkit"))
	tool, err := cargo.Find(a.Host, line)
	if err != nil {
		return err
	}
	typed := line.VerbWord
	line, given, err := cargo.Alias(a.Host, tool, line, own)
	if err != nil {
		return err
	}
	a.keep(line)
	for _, g := range given {
		f := findFlag(flags, g.Name, prefix)
		if err := f.Value.Set(g.Value); err != nil {
			return wrong(f, g.Name, err)
		}
	}
	if err := cmp.Or(checkCargo(a.Host.OS, o, line, flags), a.checkFiles(words, given, line.Positional)); err != nil {
		return err
	}
	if line.VerbWord == typed { // an alias is for a command of cargo's
		if err := a.misspelled(tool, line); err != nil {
			return err
		}
	}
	if line.Has("--help") && !o.Proof.Required && (line.Purpose().Compiles() || line.Verb == "nextest") {
		form := help.Long
		if asksHelp(line.Args) == "-h" {
			form = help.Short
		}
		if err := a.Shell.Page(help.CargoPage(line.Verb, listedCargoFlags(line.Verb), commonCargoFlags, form)); err != nil {
			return err
		}
		err := cargorun.Run(ctx, a.Machine, line, a.Host.Env)
		if line.Verb == "nextest" { // it need not be installed
			return nil
		}
		return err
	}
	a.outcome, err = pipeline.Dispatch(ctx, pipeline.Command{
		Machine: a.Machine, Tool: tool, Line: line, Options: o, Args: a.words, Typed: words,
	})
	return err
}

// checkCargo refuses flags that contradict each other, and those of ours that lack their prefix.
func checkCargo(os string, o pipeline.Options, l cargo.Line, flags []*flag) error {
	if l.Known() {
		for _, w := range l.Unknown() {
			name, _, _ := strings.Cut(w, "=")
			if at := slices.Index(l.Args, w); name == "--device" && at >= 0 && l.Purpose().Starts() {
				return usage("cargo has no flag `--device`; the program's own arguments follow --",
					buildenv.Words(os, slices.Concat([]string{"gpubuild", l.Verb}, l.Args[:at], []string{"--"}, l.Args[at:])...))
			}
			if f := findFlag(flags, name, "--"); f != nil {
				says := fmt.Sprintf("cargo has no flag `%s`; did you mean `%s%s`?", name, prefix, f.Name)
				for at, w := range l.Args {
					if v, ok := find(w); ok && l.VerbWord == "" { // its flags stand in front of it
						return usage(says, buildenv.Words(os, slices.Concat([]string{"gpubuild", v.Name}, l.Args[:at], l.Args[at+1:])...))
					}
				}
				return usage(says, "")
			}
		}
	}
	if o.Fresh.NoClean && o.Fresh.ForceClean {
		return usage("--gpu-no-clean and --gpu-force-clean contradict each other", "leave --gpu-no-clean or --gpu-force-clean out")
	}
	if o.Audit && l.Known() && l.Verb != "build" {
		return usage("--gpu-audit is a flag of build, not of "+l.Verb, "gpubuild audit target/release/app audits any program")
	}
	if o.Tools.Backend == toolchain.ROCm && (o.Proof.Wanted || o.Proof.Required || o.Proof.Receipt || o.Proof.Kernel != nil) {
		return usage("--gpu-backend rocm: "+nothingOfAMD, "leave out the flags that ask for a proof, or build for CUDA")
	}
	if err := checkExpected(o.Proof, prefix); err != nil {
		return err
	}
	if o.Files.JSON != nil && *o.Files.JSON == "" && l.WantsJSON() {
		return usage("--gpu-json would write into cargo's messages on stdout", "give it a file: --gpu-json=gpubuild.json")
	}
	return nil
}

// meant are commands of gpubuild for words that other tools have.
var meant = map[string]string{
	"list": "gpubuild toolchain list", "toolkit": "gpubuild toolchain list", "lint": "gpubuild features --lint",
	"why": "gpubuild features --features cuda", "graph": "gpubuild features --features cuda --verbose",
	"verify": "gpubuild prove target/release/app",
}

// misspelled is the error for a subcommand that cargo does not have and that is, or is close to, one of gpubuild's. What is closer to one
// of cargo's is left to cargo, which says so.
func (a *invocation) misspelled(tool cargo.Tool, l cargo.Line) error {
	near := exit.Nearest(l.VerbWord, append(cargo.OwnCommands(), VerbNames()...))
	command := meant[strings.TrimSuffix(l.VerbWord, "s")]
	switch {
	case l.Known() || cargo.Plugin(a.Host, tool, l.VerbWord):
		return nil
	case command != "":
		return usage(fmt.Sprintf("unknown command `%s`", l.VerbWord), command)
	case !slices.Contains(VerbNames(), near):
		return nil
	}
	if near == l.VerbWord && l.Dir != "" {
		return usage("-C is cargo's flag, and no flag of gpubuild's own commands",
			buildenv.Words(a.Host.OS, "cd", l.Dir)+" && "+buildenv.Words(a.Host.OS, append([]string{"gpubuild", near}, l.Args...)...))
	}
	if near == l.VerbWord {
		words, says := slices.Concat([]string{"gpubuild", near}, l.Args), "is gpubuild's own command and stands before its flags"
		if l.HasTrailing {
			words = slices.Concat(words, []string{"--"}, l.Trailing)
		}
		if l.Toolchain != "" {
			says = "is gpubuild's own command and starts no cargo: +" + l.Toolchain + " has no meaning with it"
		}
		return usage(fmt.Sprintf("`%s` %s", near, says), buildenv.Words(a.Host.OS, words...))
	}
	return usage(fmt.Sprintf("unknown command `%s`; did you mean `%s`?", l.VerbWord, near), "")
}
