package app

import (
	"context"

	"gpubuild/cmd/internal/audit"
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
		Verb: "audit", Findings: r.Findings, Checks: report.AuditChecks(auditResult(r.Modes), ""),
		Programs: []report.Program{{Name: a.Host.Base(binary), Path: a.Shown(binary), Audit: auditResult(r.Modes)}},
	}
	return a.end(o, err, result, r)
}

func auditResult(all []audit.Outcome) []report.Audit {
	var out []report.Audit
	for _, m := range all {
		out = append(out, report.Audit{Mode: m.Mode, Outcome: string(m.Kind), Why: m.Why, Said: m.Said, Code: m.Code, Reached: m.Reached, Passed: m.Passed()})
	}
	return out
}
