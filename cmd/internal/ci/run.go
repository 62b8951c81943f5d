package ci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

// LeftOutError says that a row is none that runs here.
type LeftOutError struct{ Row, Why, Fix string }

func (e *LeftOutError) Error() string { return e.Row + ": " + e.Why }
func (e *LeftOutError) ExitCode() int { return exit.Misfit }
func (e *LeftOutError) Hint() string  { return e.Fix }

// RunOptions say how a row is run.
type RunOptions struct {
	Fetch bool      // consent to what a step downloads
	Out   io.Writer // what the steps print
}

// Run does what CI does for a row: the same steps, by value. It returns the results that there are with the error of the step that failed.
func (p *Plan) Run(ctx context.Context, row Row, steps []Step, o RunOptions) ([]StepResult, error) {
	m := p.session.Machine
	if here := strings.Replace(install.Platform(m.Host), buildenv.Darwin, "macos", 1); here != row.Platform {
		return nil, &LeftOutError{
			row.ID, fmt.Sprintf("it is for %s, and this machine is %s", row.Platform, here),
			"run it on such a machine; --dry-run prints its commands",
		}
	}
	if row.Container != "" {
		m.Shell.Note("CI runs this row in %s; here it runs on your own machine, with your own compilers", OneLine(row.Container))
	}
	done := []StepResult{}
	for _, s := range steps {
		began := time.Now()
		err := p.runStep(ctx, s, o)
		if interrupted(err) {
			return done, err
		}
		var code exit.Code
		r := StepResult{Name: s.Name, Command: s.Script(), Seconds: time.Since(began).Seconds()}
		switch {
		case errors.As(err, &code):
			r.Code = int(code)
		case err != nil:
			r.Code, r.Error = exit.Other, err.Error()
		}
		if done = append(done, r); err != nil {
			return done, err
		}
	}
	return done, nil
}

func interrupted(err error) bool { return errors.Is(err, context.Canceled) }

// StepResult is what came of a step, for machines.
type StepResult struct {
	Name    string  `json:"name"`
	Command string  `json:"command"`
	Code    int     `json:"code"`
	Error   string  `json:"error,omitempty"` // where the step could not be run at all
	Seconds float64 `json:"seconds"`
}

// RunAnswer is the answer of `ci run`.
type RunAnswer struct {
	Row   Row          `json:"row"`
	Steps []StepResult `json:"steps"`
}

// Steps finds a row that can work and its steps; only chooses one of them by its name, which may leave none. A row that proves begins with
// the steps of the row that compiles it.
func (m Matrix) Steps(id, only string) (Row, []Step, error) {
	row, why, ok := m.Find(id)
	switch {
	case !ok:
		return row, nil, unknownRow(id)
	case why != "":
		return row, nil, &LeftOutError{id, "left out: " + why, "gpubuild ci matrix lists the rows that can work"}
	}
	steps := Steps(row)
	if row.Kind == Proof {
		compile, _, _ := m.Find(row.Compile)
		steps = append(Steps(compile), steps...)
	}
	if only == "" {
		return row, steps, nil
	}
	if only == StepProve && row.Kind != Proof {
		return row, nil, &exit.UsageError{
			What: fmt.Sprintf("row %s proves nothing, so there is no step %s", id, only),
			Fix:  "name a row of [[matrix.prove]]; `gpubuild ci matrix` lists them",
		}
	}
	return row, slices.DeleteFunc(steps, func(s Step) bool { return s.Name != only }), nil
}

func unknownRow(id string) error {
	return &exit.UsageError{What: fmt.Sprintf("the matrix has no row %q", id), Fix: "gpubuild ci matrix lists the rows"}
}

func (p *Plan) runStep(ctx context.Context, s Step, o RunOptions) error {
	if s.Fetches && !o.Fetch {
		had, err := p.haveToolkit(s.Row)
		if err != nil || had {
			return err
		}
	}
	m := p.session.Machine
	if err := m.MakeDir(m.Host.Join(p.session.Project.Root, ResultsDir(s.Row.ID))); err != nil {
		return err
	}
	m.Shell.Status("Step", "%s", s.Title)
	for _, provider := range Providers() {
		if m.Host.Env.Get(provider.Variable()) == "true" {
			begin, end := provider.Section(s.Title, time.Now())
			fmt.Fprint(m.Shell.Err, begin)
			defer fmt.Fprint(m.Shell.Err, end)
		}
	}
	if m.Shell.Verbose {
		m.Shell.Status("Running", "%s", OneLine(s.Script()))
	}
	res, err := m.Runner.Run(ctx, p.command(s, o.Out))
	return ended(res, err)
}

// command is a step as a process: ourselves, in the workspace's root.
func (p *Plan) command(s Step, out io.Writer) buildenv.Cmd {
	m := p.session.Machine
	env := m.Host.Env
	for _, v := range s.Env {
		value := v.Value
		if v.Name == "CARGO_TARGET_DIR" {
			value = p.session.Machine.Host.Join(p.session.Project.Root, value)
		}
		env = p.session.Machine.Host.Apply(env, buildenv.Delta{Changes: []buildenv.Change{{Op: buildenv.Set, Name: v.Name, Value: value}}})
	}
	return buildenv.Cmd{
		Path: m.Self, Args: s.Args, Dir: p.session.Project.Root, Env: env.Entries(), Stdin: m.Stdin, Stdout: out, Stderr: m.Shell.Err,
	}
}

// ended is what a step's process came to: its own words are said already.
func ended(res buildenv.Result, err error) error {
	if _, ok := errors.AsType[*buildenv.ExitError](err); ok {
		return exit.Code(res.Code)
	}
	return err
}

// haveToolkit says whether this machine has the toolkit that the row would fetch. Without it, and without the user's word, the row ends
// here: a repository may not start a download.
func (p *Plan) haveToolkit(row Row) (bool, error) {
	v, err := gpu.ParseVersion(row.CUDA)
	if err != nil {
		return false, err
	}
	plan, err := install.MakePlan(p.catalog, p.session.Machine.Host, p.session.Machine.CacheDir,
		install.Want{Exact: v, Parts: append(install.Default(), row.Parts...)})
	if err != nil {
		return false, err
	}
	if plan.Installed {
		p.session.Machine.Shell.Status("Have", "CUDA %s in %s", plan.Release, p.session.Machine.Shown(plan.Root))
		return true, nil
	}
	var extra []cuda.Candidate
	for _, in := range install.Installed(p.session.Machine.Host, p.session.Machine.CacheDir) {
		extra = append(extra, cuda.Candidate{Root: in.Root, Origin: "gpubuild's cache"})
	}
	for _, t := range cuda.Find(p.session.Machine.Host, extra) {
		if t.Problem == "" && t.Version == v {
			p.session.Machine.Shell.Note("CI fetches CUDA %s for this row; here %s is used (%s)", v, t.Root, t.Origin)
			return true, nil
		}
	}
	return false, &toolchain.MissingError{What: "CUDA toolkit " + v.String() + " here",
		Fix: fmt.Sprintf("gpubuild ci run %s --fetch gets it as CI does: %s", row.ID, plan.Lines()[0])}
}
