package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
)

func envVerb() verb {
	var o envOptions
	return verb{
		Verb: help.Verb{
			Name: "env", Usage: "print the environment of the build for a shell", Project: true,
			Common:   []string{"toolkit", "arch", "shell", "diff", "json"},
			Examples: []string{"eval \"$(gpubuild env --shell bash --features cuda)\"", "gpubuild env --diff --features cuda"},
			Text:     "Prints only variables that build scripts read, and none that your environment already sets for the same toolkit.",
		},
		flags: slices.Concat(
			toolFlags(&o.Tools, "--", fetches, "none: with --shell vscode, type-check without a toolkit"),
			[]*flag{
				text("shell", "NAME", "the form to print ("+strings.Join(buildenv.Shells(), " ")+")", &o.Shell),
				toggle("diff", "print each change with its reason", &o.Diff),
				jsonFlag(&o.JSON),
			},
		),
		run: bind(&o, runEnv),
	}
}

// envOptions are the flags of env.
type envOptions struct {
	Tools tools.Options
	Shell string
	Diff  bool
	JSON  *string
}

// envAnswer is what --json writes.
type envAnswer struct {
	buildenv.Delta
	Toolkit *cuda.Toolkit `json:"toolkit,omitempty"`
}

func runEnv(ctx context.Context, a *invocation, o envOptions, l cargo.Line) error {
	if o.Shell != "" && !slices.Contains(buildenv.Shells(), o.Shell) {
		return unknownShell(fmt.Errorf("unknown shell %.200q", o.Shell))
	}
	if o.Tools.Toolkit == tools.None && (o.Shell != "vscode" || o.Diff || o.JSON != nil) {
		return usage("--toolkit=none is for --shell vscode, which gives the stand-in to rust-analyzer alone", "")
	}
	o.Tools.OneArch = true
	p, err := pipeline.Prepare(ctx, a.Machine, l, o.Tools, o.Shell == "vscode")
	if err = cmp.Or(err, p.Tools.Set.OneArch("another program than gpubuild compiles for one", "use `gpubuild build`")); err != nil {
		return err
	}
	if o.JSON != nil {
		return a.answer(o.JSON, "env", true, p.Features.Findings(), envAnswer{Delta: p.Tools.Exported, Toolkit: p.Tools.Set.Toolkit})
	}
	if o.Diff {
		return a.Shell.Print(buildenv.Diff(a.Host, p.Tools.ExportFrom, p.Tools.Exported))
	}
	shell := cmp.Or(o.Shell, buildenv.UsualShell(a.Host))
	text, err := buildenv.Export(shell, a.Host, p.Tools.ExportFrom, p.Tools.Exported)
	if err != nil {
		return unknownShell(err)
	}
	if shell == "vscode" {
		selected := buildenv.Selected{Features: l.Features, All: l.AllFeatures, NoDefault: l.NoDefault, Editor: p.StandIn}
		if text, err = selected.Settings(text); err != nil {
			return err
		}
	}
	if err := a.Shell.Data(text); err != nil || p.StandIn {
		return err
	}
	a.explainEmptyEnv(p)
	return nil
}

// explainEmptyEnv says why there is nothing to set.
func (a *invocation) explainEmptyEnv(p pipeline.Planned) {
	if len(p.Tools.Exported.Changes) > 0 {
		return
	}
	if set := p.Tools.Set.Toolkit; set != nil {
		a.Shell.Note("nothing to set: this environment already selects CUDA %s in %s", set.Version, set.Root)
		return
	}
	a.Shell.Note("nothing to set: no package of this build uses the CUDA toolkit")
	if !p.Tools.Needs.CUDA { // else a GPU feature is on, and its crates load the driver when they run
		p.Features.HintFeature("env")
	}
}

func unknownShell(err error) error {
	return usage(err.Error(), "name a shell with --shell: "+strings.Join(buildenv.Shells(), " "))
}
