// Package pipeline decides which stages a cargo command line runs, and runs them: from the
// requested feature to the verdict about the GPU. It decides nothing about features, tools,
// artifacts or proofs itself; each stage is a package of its own, takes values and returns a value.
package pipeline

import (
	"context"
	"errors"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/toolchain/cargo"
)

// Command is a command line of one of cargo's subcommands, with our own flags taken out of it.
type Command struct {
	Machine *session.Machine
	Tool    cargo.Tool // the cargo that the user called
	Line    cargo.Line
	Options Options
	Args    []string               // the command line without the program's name
	Typed   []string               // the arguments that the user typed, for hints that repeat them
	Valued  func(flag string) bool // whether a flag of ours takes the next argument as its value
}

// Options are our flags on cargo's subcommands.
type Options struct {
	Tools          tools.Options
	Fresh          fresh.Options
	Proof          proof.Options
	Audit          bool
	AuditArgs      []string
	Strict         bool // a warning of the feature check stops the build, too
	AllowUnreached bool // build although a feature does not enable its GPU crates
	Files          report.Files
	Timings        *string // nil: not requested; empty: the table only, else a file
}

// nextest is the `cargo nextest` line that was typed; the pipeline works on the `cargo test` that builds the same.
func (c Command) nextest() *cargo.Line {
	if _, ok := c.Line.Nextest(); ok {
		return &c.Line
	}
	return nil
}

// line is what the stages work on.
func (c Command) line() cargo.Line {
	if test, ok := c.Line.Nextest(); ok {
		return test
	}
	return c.Line
}

// judged says whether the result of a subcommand is judged. Every other subcommand of cargo runs in our environment, unjudged.
func judged(verb string) bool {
	switch verb {
	case "build", "check", "run", "test", "bench", "clippy", "rustc":
		return true
	}
	return false
}

// Dispatch decides what a command line needs, runs it, and renders the result, after a failure, too.
func Dispatch(ctx context.Context, c Command) error {
	trace := finding.NewTrace(time.Now)
	sink := report.NewSink(c.Machine, c.Args, c.Options.Files, c.line().WantsJSON())
	result, err := dispatch(ctx, c, trace, sink)
	if sink.Wants(result.Judged, err) {
		err = sink.Finish(result.rendered(c, trace), func() ([]receipt.Receipt, error) { return result.receipts(c) }, err)
	}
	if c.Options.Timings == nil {
		return err
	}
	phases, total := trace.Phases()
	timings := report.TimingsOf(c.Machine.Host, phases, total, result.Built.Messages, result.Features.Answer)
	if told := timings.Tell(c.Machine, *c.Options.Timings, err == nil); err == nil {
		err = told
	}
	return err
}

func dispatch(ctx context.Context, c Command, trace *finding.Trace, sink *report.Sink) (Result, error) {
	m, line := c.Machine, c.line()
	trace.Phase("manifests")
	switch {
	case line.Verb == "install":
		return install(ctx, c, trace, sink)
	case !line.Known(), line.Help, line.Version, line.UnitGraph, line.Verb == "":
		return Result{}, unjudged(ctx, c)
	}
	s, err := session.Open(m, line)
	if err != nil {
		var wrong *config.Error
		if errors.As(err, &wrong) {
			return Result{Session: s}, err
		}
		return Result{}, cargoSays(ctx, c, err) // cargo says best what is wrong with a manifest
	}
	work, why := s.GPUWork()
	switch {
	case !work:
		trace.Phase(report.PhaseCargo)
		return Result{Session: s}, noGPUWork(ctx, c, why)
	case !judged(line.Verb):
		return Result{Session: s}, unjudged(ctx, c)
	}
	m.Shell.Detail("GPU work: %s", why)
	return Build(ctx, c, s, trace, sink)
}

// noGPUWork is plain cargo. A proof that was requested and cannot be made must not look like a success.
func noGPUWork(ctx context.Context, c Command, why string) error {
	m, o := c.Machine, c.Options
	m.Shell.Detail("no GPU work: %s", why)
	err := cargorun.Plain(ctx, m, c.Line, m.Host.Env)
	if err == nil && judged(c.line().Verb) && (o.Proof.Wanted || o.Proof.Required || o.Audit) {
		m.Shell.Loud("Unproved", "not proven: no GPU work: %s", why)
		return exit.Code(exit.Unproved)
	}
	return err
}

// Build goes from the feature to the verdict. What the stages found so far is returned after a failure, too.
func Build(ctx context.Context, c Command, s *session.Session, trace *finding.Trace, sink *report.Sink) (r Result, err error) {
	m, line := c.Machine, s.Line
	r = Result{Judged: true, Session: s}
	stage := func(phase, id string, do func() error) error {
		trace.Phase(phase)
		err := trace.Check(id, do)
		sink.TellCheck(id, r.stages(c, trace))
		return err
	}

	trace.Phase("features")
	targets, err := markedTargets(ctx, c, s)
	if err != nil {
		return r, err
	}
	err = stage("features", report.CheckReach, func() error {
		graph, err := s.Graph(ctx, c.Tool, session.Question{Places: true})
		if err != nil {
			return err
		}
		r.Features, r.Findings, err = enabled(ctx, c, s, graph)
		return err
	})
	if err != nil {
		return r, err
	}
	if cargorun.AmbiguousRun(s, r.Features.Answer.Roots) {
		return r, cargorun.Plain(ctx, m, line, m.Host.Env)
	}
	err = stage("toolchain", report.CheckToolchain, func() (err error) {
		r.Tools, err = choose(ctx, s, r.Features, c.Options.Tools)
		return err
	})
	if err != nil {
		return r, err
	}
	s = s.With(r.Tools.Line)
	target := freshBuild(s, r.Features, r.Tools, c.Options.Fresh)
	target.Found = func(f finding.Finding) {
		r.Findings = append(r.Findings, f)
		sink.Finding(f)
	}

	places := r.Features.Graph.Places
	trace.Phase("waiting")
	unlock, err := fresh.Lock(ctx, m, places)
	if err != nil {
		return r, err
	}
	defer unlock()
	err = stage("stale check", report.CheckStale, func() (err error) {
		if r.Stale, err = fresh.Inspect(ctx, target); err != nil {
			return err
		}
		return r.Stale.Clean(ctx)
	})
	if err != nil {
		return r, err
	}

	builder := newBuilder(c, s, r, sink)
	err = stage(report.PhaseCargo, report.CheckBuild, func() (err error) {
		r.Built, r.Cause, err = builder.build(ctx)
		return err
	})
	if err == nil {
		r.Tools.KeepArchUnset(m, places.BuildDirectory)
		err = stage("records", report.CheckCode, func() error { return r.settle(ctx, builder, nil) })
	} else {
		err = r.settle(ctx, builder, err)
	}
	builder.end(err == nil)
	if err != nil {
		return r, err
	}
	cargorun.PrintExecutables(m, line, r.Built.Programs)
	if line.Verb == "check" || line.Verb == "clippy" {
		return r, nil
	}

	trace.Phase("scan")
	found, err := scan(c, s, r)
	r.Findings = append(r.Findings, found...)
	if err != nil {
		return r, err
	}
	unlock() // before the program runs
	request := proofRequest(c, s, r, targets, builder.stream)
	switch line.Verb {
	case "run", "test", "bench":
		if line.NoRun {
			return r, nil
		}
		err = stage("run, proof", report.CheckRun, func() (err error) {
			r.Proof, err = proof.Run(ctx, request)
			explainProgram(ctx, c, s, r)
			return err
		})
		return r, err
	}
	audited := error(nil)
	if c.Options.Audit {
		trace.Phase("audit")
		r.Audit, audited = proof.AuditBuilt(ctx, request, c.Options.AuditArgs)
		r.Findings = append(r.Findings, r.Audit.Findings...)
		var verdict exit.Code
		if audited != nil && !errors.As(audited, &verdict) {
			r.EndedByAudit = true
			return r, audited
		}
	}
	trace.Phase("proof")
	r.Proof, err = proof.Built(ctx, request)
	r.Findings = append(r.Findings, explainProgram(ctx, c, s, r)...)
	if len(r.Proof.Proofs) > 0 {
		sink.Shared() // the program had stdout for itself
	}
	if err != nil {
		return r, err
	}
	r.EndedByAudit = audited != nil
	return r, audited
}
