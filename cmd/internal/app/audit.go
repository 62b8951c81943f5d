package app

import (
	"context"
	"os"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/audit"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/hostcc"
)

const auditTimeout = time.Minute // of each mode, unless --timeout says otherwise

// runAudit runs a program on failing drivers.
func runAudit(a *app, ctx context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) != 1 {
		return &usageError{"audit needs one program", "gpubuild audit target/release/app -- ARGS"}
	}
	if a.host.OS != buildenv.Linux {
		return &usageError{"a program cannot be audited on " + a.host.OS + " yet", "audit on Linux"}
	}
	binary := a.program(l.Positional[0])
	if fi, err := a.host.Files.Stat(binary); err != nil {
		return &verify.BinaryError{Path: binary, Err: err}
	} else if !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 {
		return &usageError{binary + " is no executable file", "give the path of an executable file"}
	}
	st, err := a.libraryStage(nil, a.host.Env, binary)
	if err != nil {
		return err
	}
	compiler := ""
	for _, c := range hostcc.Find(ctx, a.host, a.run) {
		if c.Kind == hostcc.GCC || c.Kind == hostcc.Clang {
			compiler = c.Path
			break
		}
	}
	if compiler == "" {
		return &probe.NoCompilerError{OS: a.host.OS}
	}
	runs := a.host.Join(a.cacheDir, "runs")
	if err := cache.Make(runs); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(runs, "audit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	timeout := o.Timeout
	if timeout == 0 {
		timeout = auditTimeout
	}
	all, err := audit.Run(ctx, a.host, a.run, audit.Options{Binary: binary, Args: l.Trailing, Env: st.env, Compiler: compiler, Dir: dir, Timeout: timeout})
	if err != nil {
		return err
	}
	worst := audit.Worst(all)
	var findings []report.Finding
	for _, r := range all {
		switch r.Kind {
		case audit.Honest:
			a.shell.Status("Honest", "%s: %s: %s", r.Mode, r.What, r.Why)
			continue
		case audit.FellBack:
			a.shell.Loud("Fell back", "%s: %s: %s", r.Mode, r.What, r.Why)
			findings = append(findings, report.Finding{ID: "audit.fallback", Severity: report.SeverityError, Message: r.Mode + ": " + r.Why, Path: l.Positional[0], Evidence: r.Said})
		default:
			a.shell.Loud("Unsure", "%s: %s: %s", r.Mode, r.What, r.Why)
			findings = append(findings, report.Finding{ID: "audit.unsure", Severity: report.SeverityWarning, Message: r.Mode + ": " + r.Why, Path: l.Positional[0]})
		}
		if r.Said != "" {
			a.shell.Status("", "it said: %s", r.Said)
		}
	}
	result := report.Result{Verb: "audit", Findings: findings, Programs: []report.Program{{Name: a.host.Base(binary), Path: a.shown(binary)}}}
	for _, m := range all {
		state := map[bool]string{true: report.Passed, false: report.Failed}[m.Kind == audit.Honest]
		result.Checks = append(result.Checks, report.Check{ID: "audit", Name: m.Mode, State: state, Message: m.Why, Detail: m.Said})
	}
	var end error
	switch worst {
	case audit.Honest:
	case audit.FellBack:
		end = codeError(codeNotUsed)
	default:
		end = codeError(codeUnproved)
	}
	return a.end(o, end, result, struct {
		Program string          `json:"program"`
		Args    []string        `json:"args"`
		Modes   []audit.Outcome `json:"modes"`
	}{binary, append([]string{}, l.Trailing...), all})
}
