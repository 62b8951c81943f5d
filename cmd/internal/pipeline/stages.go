package pipeline

import (
	"context"
	"io"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/diagnose"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

func strict(c Command, s *session.Session) bool { return c.Options.Strict || s.Config.Strict.Value }

// markedTargets lists the targets of the workspace where the configuration marks programs; a mark that no target has is an error.
func markedTargets(ctx context.Context, c Command, s *session.Session) ([]cargorun.Target, error) {
	marks := proof.Marks(s)
	if marks == nil {
		return nil, nil
	}
	targets, err := cargorun.Targets(ctx, c.Machine, c.Tool, s.Line)
	if err != nil {
		return nil, err
	}
	return targets, proof.CheckMarks(marks, targets)
}

// builder runs cargo, once or twice with one stream of JSON messages.
type builder struct {
	command Command
	session *session.Session
	tool    cargo.Tool
	places  cargo.Places
	here    diagnose.Stages
	stream  *cargorun.Stream // nil unless the user asked for cargo's messages
	other   io.Writer        // lines of cargo's stdout that are no message
}

func newBuilder(c Command, s *session.Session, r Result, sink *report.Sink) builder {
	b := builder{
		command: c, session: s, tool: r.Tools.Cargo, places: r.Features.Graph.Places, other: c.Machine.Shell.Out, here: diagnosis(c, s, r),
	}
	if lines := sink.Lines(); lines != nil {
		b.other = lines
		b.stream = cargorun.NewStream(func(line []byte) { _ = lines.Whole(line) }) // nobody reads a closed stdout: cargo reports it
	}
	return b
}

// build runs cargo and says what the cause of a failure is, where it is known.
func (b builder) build(ctx context.Context) (cargorun.Built, *finding.Finding, error) {
	m := b.command.Machine
	endedByItself := fresh.Begin(m, b.places)
	built, err := cargorun.Build(ctx, b.session, b.tool, cargorun.Output{Stream: b.stream, Other: b.other})
	if !built.Interrupted {
		endedByItself()
	}
	if cause, known := diagnose.Build(ctx, m, built, b.here.Here); known {
		return built, &cause, err
	}
	return built, nil, err
}

// end closes the stream of JSON messages.
func (b builder) end(good bool) {
	if b.stream != nil {
		b.stream.End(good)
	}
}

// settle checks and records a build, which ended with buildErr, and builds once more what turns out not to be what was requested.
func (r *Result) settle(ctx context.Context, b builder, buildErr error) (err error) {
	r.Built, err = r.Stale.Settle(ctx, r.Built, buildErr, func(ctx context.Context) (cargorun.Built, error) {
		built, cause, err := b.build(ctx)
		r.Cause = cause
		return built, err
	})
	return err
}

// scan prints what device code each program holds, and says where there is none although it was requested.
func scan(c Command, s *session.Session, r Result) ([]finding.Finding, error) {
	cpuOnly, err := proof.ScanBuilt(c.Machine, s.Line, r.Built.Programs)
	if err != nil || !cpuOnly {
		return nil, err
	}
	severity, stops := finding.Warning, strict(c, s) && !c.Options.AllowUnreached
	if stops {
		severity = finding.Error
	}
	found, ok := proof.NoDeviceCode(c.Machine, r.Features.Answer, severity)
	if !ok {
		return nil, nil
	}
	c.Machine.Shell.Finding(found)
	if stops {
		return []finding.Finding{found}, exit.Code(exit.Unreached)
	}
	return []finding.Finding{found}, nil
}

func proofRequest(c Command, s *session.Session, r Result, targets []cargorun.Target, stream *cargorun.Stream) proof.Request {
	return proof.Request{
		Session: s, Options: c.Options.Proof, Tool: r.Tools.Cargo, Nextest: c.nextest(), Programs: r.Built.Programs, Targets: targets,
		Toolkit: r.Tools.Set.Toolkit, Env: r.Tools.RunEnv, Stream: stream,
	}
}

// diagnosis is what was found so far, to explain a failure with.
func diagnosis(c Command, s *session.Session, r Result) diagnose.Stages {
	return diagnose.Stages{
		Machine:  c.Machine,
		Typed:    c.Typed,
		Valued:   c.Valued,
		Facts:    r.Tools.Facts,
		Set:      r.Tools.Set,
		Answer:   r.Features.Answer,
		Project:  s.Project,
		Programs: r.Built.Programs,
	}
}

// explainProgram explains the failure of a program that was run, where it is known.
func explainProgram(ctx context.Context, c Command, s *session.Session, r Result) []finding.Finding {
	if r.Proof.Ending == nil {
		return nil
	}
	return diagnose.Program(ctx, c.Machine, *r.Proof.Ending, diagnosis(c, s, r).Here)
}

// enabled says whether the features enable the GPU crates, and stops where they do not.
func enabled(ctx context.Context, c Command, s *session.Session, graph session.Graph) (featurecheck.Judged, []finding.Finding, error) {
	shell := c.Machine.Shell
	judged, err := featurecheck.Judge(s, c.Tool, graph, c.Options.Strict)
	if err != nil {
		return judged, nil, err
	}
	answer, findings := judged.Answer, judged.Findings()
	for _, line := range report.ReachLines(answer) {
		shell.Status("Resolving", "%s", line)
	}
	if graph.Reason != "" {
		shell.Note("features are from `cargo tree`: %s", graph.Reason)
	}
	for _, w := range answer.Paths {
		shell.Detail("%s", report.PathLine(w))
	}
	for _, f := range findings {
		shell.Finding(f)
	}
	switch {
	case !answer.Stops:
		return judged, findings, nil
	case c.Options.AllowUnreached:
		shell.Loud("Warning", "a feature does not reach its GPU crates; building all the same, as --gpu-allow-unreached says")
		return judged, findings, nil
	}
	if route, ok := featurecheck.HintRoute(ctx, judged); ok {
		findings = append(findings, route)
		shell.Hint("without a change to a manifest, cargo says that this reaches: " + route.Fix)
	}
	return judged, findings, exit.Code(exit.Unreached)
}
