package app

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

func runProve(a *app, ctx context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) != 1 {
		return &usageError{"prove needs one program", "gpubuild prove target/release/app -- ARGS"}
	}
	if err := o.checkExpected("--"); err != nil {
		return err
	}
	binary := a.program(l.Positional[0])
	r, err := a.scan(binary)
	if err != nil {
		return err
	}
	a.Shell.Status("Scanned", "%s: %s", a.Shown(binary), scanLine(r))
	st, err := a.setStage(ctx, o, nil, a.Host.Env, binary)
	if err != nil {
		return err
	}
	a.tellLacks(st)
	out := a.Shell.Out
	if o.JSON != nil && *o.JSON == "" {
		out = a.Shell.Err // stdout belongs to the answer
	}
	watch := a.watchProgram(out, "prove")
	asked := verify.Options{
		Binary: binary, Args: l.Trailing, Env: st.env, CUPTI: st.cupti, Others: st.others, Probe: st.probe, Kernel: o.Kernel, ExpectExit: o.ExpectExit,
		Min: o.Min, Device: o.Device, Child: o.Child, Counterfactual: o.Counterfactual,
		Timeout: o.Timeout, Stdin: a.Stdin, Stdout: watch.stdout, Stderr: watch.stderr, Own: r.Kernels(),
	}
	var trace bytes.Buffer
	if o.Trace != "" {
		asked.Trace = &trace
	}
	p, err := a.proveSealed(ctx, o, asked)
	if err != nil {
		return err
	}
	if o.Trace != "" {
		if err := cache.WriteFile(a.Host.Abs(o.Trace), trace.Bytes(), 0o644); err != nil {
			return err
		}
	}
	a.tellVerdict(p)
	end := ending{program: a.Shown(binary), verb: "prove", code: failed(p, o.ExpectExit), onCPU: !o.ExpectCPU && p.Verdict.Kind == verify.NotUsed, missing: st.missing}
	end.lookAt = func(found []explain.Found) situation {
		s := a.lookAround(ctx, found)
		s.binary, s.images = end.program, scanLine(r)
		return s
	}
	var findings []finding.Finding
	if p.Evidence.Control.Outcome != verify.ControlNoLibrary || end.code != 127 { // that there is no driver has been said
		findings = a.explainProgram(ctx, watch, end)
	}
	ended := outcome(p, o.ExpectExit)
	if o.ExpectCPU {
		ended = outcomeCPU(p, o.ExpectExit)
	}
	var receipts []receipt.Receipt
	if p.Receipt != nil {
		receipts = []receipt.Receipt{*p.Receipt}
	}
	result := proveResult(a, p, r, ended)
	result.Findings = append(result.Findings, findings...)
	return a.end(o, ended, result, p, receipts...)
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
		{"kernel", o.Kernel != nil}, {"min", o.Min > 0}, {"device", o.Device != ""}, {"child", o.Child != ""}, {"counterfactual", o.Counterfactual},
		{"require-proof", o.RequireProof},
	} {
		if f.given {
			return &usageError{fmt.Sprintf("%sexpect cpu asks for no kernel: %s%s says nothing beside it", prefix, prefix, f.name), "leave one of them out"}
		}
	}
	return nil
}

// proveResult is what `prove` came to.
func proveResult(a *app, p proof, r *fatbin.Report, ended error) report.Result {
	made := report.Program{Name: a.Host.Base(p.Program), Path: a.Shown(p.Program), Code: scanLine(r), Images: report.Images(r), Proof: report.ProofOf(p.Verdict, p.Evidence)}
	c := report.Check{ID: report.CheckProof, Name: made.Name, State: report.Passed, Message: "ran its kernel on " + p.Verdict.Device, Detail: strings.Join(p.Verdict.Lines, "\n")}
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

// program answers the file that a word names: a path, or a name that is found on PATH.
func (a *app) program(word string) string {
	binary := a.Host.Abs(word)
	if !a.Host.IsFile(binary) && !strings.ContainsAny(word, `/\`) {
		if found, err := a.Host.LookPath(word); err == nil {
			return found
		}
	}
	return binary
}

// outcomeCPU is the exit code of a run that was to be on the CPU: 0 only where everything was seen and nothing was launched.
func outcomeCPU(p proof, expected int) error {
	switch err := outcome(p, expected); p.Verdict.Kind {
	case verify.NotUsed, verify.Proved, verify.OtherKernels:
		if code := wantedCode(p.Verdict.Kind, true); code != exit.Done {
			return exit.Code(code)
		}
		return nil
	default:
		return err
	}
}

// wantedCode is the exit code of a verdict where the GPU, or the CPU, was to be used.
func wantedCode(k verify.Kind, cpu bool) int {
	switch {
	case !cpu:
		return verdictCode(k)
	case k == verify.NotUsed:
		return exit.Done
	case k == verify.Proved:
		return exit.OtherKernels
	}
	return verdictCode(k)
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

// failed is the exit status of a program that ended otherwise than expected; 0 when it ended well.
func failed(p proof, expected int) int {
	if !p.Evidence.Ran || p.Evidence.Exit.Code == expected {
		return 0
	}
	return p.Evidence.Exit.Code
}

// ending is how a program ended that the build itself started.
func (j *journey) ending(ctx context.Context, p proof, expected int, path string) ending {
	e := ending{program: j.Shown(path), verb: j.Line.Verb, code: failed(p, expected), onCPU: p.Verdict.Kind == verify.NotUsed}
	e.lookAt = func(found []explain.Found) situation { return j.situation(ctx, found) }
	if st, err := j.libraryStage(j.Set.Toolkit, j.RunEnv, path); err == nil {
		e.missing = st.missing
	}
	return e
}
