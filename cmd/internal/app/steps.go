package app

import (
	"context"
	"errors"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// checkRun is the program's own run under cargo; what it showed of the GPU is the proofs' matter.
const checkRun = "run"

// gathered is what a walk notes for its result.
type gathered struct {
	walked   bool // the road was walked: there is GPU work, and the verb is judged
	checks   []report.Check
	proofs   []proof
	receipts []receipt.Receipt
	cause    *finding.Finding // of a failed build, where it is known
	// compileErrors are rustc's first errors of a failed build, where its words passed through us.
	compileErrors []cargo.Diagnostic
	// notProven is why a proof that was asked for was not made.
	notProven string
	lines     *report.Lines // stdout among cargo's messages; nil where they were not asked for
}

// step takes one of the road's steps, and notes what came of it and how long it took. Two steps of one name in a row are one check.
func (j *journey) step(ctx context.Context, id string, f func(context.Context) error) error {
	j.walked = true
	began := time.Now()
	err := f(ctx)
	c := report.Check{ID: id, State: report.Passed, Seconds: time.Since(began).Seconds()}
	if err != nil {
		c.State, c.Message = report.Failed, err.Error()
		var code exit.Code
		if errors.As(err, &code) { // its words were said already
			c.Message = ""
			if id == checkRun && isVerdict(int(code)) {
				c.State = report.Passed
			}
		}
	}
	if n := len(j.checks); n > 0 && j.checks[n-1].ID == id {
		c.Seconds += j.checks[n-1].Seconds
		j.checks = j.checks[:n-1]
	}
	j.checks = append(j.checks, c)
	j.tellStep(id)
	return err
}

func isVerdict(code int) bool {
	return code == exit.NotUsed || code == exit.Unproved || code == exit.OtherKernels
}

// ndjson answers where our own lines go among cargo's, or nil.
func (j *journey) ndjson() *report.Lines {
	if j.lines == nil && j.Line.WantsJSON() {
		j.lines = report.NewLines(j.Shell.Out)
	}
	return j.lines
}

// tellStep writes what a step found as a line among cargo's messages.
func (j *journey) tellStep(id string) {
	if j.ndjson() == nil {
		return
	}
	switch id {
	case report.CheckReach:
		if f := j.featuresResult(); f != nil {
			j.event("reach", f)
		}
		for _, f := range j.findings {
			j.event("finding", f)
		}
	case report.CheckToolchain:
		if s := j.setResult(); s != nil {
			j.event("toolchain", s)
		}
	case report.CheckStale:
		j.event("stale", struct {
			Stale   []string `json:"stale"`
			Cleaned []string `json:"cleaned"`
		}{append([]string{}, j.staleLines()...), append([]string{}, j.cleanedPackages()...)})
	case checkRun:
		j.lines.Shared() // cargo and the program had stdout for themselves
	}
}

func (j *journey) event(what string, fields any) {
	if err := j.ndjson().Event(what, fields); err != nil {
		j.Shell.Warning("a gpubuild-%s line could not be written: %v", what, err)
	}
}

// noteProof keeps a verdict that was told.
func (j *journey) noteProof(p proof) {
	j.proofs = append(j.proofs, p)
	if p.Receipt != nil {
		j.receipts = append(j.receipts, *p.Receipt)
	}
	if j.ndjson() != nil {
		j.lines.Shared() // the program had stdout for itself
	}
}
