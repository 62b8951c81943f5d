// Package cli is gpubuild's command line: it reads the arguments into the options of one verb and calls that verb. It owns help,
// completion and the manual page, and decides nothing about a build.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// nvmlChild is a word that gpubuild starts itself with; it is no part of the command line.
const nvmlChild = "__gpubuild-nvml"

// Main runs gpubuild on the real machine and answers its exit code. args begin with the program's own name.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return MainWith(args, stdin, stdout, stderr, verify.RealDriver, verify.DeviceNodes)
}

// MainWith is Main with another judgement of what a real driver is, and with other device nodes. Only tests may have them: a stand-in that
// counts as real proves nothing.
func MainWith(args []string, stdin io.Reader, stdout, stderr io.Writer, real session.RealDriver,
	nodes func(buildenv.Host) []string) (code int) {
	shell := &console.Shell{Out: stdout, Err: stderr}
	defer func() {
		if p := recover(); p != nil {
			shell.Error("a fault of gpubuild: %v\n%s", p, debug.Stack())
			shell.Hint("please report this with the lines above; `gpubuild cargo …` works without us")
			code = exit.Internal
		}
	}()
	if len(args) > 1 && args[1] == nvmlChild {
		return driver.ChildMain(stdout)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	m, err := session.Here(stdin, shell, real)
	if err != nil {
		return console.Finish(shell, err)
	}
	m.Nodes = nodes
	return console.Finish(shell, dispatch(ctx, newInvocation(m, args[1:]), args))
}

// dispatch finds out whose verb it is: ours, or cargo's.
func dispatch(ctx context.Context, a *invocation, args []string) error {
	name, words := a.Host.Base(args[0]), args[1:]
	if strings.TrimSuffix(name, ".exe") == "cargo-gpubuild" && len(words) > 0 && words[0] == "gpubuild" {
		words = words[1:] // cargo gpubuild …: cargo gives its subcommand's name first
	}
	if len(words) == 0 {
		words = []string{"build"}
	}
	words = verbFirst(words)
	switch words[0] {
	case proof.RunnerWord:
		return proof.EndAsProgram(proof.Runner(ctx, a.Machine, words[1:]))
	case ci.Child:
		return a.ciStep(ctx, words[1:])
	case "help":
		if len(words) > 1 {
			return help(ctx, a, words)
		}
		return commandLine(ctx, a, "--help")
	case "-h", "--help":
		return commandLine(ctx, a, words[0])
	case "-V", "--version":
		return showVersion(a, Options{})
	case "cargo":
		return plain(ctx, a, words[1:])
	}
	if v, ok := find(words[0]); ok {
		if asksHelp(words[1:]) {
			return commandLine(ctx, a, v.name, "--help")
		}
		return v.parse(ctx, a, words[1:])
	}
	o, line, err := ParseCargo(words)
	if err != nil {
		return err
	}
	a.typed = words
	a.SpeakLike(line)
	return a.cargoVerb(ctx, o, line)
}

// help is `gpubuild help WORD`: a topic, a verb of ours, or one of cargo's.
func help(ctx context.Context, a *invocation, words []string) error {
	if text, ok := topic(words[1]); ok {
		_, err := io.WriteString(a.Shell.Out, text)
		return err
	}
	if _, ok := find(words[1]); ok {
		return commandLine(ctx, a, words[1], "--help")
	}
	err := plain(ctx, a, words)
	if err != nil {
		a.Shell.Hint("`gpubuild help` lists gpubuild's own verbs and topics")
	}
	return err
}

// plain calls cargo with a command line in which nothing is ours.
func plain(ctx context.Context, a *invocation, words []string) error {
	l, _, err := cargo.Split(words, nil)
	if err != nil {
		return err
	}
	return a.plain(ctx, l)
}

// verbFirst puts rustup's word and cargo's own flags behind a verb of ours, where they are read, if they stand before it as they may before
// cargo's: `gpubuild +nightly clean` and `gpubuild -v clean` are not cargo's clean, which removes everything.
func verbFirst(words []string) []string {
	at := 0
	if len(words) > 0 && len(words[0]) > 1 && words[0][0] == '+' {
		at = 1
	}
	for at < len(words) && strings.HasPrefix(words[at], "-") {
		switch name, _, valued := strings.Cut(words[at], "="); name {
		case "--verbose", "-v", "-vv", "--quiet", "-q", "--offline", "--locked", "--frozen":
			at++
		case "--color", "--config":
			if at++; !valued {
				at++
			}
		default:
			return words
		}
	}
	if at == 0 || at >= len(words) {
		return words
	}
	if v, ok := find(words[at]); ok && v.project {
		return slices.Concat([]string{words[at]}, words[:at], words[at+1:])
	}
	return words
}
