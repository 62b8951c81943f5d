// Package app is gpubuild's command line: it turns words into Options, walks the road from feature to verdict, and turns what came of it
// into an exit code. It decides which room is asked next and nothing else; only here do features, toolchain and gpu meet.
package app

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// app is one run of gpubuild: the machine and the command line.
type app struct {
	*session.Machine
	words []string // the command line without the program's name
	typed []string // the words of the command line
	// sinkOfVerb is where the result of one of our own verbs goes, from when it is known
	sinkOfVerb *report.Sink
}

// Words that gpubuild starts itself with; they are no part of the command line.
const (
	nvmlChild = "__gpubuild-nvml"
)

// Main runs gpubuild on the real machine and answers its exit code. args begin with the program's own name.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return MainWith(args, stdin, stdout, stderr, verify.RealDriver, verify.DeviceNodes)
}

// MainWith is Main with another judgement of what a real driver is, and with other device nodes. Only tests may have them: a stand-in that counts as
// real proves nothing.
func MainWith(args []string, stdin io.Reader, stdout, stderr io.Writer, real session.RealDriver, nodes func(buildenv.Host) []string) (code int) {
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
	a, err := newApp(stdin, shell, real)
	if err != nil {
		return finish(shell, err)
	}
	a.Nodes = nodes
	return finish(shell, a.dispatch(ctx, args))
}

func newApp(stdin io.Reader, shell *console.Shell, real session.RealDriver) (*app, error) {
	host, err := local.Host()
	if err != nil {
		return nil, err
	}
	terminal := false
	if f, ok := shell.Err.(*os.File); ok {
		terminal = local.Terminal(f)
	}
	shell.Colour = console.Colour("", host.Env.Lookup, terminal)
	shell.Guarded = host.Env.Get("GITHUB_ACTIONS") == "true"
	self, err := proc.Self()
	if err != nil {
		return nil, err
	}
	dir, err := cache.Dir(host)
	if err != nil {
		return nil, err
	}
	return &app{Machine: &session.Machine{
		Host: host, Runner: proc.Runner{}, Shell: shell, Stdin: stdin, Self: self, CacheDir: dir, Real: real, Began: time.Now(),
	}}, nil
}

// dispatch finds out whose word it is: ours, or cargo's.
func (a *app) dispatch(ctx context.Context, args []string) error {
	name, words := a.Host.Base(args[0]), args[1:]
	a.words = words
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
		return ci.Inside(ctx, a.Machine, ciParser(), words[1:], func(err error) int { return finish(a.Shell, err) })
	case "help":
		if len(words) == 1 {
			words = []string{"--help"}
		} else if text, ok := topic(words[1]); ok {
			_, err := io.WriteString(a.Shell.Out, text)
			return err
		} else if ours(words[1]) {
			words = []string{words[1], "--help"}
		} else {
			_, l, err := cargoWords(words)
			if err == nil {
				err = a.plainCargo(ctx, l, a.Host.Env)
			}
			if err != nil {
				a.Shell.Hint("`gpubuild help` lists gpubuild's own verbs and topics")
			}
			return err
		}
	case "cargo":
		_, l, err := cargoWords(words[1:])
		if err != nil {
			return err
		}
		return a.plainCargo(ctx, l, a.Host.Env)
	}
	if words[0] == "-h" || words[0] == "--help" || ours(words[0]) {
		return a.commandLine(ctx).RunContext(ctx, append([]string{"gpubuild"}, words...))
	}
	if words[0] == "-V" || words[0] == "--version" {
		return runVersion(a, ctx, Options{}, cargo.Line{})
	}
	a.typed = words
	o, line, err := parseCargo(words)
	if err != nil {
		return err
	}
	a.speakLike(line)
	return a.road(ctx, o, line)
}

// cargoWords takes a command line in which nothing is ours.
func cargoWords(words []string) (Options, cargo.Line, error) {
	l, _, err := cargo.Split(words, nil)
	return Options{}, l, err
}

// verbFirst puts rustup's word and cargo's own flags behind a verb of ours, where they are read, if they stand before it as they may before cargo's:
// `gpubuild +nightly clean` and `gpubuild -v clean` are not cargo's clean, which removes everything.
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
	for _, v := range verbs() {
		if v.name == words[at] && v.group == onProject {
			return append(append([]string{words[at]}, words[:at]...), words[at+1:]...)
		}
	}
	return words
}

func ours(word string) bool {
	for _, v := range verbs() {
		if v.name == word {
			return true
		}
	}
	return false
}

// speakLike takes over cargo's own flags for how loud and in what colour to speak.
func (a *app) speakLike(l cargo.Line) {
	a.Shell.Quiet = l.Quiet
	if v, ok := a.Host.Env.Lookup("CARGO_TERM_QUIET"); ok && v == "true" {
		a.Shell.Quiet = true
	}
	a.Shell.Verbose = l.Verbose > 0
	switch l.Color {
	case "always":
		a.Shell.Colour = true
	case "never":
		a.Shell.Colour = false
	}
}

// finish prints an error and answers its exit code.
func finish(shell *console.Shell, err error) int {
	var code exit.Code
	var refused *cargo.RefusedError
	exited, isExit := err.(*buildenv.ExitError)
	switch {
	case err == nil, errors.As(err, &code): // a code alone: what it means was printed already
	case errors.Is(err, context.Canceled):
		shell.Error("interrupted")
	case errors.As(err, &refused): // cargo's own words, once, as they are
		words := string(refused.Stderr)
		if shell.Guarded {
			words = console.Disarmed(words)
		}
		_, _ = io.WriteString(shell.Err, words)
		shell.Hint(refused.Fix)
	case isExit && len(exited.Result.Stderr) == 0: // the program had our stderr and said itself what was wrong
	default:
		shell.Failure(err)
	}
	return exit.Of(err)
}

// hintOf is what an error says that a user can do; empty where it knows nothing.
func hintOf(err error) string { return exit.Hint(err) }
