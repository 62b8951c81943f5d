// Package cli is gpubuild's command line: it reads the arguments into the options of one verb and calls that verb. It owns help,
// completion and the manual page, and decides nothing about a build.
package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/elsewhere"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/nvcc"
)

// Main runs gpubuild on the real machine and answers its exit code. args begin with the program's own name.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return MainForTest(args, stdin, stdout, stderr, verify.RealDriver, verify.DeviceNodes)
}

// MainForTest is Main with another judgement of what a real driver is, and with other device nodes. Only tests may have them: a stand-in
// that counts as real proves nothing.
func MainForTest(args []string, stdin io.Reader, stdout, stderr io.Writer, real session.RealDriver,
	nodes func(buildenv.Host) []string) (code int) {
	shell := &console.Shell{Out: stdout, Err: stderr}
	defer func() {
		if p := recover(); p != nil {
			code = internalError(shell, p)
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), proc.Signals...)
	defer stop()
	if nvcc.Named(args[0]) {
		return nvcc.Main(ctx, args[1:], stdin, stdout, stderr, fatbin.DeviceObjects)
	}
	if len(args) > 1 && args[1] == driver.ChildWord {
		return driver.Child(args[2:], stdout)
	}
	m, err := session.Here(stdin, shell, real, nodes)
	if err != nil {
		shell.Failure(err)
		return exit.Of(err)
	}
	var signal atomic.Int32
	defer func() {
		m.Temp.Remove()
		proc.DieBy(int(signal.Load()))
	}()
	return await(ctx, m, func() (code int) {
		defer func() {
			if p := recover(); p != nil {
				code = internalError(shell, p)
			}
		}()
		a := &invocation{Machine: m, words: args[1:]}
		end := dispatch(ctx, a, args)
		signal.Store(int32(exit.Signal(end)))
		o := a.early()
		o.Parts = a.parts
		return report.Finish(a.Machine, a.words, o, end)
	})
}

// patience is how long an interrupted verb has for ending by itself, counted from the interrupt or from the end of its last child.
const patience = 800 * time.Millisecond

// await runs a verb to its end. An interrupted one that is still reading (a terminal, a FIFO, 40 GB) is not waited for: it leaves what a
// kill would leave, and the next run is prepared for that.
func await(ctx context.Context, m *session.Machine, verb func() int) int {
	interrupted := func() int {
		m.Shell.Failure(ctx.Err())
		return exit.Interrupted
	}
	ended := make(chan int, 1)
	go func() { ended <- verb() }()
	interrupt := ctx.Done()
	var check <-chan time.Time
	var since time.Time
	for {
		select {
		case code := <-ended:
			if interrupt == nil && code != exit.Interrupted && m.Children.Idle() > time.Since(since) {
				return interrupted() // nothing ran that might have had its own end
			}
			return code
		case <-interrupt:
			interrupt, check, since = nil, time.Tick(patience/20), time.Now()
		case <-check:
			if min(time.Since(since), m.Children.Idle()) > patience {
				return interrupted()
			}
		}
	}
}

// internalError reports a panic while its stack is still there. In a goroutine of a package below, a panic ends the program as Go does.
func internalError(shell *console.Shell, panicked any) int {
	shell.Error("internal error: %v\n\n%s", panicked, debug.Stack())
	shell.Hint("please report this, with the lines above and the command line, to where you got gpubuild from;\n" +
		"      `gpubuild cargo build` runs plain cargo until it is fixed")
	return exit.Internal
}

// dispatch finds out whose verb it is: ours, or cargo's.
func dispatch(ctx context.Context, a *invocation, args []string) error {
	name, words := a.Host.Base(args[0]), args[1:]
	if strings.TrimSuffix(name, ".exe") == "cargo-gpubuild" && len(words) > 0 && words[0] == "gpubuild" {
		words = words[1:] // cargo gpubuild …: cargo gives its subcommand's name first
	}
	if len(words) == 0 {
		words = []string{"build"}
		if _, err := manifest.Find(a.Host, a.Host.Cwd); errors.Is(err, manifest.ErrNotFound) {
			words = []string{"help"}
		}
	}
	words = verbFirst(words)
	switch words[0] {
	case proof.RunnerWord:
		return proof.Runner(ctx, a.Machine, words[1:], elsewhere.Send)
	case elsewhere.Word:
		return elsewhere.Serve(ctx, a.Machine, words[1:])
	case "": // cargo refuses it; a line of cargo's without a verb would be a build
		return usage("the subcommand is empty", "gpubuild help")
	case "-h", "--help":
		words = []string{"help"}
	case "-V", "--version":
		words = []string{"version"}
	}
	return a.run(ctx, words)
}

// early is the outcome of a command line that ended before it had one; its flags say whether and where an answer was wanted.
func (a *invocation) early() report.Report {
	o, words := a.outcome, verbFirst(a.words)
	if o.HasResult || len(words) == 0 {
		return o
	}
	var given []cargo.Own
	if v, ours := find(words[0]); ours {
		called, s := v.sub(words[1:])
		if len(s.verbs) > 0 { // none is named: it would be the first
			s = s.verbs[0]
			called += " " + s.Name
		}
		if s.flag("--json") == nil {
			return o // what it prints is the answer
		}
		_, given, _ = v.split(words[1:])
		o.Verb = cmp.Or(s.answer, strings.ReplaceAll(called, " ", "-"))
	} else {
		own := ownFlags(cargoFlags(&pipeline.Options{}), prefix)
		line, flags, _ := cargo.Split(words, own)
		line = a.expanded(line, own)
		if test, is := line.Nextest(); is {
			line = test
		}
		given, o.Verb = flags, cmp.Or(line.Verb, "build")
		if o.Annotated = cargo.PurposeOf(o.Verb).Judged(); cargo.PurposeOf(o.Verb) == cargo.Other {
			return o // which has no result
		}
	}
	for _, g := range given {
		if (g.Name == "--json" || g.Name == prefix+"json") && a.CheckFile(g.Value, words...) == nil {
			o.Files.JSON = &g.Value
		}
	}
	return o
}

// expanded is a line of cargo's as its aliases have it, though our flags in it may be wrong; without a cargo it is as it was typed.
func (a *invocation) expanded(line cargo.Line, own cargo.OwnFlags) cargo.Line {
	without, _, err := cargo.Split(line.Words(), nil)
	if err != nil {
		return line
	}
	tool, err := cargo.Find(a.Host, without)
	if err != nil {
		return line
	}
	without, _, _ = cargo.Alias(a.Host, tool, without, own)
	return without
}
