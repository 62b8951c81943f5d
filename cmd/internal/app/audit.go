package app

import (
	"context"
	"os"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/audit"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

const auditTimeout = time.Minute // of each mode, unless --timeout says otherwise

// runAudit runs a program on failing drivers.
func runAudit(a *app, ctx context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) != 1 {
		return &usageError{"audit needs one program", "gpubuild audit target/release/app -- ARGS"}
	}
	if a.Host.OS != buildenv.Linux && a.Host.OS != buildenv.Windows {
		return &usageError{"a program cannot be audited on " + a.Host.OS + " yet", "audit on Linux or on Windows"}
	}
	binary := a.program(l.Positional[0])
	if fi, err := a.Host.Files.Stat(binary); err != nil {
		return &verify.BinaryError{Path: binary, Err: err}
	} else if !fi.Mode().IsRegular() || a.Host.OS != buildenv.Windows && fi.Mode()&0o111 == 0 {
		return &usageError{binary + " is no executable file", "give the path of an executable file"}
	}
	if err := verify.CheckMachine(a.Host, binary); err != nil {
		return err
	}
	st, err := a.libraryStage(nil, a.Host.Env, binary)
	if err != nil {
		return err
	}
	all, err := a.audit(ctx, o, binary, l.Trailing, st.env)
	if err != nil {
		return err
	}
	a.tellAudit(all)
	result := report.Result{Verb: "audit", Findings: auditFindings(all, l.Positional[0]), Programs: []report.Program{{Name: a.Host.Base(binary), Path: a.Shown(binary), Audit: auditResult(all)}},
		Checks: report.AuditChecks(auditResult(all), "")}
	return a.end(o, auditEnd(all), result, audited{binary, append([]string{}, l.Trailing...), all})
}

// audited is what an audit found, as JSON has it.
type audited struct {
	Program string          `json:"program"`
	Args    []string        `json:"args"`
	Modes   []audit.Outcome `json:"modes"`
}

// audit runs a program on drivers that fail.
func (a *app) audit(ctx context.Context, o Options, binary string, args []string, env buildenv.Env) ([]audit.Outcome, error) {
	compiler := a.probeCompiler(ctx)
	if compiler.Path == "" {
		return nil, &noAuditCompilerError{a.Host.OS}
	}
	runs := a.Host.Join(a.CacheDir, "runs")
	if err := cache.Make(runs); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(runs, "audit-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	timeout := o.Timeout
	if timeout == 0 {
		timeout = auditTimeout
	}
	return audit.Run(ctx, a.Host, a.Runner, audit.Options{Binary: binary, Args: args, Env: env, Compiler: compiler, Dir: dir, Timeout: timeout})
}

// noAuditCompilerError says that there is nothing to build the failing driver with.
type noAuditCompilerError struct{ system string }

func (e *noAuditCompilerError) Error() string {
	return "no host compiler (" + map[bool]string{true: "cl, gcc or clang", false: "gcc or clang"}[e.system == buildenv.Windows] + ") to build the failing driver with"
}

// ExitCode is exit.Missing.
func (e *noAuditCompilerError) ExitCode() int { return exit.Missing }

// Hint says what a user can do about it.
func (e *noAuditCompilerError) Hint() string {
	if e.system == buildenv.Windows {
		return "install Microsoft's C++ build tools (winget install Microsoft.VisualStudio.2022.BuildTools)"
	}
	return "install gcc"
}

func (a *app) tellAudit(all []audit.Outcome) {
	for _, r := range all {
		switch r.Kind {
		case audit.Baseline:
			a.Shell.Status("Baseline", "%s: %s", r.What, r.Why)
			continue
		case audit.Honest:
			a.Shell.Status("Honest", "%s: %s: %s", r.Mode, r.What, r.Why)
			continue
		case audit.NotReached:
			a.Shell.Status("Not reached", "%s: %s: %s", r.Mode, r.What, r.Why)
			continue
		case audit.FellBack:
			a.Shell.Loud("Fell back", "%s: %s: %s", r.Mode, r.What, r.Why)
		default:
			a.Shell.Loud("Unsure", "%s: %s: %s", r.Mode, r.What, r.Why)
		}
		if r.Said != "" {
			a.Shell.Status("", "it said: %s", r.Said)
		}
	}
	if len(all) > 0 {
		a.Shell.Loud("Audited", "%s", audit.Summary(all))
	}
}

// auditEnd is the exit code of an audit.
func auditEnd(all []audit.Outcome) error {
	switch audit.Worst(all) {
	case audit.Honest:
		return nil
	case audit.FellBack:
		return exit.Code(exit.NotUsed)
	}
	return exit.Code(exit.Unproved)
}

func auditFindings(all []audit.Outcome, path string) []finding.Finding {
	var out []finding.Finding
	for _, r := range all {
		switch {
		case r.Passed():
		case r.Kind == audit.FellBack:
			out = append(out, finding.Finding{ID: "audit.fallback", Severity: finding.Error, Message: r.Mode + ": " + r.Why, Path: path, Evidence: r.Said})
		default:
			out = append(out, finding.Finding{ID: "audit.unsure", Severity: finding.Warning, Message: r.Mode + ": " + r.Why, Path: path})
		}
	}
	return out
}

func auditResult(all []audit.Outcome) []report.Audit {
	var out []report.Audit
	for _, m := range all {
		out = append(out, report.Audit{Mode: m.Mode, Outcome: string(m.Kind), Why: m.Why, Said: m.Said, Code: m.Code, Reached: m.Reached, Passed: m.Passed()})
	}
	return out
}

// auditBuilt is `build --gpu-audit`: the program that the build made, on drivers that fail.
func (j *journey) auditBuilt(ctx context.Context) error {
	p := j.chosenProgram()
	if p == nil {
		j.Shell.Loud("Unsure", "not audited: %s", j.whyNone())
		return exit.Code(exit.Unproved)
	}
	args := j.options.AuditArgs
	if want := j.Config.Prove.Value; want != nil && len(args) == 0 {
		args = want.Args
	}
	st, err := j.libraryStage(j.Set.Toolkit, j.RunEnv, p.Path)
	if err != nil {
		return err
	}
	if j.audited, err = j.audit(ctx, j.options, p.Path, args, st.env); err != nil {
		return err
	}
	j.auditedProgram = p.Path
	j.tellAudit(j.audited)
	j.findings = append(j.findings, auditFindings(j.audited, j.Shown(p.Source))...)
	return auditEnd(j.audited)
}
