package ci

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
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

// LeftOutError says that a row is none that runs here.
type LeftOutError struct{ Row, Why, Fix string }

func (e *LeftOutError) Error() string { return e.Row + ": " + e.Why }

// ExitCode is exit.Misfit.
func (e *LeftOutError) ExitCode() int { return exit.Misfit }
func (e *LeftOutError) Hint() string  { return e.Fix }

// RunOptions say how a row is run.
type RunOptions struct {
	Fetch bool      // consent to what a step downloads
	Out   io.Writer // what the steps print
}

// Run does what CI does for a row: the same steps, by value. Their results stand beside the error of the one that failed.
func (p *Plan) Run(ctx context.Context, row Row, steps []Step, o RunOptions) ([]StepResult, error) {
	m := p.session.Machine
	if here := install.Platform(m.Host); here != row.Platform {
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
		err := p.runStep(ctx, row, s, o)
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

// Steps finds a row that can work and its steps; only chooses one of them by its name, which may leave none.
func (m Matrix) Steps(id, only string) (Row, []Step, error) {
	row, why, ok := m.Find(id)
	switch {
	case !ok:
		return row, nil, &exit.UsageError{What: fmt.Sprintf("the matrix has no row %q", id), Fix: "gpubuild ci matrix lists the rows"}
	case why != "":
		return row, nil, &LeftOutError{id, "left out: " + why, "gpubuild ci matrix lists the rows that can work"}
	}
	steps := Steps(row)
	if only == "" {
		return row, steps, nil
	}
	if !slices.Contains(StepNames(row.Kind), only) {
		return row, nil, &exit.UsageError{
			What: fmt.Sprintf("row %s proves nothing, so there is no step %s", id, only),
			Fix:  "name a row of [[matrix.prove]]; `gpubuild ci matrix` lists them",
		}
	}
	return row, slices.DeleteFunc(steps, func(s Step) bool { return s.Name != only }), nil
}

func (p *Plan) runStep(ctx context.Context, row Row, s Step, o RunOptions) error {
	if s.Fetches && !o.Fetch {
		had, err := p.haveToolkit(row)
		if err != nil || had {
			return err
		}
	}
	if s.Results != "" {
		if err := os.MkdirAll(p.session.Machine.Host.Join(p.session.Project.Root, s.Results), 0o755); err != nil {
			return err
		}
	}
	p.session.Machine.Shell.Status("Step", "%s: %s", s.Title, OneLine(s.Script()))
	if len(s.Wrapper) > 0 {
		return p.runWrapped(ctx, row, s, o)
	}
	res, err := p.session.Machine.Runner.Run(ctx, p.command(s, o.Out))
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
	var exited *buildenv.ExitError
	if errors.As(err, &exited) {
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
		install.Want{Exact: v, LinkStubs: true, Parts: append(install.Default(), row.Parts...)})
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

// resultLine is how a step inside a wrapper tells how it ended. A wrapper's own exit status does not do: srun --kill-on-bad-exit=1 answers
// 143 for a task's 21, and one that started nothing may well answer 0.
var resultLine = regexp.MustCompile(`gpubuild-ci-result ([0-9a-f]{16}) (\d{1,3})\s*$`)

// runWrapped runs a step through its wrapper, as ourselves again, and takes the step's own word for how it ended.
func (p *Plan) runWrapped(ctx context.Context, row Row, s Step, o RunOptions) error {
	wrapper := s.Wrapper[0]
	path, err := p.session.Machine.Host.LookPath(wrapper)
	if p.session.Machine.Host.IsAbs(wrapper) && p.session.Machine.Host.IsFile(wrapper) {
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
	told := &resultFilter{out: o.Out, nonce: hex.EncodeToString(random[:])}
	c := p.command(s, o.Out)
	c.Path = path
	c.Args = append(slices.Clone(s.Wrapper[1:]), p.session.Machine.Self, Child, told.nonce, row.ID, p.session.Project.RootManifest)
	c.Stdout = told
	res, err := p.session.Machine.Runner.Run(ctx, c)
	told.close()
	switch {
	case interrupted(err):
		return err
	case told.worst != 0:
		return exit.Code(told.worst)
	case err != nil:
		p.session.Machine.Shell.Error("%s ended with %d, and no proof was told of", wrapper, res.Code)
		if res.Code == 0 {
			return err // it was not even started
		}
		return exit.Code(res.Code)
	case told.count == 0:
		p.session.Machine.Shell.Loud("Unproved", "not proven: %s ended well, and nothing that it ran told of a proof", wrapper)
		return exit.Code(exit.Unproved)
	}
	return nil
}

// Child is the word that gpubuild starts itself with, inside a wrapper: NONCE ROW MANIFEST follow.
const Child = "__gpubuild-ci"

// Inside is the part of a wrapped step that runs where the GPU is. It tells the step outside how it ended; finish prints an error and
// answers its code.
func Inside(ctx context.Context, m *session.Machine, parser Parser, words []string, finish func(error) int) error {
	if len(words) != 3 {
		return &exit.UsageError{What: "this word is not for people", Fix: "gpubuild ci run ROW"}
	}
	err := insideStep(ctx, m, parser, words[1], words[2])
	var code exit.Code
	n := exit.Done
	switch {
	case errors.As(err, &code):
		n = int(code)
	case err != nil:
		n = finish(err)
		err = exit.Code(n)
	}
	// A line of its own, whatever the program left unfinished.
	if _, wrote := fmt.Fprintf(m.Shell.Out, "\ngpubuild-ci-result %s %d\n", words[0], n); wrote != nil {
		return wrote
	}
	return err
}

func insideStep(ctx context.Context, m *session.Machine, parser Parser, id, manifest string) error {
	line, _, err := cargo.Split([]string{"build", "--manifest-path", manifest}, nil)
	if err != nil {
		return err
	}
	s, err := session.Open(m, line)
	if err != nil {
		return err
	}
	p, err := Make(ctx, s, parser)
	if err != nil {
		return err
	}
	_, steps, err := p.Matrix.Steps(id, "")
	if err != nil {
		return err
	}
	for _, s := range steps {
		if len(s.Wrapper) > 0 {
			res, err := m.Runner.Run(ctx, p.command(s, m.Shell.Out))
			return ended(res, err)
		}
	}
	return &exit.UsageError{What: "row " + id + " has no wrapped step", Fix: "gpubuild ci run " + id}
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
