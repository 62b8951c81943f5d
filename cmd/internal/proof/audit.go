package proof

import (
	"context"
	"os"
	"slices"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/audit"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cuda"
)

const auditTimeout = time.Minute // of each mode, unless --timeout says otherwise

// AuditResult is what a program did on drivers that fail.
type AuditResult struct {
	Program  string             `json:"program"`
	Args     []string           `json:"args"`
	Modes    []audit.ModeResult `json:"modes"`
	Findings []finding.Finding  `json:"-"`
}

// AuditFile runs a program that the user names on drivers that fail; shown is how findings name it. The error is an exit.Code where
// everything was said.
func AuditFile(ctx context.Context, m *session.Machine, timeout time.Duration, binary string, args []string, shown string) (
	AuditResult, error) {
	if m.Host.OS != buildenv.Linux && m.Host.OS != buildenv.Windows {
		return AuditResult{}, &exit.UsageError{What: "a program cannot be audited on " + m.Host.OS + " yet",
			Fix: "audit on Linux or on Windows"}
	}
	if fi, err := m.Host.Files.Stat(binary); err != nil {
		return AuditResult{}, verify.BinaryError(binary, err)
	} else if !fi.Mode().IsRegular() || m.Host.OS != buildenv.Windows && fi.Mode()&0o111 == 0 {
		return AuditResult{}, &exit.UsageError{What: binary + " is no executable file", Fix: "give the path of an executable file"}
	}
	return runAudit(ctx, m, nil, nil, audit.Options{Binary: binary, Args: args, Env: m.Host.Env, Timeout: timeout}, shown)
}

// AuditBuilt is `build --gpu-audit`: the program that the build made, on drivers that fail.
func AuditBuilt(ctx context.Context, r Request, args []string) (AuditResult, error) {
	m, want := r.Session.Machine, r.table()
	p := Chosen(r.Programs, want)
	if p == nil {
		m.Shell.Alert("Unsure", "not audited: %s", whyNone(r.Programs, want))
		return AuditResult{}, exit.Code(exit.Unproved)
	}
	if want != nil && len(args) == 0 {
		args = want.Args
	}
	o := audit.Options{Binary: p.Path, Args: args, Env: r.Env, Timeout: r.Options.Timeout}
	return runAudit(ctx, m, r.Toolkit, r.Given.Opens, o, m.Shown(p.Source))
}

// runAudit runs a program on drivers that fail, and says how it took each. first is the toolkit of its build, and opens are the libraries that
// it opens itself.
func runAudit(ctx context.Context, m *session.Machine, first *cuda.Toolkit, opens []features.NeedReason, o audit.Options, shown string) (
	AuditResult, error) {
	rt, err := Libraries(ctx, m, Toolkits(m, first), opens, o.Env, o.Binary)
	if err != nil {
		return AuditResult{}, err
	}
	o.Env, o.Compiler = rt.Env, ProbeCompiler(ctx, m)
	if o.Compiler.Path == "" {
		return AuditResult{}, probe.NoCompiler(m.Host.OS, "the failing driver", "")
	}
	runs, err := m.Scratch("runs")
	if err != nil {
		return AuditResult{}, err
	}
	if o.Dir, err = os.MkdirTemp(runs, "audit-"); err != nil {
		return AuditResult{}, err
	}
	defer os.RemoveAll(o.Dir)
	if o.Timeout == 0 {
		o.Timeout = auditTimeout
	}
	modes, err := audit.Run(ctx, m.Host, m.Runner, o)
	if err != nil {
		return AuditResult{}, err
	}
	printAudit(m, modes)
	return AuditResult{o.Binary, append([]string{}, receipt.Hidden(o.Args)...), modes, auditFindings(modes, shown)}, auditEnd(modes)
}

func printAudit(m *session.Machine, modes []audit.ModeResult) {
	failing := slices.DeleteFunc(slices.Clone(modes), func(r audit.ModeResult) bool { return r.Kind == audit.Baseline })
	other := func(r audit.ModeResult) bool { return r.Kind != audit.NotReached || r.Why != failing[0].Why }
	same := len(failing) > 1 && !slices.ContainsFunc(failing, other) // of a program that never looks for the driver
	for _, r := range modes {
		print := m.Shell.Alert
		switch r.Kind {
		case audit.Baseline:
			m.Shell.Status("baseline", "%s: %s", r.What, r.Why)
			continue
		case audit.NotReached:
			if same {
				continue
			}
			print = m.Shell.Status
		case audit.Honest, audit.Unchecked:
			print = m.Shell.Status
		}
		print(r.Kind.Word(), "%s: %s: %s", r.Mode, r.What, r.Why)
		if r.Said != "" && r.Kind != audit.Honest && r.Kind != audit.NotReached {
			m.Shell.Status("", "it said: %s", r.Said)
		}
	}
	if same {
		m.Shell.Status(string(audit.NotReached), "all %d modes: %s", len(failing), failing[0].Why)
	}
	if len(modes) > 0 {
		says := "whether the program hides a driver that fails is not known"
		switch audit.Worst(modes) {
		case audit.Honest:
			says = audit.Tried(modes)
		case audit.FellBack:
			says = "the program hides a driver that fails; let it exit with an error"
		}
		m.Shell.Alert("Audited", "%s: %s", audit.Summary(modes), says)
	}
}

// auditEnd is the exit code of an audit: that of the verdict which its worst mode comes to.
func auditEnd(modes []audit.ModeResult) error {
	verdict := map[audit.Kind]verify.Kind{audit.Honest: verify.Proved, audit.FellBack: verify.NotUsed}
	return outcome(verdict[audit.Worst(modes)].Code(false))
}

func auditFindings(modes []audit.ModeResult, path string) []finding.Finding {
	var out []finding.Finding
	for _, r := range modes {
		switch {
		case r.Passed():
		case r.Kind == audit.FellBack:
			out = append(out, finding.Of(finding.Finding{
				ID: "audit.fallback", Message: r.Mode + ": " + r.Why, Path: path, Evidence: r.Said,
			}))
		default:
			out = append(out, finding.Of(finding.Finding{ID: "audit.unsure", Message: r.Mode + ": " + r.Why, Path: path}))
		}
	}
	return out
}
