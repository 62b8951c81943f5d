package cli

import (
	"context"

	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

func auditVerb() verb {
	var o Options
	return verb{
		name: "audit", usage: "run a program on drivers that fail, and say whether it fails honestly or falls back",
		text: "gpubuild audit target/release/app -- --device cuda\n\n" +
			"Needs no GPU. The program runs once in each mode (no library, no device, stub, mismatch, out of memory, no code for " +
			"this GPU,\n" +
			"a kernel that fails), without input; what it writes is not shown. Ends 0 when it failed honestly in all, 20 when it " +
			"ended well although the driver had failed, 21 when it could\n" +
			"not be told, as of a program that never asks for the driver.",
		results: &o,
		flags:   append(shared(&o, "timeout"), resultFlags(&o)...),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runAudit(ctx, a, o, l)
		},
	}
}

// runAudit runs a program on failing drivers.
func runAudit(ctx context.Context, a *invocation, o Options, l cargo.Line) error {
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
