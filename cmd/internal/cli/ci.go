package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

func ciVerb() verb {
	var o Options
	return verb{
		name: "ci", usage: "the matrix of CI: `matrix`, `run ROW`, `init " + ci.ProviderNames("|") + "`",
		text: "gpubuild ci matrix\ngpubuild ci run cuda-cuda13.4-sm_90-linux-x86_64-dev\ngpubuild ci init github --stdout\n\n" +
			"matrix lists the rows that [matrix] in gpubuild.toml makes, those that are left out with the reason. run does on this " +
			"machine what CI does for a row;\n" +
			"a row that proves ends with 21 where there is no GPU. init writes a workflow that runs the rows.",
		project: true,
		flags: append([]*flag{
			dryRun(&o), toggle("stdout", printOnly, &o.Stdout), toggle("force", replace, &o.Force),
			choice("format", strings.Join(ci.Formats(), "|"), "the form of the matrix", &o.Format, ci.Formats()...),
			choice("only", "toolkit|build|prove", "run: one step of the row", &o.Only, "toolkit", "build", "prove"),
			toggle("fetch", "run: let the row's step fetch its toolkit into your cache", &o.Fetch),
		}, answerFlag(&o)...),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runCI(ctx, a, o, l)
		},
	}
}

func runCI(ctx context.Context, a *invocation, o Options, l cargo.Line) error {
	a.SpeakLike(l)
	if len(l.Features) > 0 || l.AllFeatures || l.NoDefault {
		return &usageError{"ci takes no features: its rows have their own", "name feature sets in [matrix] of gpubuild.toml"}
	}
	word, rest := "matrix", []string(nil)
	if len(l.Positional) > 0 {
		word, rest = l.Positional[0], l.Positional[1:]
	}
	switch {
	case word == "matrix" && len(rest) == 0:
		return a.ciMatrix(ctx, o, l)
	case word == "run" && len(rest) == 1:
		return a.ciRun(ctx, o, l, rest[0])
	case word == "init" && len(rest) == 1:
		return a.ciInit(o, l, rest[0])
	case word == "run" && len(rest) == 0:
		return &usageError{"ci run needs the row", "gpubuild ci matrix lists the rows"}
	case word == "init" && len(rest) == 0:
		return &usageError{"ci init needs to know for whom", "gpubuild ci init " + ci.ProviderNames(", or gpubuild ci init ")}
	}
	return &usageError{
		fmt.Sprintf("ci does not understand %q", strings.Join(l.Positional, " ")),
		"gpubuild ci matrix, gpubuild ci run ROW, or gpubuild ci init " + ci.ProviderNames("|"),
	}
}

// ciParser takes words apart as the command line does.
func ciParser() ci.Parser {
	return ci.Parser{Words: splitWords, Line: func(words []string) (cargo.Line, error) {
		_, line, err := ParseCargo(words)
		return line, err
	}}
}

// planCI makes the matrix of the project, without asking cargo about the project itself.
func (a *invocation) planCI(ctx context.Context, l cargo.Line) (*session.Session, *ci.Plan, error) {
	s, err := session.Open(a.Machine, l)
	if err != nil {
		return nil, nil, err
	}
	p, err := ci.Make(ctx, s, ciParser())
	return s, p, err
}

func (a *invocation) ciMatrix(ctx context.Context, o Options, l cargo.Line) error {
	s, p, err := a.planCI(ctx, l)
	if err != nil {
		return err
	}
	if o.Format == ci.FormatJSON && o.JSON == nil {
		o.JSON = new(string)
	}
	refused := p.Matrix.Refuse()
	if o.JSON != nil {
		if err := a.answer(o, "ci", refused == nil, p.Matrix.LeftOutFindings(), p.Matrix); err != nil {
			return err
		}
		return refused
	}
	provider := ci.FindProvider(o.Format)
	if provider == nil {
		if _, err := a.Shell.Out.Write(ci.Text(p.Matrix, report.Bytes)); err != nil {
			return err
		}
		return refused
	}
	if refused != nil {
		return refused
	}
	out, err := provider.Rows(p.Matrix, ci.WorkflowOf(s))
	if err != nil {
		return err
	}
	if len(p.Matrix.LeftOut) > 0 {
		a.Shell.Note("left out:\n%s", strings.TrimSuffix(ci.Reasons(p.Matrix.LeftOut), "\n"))
	}
	_, err = a.Shell.Out.Write(out)
	return err
}

// ciRun does what CI does for a row.
func (a *invocation) ciRun(ctx context.Context, o Options, l cargo.Line, id string) error {
	s, p, err := a.planCI(ctx, l)
	if err != nil {
		return err
	}
	row, steps, err := p.Matrix.Steps(id, o.Only)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		a.Shell.Note("row %s needs no step %s", id, o.Only)
		return nil
	}
	if o.DryRun {
		fmt.Fprintf(a.Shell.Out, "cd %s\n", buildenv.PosixWords(s.Project.Root))
		for _, step := range steps {
			fmt.Fprintln(a.Shell.Out, step.Script())
		}
		return nil
	}
	out := a.Shell.Out
	if o.JSON != nil && *o.JSON == "" {
		out = a.Shell.Err // stdout belongs to the answer
	}
	done, err := p.Run(ctx, row, steps, ci.RunOptions{Fetch: o.Fetch, Out: out})
	var other *ci.LeftOutError
	if isInterrupted(err) || errors.As(err, &other) {
		return err
	}
	if answered := a.answer(o, "ci-run", err == nil, nil, struct {
		Row   ci.Row          `json:"row"`
		Steps []ci.StepResult `json:"steps"`
	}{row, done}); answered != nil {
		return answered
	}
	return err
}

// ciInit writes a workflow that runs the matrix.
func (a *invocation) ciInit(o Options, l cargo.Line, service string) error {
	s, err := session.Open(a.Machine, l)
	if err != nil {
		return err
	}
	made, err := ci.MakeInit(s, service)
	switch {
	case err != nil:
		return err
	case o.JSON != nil:
		return &usageError{"ci init has no answer for machines", "--stdout prints the workflow"}
	case o.Stdout:
		_, err := a.Shell.Out.Write(made.Text)
		return err
	}
	return made.Write(a.Machine, o.Force)
}
