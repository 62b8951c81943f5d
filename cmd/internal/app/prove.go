package app

import (
	"context"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
	"strings"
)

func runProve(a *app, ctx context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) != 1 {
		return &usageError{"prove needs one program", "gpubuild prove target/release/app -- ARGS"}
	}
	binary := a.host.Abs(l.Positional[0])
	if !a.host.IsFile(binary) {
		if found, err := a.host.LookPath(l.Positional[0]); err == nil && !strings.ContainsAny(l.Positional[0], `/\`) {
			binary = found
		}
	}
	r, err := a.scan(binary)
	if err != nil {
		return err
	}
	a.shell.Status("Scanned", "%s: %s", a.shown(binary), scanLine(r))
	st, err := a.setStage(ctx, o, nil, a.host.Env, binary)
	if err != nil {
		return err
	}
	a.tellLacks(st)
	out := a.shell.Out
	if o.JSON != nil && *o.JSON == "" {
		out = a.shell.Err // stdout belongs to the answer
	}
	p, err := a.prove(ctx, verify.Options{
		Binary: binary, Args: l.Trailing, Env: st.env, CUPTI: st.cupti, Probe: st.probe, Kernel: o.Kernel, ExpectExit: o.ExpectExit,
		Timeout: o.Timeout, Stdin: a.stdin, Stdout: out, Stderr: a.shell.Err, Own: r.Kernels(), Mode: verify.Prove,
	})
	if err != nil {
		return err
	}
	a.tellVerdict(p)
	if err := a.answer(o, "prove", p.Verdict.Kind == verify.Proved, nil, p); err != nil {
		return err
	}
	return outcome(p, o.ExpectExit)
}
