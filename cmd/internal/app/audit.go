package app

import (
	"context"

	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// runAudit runs a program on failing drivers.
func runAudit(a *app, ctx context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) != 1 {
		return &usageError{"audit needs one program", "gpubuild audit target/release/app -- ARGS"}
	}
	binary := proof.LookPath(a.Host, l.Positional[0])
	r, err := proof.AuditFile(ctx, a.Machine, o.Timeout, binary, l.Trailing, l.Positional[0])
	if r.Program == "" {
		return err
	}
	result := report.Result{
		Verb: "audit", Findings: r.Findings, Checks: report.AuditChecks(pipeline.Audits(r.Modes), ""),
		Programs: []report.Program{{Name: a.Host.Base(binary), Path: a.Shown(binary), Audit: pipeline.Audits(r.Modes)}},
	}
	return a.end(o, err, result, r)
}
