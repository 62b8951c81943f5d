package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// runnerState is what our runner, started by cargo in front of each program, must know. It is a file in a directory of one run; the runner leaves
// a proof a process beside it.
type runnerState struct {
	Dir     string      `json:"dir"`
	Probe   probe.Probe `json:"probe"`
	CUPTI   string      `json:"cupti"`
	Others  []string    `json:"others,omitempty"` // further CUPTIs, for a driver that is older than the first
	Devices bool        `json:"devices"`          // without a device the program is only run
	User    []string    `json:"user"`             // the user's own runner, which stands between us and the program
	Kernel  string      `json:"kernel"`
	Timeout int64       `json:"timeout_ns"`
	Lib     []string    `json:"lib"` // run-time library directories
	Receipt bool        `json:"receipt,omitempty"`
	Stderr  string      `json:"stderr,omitempty"` // what the user's stderr, which is descriptor 3, is known by; empty: it is the runner's own
	Ack     string      `json:"ack,omitempty"`    // the same of descriptor 4, on which the run answers the mark
	Marks   bool        `json:"marks,omitempty"`  // the run waits for the mark on stderr
	Tests   bool        `json:"tests,omitempty"`  // the programs are tests or benchmarks, which can be asked what they would run

	Min            uint64 `json:"min,omitempty"`
	Device         string `json:"device,omitempty"`
	Child          string `json:"child,omitempty"`
	Counterfactual bool   `json:"counterfactual,omitempty"`
	ExpectCPU      bool   `json:"expect_cpu,omitempty"`
}

// kept is a proof as the runner leaves it for the run.
type kept struct {
	proof
	Receipt *receipt.Receipt `json:"receipt,omitempty"`
}

// runProven starts plain cargo with the user's own streams and our runner in front of the user's, then tells what the programs showed. Terminals and
// pipes stay what they were.
func (j *journey) runProven(ctx context.Context) error {
	triple, err := j.triple(ctx)
	if err != nil {
		return err
	}
	user, err := cargo.UserRunner(ctx, j.Host, j.Runner, j.Tool, j.Line, triple)
	if err != nil {
		return err
	}
	runs := j.Host.Join(j.CacheDir, "runs")
	if err := cache.Make(runs); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(runs, "cargo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	state := runnerState{Dir: dir, User: user.Words, Devices: j.hasDevice(ctx, j.options), Timeout: int64(j.options.Timeout), Receipt: j.options.Receipt != "",
		Min: j.options.Min, Device: j.options.Device, Child: j.options.Child, Counterfactual: j.options.Counterfactual, ExpectCPU: j.options.ExpectCPU,
		Tests: j.Line.Verb == "test" || j.Line.Verb == "bench"}
	state.Kernel = j.kernelAsked()
	var missing []string
	for _, p := range j.programs {
		st, err := j.stageFor(ctx, state.Devices, p.Path)
		if err != nil {
			return err
		}
		j.tellLacks(st)
		missing = append(missing, st.missing...)
		state.Probe, state.CUPTI, state.Others = st.probe, st.cupti, st.others
		for _, d := range j.Host.SplitList(st.env.Get(libraryVariable(j.Host))) {
			if !contains(state.Lib, d) && !contains(j.Host.SplitList(j.Host.Env.Get(libraryVariable(j.Host))), d) {
				state.Lib = append(state.Lib, d)
			}
		}
	}
	out := j.Shell.Out
	if j.Line.WantsJSON() {
		out = j.stream().Start(out)
	}
	watch := j.watchProgram(out, j.Line.Verb)
	quiet, err := j.onceOnly(watch, &state)
	if err != nil {
		return err
	}
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "state.json")
	if err := cache.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	ours := []string{j.Self, runnerChild, file}
	tool, line, err := cargo.WithRunner(j.Tool, j.asTyped(), triple, append(ours[:3:3], user.Words...), user)
	if err != nil {
		return err
	}
	c := cargo.Plain(tool, quiet.coloured(j, line))
	c.Stdin, c.Stdout, c.Stderr = j.Stdin, watch.stdout, watch.stderr
	quiet.dress(&c, ours)
	_, ran := j.Runner.Run(ctx, c)
	quiet.close()
	if isInterrupted(ran) {
		return ran
	}
	judged := j.judgeRuns(dir, state, ran)
	end := ending{program: "the program", verb: j.Line.Verb, missing: missing, lookAt: func(found []explain.Found) situation { return j.situation(ctx, found) }}
	if len(j.programs) == 1 {
		end.program = j.Shown(j.programs[0].Path)
	}
	var exited *buildenv.ExitError
	if errors.As(ran, &exited) && !j.timedOut {
		end.code = exited.Result.Code
		if !state.Devices { // else the verdict names it
			end.signal = exited.Result.Signal
		}
	}
	end.onCPU = judged == exit.Code(exit.NotUsed)
	j.explainProgram(ctx, watch, end)
	return judged
}

// stageFor is setStage, but without a device nothing is built for a proof that cannot be.
func (j *journey) stageFor(ctx context.Context, devices bool, path string) (stage, error) {
	if devices {
		return j.setStage(ctx, j.options, j.Set.Toolkit, j.RunEnv, path)
	}
	return j.libraryStage(j.Set.Toolkit, j.RunEnv, path)
}

// judgeRuns tells each program's verdict, and answers the run's: the program's own failure first, then the worst that was shown.
func (j *journey) judgeRuns(dir string, state runnerState, ran error) error {
	if !state.Devices {
		j.Shell.Loud("Unproved", "not proven: no GPU here")
		if ran == nil && j.options.RequireProof {
			return exit.Code(exit.Unproved)
		}
		return ran
	}
	proofs, err := readProofs(dir)
	if err != nil {
		return err
	}
	if j.listed, err = readListed(dir); err != nil {
		return err
	}
	tests := j.Line.Verb == "test" || j.Line.Verb == "bench"
	switch {
	case len(proofs) > 0:
	case tests && asksForWords(j.Line.Trailing):
		j.Shell.Status("Unproved", "not proven: no test was run, as was asked")
		if ran == nil && j.options.RequireProof {
			return exit.Code(exit.Unproved)
		}
		return ran
	case len(j.listed) > 0:
		j.Shell.Loud("Unproved", "not proven: no test ran")
	default:
		j.Shell.Loud("Unproved", "not proven: no program was started by cargo under our runner")
	}
	marked := j.marks() != nil && !j.options.ExpectCPU
	rows := j.tested(proofs)
	said := saidOf(proofs)
	for i, p := range proofs {
		// Of many test programs those that are no matter of the GPU have their line in the table; nextest starts one for each test, and to list them.
		if (!marked || !tests || j.mustUse(p.Program)) && (j.nextest == nil || said[p.Program] == i) {
			j.tellVerdict(p)
		}
		j.noteProof(p)
	}
	var missed []string
	if tests {
		if marked {
			missed = j.missedMarks(rows)
		}
		j.tellTested(rows)
	}
	for _, m := range missed {
		j.Shell.Loud("Unproved", "%s", m)
	}
	j.missed = missed
	if exit, ok := ran.(*buildenv.ExitError); ok && endedForTime(proofs, exit.Result.Code) {
		ran, j.timedOut = nil, true
	}
	worst := worstOf(rows, wanted{cpu: j.options.ExpectCPU, all: !tests || j.options.RequireProof || j.options.ExpectCPU, marked: marked, missed: len(missed) > 0,
		lenient: !j.asksForMatch() && !marked})
	switch {
	case ran != nil:
		return ran
	case worst == exit.Done:
		return nil
	}
	return exit.Code(worst)
}

// endedForTime says whether a run's exit code is that of a program whose time was over, which we ended: then it is none of the program's own.
func endedForTime(proofs []proof, code int) bool {
	over := false
	for _, p := range proofs {
		exit := p.Evidence.Exit
		if exit.Code != 0 && !exit.TimedOut {
			return false
		}
		over = over || exit.TimedOut && exit.Code == code
	}
	return over
}

func readProofs(dir string) ([]proof, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "proof-") && strings.HasSuffix(e.Name(), ".json") {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	var out []proof
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			return nil, err
		}
		var p kept
		if err := json.Unmarshal(data, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		p.proof.Receipt = p.Receipt
		out = append(out, p.proof)
	}
	return out, nil
}

// asksForWords says whether a test program is started only to say something: its tests, as nextest has it do twice before any is run, or how it is used.
// Such a process shows nothing of what its tests do. Source: rustc's library/test, cli.rs.
func asksForWords(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "--list" || a == "--help" || a == "-h" })
}

// noteListed leaves for the run that a program was asked for words only.
func (s runnerState) noteListed(binary string) error {
	return cache.WriteFile(filepath.Join(s.Dir, fmt.Sprintf("listed-%d-%d", time.Now().UnixNano(), os.Getpid())), []byte(binary), 0o600)
}

// readListed answers the programs that were asked for words, whatever else they did.
func readListed(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "listed-*"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		if p := string(data); !contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// triple is what is built for.
func (j *journey) triple(ctx context.Context) (string, error) {
	target := ""
	if len(j.Line.Target) > 0 {
		target = j.Line.Target[0]
	}
	if target != "" && target != "host-tuple" {
		return cargo.Triple(target, ""), nil
	}
	c, err := cargo.RustcVersion(j.Host, j.Tool, j.Line)
	if err != nil {
		return "", err
	}
	res, err := j.Runner.Run(ctx, c)
	if err != nil {
		return "", err
	}
	v, ok := cargo.ParseVersion(res.Stdout)
	if !ok {
		return "", fmt.Errorf("rustc -vV does not say its host")
	}
	return cargo.Triple(target, v.Host), nil
}

// runnerMain is the runner: it starts one program as cargo would have, under the probe where there is a device, and keeps its streams, signals and
// exit code. It says nothing itself: nextest reads the streams.
func (a *app) runnerMain(ctx context.Context, words []string) error {
	if len(words) < 2 {
		return &usageError{runnerChild + " is started by cargo only", "use gpubuild run, test or bench"}
	}
	data, err := os.ReadFile(words[0])
	if err != nil {
		return fmt.Errorf("state of the run: %w", err)
	}
	var s runnerState
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("state of the run: %w", err)
	}
	a.announce(s)
	words = words[1:]
	if len(words) <= len(s.User) {
		return &usageError{runnerChild + " was given no program", "use gpubuild run, test or bench"}
	}
	launcher, binary, args := words[:len(s.User)], words[len(s.User)], words[len(s.User)+1:]
	if len(launcher) > 0 && !strings.ContainsAny(launcher[0], `/\`) {
		if launcher[0], err = a.Host.LookPath(launcher[0]); err != nil {
			return err
		}
	}
	env := a.Host.Env
	for _, d := range s.Lib {
		env = a.Host.Apply(env, appendLibraries(a.Host, d))
	}
	if s.Tests && asksForWords(args) {
		if err := s.noteListed(a.Host.Abs(binary)); err != nil {
			return err
		}
		s.Devices = false
	}
	if !s.Devices {
		c := buildenv.Cmd{Path: a.Host.Abs(binary), Args: args, Env: env.Entries(), Stdin: a.Stdin, Stdout: a.Shell.Out, Stderr: a.Shell.Err}
		if len(launcher) > 0 {
			c.Path, c.Args = launcher[0], append(append(launcher[1:len(launcher):len(launcher)], binary), args...)
		}
		_, err := a.Runner.Run(ctx, c)
		return err
	}
	o, err := s.options(env, launcher, binary, args)
	if err != nil {
		return err
	}
	o.Stdin, o.Stdout, o.Stderr = a.Stdin, a.Shell.Out, a.Shell.Err
	if r, err := a.scan(binary); err == nil {
		o.Own = r.Kernels()
	}
	want := Options{ExpectCPU: s.ExpectCPU}
	if s.Receipt {
		want.Receipt = s.Dir
	}
	p, err := a.proveSealed(ctx, want, o)
	if err != nil {
		return err
	}
	if s.Tests && p.Verdict.Kind == verify.NotUsed && a.ranNoTest(ctx, o) {
		return s.noteListed(a.Host.Abs(binary))
	}
	data, err = json.Marshal(kept{p, p.Receipt})
	if err != nil {
		return err
	}
	if err := cache.WriteFile(filepath.Join(s.Dir, fmt.Sprintf("proof-%d-%d.json", time.Now().UnixNano(), os.Getpid())), data, 0o600); err != nil {
		return err
	}
	switch ended := p.Evidence.Exit; {
	case ended.Signal != "" && !ended.TimedOut:
		return &diedError{exit.Code(ended.Code), ended.Signal}
	case ended.Code != 0:
		return exit.Code(ended.Code)
	}
	return nil
}

// ranNoTest says whether a test program, started with these arguments, has no test to run: a filter that matches none. It asks the program for its list, which
// only one with Rust's own test harness understands; that it has that is told by a text of it. Source: rustc's library/test, cli.rs and formatters.
func (a *app) ranNoTest(ctx context.Context, o verify.Options) bool {
	data, err := a.Host.ReadFile(o.Binary, 1<<30)
	if err != nil || len(o.Launcher) > 0 || !bytes.Contains(data, []byte("test result: ")) {
		return false
	}
	r, err := a.Runner.Run(ctx, buildenv.Cmd{Path: o.Binary, Args: append(slices.Clone(o.Args), "--list"), Env: o.Env.Entries(), Timeout: time.Minute, Limit: 1 << 20})
	return err == nil && !bytes.Contains(r.Stdout, []byte(": test\n")) && !bytes.Contains(r.Stdout, []byte(": benchmark\n"))
}

// diedError is a program's end by a signal, whose exit code is that of a shell.
type diedError struct {
	exit.Code
	signal string
}

func (e *diedError) Error() string { return "ended by " + e.signal }
func (e *diedError) Unwrap() error { return e.Code }

// asItEnded ends the runner by the signal that ended its program: cargo then says of it what it says without a runner, and tests end with cargo's 101. Where
// that cannot be done the code tells it.
func asItEnded(err error) error {
	var died *diedError
	if errors.As(err, &died) {
		proc.DieBy(int(died.Code) - 128)
	}
	if exit, ok := err.(*buildenv.ExitError); ok && exit.Result.Signal != "" {
		proc.DieBy(exit.Result.Code - 128)
	}
	return err
}

// options are those of the proof of one program that cargo started.
func (s runnerState) options(env buildenv.Env, launcher []string, binary string, args []string) (verify.Options, error) {
	o := verify.Options{
		Launcher: launcher, Binary: binary, Args: args, Env: env, CUPTI: s.CUPTI, Others: s.Others, Probe: s.Probe, Timeout: time.Duration(s.Timeout),
		Min: s.Min, Device: s.Device, Child: s.Child, Counterfactual: s.Counterfactual,
	}
	if s.Kernel == "" {
		return o, nil
	}
	var err error
	o.Kernel, err = regexp.Compile(s.Kernel)
	return o, err
}
