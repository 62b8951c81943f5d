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
	Name    string        `json:"name"`             // as the user named it
	Command []string      `json:"command"`          // starts there what follows it
	Joined  bool          `json:"joined,omitempty"` // the command joins its words, and a shell there reads them (ssh)
	Dir     string        `json:"dir,omitempty"`    // where files are kept there; empty: the cache directory
	Limit   string        `json:"limit,omitempty"`  // of the files that are kept
	Root    string        `json:"root"`             // Send is below it
	Send    []string      `json:"send,omitempty"`
	SendEnv []string      `json:"send_env,omitempty"`
	Queue   time.Duration `json:"queue_ns,omitempty"`
	Retry   int           `json:"retry,omitempty"`
	Toolkit *cuda.Toolkit `json:"toolkit,omitempty"` // of the build
	Memo    string        `json:"memo,omitempty"`    // a directory of this run
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
}

// task is a program as these options ask for it.
func (o Options) task(binary string) Task {
	rules := verify.Rules{Kernel: o.Kernel, ExpectExit: o.ExpectExit, Device: o.Device, Child: o.Child}
	return Task{Binary: binary, Args: o.Args, Asked: receipt.Ask(rules, o.ExpectCPU), Timeout: o.Timeout, Receipt: o.Receipt,
		WithArgs: o.WithArgs, Until: o.UntilProved}
}

// options are those of a run of the task here.
func (t Task) options(env buildenv.Env, s Streams) (verify.Options, error) {
	rules, err := t.Asked.Rules()
	o := verify.Options{
		Binary: t.Binary, Args: t.Args, Dir: t.Dir, Env: env, CUPTI: t.CUPTI, Others: t.Others, Probe: t.Probe,
		Kernel: rules.Kernel, ExpectExit: rules.ExpectExit, Device: rules.Device, Child: rules.Child,
		Timeout: t.Timeout, UntilProved: t.Until, Stdin: s.In, Stdout: s.Out, Stderr: s.Err,
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

// Kept is a proof with its receipt, as it is stored and sent.
type Kept struct {
	Proof
	Receipt   *receipt.Receipt `json:"receipt,omitempty"`
	NoReceipt string           `json:"no_receipt,omitempty"`
}

// keep makes a proof ready to be stored.
func keep(p Proof) Kept {
	k := Kept{Proof: p, Receipt: p.Receipt}
	if p.NoReceipt != nil {
		k.NoReceipt = p.NoReceipt.Error()
	}
	return k
}

// Whole is the proof with its receipt.
func (k Kept) Whole() Proof {
	p := k.Proof
	if p.Receipt = k.Receipt; k.NoReceipt != "" {
		p.NoReceipt = errors.New(k.NoReceipt)
	}
	return p
}

// Serve runs a task that came from another machine.
func Serve(ctx context.Context, m *session.Machine, t Task, env buildenv.Env, s Streams) (Kept, error) {
	asked, err := t.options(env, s)
	if err != nil {
		return Kept{}, err
	}
	p, err := t.prove(ctx, m, asked)
	return keep(p), err
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
	why := f.Error()
	if hint := exit.Hint(err); hint != "" {
		why += " (" + hint + ")"
	}
	return Proof{Program: program, Finding: f.FindingID(), Verdict: verify.Verdict{Kind: verify.Unproved, Why: why}}, true
}

// Tools are the probe and every CUPTI for another machine: which one the driver there takes, only it knows.
func (o Options) Tools(ctx context.Context, m *session.Machine, first *cuda.Toolkit) (rt Runtime, err error) {
	if rt.Probe, err = getProbe(ctx, m, o); err != nil || o.Backend == probe.Vulkan {
		return rt, err
	}
	if o.CUPTI != "" {
		if rt.CUPTI, rt.Others = m.Host.Abs(o.CUPTI), o.Others; !m.Host.IsFile(rt.CUPTI) {
			return rt, &exit.UsageError{What: "no libcupti at " + rt.CUPTI, Fix: "give the path of a libcupti.so"}
		}
		return rt, nil
	}
	for _, t := range Toolkits(m, first) {
		switch {
		case t.CUPTI == "" || t.CUPTI == rt.CUPTI:
		case rt.CUPTI == "":
			rt.CUPTI = t.CUPTI
		default:
			rt.Others = append(rt.Others, t.CUPTI)
		}
	}
	return rt, nil
}

// sendProgram is what the runner does for a program that runs elsewhere.
func (s runnerState) sendProgram(ctx context.Context, m *session.Machine, t Task, send Sender) error {
	quiet, shell := *m, *m.Shell // the streams are the program's
	shell.Quiet, quiet.Shell = true, &shell
	t.Binary = m.Host.Abs(t.Binary)
	p, err := Options{On: *s.On}.proveTask(ctx, &quiet, t, m.Host.Env, send, Streams{m.Stdin, m.Shell.Out, m.Shell.Err})
	if err != nil {
		return err
	}
	if p.Finding != "" {
		m.Shell.Loud("Not proven:", "%s", p.Verdict.Why)
	}
	if err := s.keep(p); err != nil {
		return err
	}
	if p.Finding != "" {
		return exit.Code(exit.Unproved)
	}
	return endOf(p.Evidence.Exit)
}

// keep leaves a proof for the run.
func (s runnerState) keep(p Proof) error {
	data, err := json.Marshal(keep(p))
	if err != nil {
		return err
	}
	file := filepath.Join(s.Dir, fmt.Sprintf("proof-%d-%d.json", time.Now().UnixNano(), os.Getpid()))
	return cache.WriteFile(file, data, 0o600)
}
