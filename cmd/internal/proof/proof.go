// Package proof answers what built programs did on the GPU: it scans them for device code, runs them under the probe and lets gpu/verify
// judge what was recorded, and runs them on drivers that fail. It decides which programs are run and how a verdict counts for the exit
// code, never what the evidence shows.
package proof

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/features"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cuda"
)

// Options is what the flags ask of a proof.
type Options struct {
	Wanted   bool     // build: run what was built
	Args     []string // build: the arguments of the program
	Required bool     // a missing proof is an error, and each program must have one
	// what Wanted, or in CI the configuration, wants proven may run on a machine without a GPU
	AllowNoDevice bool
	verify.Rules
	ExitGiven    bool // on the command line: else the configuration counts
	ExpectCPU    bool // nothing may run on the GPU
	Timeout      time.Duration
	UntilProved  bool // stop the program once its kernel is proven
	Backend      probe.Backend
	BackendGiven bool // else run, test and bench choose it by what the program links
	Files        Files
	Receipt      bool
	Coverage     *string // of kernels, by tests: the LCOV file to write, or empty; nil: not asked for
	On           On
	WithArgs     bool // the result and the receipt have the program's arguments, not only their hash
}

// Files take the place of what gpubuild makes or finds itself; the zero value takes none.
type Files struct {
	Probe  string
	CUPTI  string
	Others []string // further CUPTIs of a bundle, for a driver that is older
}

// On is another machine as the flags ask for it; no name: programs run here.
type On struct {
	Name    string        `json:"name"`
	Send    []string      `json:"send,omitempty"`
	SendEnv []string      `json:"send_env,omitempty"`
	Queue   time.Duration `json:"queue_ns,omitempty"`
	Connect time.Duration `json:"connect_ns,omitempty"` // how long it may say nothing before it answers; 0: by its kind
	Retry   int           `json:"retry,omitempty"`
}

// Given is what was found for a proof before it begins.
type Given struct {
	Backend probe.Backend         // whose kernels count
	Place   *Place                // where programs run; nil: here
	Opens   []features.NeedReason // what the programs of a build link, or open themselves
}

// Demanded reports whether a flag asks for a proof, so that a missing one is an error on every verb and everywhere.
func (o Options) Demanded() bool { return o.Required || o.Wanted && !o.AllowNoDevice }

// AsksForMatch reports whether a flag says what a run is to show.
func (o Options) AsksForMatch() bool { return o.Required || o.Wanted || o.ExpectCPU || o.AskForMore() }

// Proof is one program's run under the probe and what it showed.
type Proof struct {
	Program  string           `json:"program"`
	Args     []string         `json:"args,omitempty"`
	Test     string           `json:"test,omitempty"` // the one that the arguments choose
	Verdict  verify.Verdict   `json:"verdict"`
	Evidence verify.Evidence  `json:"evidence"`
	Finding  string           `json:"finding,omitempty"` // why no result came back from another machine, by the finding's id
	Host     string           `json:"host,omitempty"`    // the other machine, with its Slurm job or pod
	Receipt  *receipt.Receipt `json:"receipt,omitempty"` // where one is asked for
	// NoReceipt is why there is none, although one is asked for; it is said after the verdict
	NoReceipt string `json:"no_receipt,omitempty"`
}

// failed reports whether the program itself ended badly; one that gpubuild stopped did not.
func (p Proof) failed() bool {
	end := p.Evidence.Exit
	return !end.Stopped && (end.Code != 0 || end.Signal != "" || end.TimedOut)
}

// orNoReceipt is how a run ends: as the verdict has it, or where that is well by the receipt that is missing.
func (p Proof) orNoReceipt(m *session.Machine, end error) error {
	switch {
	case p.NoReceipt == "":
	case end == nil:
		return errors.New(p.NoReceipt)
	default:
		m.Shell.Warning("%s", p.NoReceipt)
	}
	return end
}

// prove runs a program under the probe and judges what was recorded.
func prove(ctx context.Context, m *session.Machine, o verify.Options) (Proof, error) {
	o.Real = m.Real(m.Host)
	if m.Nodes != nil {
		o.Nodes = m.Nodes(m.Host)
	}
	if o.RunDir == "" {
		var err error
		if o.RunDir, err = m.Scratch("runs"); err != nil {
			return Proof{}, err
		}
	}
	e, err := verify.Run(ctx, m.Host, m.Runner, o)
	if err != nil {
		return Proof{}, err
	}
	return Proof{Program: o.Binary, Args: o.Args, Verdict: verify.Judge(e, o.Rules), Evidence: e}, nil
}

// Outcome is the exit code of a proof: the program's own where it failed, else the verdict's. The status of a program that was ended for
// its time is that of our own signal.
func Outcome(p Proof, expected int, cpu bool) error {
	if ended := p.Evidence.Exit; p.Evidence.Ran && !ended.Ours() && ended.Code != expected && ended.Code != 0 {
		return endOf(ended)
	}
	return outcome(exitCode(p.Verdict.Kind, p.Evidence.UsedGPU(), cpu))
}

// lackOfGPU is said where the CPU was expected, and there was nothing else.
const lackOfGPU = "it was to run on the CPU, and did, because there is no GPU here"

// onCPUForLack reports whether a program that was to run on the CPU came to its end as expected on this machine, which has no GPU, and opened
// no driver that gpubuild does not find: then it can have run on the CPU only.
func (o Options) onCPUForLack(place *Place, p Proof, expected int) bool {
	e := p.Evidence
	return o.ExpectCPU && !o.Required && place == nil && p.Verdict.Kind == verify.NoDevice && e.Hidden == "" && e.Ran && !e.MayHaveOpened() &&
		e.Exit == verify.Exit{Code: expected, Elapsed: e.Exit.Elapsed}
}

// exitCode is that of a verdict. Where nothing was to run on the GPU, and something did, it does not matter what else may have happened.
func exitCode(k verify.Kind, usedGPU, cpu bool) int {
	if cpu && usedGPU {
		return exit.OtherKernels
	}
	return k.Code(cpu)
}

// outcome is the error of an exit code of which everything was said.
func outcome(code int) error {
	if code == exit.Done {
		return nil
	}
	return exit.Code(code)
}

// InCI is said where nothing but the configuration wants the proof that is missing.
const InCI = "the configuration wants a proof, and this is CI; --gpu-allow-no-device lets it pass without a GPU"

// inCI reports whether this is a run of CI: services set the variable.
func inCI(m *session.Machine) bool {
	v := m.Host.Env.Get("CI")
	return v != "" && v != "0" && !strings.EqualFold(v, "false")
}

// printVerdict words a verdict: its line, then at most five that explain it.
func printVerdict(m *session.Machine, p Proof) {
	name := strings.TrimSpace(m.Shown(p.Program) + " " + p.Test)
	v := p.Verdict
	if v.Kind == verify.Proved {
		m.Shell.Status(v.Kind.Title(), "%s ran its kernel on %s (%s)", name, v.Device, v.UUID)
	} else {
		m.Shell.Alert(v.Kind.Title(), "%s: %s", name, v.Why)
	}
	for _, l := range v.Lines {
		m.Shell.Status("", "%s", l)
	}
	for _, c := range v.Conflicts {
		if c != v.Why { // a reason is given once
			m.Shell.Warning("%s", c)
		}
	}
	for _, n := range v.Notes {
		m.Shell.Note("%s", n)
	}
}

// printLacks says what a program would lack without gpubuild.
func printLacks(m *session.Machine, rt Runtime) {
	for _, l := range rt.Lacks {
		m.Shell.Note("to start it: %s", l)
	}
}

// Ending is how a program ended, for an explanation of its failure.
type Ending struct {
	Program string
	Verb    string // run, test, bench, prove, build
	Code    int
	Signal  string   // that ended it, where nobody has said so yet
	OnCPU   bool     // it ended well, and ran on the CPU
	Missing []string // libraries that its loader finds nowhere
	Heard   *Listener
}

// failed is the exit status of a program that ended otherwise than expected; 0 when it ended well.
func failed(p Proof, expected int) int {
	if !p.Evidence.Ran || p.Evidence.Exit.Code == expected || p.Evidence.Exit.Stopped {
		return 0
	}
	return p.Evidence.Exit.Code
}

// FileResult is what the run of a program under the probe came to.
type FileResult struct {
	Proof   Proof
	Scan    *fatbin.Report
	Ending  *Ending // nil: the verdict says already why it failed
	Outcome error   // the exit code
}

// File proves a program that the user names, here or at a place; stdout is where its own goes.
func File(ctx context.Context, m *session.Machine, o Options, place *Place, binary string, stdout io.Writer, send Sender,
) (FileResult, error) {
	if fi, err := os.Stat(binary); err == nil && !fi.Mode().IsRegular() { // a directory, a FIFO that would be waited for
		return FileResult{}, &exit.UsageError{What: m.Shown(binary) + " is not a program", Fix: "name the program that was built"}
	}
	t := o.task(binary)
	t.Judge = place != nil && o.Backend == probe.CUDA && !o.ExpectCPU && o.Child == ""
	r, err := o.proveFile(ctx, m, t, start{verb: "prove", given: Given{Backend: o.Backend, Place: place},
		env: m.Host.Env, stdout: stdout, send: send})
	if errors.Is(err, context.Canceled) && r.Scan != nil { // the files that are asked for say so
		sealed, gone := receipt.Seal(binary)
		if gone != nil {
			return FileResult{}, err
		}
		none := receipt.Unproven(version.Number(), Binary(m, sealed, binary), m.Host.Env)
		r.Proof = Proof{Program: binary, Verdict: none.Verdict, Evidence: none.Evidence, Receipt: &none}
		return FileResult{Proof: r.Proof, Scan: r.Scan, Outcome: err}, nil
	}
	return r, err
}

// start is how the program of a task is started.
type start struct {
	verb    string
	given   Given
	toolkit *cuda.Toolkit // of the build
	env     buildenv.Env
	stdout  io.Writer
	send    Sender // to the place, if there is one
}

// proveFile runs a task under the probe, here or at another place, and says what it showed.
func (o Options) proveFile(ctx context.Context, m *session.Machine, t Task, s start) (out FileResult, err error) {
	if out.Scan, err = Scan(m, t.Binary); err != nil {
		return out, err
	}
	out.Proof.Program = t.Binary
	if s.verb == "prove" {
		m.Shell.Status("Scanned", "%s: %s", m.Shown(t.Binary), Line(out.Scan))
	}
	var rt Runtime
	if s.given.Place != nil {
		rt, err = o.Files.Tools(ctx, m, s.given.Backend, Toolkits(m, s.toolkit))
	} else {
		rt, err = prepare(ctx, m, o.Files, s.given, s.toolkit, s.env, t.Binary, true)
	}
	if err != nil {
		return out, err
	}
	printLacks(m, rt)
	t.Probe, t.CUPTI, t.Others = rt.Probe, rt.CUPTI, rt.Others
	heard := Listen(m, s.stdout, s.verb)
	p, err := proveTask(ctx, m, s.given.Place, t, rt.Env, s.send, Streams{m.Stdin, heard.Stdout, heard.Stderr})
	heard.End(m.Host)
	if err != nil {
		return out, err
	}
	cpu, code := t.Asked.Expect == "cpu", failed(p, t.Asked.ExpectExit)
	lack := o.onCPUForLack(s.given.Place, p, t.Asked.ExpectExit)
	if lack {
		m.Shell.Status("Not used", "%s: %s", m.Shown(p.Program), lackOfGPU)
	} else {
		printVerdict(m, p)
	}
	heard.NoteWords(m, p.Verdict.Kind)
	if cpu && p.Evidence.UsedGPU() {
		m.Shell.Note("--expect cpu: it was to run on the CPU, and used the GPU")
	}
	end := Outcome(p, t.Asked.ExpectExit, cpu)
	if lack {
		end = nil
	}
	out.Proof, out.Outcome = p, p.orNoReceipt(m, end)
	if p.Finding != "" || p.Evidence.Control.Outcome == verify.ControlNoLibrary && code == 127 { // why has been said
		return out, nil
	}
	out.Ending = &Ending{Program: m.Shown(t.Binary), Verb: s.verb, Code: code, OnCPU: !cpu && p.Verdict.Kind == verify.NotUsed,
		Missing: rt.Missing, Heard: heard}
	return out, nil
}

// proveTask runs a task here, or at a place. That it could not be reached is a proof without a result.
func proveTask(ctx context.Context, m *session.Machine, place *Place, t Task, env buildenv.Env, send Sender, s Streams) (Proof, error) {
	if place == nil {
		return Serve(ctx, m, t, env, s)
	}
	p, err := send(ctx, m, *place, t, s)
	if lost, is := unreached(m.Host.Abs(t.Binary), err); is {
		p, err = lost, nil
	}
	p.Program = m.Host.Abs(t.Binary)
	return p, err
}

// LookPath is the file that a word names: a path, or a name that is found on PATH.
func LookPath(h buildenv.Host, word string) string {
	binary := h.Abs(word)
	if !h.IsFile(binary) && !strings.ContainsAny(word, `/\`) {
		if found, err := h.LookPath(word); err == nil {
			return found
		}
	}
	return binary
}
