package cli

import (
	"context"
	"slices"
	"time"

	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
)

// auditOptions are the flags of audit.
type auditOptions struct {
	Timeout time.Duration
	Results report.Files
}

func auditVerb() verb {
	var o auditOptions
	return verb{
		Verb: help.Verb{
			Name: "audit", Usage: "run a program on drivers that fail, and say whether it notices",
			Args: "PROGRAM [-- ARGS]", Examples: []string{"gpubuild audit target/release/app -- --device cuda"},
			Text: "Needs no GPU. The program runs once in each mode (no library, no device, stub, mismatch, out of memory, no code for " +
				"this GPU, a kernel that fails or is refused, a result that cannot be copied or is wrong, a context, " +
				"a kernel's name, an upload or pinned memory that is refused), without input; its output is not shown.\n" +
				"Exits with 0 if it failed in every mode, with 20 if it succeeded although the driver had failed, with 21 if that " +
				"is unknown, for example because the program never loads the driver, or fails anyway. " +
				"A result that it does not check changes no exit code.\n" +
				"cargo-audit, which looks for known vulnerabilities, is `gpubuild cargo audit`.",
		},
		results: &o.Results,
		flags: slices.Concat(grouped("Proof", newFlag("timeout", cargo.Value, "DURATION", "stop the program after this time, such as 30s",
			duration(&o.Timeout))), resultFlags(&o.Results)),
		run: bind(&o, runAudit),
	}
}

// runAudit runs a program on failing drivers.
func runAudit(ctx context.Context, a *invocation, o auditOptions, l cargo.Line) error {
	binary := proof.LookPath(a.Host, l.Positional[0])
	r, err := proof.AuditFile(ctx, a.Machine, o.Timeout, binary, l.Trailing, l.Positional[0])
	if r.Program == "" {
		return err
	}
	result := report.Result{
		Verb: "audit", Findings: r.Findings, Checks: report.AuditChecks(r.Modes, ""),
		Programs: []report.Program{{Name: a.Host.Base(binary), Path: a.Shown(binary), Audit: r.Modes}},
	}
	return a.end(o.Results, err, result, r)
}
