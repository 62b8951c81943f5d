package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
)

// runnerState is what our runner, started by cargo in front of each program, must know. It is a file in a directory of one run, into which
// the runner also writes one proof per process.
type runnerState struct {
	Dir     string   `json:"dir"`
	Task    Task     `json:"task"`            // but for the program and its arguments
	Devices bool     `json:"devices"`         // without a device the program is only run
	User    []string `json:"user"`            // the user's own runner, which stands between us and the program
	Lib     []string `json:"lib"`             // run-time library directories
	Tests   bool     `json:"tests,omitempty"` // the programs are tests or benchmarks, which can be asked what they would run

	On *Place `json:"on,omitempty"` // programs run there
}

// RunnerWord is the word with which gpubuild starts itself as the runner; it is no part of the command line.
const RunnerWord = "__gpubuild-runner"

// timedOutFile is what the runner leaves for the run when, without a device, a program's time was over.
const timedOutFile = "timed-out"

// Runner starts one program as cargo would have, under the probe where there is a device, and keeps its streams, signals and
// exit code. It says nothing itself: nextest reads the streams, and the run says that it was interrupted.
func Runner(ctx context.Context, m *session.Machine, words []string, send Sender) error {
	err := runProgram(ctx, m, words, send)
	if errors.Is(err, context.Canceled) {
		return exit.Code(exit.Interrupted)
	}
	return err
}

func runProgram(ctx context.Context, m *session.Machine, words []string, send Sender) error {
	if len(words) < 2 {
		return &exit.UsageError{What: RunnerWord + " is started by cargo only", Fix: "use gpubuild run, test or bench"}
	}
	data, err := os.ReadFile(words[0])
	if err != nil {
		return fmt.Errorf("state of the run: %w", err)
	}
	var s runnerState
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("state of the run: %w", err)
	}
	words = words[1:]
	if len(words) <= len(s.User) {
		return &exit.UsageError{What: RunnerWord + " was given no program", Fix: "use gpubuild run, test or bench"}
	}
	launcher, binary, args := words[:len(s.User)], words[len(s.User)], words[len(s.User)+1:]
	if len(launcher) > 0 && !strings.ContainsAny(launcher[0], `/\`) {
		if launcher[0], err = m.Host.LookPath(launcher[0]); err != nil {
			return err
		}
	}
	s.Task.Binary, s.Task.Args = binary, args
	env := m.Host.Env
	for _, d := range s.Lib {
		env = m.Host.Apply(env, AppendLibraries(m.Host, d))
	}
	if s.Tests && asksForWords(args) {
		if err := s.keep(processReport{Proof: Proof{Program: m.Host.Abs(binary)}, Listed: true}); err != nil {
			return err
		}
		s.Devices, s.Task.Timeout = false, 0 // the limit is for a run
	} else if s.On != nil && len(launcher) > 0 {
		return &exit.UsageError{What: "a runner of cargo's (" + launcher[0] + ") cannot be used on another machine",
			Fix: "leave --gpu-on out"}
	} else if s.On != nil {
		return s.sendProgram(ctx, m, s.Task, send)
	}
	if !s.Devices {
		c := buildenv.Cmd{Path: m.Host.Abs(binary), Args: args, Env: env.Entries(), Stdin: m.Stdin, Stdout: m.Shell.Out,
			Stderr: m.Shell.Err, Timeout: s.Task.Timeout, Grace: buildenv.ProgramGrace}
		if len(launcher) > 0 {
			c.Path, c.Args = launcher[0], append(append(launcher[1:len(launcher):len(launcher)], binary), args...)
		}
		r, err := m.Runner.Run(ctx, c)
		if !r.TimedOut || ctx.Err() != nil {
			return err
		}
		if err := cache.WriteFile(filepath.Join(s.Dir, timedOutFile), nil, 0o600); err != nil {
			return err
		}
		if r.Code == 0 {
			return nil
		}
		return exit.Code(r.Code)
	}
	o, err := s.Task.options(env, Streams{m.Stdin, m.Shell.Out, m.Shell.Err})
	if err != nil {
		return err
	}
	o.Launcher, o.RunDir = launcher, s.Dir
	p, err := s.Task.prove(ctx, m, o)
	if err != nil {
		return err
	}
	p.Program = m.Host.Abs(p.Program) // `cargo run` names it relative to its directory
	if s.Tests && p.Verdict.Kind == verify.NotUsed && ranNoTest(ctx, m, o) {
		return s.keep(processReport{Proof: Proof{Program: p.Program}, Listed: true})
	}
	if err := s.keep(processReport{Proof: p}); err != nil {
		return err
	}
	return endOf(p.Evidence.Exit)
}

// ranNoTest reports whether a test program, started with these arguments, has no test to run: a filter that matches none. It asks the
// program for its list, which only Rust's own test harness understands; a text that the harness prints shows that the program has it.
// Source: rustc's library/test, cli.rs and formatters.
func ranNoTest(ctx context.Context, m *session.Machine, o verify.Options) bool {
	data, err := m.Host.ReadFile(o.Binary, buildenv.Program)
	if err != nil || len(o.Launcher) > 0 || !bytes.Contains(data, []byte("test result: ")) {
		return false
	}
	args := append(slices.Clone(o.Args), "--list")
	list := buildenv.Cmd{Path: o.Binary, Args: args, Env: o.Env.Entries(), Timeout: time.Minute, Limit: 1 << 20}
	r, err := m.Runner.Run(ctx, list)
	return err == nil && !bytes.Contains(r.Stdout, []byte(": test\n")) && !bytes.Contains(r.Stdout, []byte(": benchmark\n"))
}

// endOf is how the runner ends for its program: as that ended.
func endOf(e verify.Exit) error {
	switch {
	case e.Stopped: // as was asked
	case e.Signal != "" && !e.TimedOut:
		return exit.Killed{Code: exit.Code(e.Code)}
	case e.Code != 0:
		return exit.Code(e.Code)
	}
	return nil
}

// asksForWords reports whether a test program is started only to say something: its tests, as nextest has it do twice before any is run, or
// how it is used. Such a process shows nothing of what its tests do. Source: rustc's library/test, cli.rs.
func asksForWords(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "--list" || a == "--help" || a == "-h" })
}
