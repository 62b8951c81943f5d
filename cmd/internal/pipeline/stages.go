package pipeline

import (
	"context"
	"slices"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/diagnose"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain/cargo"
)

// markedTargets lists the targets of the workspace where the configuration marks programs; a mark that no target has is an error.
func markedTargets(ctx context.Context, c Command, s *session.Session) ([]cargorun.Target, error) {
	marks, prove := proof.Marks(s), s.Config.Prove.Value
	named := prove != nil && prove.Bin != "" && (s.Line.Purpose() == cargo.Builds || s.Line.Purpose() == cargo.Runs)
	if marks == nil && !named {
		return nil, nil
	}
	targets, err := cargorun.Targets(ctx, c.Machine, c.Tool, s.Line)
	switch {
	case err != nil:
		return nil, err
	case named:
		programs := slices.DeleteFunc(targets, func(t cargorun.Target) bool { return t.Kind != "bin" && t.Kind != "example" })
		return nil, proof.CheckNames([]string{prove.Bin}, programs, prove.Unknown)
	}
	return targets, proof.CheckNames(marks.GPU, targets, marks.Unknown)
}

// builder runs cargo, a second time where something had to be cleaned after the first.
type builder struct {
	command Command
	session *session.Session
	tool    cargo.Tool
	here    diagnose.Collected
	out     cargorun.Output
}

func newBuilder(c Command, s *session.Session, r Result) builder {
	b := builder{command: c, session: s, tool: r.Tools.Cargo, here: diagnosis(c, r)}
	b.out.Other = c.Machine.Shell.Out
	if c.line().WantsJSON() {
		b.out.Messages = console.JSONLines(c.Machine.Shell.Out)
	}
	return b
}

// build runs cargo.
func (b builder) build(ctx context.Context) (cargorun.Built, error) {
	return cargorun.Build(ctx, b.session, b.tool, b.out)
}

// cause says what the cause of a failed build is, where it is known.
func (b builder) cause(ctx context.Context, built cargorun.Built) *finding.Finding {
	if cause, known := diagnose.Build(ctx, built, b.here); known {
		return &cause
	}
	return nil
}

// proofRequest asks for a proof of what was built.
func (p Plan) proofRequest(s *session.Session, r Result) proof.Request {
	c, given := p.Command, proof.Given{Backend: p.Options.Proof.Backend, Place: p.Place,
		Opens: proof.Opened(p.Command.Machine.Host, r.Tools.Set.Toolkit, r.Features.Reach.Needs.Run)}
	if !c.Options.Proof.BackendGiven && r.Features.Reach.UsesVulkan() {
		given.Backend = probe.Vulkan
	}
	return proof.Request{
		Session: s, Options: c.Options.Proof, Given: given, Tool: r.Tools.Cargo, Nextest: c.nextest(), Programs: r.Built.Programs,
		Targets: p.Targets, Toolkit: r.Tools.Set.Toolkit, Env: r.Tools.RunEnv}
}

// diagnosis is what was found so far, to explain a failure with.
func diagnosis(c Command, r Result) diagnose.Collected {
	return diagnose.Collected{Machine: c.Machine, Typed: c.Typed, Facts: r.Tools.Facts, Set: r.Tools.Set, Reach: r.Features.Reach,
		Programs: r.Built.Programs}
}

// explainProgram explains the failure of a program that was run, where it is known.
func explainProgram(ctx context.Context, c Command, r Result) []finding.Finding {
	if r.Proof.Ending == nil {
		return nil
	}
	return diagnose.Program(ctx, *r.Proof.Ending, diagnosis(c, r))
}

// lacksGPU reports whether the graph shows that a build, for which the quick look could not rule it out, has no GPU work.
func (c Command) lacksGPU(s *session.Session, j reach.Judged) bool {
	a := j.Reach
	return !a.GPUWork() && s.MacroWithNvcc() == "" && c.Options.Tools.Requested() == "" && !c.asksForVulkan() &&
		c.Options.Proof.On.Name == "" && fresh.Undeclared(freshBuild(s, j, ambient(s.Machine, c.Tool), fresh.Options{}), "").Package == ""
}

// judgeFeatures reports whether the features enable the GPU crates, and stops where they do not.
func judgeFeatures(ctx context.Context, c Command, s *session.Session, graph session.Graph) (reach.Judged, error) {
	shell := c.Machine.Shell
	judged := reach.Judge(ctx, s, c.Tool, graph, reach.Options{Strict: c.Options.Strict})
	answer := judged.Reach
	if c.lacksGPU(s, judged) {
		return judged, nil
	}
	for _, line := range report.ReachLines(answer, shell.Verbose) {
		shell.Status("Resolving", "%s", line)
	}
	for _, way := range report.Ways(answer) {
		shell.Detail("%s", way)
	}
	list := judged.Shown(shell.Verbose)
	long := slices.ContainsFunc(list, func(f finding.Finding) bool { return f.Brief != "" && !shell.Verbose }) // its hint names the command
	if answer.Stops && !c.Options.AllowUnreached && !long && judged.Fixable() {
		fix := judged.Session.Line.As("features", "--fix")
		shell.Note("`gpubuild %s` writes the missing line", buildenv.Words(c.Machine.Host.OS, fix...))
	}
	for _, f := range list {
		if c.Options.AllowUnreached && f.Severity == finding.Error {
			f.Severity = finding.Warning
		}
		shell.Finding(f)
	}
	switch {
	case !answer.Stops:
		return judged, nil
	case c.Options.AllowUnreached:
		shell.Alert("Warning", "a feature does not enable its GPU crates; building anyway because of --gpu-allow-unreached")
		return judged, nil
	}
	return judged, exit.Code(exit.Unreached)
}
