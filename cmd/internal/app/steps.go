package app

import (
	"context"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// gathered is what a walk notes for its result.
type gathered struct {
	walked   bool // the road was walked: there is GPU work, and the verb is judged
	proofs   []proof.Proof
	receipts []receipt.Receipt
	cause    *finding.Finding // of a failed build, where it is known
	// compileErrors are rustc's first errors of a failed build, where its words passed through us.
	compileErrors []cargo.Diagnostic
	// notProven is why a proof that was asked for was not made.
	notProven string
	trace     *finding.Trace
	sink      *report.Sink
}

// step takes one of the road's steps, and notes what came of it.
func (j *journey) step(ctx context.Context, id string, f func(context.Context) error) error {
	j.walked = true
	err := j.trace.Check(id, func() error { return f(ctx) })
	if j.sink.Lines() != nil {
		j.sink.TellCheck(id, j.stages())
	}
	return err
}

// stages is what the steps found so far.
func (j *journey) stages() report.Stages {
	s := report.Stages{
		Verb: j.Line.Verb, Judged: j.walked, Answer: j.reach, Asked: j.Line.Features, Set: report.SetOf(j.Tools), Stale: j.fresh.Lines(),
		Cleaned:       j.fresh.Cleaned(),
		CompileErrors: j.compileErrors, Cause: j.cause, Audited: j.auditedProgram, Audits: auditResult(j.audited), Findings: j.findings,
		Proving: report.Proving{
			Asked: j.proofAsked(), Required: j.options.RequireProof, EndedByAudit: j.endedByAudit,
			MarkedOnly: j.marks() != nil && !j.options.ExpectCPU,
			Unmade:     j.notProven, Missed: j.missed,
		},
	}
	if j.Project != nil {
		s.Manifest, s.Root = j.Shown(j.Project.Manifest), j.Project.Root
	}
	if j.trace != nil {
		s.Checks = j.trace.Checks()
	}
	return s
}

// result are the stages with the programs and what they showed.
func (j *journey) result() report.Stages {
	s := j.stages()
	for _, p := range j.programs {
		made := report.Program{Name: p.Name, Path: p.Path, Source: p.Source, Kind: p.Kind, Package: p.Package, Marked: j.marked(p)}
		if report.Reached(s.Checks, report.CheckBuild) {
			if r, err := j.scan(p.Path); err == nil {
				made.Code, made.Images = proof.Line(r), report.Images(r)
			}
		}
		s.Programs = append(s.Programs, made)
	}
	for _, p := range j.proofs {
		s.Proofs = append(s.Proofs, report.ProgramProof{Program: p.Program, Proof: report.ProofOf(p.Verdict, p.Evidence)})
	}
	return s
}

// proofAsked says whether this run was to prove something.
func (j *journey) proofAsked() bool {
	switch j.Line.Verb {
	case "run", "test", "bench":
		return !j.Line.NoRun
	}
	return j.options.Prove || j.Config.Prove.Value != nil
}

// reachResult is what one of our own verbs says of the features.
func (j *journey) reachResult(verb string) report.Result {
	s := j.stages()
	s.Verb = verb
	return report.ReachResult(s)
}

// reachEnd is how a verb about features ends.
func reachEnd(stops bool) error {
	if stops {
		return exit.Code(exit.Unreached)
	}
	return nil
}

// ndjson answers where our own lines go among cargo's, or nil.
func (j *journey) ndjson() *report.Lines { return j.sink.Lines() }

// noteProof keeps a verdict that was told.
func (j *journey) noteProof(p proof.Proof) {
	j.proofs = append(j.proofs, p)
	if p.Receipt != nil {
		j.receipts = append(j.receipts, *p.Receipt)
	}
	if l := j.ndjson(); l != nil {
		l.Shared() // the program had stdout for itself
	}
}

// tellTimings says where the time went, where that was asked for.
func (j *journey) tellTimings(ok bool) error {
	if j.options.Timings == nil {
		return nil
	}
	phases, total := j.trace.Phases()
	return report.TimingsOf(j.Host, phases, total, j.messages, j.reach).Tell(j.Machine, *j.options.Timings, ok)
}
