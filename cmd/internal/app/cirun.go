package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/ci"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

// leftOutError says that a row is none that runs here.
type leftOutError struct{ Row, Why, Fix string }

func (e *leftOutError) Error() string { return e.Row + ": " + e.Why }

// ExitCode is exit.Misfit.
func (e *leftOutError) ExitCode() int { return exit.Misfit }
func (e *leftOutError) Hint() string  { return e.Fix }

// ciRun does what CI does for a row: the same steps, by value.
func (a *app) ciRun(ctx context.Context, o Options, l cargo.Line, id string) error {
	p, err := a.planCI(ctx, o, l)
	if err != nil {
		return err
	}
	row, steps, err := p.stepsOf(id)
	if err != nil {
		return err
	}
	if o.Only != "" {
		if !slices.Contains(ci.StepNames(row.Kind), o.Only) {
			return &usageError{fmt.Sprintf("row %s proves nothing, so there is no step %s", id, o.Only), "name a row of [[matrix.prove]]; `gpubuild ci matrix` lists them"}
		}
		steps = slices.DeleteFunc(steps, func(s ci.Step) bool { return s.Name != o.Only })
		if len(steps) == 0 {
			a.Shell.Note("row %s needs no step %s", id, o.Only)
			return nil
		}
	}
	if o.DryRun {
		fmt.Fprintf(a.Shell.Out, "cd %s\n", buildenv.PosixWords(p.Project.Root))
		for _, s := range steps {
			fmt.Fprintln(a.Shell.Out, s.Script())
		}
		return nil
	}
	if here := install.Platform(a.Host); here != row.Platform {
		return &leftOutError{id, fmt.Sprintf("it is for %s, and this machine is %s", row.Platform, here), "run it on such a machine; --dry-run prints its commands"}
	}
	if row.Container != "" {
		a.Shell.Note("CI runs this row in %s; here it runs on your own machine, with your own compilers", ci.OneLine(row.Container))
	}
	out := a.Shell.Out
	if o.JSON != nil && *o.JSON == "" {
		a.Shell.Out = a.Shell.Err // stdout belongs to the answer
	}
	done := []stepResult{}
	for _, s := range steps {
		began := time.Now()
		if err = p.runStep(ctx, row, s); isInterrupted(err) {
			return err
		}
		var code exit.Code
		r := stepResult{Name: s.Name, Command: s.Script(), Seconds: time.Since(began).Seconds()}
		switch {
		case errors.As(err, &code):
			r.Code = int(code)
		case err != nil:
			r.Code, r.Error = exit.Other, err.Error()
		}
		if done = append(done, r); err != nil {
			break
		}
	}
	a.Shell.Out = out
	if answered := a.answer(o, "ci-run", err == nil, nil, struct {
		Row   ci.Row       `json:"row"`
		Steps []stepResult `json:"steps"`
	}{row, done}); answered != nil {
		return answered
	}
	return err
}

// stepResult is what came of a step, for machines.
type stepResult struct {
	Name    string  `json:"name"`
	Command string  `json:"command"`
	Code    int     `json:"code"`
	Error   string  `json:"error,omitempty"` // where the step could not be run at all
	Seconds float64 `json:"seconds"`
}

// stepsOf finds a row that can work and its steps.
func (p *ciPlan) stepsOf(id string) (ci.Row, []ci.Step, error) {
	row, why, ok := p.matrix.Find(id)
	switch {
	case !ok:
		return row, nil, &usageError{fmt.Sprintf("the matrix has no row %q", id), "gpubuild ci matrix lists the rows"}
	case why != "":
		return row, nil, &leftOutError{id, "left out: " + why, "gpubuild ci matrix lists the rows that can work"}
	}
	return row, ci.Steps(row), nil
}

func (p *ciPlan) runStep(ctx context.Context, row ci.Row, s ci.Step) error {
	if s.Fetches && !p.options.Fetch {
		had, err := p.haveToolkit(row)
		if err != nil || had {
			return err
		}
	}
	if s.Results != "" {
		if err := os.MkdirAll(p.Host.Join(p.Project.Root, s.Results), 0o755); err != nil {
			return err
		}
	}
	p.Shell.Status("Step", "%s: %s", s.Title, ci.OneLine(s.Script()))
	if len(s.Wrapper) > 0 {
		return p.runWrapped(ctx, row, s)
	}
	res, err := p.Runner.Run(ctx, p.command(s))
	return ended(res, err)
}

// command is a step as a process: ourselves, in the workspace's root.
func (p *ciPlan) command(s ci.Step) buildenv.Cmd {
	env := p.Host.Env
	for _, v := range s.Env {
		value := v.Value
		if v.Name == "CARGO_TARGET_DIR" {
			value = p.Host.Join(p.Project.Root, value)
		}
		env = p.Host.Apply(env, buildenv.Delta{Changes: []buildenv.Change{{Op: buildenv.Set, Name: v.Name, Value: value}}})
	}
	return buildenv.Cmd{Path: p.Self, Args: s.Args, Dir: p.Project.Root, Env: env.Entries(), Stdin: p.Stdin, Stdout: p.Shell.Out, Stderr: p.Shell.Err}
}

// ended is what a step's process came to: its own words are said already.
func ended(res buildenv.Result, err error) error {
	var exited *buildenv.ExitError
	if errors.As(err, &exited) {
		return exit.Code(res.Code)
	}
	return err
}

// haveToolkit says whether this machine has the toolkit that the row would fetch. Without it, and without the user's word, the row ends here: a
// repository may not start a download.
func (p *ciPlan) haveToolkit(row ci.Row) (bool, error) {
	v, err := gpu.ParseVersion(row.CUDA)
	if err != nil {
		return false, err
	}
	plan, err := install.MakePlan(p.catalog, p.Host, p.CacheDir, install.Want{Exact: v, LinkStubs: true, Parts: append(install.Default(), row.Parts...)})
	if err != nil {
		return false, err
	}
	if plan.Installed {
		p.Shell.Status("Have", "CUDA %s in %s", plan.Release, p.Shown(plan.Root))
		return true, nil
	}
	var extra []cuda.Candidate
	for _, in := range install.Installed(p.Host, p.CacheDir) {
		extra = append(extra, cuda.Candidate{Root: in.Root, Origin: "gpubuild's cache"})
	}
	for _, t := range cuda.Find(p.Host, extra) {
		if t.Problem == "" && t.Version == v {
			p.Shell.Note("CI fetches CUDA %s for this row; here %s is used (%s)", v, t.Root, t.Origin)
			return true, nil
		}
	}
	return false, &toolchain.MissingError{What: "CUDA toolkit " + v.String() + " here",
		Fix: fmt.Sprintf("gpubuild ci run %s --fetch gets it as CI does: %s", row.ID, plan.Lines()[0])}
}

// resultLine is how a step inside a wrapper tells how it ended. A wrapper's own exit status does not do: srun --kill-on-bad-exit=1 answers 143
// for a task's 21, and one that started nothing may well answer 0.
var resultLine = regexp.MustCompile(`gpubuild-ci-result ([0-9a-f]{16}) (\d{1,3})\s*$`)

// runWrapped runs a step through its wrapper, as ourselves again, and takes the step's own word for how it ended.
func (p *ciPlan) runWrapped(ctx context.Context, row ci.Row, s ci.Step) error {
	wrapper := s.Wrapper[0]
	path, err := p.Host.LookPath(wrapper)
	if p.Host.IsAbs(wrapper) && p.Host.IsFile(wrapper) {
		path, err = wrapper, nil
	}
	if err != nil {
		return &toolchain.MissingError{What: wrapper + " on PATH, which the proof of " + row.Place + " is wrapped in",
			Fix: "run this row where it is, or change wrapper in [[matrix.prove]]"}
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	told := &resultFilter{out: p.Shell.Out, nonce: hex.EncodeToString(random[:])}
	c := p.command(s)
	c.Path = path
	c.Args = append(slices.Clone(s.Wrapper[1:]), p.Self, ciChild, told.nonce, row.ID, p.Project.RootManifest)
	c.Stdout = told
	res, err := p.Runner.Run(ctx, c)
	told.close()
	switch {
	case isInterrupted(err):
		return err
	case told.worst != 0:
		return exit.Code(told.worst)
	case err != nil:
		p.Shell.Error("%s ended with %d, and no proof was told of", wrapper, res.Code)
		if res.Code == 0 {
			return err // it was not even started
		}
		return exit.Code(res.Code)
	case told.count == 0:
		p.Shell.Loud("Unproved", "not proven: %s ended well, and nothing that it ran told of a proof", wrapper)
		return exit.Code(exit.Unproved)
	}
	return nil
}

// ciInside is the part of a wrapped step that runs where the GPU is: NONCE ROW MANIFEST.
func (a *app) ciInside(ctx context.Context, words []string) error {
	if len(words) != 3 {
		return &usageError{"this word is not for people", "gpubuild ci run ROW"}
	}
	err := a.ciInsideStep(ctx, words[1], words[2])
	var code exit.Code
	n := exit.Done
	switch {
	case errors.As(err, &code):
		n = int(code)
	case err != nil:
		n = finish(a.Shell, err)
		err = exit.Code(n)
	}
	// A line of its own, whatever the program left unfinished.
	if _, wrote := fmt.Fprintf(a.Shell.Out, "\ngpubuild-ci-result %s %d\n", words[0], n); wrote != nil {
		return wrote
	}
	return err
}

func (a *app) ciInsideStep(ctx context.Context, id, manifest string) error {
	line, _, err := cargo.Split([]string{"build", "--manifest-path", manifest}, nil)
	if err != nil {
		return err
	}
	p, err := a.planCI(ctx, Options{}, line)
	if err != nil {
		return err
	}
	_, steps, err := p.stepsOf(id)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if len(s.Wrapper) > 0 {
			res, err := p.Runner.Run(ctx, p.command(s))
			return ended(res, err)
		}
	}
	return &usageError{"row " + id + " has no wrapped step", "gpubuild ci run " + id}
}

// resultFilter passes on what a wrapper prints and takes our own line out of it. A wrapper may put words before a line (srun --label).
type resultFilter struct {
	out   io.Writer
	nonce string
	line  []byte
	blank bool // an empty line is held back: it may be the one before ours
	count int
	worst int // the first code that is not 0
}

func (f *resultFilter) Write(p []byte) (int, error) {
	f.line = append(f.line, p...)
	for {
		i := bytes.IndexByte(f.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		if err := f.take(f.line[:i+1]); err != nil {
			return 0, err
		}
		f.line = f.line[i+1:]
	}
}

func (f *resultFilter) take(line []byte) error {
	if m := resultLine.FindSubmatch(line); m != nil && string(m[1]) == f.nonce {
		f.count++
		if n, _ := strconv.Atoi(string(m[2])); f.worst == 0 {
			f.worst = n
		}
		f.blank = false
		return nil
	}
	if f.blank {
		f.blank = false
		if _, err := f.out.Write([]byte("\n")); err != nil {
			return err
		}
	}
	if len(bytes.TrimRight(line, "\r\n")) == 0 && len(line) > 0 {
		f.blank = true
		return nil
	}
	_, err := f.out.Write(line)
	return err
}

// close passes on what is left without a line feed.
func (f *resultFilter) close() {
	if len(f.line) > 0 {
		_ = f.take(f.line) // a stdout that cannot be written to changes nothing about the result
	}
}
