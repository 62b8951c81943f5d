package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cuda"
)

// Place is another machine on which programs are run, and what they need there. It is data: package elsewhere reaches it.
type Place struct {
	On
	Command []string      `json:"command"`           // starts there what follows it
	Joined  bool          `json:"joined,omitempty"`  // the command joins its words, and a shell there reads them (ssh)
	Dir     string        `json:"dir,omitempty"`     // where files are kept there; empty: the cache directory
	Limit   string        `json:"limit,omitempty"`   // of the files that are kept
	Root    string        `json:"root"`              // Send is below it
	Prefix  string        `json:"prefix"`            // how the flags of the command line begin
	Toolkit *cuda.Toolkit `json:"toolkit,omitempty"` // of the build
	Socket  string        `json:"socket,omitempty"`  // of the gpubuild that has a connection to there
	Passed  []string      `json:"passed,omitempty"`  // variables that the connection passes on by itself
}

// Task is one program to run and prove, and what is asked of it. Paths are of the machine that it runs on.
type Task struct {
	Binary   string        `json:"binary"`
	Args     []string      `json:"args,omitempty"`
	Dir      string        `json:"dir,omitempty"`
	Probe    probe.Probe   `json:"probe"`
	CUPTI    string        `json:"cupti,omitempty"`
	Others   []string      `json:"others,omitempty"`
	Asked    receipt.Asked `json:"asked"`
	Timeout  time.Duration `json:"timeout_ns,omitempty"`
	Receipt  bool          `json:"receipt,omitempty"`
	WithArgs bool          `json:"with_args,omitempty"`
	Until    bool          `json:"until_proved,omitempty"`
	Judge    bool          `json:"judge,omitempty"` // a program of which no kernel runs on the GPUs there is not sent

	Control verify.Control `json:"-"` // of an earlier program
}

// task is a program as these options ask for it.
func (o Options) task(binary string) Task {
	return Task{Binary: binary, Args: o.Args, Asked: receipt.Ask(o.Rules, o.ExpectCPU), Timeout: o.Timeout, Receipt: o.Receipt,
		WithArgs: o.WithArgs, Until: o.UntilProved}
}

// options are those of a run of the task here.
func (t Task) options(env buildenv.Env, s Streams) (verify.Options, error) {
	rules, err := t.Asked.Rules()
	o := verify.Options{
		Binary: t.Binary, Args: t.Args, Dir: t.Dir, Env: env, CUPTI: t.CUPTI, Others: t.Others, Probe: t.Probe, Control: t.Control,
		Rules: rules, Timeout: t.Timeout, UntilProved: t.Until, Stdin: s.In, Stdout: s.Out, Stderr: s.Err,
	}
	return o, err
}

// Streams are those of a program.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Sender runs a task at a place: elsewhere.Send.
type Sender func(ctx context.Context, m *session.Machine, p Place, t Task, s Streams) (Proof, error)

// Serve runs a task here.
func Serve(ctx context.Context, m *session.Machine, t Task, env buildenv.Env, s Streams) (Proof, error) {
	asked, err := t.options(env, s)
	if err != nil {
		return Proof{}, err
	}
	return t.prove(ctx, m, asked)
}

// identified is an error that has an id among the findings: a place that cannot be reached is one.
type identified interface {
	error
	FindingID() string
}

// unreached is the proof of a program of which no result came back, and false for another error.
func unreached(program string, err error) (Proof, bool) {
	var f identified
	if !errors.As(err, &f) {
		return Proof{}, false
	}
	v := verify.Verdict{Kind: verify.Unproved, Why: f.Error()}
	if hint := exit.Hint(err); hint != "" {
		v.Lines = []string{"next: " + hint}
	}
	return Proof{Program: program, Finding: f.FindingID(), Verdict: v}, true
}

// sendProgram is what the runner does for a program that runs elsewhere.
func (s runnerState) sendProgram(ctx context.Context, m *session.Machine, t Task, send Sender) error {
	t.Binary = m.Host.Abs(t.Binary)
	// The streams are the program's.
	p, err := proveTask(ctx, m.Quiet(), s.On, t, m.Host.Env, send, Streams{m.Stdin, m.Shell.Out, m.Shell.Err})
	if err != nil {
		return err
	}
	if p.Finding != "" {
		m.Shell.Alert("Not proven:", "%s", p.Verdict.Why)
	}
	if err := s.keep(processReport{Proof: p}); err != nil {
		return err
	}
	if p.Finding != "" {
		return exit.Code(exit.Unproved)
	}
	return endOf(p.Evidence.Exit)
}

// processReport is what the runner of one program leaves for the run.
type processReport struct {
	Proof
	Listed bool `json:"listed,omitempty"` // it was asked for words only, or has no test to run: nothing is proven of it
}

func (s runnerState) keep(p processReport) error {
	if s.Tests {
		p.Test = testOf(s.Task.Args)
	}
	if p.Receipt != nil {
		p.Receipt.Test = p.Test
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	file := filepath.Join(s.Dir, fmt.Sprintf("proof-%d-%d.json", time.Now().UnixNano(), os.Getpid()))
	return cache.WriteFile(file, data, 0o600)
}
