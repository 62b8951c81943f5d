package cli

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/diagnose"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

func proveVerb() verb {
	var o Options
	return verb{
		name: "prove", usage: "run a program and prove that its kernel ran on the GPU",
		text: "gpubuild prove target/release/app -- --device cuda\n\n" +
			"The program runs with its own input and output under a probe that the CUDA driver loads. Ends 0 only when proven;\n" +
			"20 it ran on the CPU, 21 not proven, 22 other kernels only; the program's own code when that is not the expected one.\n" +
			"With --expect cpu it ends 0 only when it certainly ran on the CPU, 22 when it used the GPU, 21 when neither is known.",
		results: &o,
		flags: slices.Concat(
			shared(&o, "kernel", "expect-exit", "min", "device", "child", "expect", "counterfactual"),
			[]*flag{text("trace", "FILE", "write when each kernel ran as Chrome trace JSON, which Perfetto opens", &o.Trace)},
			shared(&o, "receipt", "timeout", "probe", "cupti"),
			resultFlags(&o),
		),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runProve(ctx, a, o, l)
		},
	}
}

func runProve(ctx context.Context, a *invocation, o Options, l cargo.Line) error {
	if len(l.Positional) != 1 {
		return &usageError{"prove needs one program", "gpubuild prove target/release/app -- ARGS"}
	}
	if err := o.checkExpected("--"); err != nil {
		return err
	}
	out := a.Shell.Out
	if o.JSON != nil && *o.JSON == "" {
		out = a.Shell.Err // stdout belongs to the answer
	}
	asked := o.proof()
	asked.Args = l.Trailing
	r, err := proof.File(ctx, a.Machine, asked, proof.LookPath(a.Host, l.Positional[0]), out)
	if err != nil {
		return err
	}
	var findings []finding.Finding
	if r.Ending != nil {
		findings = diagnose.Program(ctx, a.Machine, *r.Ending, func(ctx context.Context, found []explain.Found) diagnose.Situation {
			return diagnose.LookAround(ctx, a.Machine, found).OfBinary(r.Ending.Program, proof.Line(r.Scan))
		})
	}
	var receipts []receipt.Receipt
	if r.Proof.Receipt != nil {
		receipts = []receipt.Receipt{*r.Proof.Receipt}
	}
	result := proveResult(a, r.Proof, r.Scan, r.Outcome)
	result.Findings = append(result.Findings, findings...)
	return a.end(o, r.Outcome, result, r.Proof, receipts...)
}

// checkExpected refuses what says nothing beside --expect cpu; prefix is how the flags are written on this verb.
func (o Options) checkExpected(prefix string) error {
	if !o.ExpectCPU {
		return nil
	}
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"kernel", o.Kernel != nil},
		{"min", o.Min > 0},
		{"device", o.Device != ""},
		{"child", o.Child != ""},
		{"counterfactual", o.Counterfactual},
		{"require-proof", o.RequireProof},
	} {
		if f.given {
			return &usageError{
				fmt.Sprintf("%sexpect cpu asks for no kernel: %s%s says nothing beside it", prefix, prefix, f.name),
				"leave one of them out",
			}
		}
	}
	return nil
}

// proveResult is what `prove` came to.
func proveResult(a *invocation, p proof.Proof, r *fatbin.Report, ended error) report.Result {
	made := report.Program{
		Name:   a.Host.Base(p.Program),
		Path:   a.Shown(p.Program),
		Code:   proof.Line(r),
		Images: report.Images(r),
		Proof:  report.ProofOf(p.Verdict, p.Evidence),
	}
	c := report.Check{
		ID:      report.CheckProof,
		Name:    made.Name,
		State:   report.Passed,
		Message: "ran its kernel on " + p.Verdict.Device,
		Detail:  strings.Join(p.Verdict.Lines, "\n"),
	}
	if p.Verdict.Kind != verify.Proved {
		c.Message = ""
		if p.Verdict.Why != "" {
			c.Message = p.Verdict.Kind.String() + ": " + p.Verdict.Why
		}
	}
	out := report.Result{Verb: "prove", Programs: []report.Program{made}}
	if ended != nil {
		c.State = report.Failed
		if f, ok := report.ProofFinding(made, true); ok {
			out.Findings = append(out.Findings, f)
		}
	}
	out.Checks = []report.Check{c}
	return out
}

func checkDevice(v string) error {
	if _, err := strconv.ParseUint(v, 10, 16); err == nil {
		return nil
	}
	const enough = len("GPU-") + 8
	if (strings.HasPrefix(v, "GPU-") || strings.HasPrefix(v, "MIG-")) && len(v) >= enough {
		return nil
	}
	return fmt.Errorf("%q is neither a number nor a UUID such as GPU-8f1c2a3b-…, of which the first eight digits suffice", v)
}

func checkGlob(v string) error {
	if _, err := path.Match(v, ""); err != nil || v == "" {
		return fmt.Errorf("%q is not a pattern of names such as python* or /usr/bin/*", v)
	}
	return nil
}
