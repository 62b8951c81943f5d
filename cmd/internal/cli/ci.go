package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/install/tree"
)

// ciOptions are the flags of ci's subcommands.
type ciOptions struct {
	JSON    *string
	DryRun  bool   // run
	Only    string // run: one step
	Fetch   bool   // run: consent to what a step fetches
	Stdout  bool   // init
	Force   bool   // init
	Format  string // matrix: one of ci.Formats
	Results string // prove: where the results go; matrix: earlier ones
	Hosted  bool   // matrix: no machine of the user's own
	Row     string // prove
	CUPTI   string // prove
}

func ciVerb() verb {
	var o ciOptions
	return verb{
		Verb: help.Verb{
			Name: "ci", Usage: "list the rows of the CI matrix, run one, or write a workflow", Project: true,
			Text: "[matrix] in gpubuild.toml defines the rows; `gpubuild help config` shows its keys.",
		},
		verbs: []verb{
			{
				Verb: help.Verb{
					Name: "matrix", Usage: "list the rows of [matrix] in gpubuild.toml", Project: true,
					Examples: []string{"gpubuild ci matrix", "gpubuild ci matrix --format github"},
					Text:     "Rows that are left out are listed with the reason.",
				},
				flags: []*flag{
					toggle("hosted-only", "leave out the rows that need a machine of yours: for a pull request of another repository",
						&o.Hosted),
					choice("format", strings.Join(ci.Formats(), "|"), "the form of the matrix", &o.Format, ci.Formats()...),
					text("results", "DIR", "take each row's last time from these results", &o.Results),
					jsonFlag(&o.JSON),
				},
				run: ciRunner((*invocation).ciMatrix, &o),
			},
			{
				Verb: help.Verb{
					Name: "run", Args: "ROW", Usage: "do on this machine what CI does for a row", Project: true,
					Examples: []string{"gpubuild ci run cuda-cuda13.4-sm_90-linux-x86_64-dev"},
					Text:     "`gpubuild ci matrix` lists the rows. A row that proves exits with 21 if there is no GPU.",
				},
				flags: []*flag{
					choice("only", "toolkit|build|archive|prove", "run one step of the row", &o.Only,
						"toolkit", "build", "archive", "prove"),
					toggle("fetch", "allow the row's step to download its toolkit into your cache", &o.Fetch),
					toggle("dry-run", "print the commands, run nothing", &o.DryRun),
					jsonFlag(&o.JSON),
				},
				run: ciRunner((*invocation).ciRun, &o),
			},
			{
				Verb: help.Verb{
					Name: "archive", Args: "ROW", Usage: "archive what a row built, for a machine with a GPU", Project: true,
					Examples: []string{"gpubuild ci archive cuda-cuda13.4-sm_90-linux-x86_64-dev"},
					Text:     "The archive holds the program, the libraries that it loads, the probe and gpubuild, each with its SHA-256.",
				},
				run: ciRunner(func(a *invocation, ctx context.Context, _ ciOptions, l cargo.Line) error {
					_, p, err := a.planCI(ctx, l)
					if err != nil {
						return err
					}
					return p.ArchiveRow(ctx, l.Positional[0])
				}, &o),
			},
			{
				Verb: help.Verb{
					Name: "prove", Args: "ARCHIVE", Usage: "prove an archived program on a machine with a GPU",
					Examples: []string{"gpubuild ci prove ROW.tar --row prove-gpu-ROW"},
					Text: "No Rust, toolkit or source is needed. The hashes are checked first. If the row has a wrapper, that command " +
						"gets the archive on its standard input and proves it elsewhere.\nExits with 21 if no complete result comes back.",
				},
				flags: []*flag{
					text("row", "ROW", "the row that proves", &o.Row),
					text("cupti", "FILE", "the libcupti of the machine with the GPU, instead of the archive's", &o.CUPTI),
					text("results", "DIR", "write the receipt and the JUnit file here (gpubuild-results)", &o.Results),
				},
				run: ciRunner(func(a *invocation, ctx context.Context, o ciOptions, l cargo.Line) error {
					return ci.Prove(ctx, a.Machine, l.Positional[0], ci.ProveOptions{
						Row: o.Row, CUPTI: o.CUPTI, Results: cmp.Or(o.Results, "gpubuild-results"), Words: a.words, Out: a.Shell.Out})
				}, &o),
			},
			{
				Verb: help.Verb{
					Name: "init", Args: ci.ProviderNames("|"), Usage: "write a workflow that runs the rows", Project: true,
					Examples: []string{"gpubuild ci init github --stdout"},
				},
				flags: []*flag{
					toggle("stdout", "print the file instead of writing it", &o.Stdout),
					toggle("force", "replace an existing file", &o.Force),
				},
				run: ciRunner((*invocation).ciInit, &o),
			},
		},
	}
}

// ciRunner runs a subcommand of ci, none of which takes features.
func ciRunner(
	run func(*invocation, context.Context, ciOptions, cargo.Line) error, o *ciOptions,
) func(context.Context, *invocation, cargo.Line) error {
	return func(ctx context.Context, a *invocation, l cargo.Line) error {
		if len(l.Features) > 0 || l.AllFeatures || l.NoDefault {
			return usage("`gpubuild ci` takes no features: each row has its own", "name feature sets in [matrix] of gpubuild.toml")
		}
		return run(a, ctx, *o, l)
	}
}

// ciParser takes words apart as the command line does.
func ciParser() ci.Parser {
	return ci.Parser{Words: splitWords, Line: func(words []string) (cargo.Line, error) {
		line, _, err := cargo.Split(words, ownFlags(cargoFlags(&pipeline.Options{}), prefix))
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

func (a *invocation) ciMatrix(ctx context.Context, o ciOptions, l cargo.Line) error {
	s, p, err := a.planCI(ctx, l)
	if err != nil {
		return err
	}
	if o.Results != "" {
		found, err := report.Collect(a.Machine, []string{o.Results}, a.real())
		if err != nil {
			return err
		}
		for _, f := range found.Bad {
			a.Shell.Warning("%s: %s; left out", f.File, f.Why)
		}
		p.Matrix = p.Matrix.Timed(report.Seconds(found.Observations))
	}
	if o.Format == ci.FormatJSON && o.JSON == nil {
		o.JSON = new(string)
	}
	refused := p.Matrix.Refuse()
	if o.Hosted {
		if p.Matrix, err = p.Matrix.HostedOnly(); err != nil {
			return err
		}
	}
	if o.JSON != nil {
		if err := a.answer(o.JSON, "ci-matrix", refused == nil, p.Matrix.LeftOutFindings(), p.Matrix); err != nil {
			return err
		}
		return refused
	}
	provider := ci.FindProvider(o.Format)
	if provider == nil {
		if err := a.Shell.Print(string(ci.Text(p.Matrix, tree.Size))); err != nil {
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
	return a.Shell.Data(string(out))
}

// ciRun does what CI does for a row.
func (a *invocation) ciRun(ctx context.Context, o ciOptions, l cargo.Line) error {
	s, p, err := a.planCI(ctx, l)
	if err != nil {
		return err
	}
	row, steps, err := p.Matrix.Steps(l.Positional[0], o.Only)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		a.Shell.Note("row %s needs no step %s", l.Positional[0], o.Only)
		return nil
	}
	if o.DryRun {
		text := "cd " + buildenv.PosixWords(s.Project.Root) + "\nmkdir -p " + buildenv.PosixWords(ci.ResultsDir(steps[0].Row.ID)) + "\n"
		for _, step := range steps {
			text += step.Script() + "\n"
		}
		return a.Shell.Data(text)
	}
	out := a.Shell.Out
	if o.JSON != nil && *o.JSON == "" {
		out = a.Shell.Err // stdout belongs to the answer
	}
	done, err := p.Run(ctx, row, steps, ci.RunOptions{Fetch: o.Fetch, Out: out})
	var other *ci.LeftOutError
	if errors.Is(err, context.Canceled) || errors.As(err, &other) {
		return err
	}
	if answered := a.answer(o.JSON, "ci-run", err == nil, nil, ci.RunAnswer{Row: row, Steps: done}); answered != nil {
		return answered
	}
	return err
}

// ciInit writes a workflow that runs the matrix.
func (a *invocation) ciInit(ctx context.Context, o ciOptions, l cargo.Line) error {
	s, err := session.Open(a.Machine, l)
	if err != nil {
		return err
	}
	made, err := ci.MakeInit(s, l.Positional[0])
	if err != nil {
		return err
	}
	if made.Matrix == "" { // what `ci matrix --format` would refuse in every run
		p, err := ci.Make(ctx, s, ciParser())
		if err == nil {
			err = p.Matrix.Refuse()
		}
		if err != nil {
			return err
		}
	}
	switch {
	case o.Stdout:
		if made.Matrix != "" {
			a.Shell.Note("%s lacks this, which is written with the workflow:\n%s", a.Shown(made.Config), strings.TrimSpace(made.Matrix))
		}
		return a.Shell.Data(string(made.Text))
	}
	return made.Write(a.Machine, o.Force)
}
