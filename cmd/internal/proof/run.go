package proof

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/loader"
)

// Run starts plain cargo with the user's own streams and our runner in front of the user's, then says what the programs showed. Terminals
// and pipes stay what they were. The error is that of the run: cargo's where it failed, else an exit.Code where everything was said.
func Run(ctx context.Context, r Request) (Result, error) {
	m, line := r.Session.Machine, r.Session.Line
	triple, rustc, err := r.triple(ctx)
	if err != nil {
		return Result{}, err
	}
	user, err := cargo.UserRunner(ctx, m.Host, m.Runner, r.Tool, line, triple)
	if err != nil {
		return Result{}, err
	}
	runs, err := m.Scratch("runs")
	if err != nil {
		return Result{}, err
	}
	dir, err := os.MkdirTemp(runs, "cargo-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	found, err := r.runtimes(ctx)
	if err != nil {
		return Result{}, err
	}
	heard := Listen(m, m.Shell.Out, line.Verb)
	file := filepath.Join(dir, "state.json")
	ours := []string{m.Self, RunnerWord, file}
	state := r.runnerState(dir, user.Words, found)
	data, err := json.Marshal(state)
	if err != nil {
		return Result{}, err
	}
	if err := cache.WriteFile(file, data, 0o600); err != nil {
		return Result{}, err
	}
	typed := line
	if r.Nextest != nil {
		typed = *r.Nextest
	}
	tool, typed, err := cargo.WithRunner(r.Tool, typed, triple, append(ours[:3:3], user.Words...), user)
	if err != nil {
		return Result{}, err
	}
	c := cargo.Command(tool, typed.Started(rustc))
	c.Stdin, c.Stdout, c.Stderr = m.Stdin, heard.Stdout, heard.Stderr
	c.Grace = buildenv.ProgramGrace
	_, ran := m.Runner.Run(ctx, c)
	heard.End(m.Host)
	if errors.Is(ran, context.Canceled) {
		proofs, _, err := readProofs(dir)
		return Result{Proofs: proofs}, cmp.Or(err, ran)
	}
	result, excused, judged := r.judge(dir, state, ran)
	if len(result.Proofs) == 1 {
		heard.NoteWords(m, result.Proofs[0].Verdict.Kind)
	}
	end := Ending{Program: "the program", Verb: line.Verb, Missing: found.Missing, Heard: heard, OnCPU: judged == exit.Code(exit.NotUsed)}
	if len(r.Programs) == 1 {
		end.Program = m.Shown(r.Programs[0].Path)
	}
	var exited *buildenv.ExitError
	if errors.As(ran, &exited) && !excused {
		end.Code = exited.Result.Code
		if !state.Devices { // else the verdict names it
			end.Signal = exited.Result.Signal
		}
	}
	result.Ending = &end
	return result, judged
}

// runnerState is what the runner must know of the run.
func (r Request) runnerState(dir string, user []string, found runtimes) runnerState {
	t := r.task("")
	t.Probe, t.CUPTI, t.Others = found.Probe, found.CUPTI, found.Others
	return runnerState{Dir: dir, Task: t, User: user, Devices: found.devices, Lib: found.directories, On: r.place(),
		Tests: r.Session.Line.Purpose() == cargo.Tests}
}

func (r Request) place() *Place {
	if r.Given.Place == nil {
		return nil
	}
	p := *r.Given.Place
	p.Toolkit = r.Toolkit
	return &p
}

// runtimes is what the programs of a run need to start and to be recorded.
type runtimes struct {
	Runtime     // of all programs
	devices     bool
	directories []string // with libraries that the loader would not find
}

func (r Request) runtimes(ctx context.Context) (runtimes, error) {
	m := r.Session.Machine
	if r.Given.Place != nil {
		rt, err := r.Options.Files.Tools(ctx, m, r.Given.Backend, Toolkits(m, r.Toolkit))
		return runtimes{Runtime: rt, devices: true}, err
	}
	found := runtimes{devices: r.underProbe(ctx)}
	for _, p := range r.Programs {
		rt, err := prepare(ctx, m, r.Options.Files, r.Given, r.Toolkit, r.Env, p.Path, found.devices)
		if err != nil {
			return found, err
		}
		printLacks(m, rt)
		rt.Missing = append(found.Missing, rt.Missing...)
		found.Runtime = rt
		for _, d := range m.Host.SplitList(rt.Env.Get(loader.Variable(m.Host))) {
			if !slices.Contains(found.directories, d) && !slices.Contains(m.Host.SplitList(r.Env.Get(loader.Variable(m.Host))), d) {
				found.directories = append(found.directories, d)
			}
		}
	}
	return found, nil
}

// underProbe reports whether the programs run under the probe: where there is a GPU, and where that they use none is to be shown, since they
// may find a driver that gpubuild does not.
func (r Request) underProbe(ctx context.Context) bool {
	m := r.Session.Machine
	return r.Options.ExpectCPU && m.Host.OS != buildenv.Darwin || r.Options.Files.hasDevice(ctx, m, r.Given.Backend)
}

// judge says each program's verdict, and answers the run's: the program's own failure first, then the worst that was shown.
// excused: the run's exit code is no failure of the program's.
func (r Request) judge(dir string, state runnerState, ran error) (result Result, excused bool, err error) {
	m, o := r.Session.Machine, r.Options
	if !state.Devices {
		excused, err := r.judgeWithoutGPU(dir, ran)
		return result, excused, err
	}
	proofs, listed, err := readProofs(dir)
	if err != nil {
		return result, false, err
	}
	switch {
	case len(proofs) > 0:
	case state.Tests && asksForWords(r.Session.Line.Trailing):
		m.Shell.Status("Not proven:", "no test was run, as was asked")
		if ran == nil && o.Required {
			return result, false, exit.Code(exit.Unproved)
		}
		return result, false, ran
	case len(listed) > 0:
		m.Shell.Alert("Not proven:", "no test ran")
	default:
		m.Shell.Alert("Not proven:", "no program was started by cargo under our runner, which not every version of cargo uses for doctests")
	}
	marked := Marks(r.Session) != nil && !o.ExpectCPU
	lost := slices.ContainsFunc(proofs, func(p Proof) bool { return p.Finding != "" })
	rows := r.tested(proofs, listed, lost || ran != nil && !r.ExpectedEnd(ran))
	said := DecisiveProcess(proofs)
	lack := len(proofs) > 0 && !slices.ContainsFunc(proofs, func(p Proof) bool {
		return !o.onCPUForLack(r.Given.Place, p, state.Task.Asked.ExpectExit)
	})
	for i, p := range proofs {
		// Of many test programs those that are no matter of the GPU have their
		// line in the table; nextest starts one for each test, and to list them.
		if (!marked || !state.Tests || r.mustUse(p.Program)) && (r.Nextest == nil || said[p.Program] == i) {
			if lack {
				m.Shell.Status("Not used", "%s: %s", m.Shown(p.Program), lackOfGPU)
			} else {
				printVerdict(m, p)
			}
		}
	}
	result.Proofs = proofs
	if state.Tests {
		if marked {
			result.Missed = r.missedMarks(rows)
		}
		printTested(m, rows)
	}
	var covered error
	result.Coverage, covered = r.cover(proofs)
	if _, said := errors.AsType[exit.Code](covered); covered != nil && !said {
		return result, false, cmp.Or(ran, covered)
	}
	for _, missed := range result.Missed {
		m.Shell.Alert("Not proven:", "%s", strings.TrimPrefix(missed, "not proven: "))
	}
	if lost && (ran == nil || !slices.ContainsFunc(proofs, func(p Proof) bool { return p.Finding == "" && p.failed() })) {
		return result, false, exit.Code(exit.Unproved)
	}
	if excused = r.excuses(proofs, state.Task.Asked.ExpectExit, ran); ran != nil && !excused {
		return result, false, ran
	}
	var end error
	if lack {
	} else if !state.Tests || marked || r.asksForMatch() {
		end = outcome(worstOf(rows, wanted{
			cpu: o.ExpectCPU, all: !state.Tests || o.Required || o.ExpectCPU, marked: marked, missed: len(result.Missed) > 0,
			lenient: !r.asksForMatch() && !marked,
		}))
	} else if !slices.ContainsFunc(rows, func(t tested) bool { return t.kind.Code(false) == exit.Done }) {
		// With a GPU, tests that nobody marks must not be stricter than without one.
		m.Shell.Note("a test that must use the GPU is marked in gpubuild.toml: [%s] gpu = [\"NAME\"]", r.Session.Line.Verb)
	}
	if end == nil && slices.ContainsFunc(proofs, func(p Proof) bool { return p.Evidence.Exit.TimedOut }) {
		end = exit.Code(exit.Unproved) // not everything came to its end, whatever the rest showed
	}
	end = cmp.Or(end, covered)
	for _, p := range proofs {
		end = p.orNoReceipt(m, end)
	}
	return result, excused, end
}

// judgeWithoutGPU says that nothing is proven here, and answers as judge does.
func (r Request) judgeWithoutGPU(dir string, ran error) (excused bool, err error) {
	m, o := r.Session.Machine, r.Options
	if m.Host.IsFile(m.Host.Join(dir, timedOutFile)) { // as on a machine with a GPU
		m.Shell.Alert("Not proven:", "no GPU here, and the program was stopped after %s (--gpu-timeout)", o.Timeout)
		return true, exit.Code(exit.Unproved)
	}
	m.Shell.Alert("Not proven:", "no GPU here")
	if o.Coverage != nil {
		r.unmeasured("no GPU here")
	}
	ended := ran == nil || r.ExpectedEnd(ran)
	if !r.Requires() || !ended {
		return false, ran
	}
	if !o.Demanded() {
		m.Shell.Note(InCI)
	}
	return false, exit.Code(exit.Unproved)
}

// excuses reports whether a run's failure is none of the program's: we ended it when its time was over, or each program ended with the code
// that was expected of it.
func (r Request) excuses(proofs []Proof, expected int, ran error) bool {
	exited, failed := errors.AsType[*buildenv.ExitError](ran)
	if failed && endedForTime(proofs, exited.Result.Code) {
		return true
	}
	return r.ExpectedEnd(ran) && !slices.ContainsFunc(proofs, func(p Proof) bool {
		return p.Evidence.Exit.Code != expected || p.Evidence.Exit.Signal != ""
	})
}

// endedForTime reports whether a run's exit code is that of a program whose time
// was over, which we ended: then it is none of the program's own.
func endedForTime(proofs []Proof, code int) bool {
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

// ExpectedEnd reports whether `cargo run` failed with the exit code that is expected of the program, which then is no failure: a missing
// proof must not be mistaken for that success. A test that ends otherwise than with 0 stays a failure, as it is to cargo.
func (r Request) ExpectedEnd(ran error) bool {
	exited, failed := errors.AsType[*buildenv.ExitError](ran)
	return failed && r.Session.Line.Purpose() == cargo.Runs && exited.Result.Signal == "" &&
		exited.Result.Code == r.task("").Asked.ExpectExit
}

// readProofs are the proofs that the runners of a run left, and the programs that were asked for words, whatever else they did.
func readProofs(dir string) (proofs []Proof, listed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries { // sorted
		if !strings.HasPrefix(e.Name(), "proof-") || !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		var l processReport
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = json.Unmarshal(data, &l)
		}
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", e.Name(), err)
		case l.Listed:
			listed = append(listed, l.Program)
		default:
			proofs = append(proofs, l.Proof)
		}
	}
	return proofs, listed, nil
}

// triple is what is built for, and by which rustc.
func (r Request) triple(ctx context.Context) (string, cargo.VersionInfo, error) {
	m, line := r.Session.Machine, r.Session.Line
	c, err := cargo.RustcVersion(m.Host, r.Tool, line)
	if err != nil {
		return "", cargo.VersionInfo{}, err
	}
	res, err := m.Runner.Run(ctx, c)
	if err != nil {
		return "", cargo.VersionInfo{}, err
	}
	v, ok := cargo.ParseVersion(res.Stdout)
	if !ok {
		return "", v, fmt.Errorf("rustc -vV does not say its host")
	}
	return cargo.Triple(strings.Join(line.Target[:min(1, len(line.Target))], ""), v.Host), v, nil
}
