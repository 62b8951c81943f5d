package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"gpubuild/cmd/internal/ci"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// verb is one of our own words: what help says of it, which flags it knows, and what it does.
type verb struct {
	name, usage, text string // usage: one line; text: the example and what a user should know
	group             group
	run               func(a *app, ctx context.Context, o Options, l cargo.Line) error
}

// verbs are our own; every other word is cargo's.
func verbs() []verb {
	return []verb{
		{"features", "say whether cuda and cudnn reach the GPU crates of each binary, and why not",
			"gpubuild features --features cuda,cudnn -p app\ngpubuild features --features cuda --fix --dry-run\ngpubuild features --features cuda --why candle-nn/cuda\ngpubuild features --features cuda --route\n\nTakes cargo's selection flags as cargo writes them. Nothing is compiled. Ends 0, or 10 where a feature does not reach.\n" +
				"--fix writes into manifests of the workspace only; Cargo.lock is left as it was. --manifest-only, the pre-commit hook's way, runs no cargo: it\nreads the manifests and fails where a member's GPU feature is not passed on to a direct dependency that has it. --lint asks cargo about every member.", onProject, runFeatures},
		{"doctor", "check this machine and this project, part by part",
			"gpubuild doctor --for prove\n\nEvery check has a stable id. Ends 11 when a part is missing, 12 when parts do not fit.", onProject, runDoctor},
		{"env", "print the environment of the build for a shell",
			"eval \"$(gpubuild env --shell bash --features cuda)\"\n\nOnly what a consumer reads is set, and nothing that your environment already answers with the same toolkit. --diff says each change with its reason.", onProject, runEnv},
		{"stale", "say which artifacts cargo believes fresh although a tool changed",
			"gpubuild stale --features cuda --release\n\nCleans nothing. Ends 13 when something is stale: by what is recorded of earlier builds, and by the device code of what they left (--explain shows both).", onProject, runStale},
		{"clean", "remove what was built of the GPU packages, or of the stale ones alone",
			"gpubuild clean --features cuda --release\ngpubuild clean --features cuda --minimal --dry-run\n\nStands in place of cargo's own clean, which is `gpubuild cargo clean`. Takes cargo's selection flags as `cargo build` does and removes just these\npackages' things, with cargo's own `clean -p`, for that profile and those targets; all versions of a name go, as cargo does not tell them apart.\n" +
				"It waits for a cargo that is building there. It refuses a target directory that is /, your home or a package's own directory.", onProject, runClean},
		{"scan", "list the device code in files: cubins, fatbins, PTX; and the libraries that they load",
			"gpubuild scan target/release/app\ngpubuild scan --libraries target/release/app\n\nReads any file, at any byte position; nothing is run. --json has the file's SHA-256, too. With --libraries it follows the loader (ld.so, musl's, or Windows' with delay-loaded DLLs) and\nends 11 when a library is missing, 12 when the loader would take one that is a stub or for another machine.", onScan, runScan},
		{"prove", "run a program and prove that its kernel ran on the GPU",
			"gpubuild prove target/release/app -- --device cuda\n\nThe program runs with its own input and output under a probe that the CUDA driver loads. Ends 0 only when proven;\n20 it ran on the CPU, 21 not proven, 22 other kernels only; the program's own code when that is not the expected one.\nWith --expect cpu it ends 0 only when it certainly ran on the CPU, 22 when it used the GPU, 21 when neither is known.", onProve, runProve},
		{"receipt", "check that a receipt of a proof still holds: `verify FILE [BIN]`",
			"gpubuild prove --receipt proof.json target/release/app -- --device cuda\ngpubuild receipt verify proof.json target/release/app\n\nEnds 0 when the binary is the one that was proven and today's rules, applied to the stored evidence, say the same; else 21.\nA receipt is no signature: it is worth as much as the way on which it came.", onOther, runReceipt},
		{"report", "join the results of a matrix into one page: which row is compiled, which proven, on which device, since when",
			"gpubuild report results/ --html report.html\ngpubuild report results/*.json results/*.xml\n\nReads receipts, answers (--json, --gpu-json), JUnit files and the list of `gpubuild ci matrix --format json`; of a directory every .json\n" +
				"and .xml below it. The page needs nothing beside itself. cargo has a word `report`, too: that is `gpubuild cargo report`.", onOther, runReport},
		{"audit", "run a program on drivers that fail, and say whether it fails honestly or falls back",
			"gpubuild audit target/release/app -- --device cuda\n\nNeeds no GPU. The program runs once in each mode (no library, no device, stub, mismatch, out of memory, no code for this GPU,\na kernel that fails), without input; what it writes is not shown. Ends 0 when it failed honestly in all, 20 when it ended well although the driver had failed, 21 when it could\nnot be told, as of a program that never asks for the driver.", onProve, runAudit},
		{"exec", "run any command in the environment of the build",
			"gpubuild exec -- maturin build --release", onExec, runExec},
		{"toolchain", "list, install, use, verify or remove CUDA toolkits",
			"gpubuild toolchain list\ngpubuild toolchain install 13.4\ngpubuild toolchain use 13.4\ngpubuild toolchain verify|remove 13.4\n\ninstall fetches NVIDIA's wheels with your own pip into your cache: no admin rights, nothing outside the cache. CUDA 12, whose wheels\nhold no nvcc, comes from NVIDIA's redistributable archives, and so does CUDA 13 where there is no pip.\nuse names the toolkit for all your builds (a version, or a directory), below --gpu-toolkit, GPUBUILD_CUDA and the project's own word;\n`use default` forgets it, `use` alone shows it. It is kept in your own configuration file.\nverify and remove take a version, a name or a directory that `list` shows; verify alone looks at all of them.", onToolchain, runToolchain},
		{"ci", "the matrix of CI: `matrix`, `run ROW`, `init " + ci.ProviderNames("|") + "`",
			"gpubuild ci matrix\ngpubuild ci run cuda-cuda13.4-sm_90-linux-x86_64-dev\ngpubuild ci init github --stdout\n\nmatrix lists the rows that [matrix] in gpubuild.toml makes, those that are left out with the reason. run does on this machine what CI does for a row;\n" +
				"a row that proves ends with 21 where there is no GPU. init writes a workflow that runs the rows.", onProject, runCI},
		{"explain", "say what a failed build's log means, or a code: `LOG`, `-` or `CODE`",
			"gpubuild build --features cuda 2>&1 | gpubuild explain\ngpubuild explain build.log\ngpubuild explain LNK1181\n\nNames the first cause that is known, what to do, and where that is written. Ends 1 when the log has errors and none is known.", onOther, runExplain},
		{"completion", "print a shell's completion script: `bash`, `zsh`, `fish`, `pwsh` or `nu`; or the manual page: `man`",
			"source <(gpubuild completion bash)\ngpubuild completion man | man -l -\n\nCompletes our verbs and flags, cargo's, and the features and packages of the project.", onOther, runCompletion},
		{"init", "write a gpubuild.toml with every key, commented and filled in; cargo's own is `gpubuild cargo init`",
			"gpubuild init\ngpubuild init --stdout\n\nIt stands in front of cargo's init: a new package is made by `gpubuild cargo init`. A gpubuild.toml that is there stays, unless\nwith --force. Nothing that runs or fetches is turned on by it.", onProject, runInit},
		{"cache", "show or empty gpubuild's cache: `dir` or `clean`", "gpubuild cache dir\n\nGPUBUILD_CACHE moves it.", onOther, runCache},
		{"version", "print the version of gpubuild and of what it is made of", "gpubuild version --json", onOther, runVersion},
	}
}

// commandLine makes the urfave/cli application: it dispatches to our verbs and prints their help. Their words are parsed by the same
// splitter as cargo's, because urfave stops at the first positional word and knows nothing of clap's forms.
func (a *app) commandLine(ctx context.Context) *cli.App {
	c := cli.NewApp()
	c.Name = "gpubuild"
	c.Usage = "cargo with a GPU that is proven to be used"
	c.UsageText = "gpubuild [build|check|run|test|bench|clippy] [CARGO FLAGS] [--gpu-FLAGS]\ngpubuild VERB [FLAGS]\ngpubuild cargo WORDS…    plain cargo, whatever the words are"
	c.Description = "Without a verb gpubuild builds: `gpubuild --features cuda,cudnn --release` stands where `cargo build …` stood.\n" +
		"Every flag of cargo passes; our own begin with --gpu- there. Verbs that are not listed here are cargo's.\n" +
		"See also: gpubuild help exit-codes, gpubuild help environment, gpubuild help config, gpubuild help results"
	c.Writer, c.ErrWriter = a.Shell.Out, a.Shell.Err
	c.HideVersion = true
	c.HideHelpCommand = true
	c.ExitErrHandler = func(*cli.Context, error) {} // only cmd/gpubuild exits
	c.Flags = helpFlags(onCargo, "")
	for _, v := range verbs() {
		c.Commands = append(c.Commands, &cli.Command{
			Name: v.name, Usage: v.usage, UsageText: v.text, Flags: helpFlags(v.group, v.name),
			SkipFlagParsing: true, HideHelpCommand: true,
			Action: func(cc *cli.Context) error {
				words := cc.Args().Slice()
				if asksHelp(words) {
					return cli.ShowSubcommandHelp(cc)
				}
				o, line, err := parseOwn(v, words)
				if err != nil {
					return err
				}
				if err := noWords(v.name, line); err != nil {
					return a.endEarly(o, v.name, err)
				}
				return a.endEarly(o, v.name, inItsFlags(v.name, v.run(a, ctx, o, line)))
			},
		})
	}
	return c
}

// inItsFlags has the hint of an error that the choice of tools ended with name flags as a verb of ours knows them: `gpubuild env --toolkit=fetch`.
func inItsFlags(verb string, err error) error {
	var missing *toolchain.MissingError
	var misfit *toolchain.MisfitError
	if !contains(onlyOn["toolkit"], verb) || !errors.As(err, &missing) && !errors.As(err, &misfit) {
		return err
	}
	return &ownFlagsError{err, verb}
}

type ownFlagsError struct {
	error
	verb string
}

func (e *ownFlagsError) Unwrap() error { return e.error }

// Hint is that of the error inside.
func (e *ownFlagsError) Hint() string {
	hint := strings.ReplaceAll(hintOf(e.error), "gpubuild --gpu-", "gpubuild "+e.verb+" --")
	for _, name := range []string{"toolkit", "arch", "ccbin"} {
		hint = strings.ReplaceAll(hint, "--gpu-"+name, "--"+name)
	}
	return hint
}

// noWords refuses words that a verb would not look at: `gpubuild features cuda` asks for nothing, and its answer would read as "all is well".
func noWords(verb string, l cargo.Line) error {
	switch verb {
	case "features", "doctor", "env", "stale", "version":
		if len(l.Positional) > 0 {
			return &usageError{fmt.Sprintf("%s takes no word %q", verb, l.Positional[0]), "features are asked for with --features, packages with -p; see gpubuild " + verb + " --help"}
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

// helpFlag words a flag as cargo's help does: the value's name behind the flag's, once.
type helpFlag struct {
	cli.StringFlag
	holder string
}

func (f *helpFlag) String() string { return "--" + f.Name + f.holder + "\t" + f.Usage }

// shownHolder is the value's name behind the flag's in help.
func (f flag) shownHolder() string {
	switch f.value {
	case none:
		return ""
	case optional:
		return "[=" + f.holder + "]"
	}
	return " " + f.holder
}

// helpFlags makes the flags of a group in urfave's form, for help only.
func helpFlags(g group, verb string) []cli.Flag {
	var out []cli.Flag
	for _, f := range flags {
		if !f.known(g, verb) {
			continue
		}
		name := f.name
		if g == onCargo {
			name = "gpu-" + name
		}
		out = append(out, &helpFlag{StringFlag: cli.StringFlag{Name: name, Usage: f.meaning}, holder: f.shownHolder()})
	}
	return out
}

// VerbNames lists our own verbs, for completion and tests.
func VerbNames() []string {
	var out []string
	for _, v := range verbs() {
		out = append(out, v.name)
	}
	return out
}
