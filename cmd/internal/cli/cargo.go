package cli

import (
	"context"
	"errors"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// cargoVerb runs a subcommand of cargo: an alias of the user's may bring further flags of ours.
func (a *invocation) cargoVerb(ctx context.Context, o Options, line cargo.Line) error {
	tool, err := cargo.Find(a.Host, line)
	if err != nil {
		return err
	}
	line, given, err := cargo.Alias(ctx, a.Host, a.Runner, tool, line, ownFlags())
	if err != nil {
		return err
	}
	if err := o.apply(given); err != nil {
		return err
	}
	if err := o.checkResults(line); err != nil {
		return err
	}
	return pipeline.Dispatch(ctx, pipeline.Command{
		Machine: a.Machine, Tool: tool, Line: line, Options: o.pipeline(), Args: a.words, Typed: a.typed, Valued: takesValue,
	})
}

// pipeline are the flags as the stages take them.
func (o Options) pipeline() pipeline.Options {
	return pipeline.Options{
		Tools:          toolOptions(o),
		Fresh:          o.fresh(),
		Proof:          o.proof(),
		Audit:          o.Audit,
		AuditArgs:      o.AuditArgs,
		Strict:         o.Strict,
		AllowUnreached: o.AllowUnreached,
		Files:          o.files(),
		Timings:        o.Timings,
	}
}

func (o Options) fresh() fresh.Options {
	return fresh.Options{
		NoClean:       o.NoClean,
		ForceClean:    o.ForceClean,
		CleanExternal: o.CleanExternal,
		DryRun:        o.DryRun,
		ListPaths:     o.JSON == nil || *o.JSON != "",
	}
}

func (o Options) proof() proof.Options {
	return proof.Options{
		Wanted:         o.Prove,
		Args:           o.ProveArgs,
		Required:       o.RequireProof,
		Kernel:         o.Kernel,
		ExpectExit:     o.ExpectExit,
		ExpectCPU:      o.ExpectCPU,
		Min:            o.Min,
		Device:         o.Device,
		Child:          o.Child,
		Counterfactual: o.Counterfactual,
		Timeout:        o.Timeout,
		Probe:          o.Probe,
		CUPTI:          o.CUPTI,
		Receipt:        o.Receipt != "",
		Trace:          o.Trace,
	}
}

// toolOptions are the flags that the choice of tools knows.
func toolOptions(o Options) tools.Options {
	return tools.Options{Toolkit: o.Toolkit, Arch: o.Arch, CCBin: o.CCBin, Backend: o.Backend}
}

// takesValue says whether a flag on cargo's verbs takes the next argument as its value.
func takesValue(flag string) bool {
	f, ours := CargoFlag(strings.TrimPrefix(flag, ownPrefix))
	return ours && f.Kind == cargo.Value
}

// reachEnd is how a verb about features ends.
func reachEnd(stops bool) error {
	if stops {
		return exit.Code(exit.Unreached)
	}
	return nil
}

// reachResult is what one of our own verbs says of the features.
func (a *invocation) reachResult(verb string, j featurecheck.Judged) report.Result {
	return report.ReachResult(report.Stages{
		Verb:     verb,
		Answer:   j.Answer,
		Asked:    j.Session.Line.Features,
		Manifest: a.Shown(j.Session.Project.Manifest),
		Root:     j.Session.Project.Root,
		Findings: j.Findings(),
	})
}

func isInterrupted(err error) bool { return errors.Is(err, context.Canceled) }
