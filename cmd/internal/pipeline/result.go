package pipeline

import (
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

// Result is what the stages of one command line found. After a failure the later fields are zero.
type Result struct {
	Judged  bool             // there is GPU work, and the result of the subcommand is judged
	Session *session.Session // nil: no project is open
	// Features is cargo's answer and what it means.
	Features reach.Judged
	Tools    tools.Tools
	Stale    *fresh.State
	Built    cargorun.Built
	Cause    *finding.Finding // of a failed build, where it is known
	Proof    proof.Result
	Audit    proof.AuditResult
	Watch    *gpu.Summary // nil: the GPUs were not watched
	// EndedByAudit, EndedByWatch: the exit code is the audit's, or the watch's.
	EndedByAudit, EndedByWatch bool
	Findings                   []finding.Finding

	kernels kernels // the cache that stood in front of nvcc
}

// outcome is the result as package report takes it.
func (r Result) outcome(c Command, trace *finding.Trace) report.Report {
	line, o := c.line(), c.Options
	st := report.Collected{
		Result: report.Result{
			Verb: line.Verb, Features: report.FeaturesOf(r.Features.Reach, line.Features),
			Stale: r.Stale.Lines(), Cleaned: r.Stale.Cleaned(), Programs: r.programs(c), Watch: r.Watch,
			Coverage: r.Proof.Coverage, Findings: r.Findings,
		},
		Judged: r.Judged, CompileErrors: r.Built.CompileErrors, Cause: r.Cause, StageChecks: trace.Checks(), EndedByWatch: r.EndedByWatch,
		Proving: report.Proving{Asked: o.Proof.Wanted, Required: o.Proof.Required, EndedByAudit: r.EndedByAudit,
			WhyNone: r.Proof.NotProven, Missed: r.Proof.Missed},
	}
	if a := r.Features.Reach; a != nil {
		st.Reach = strings.Join(report.ReachLines(a, false), "; ")
	}
	for _, p := range r.Built.Programs {
		if code, err := proof.Scan(c.Machine, p.Path); err == nil && r.ofVerb(p, line.Purpose()) {
			st.AddKernels(code)
		}
	}
	if s := r.Session; s != nil {
		if scan := s.Config.Scan.Value; scan != nil {
			st.Growth = scan.MaxRegistersGrowth
		}
		st.Project, st.Name, st.Root = c.Machine.Shown(s.Project.Manifest), s.Project.Name(), s.Project.Root
		st.Proving.Asked = st.Proving.Asked || s.Config.Prove.Value != nil
		st.Proving.MarkedOnly = proof.Marks(s) != nil && !o.Proof.ExpectCPU
	}
	if line.Purpose().Starts() {
		st.Proving.Asked = !line.Has("--no-run")
	}
	if r.Judged {
		st.Set = report.SetOf(r.Tools)
	}
	return report.Report{Collected: st, Files: o.Files, Annotated: r.Judged, HasResult: true,
		Receipts: func() ([]receipt.Receipt, error) { return r.receipts(c) }}
}

// ofVerb reports whether a subcommand is about a program: cargo also builds the programs that integration tests start.
func (r Result) ofVerb(p cargorun.Program, purpose cargo.Purpose) bool {
	if purpose == cargo.Tests {
		return p.Kind == "test" || p.Kind == "bench" || proof.Marked(r.Session, p)
	}
	return p.Kind != "test"
}

// programs joins what was built with what was proven.
func (r Result) programs(c Command) (out []report.Program) {
	m, purpose := c.Machine, c.line().Purpose()
	proofs := r.Proof.Proofs
	said, taken := proof.DecisiveProcess(proofs), make([]bool, len(proofs))
	for _, p := range r.Built.Programs {
		if !r.ofVerb(p, purpose) {
			continue
		}
		made := report.Program{Name: p.Name, Path: m.Shown(p.Path), Source: m.Shown(p.Source), Kind: p.Kind, Package: p.Package,
			Marked: proof.Marked(r.Session, p)}
		marked := made.Marked
		if code, err := proof.Scan(m, p.Path); err == nil {
			made.Code = proof.Line(code)
		}
		if r.Audit.Program != "" && m.Host.SamePath(r.Audit.Program, p.Path) {
			for _, mode := range r.Audit.Modes {
				mode.Asked = nil // it may hold paths of this machine
				made.Audit = append(made.Audit, mode)
			}
		}
		for i, got := range proofs { // nextest starts a process for each test
			if taken[i] || !m.Host.SamePath(got.Program, p.Path) {
				continue
			}
			if taken[i] = true; made.Proof != nil {
				out, made.Audit = append(out, made), nil
			}
			// Of a marked program one process is enough: that which speaks for it counts.
			made.Test, made.Proof, made.Marked = got.Test, report.NewProof(got), marked && said[got.Program] == i
		}
		out = append(out, made)
	}
	for i, got := range proofs { // what cargo started and did not name, such as a doctest
		if !taken[i] {
			out = append(out, report.Program{Name: m.Host.Base(got.Program), Path: m.Shown(got.Program), Test: got.Test,
				Proof: report.NewProof(got)})
		}
	}
	return out
}

// receipts are those of each program that was proven, and of each that was built and not run. A build that made nothing has one, too: it
// says what was requested and why there is no program.
func (r Result) receipts(c Command) ([]receipt.Receipt, error) {
	var list []receipt.Receipt
	proven := map[string]bool{}
	for _, p := range r.Proof.Proofs {
		proven[p.Program] = true
		if p.Receipt != nil {
			list = append(list, *p.Receipt)
		}
	}
	purpose, env := c.line().Purpose(), c.Machine.Host.Env
	for _, p := range r.Built.Programs {
		if proven[p.Path] || !r.ofVerb(p, purpose) {
			continue
		}
		hash, err := receipt.Seal(p.Path)
		if err != nil {
			return nil, err
		}
		list = append(list, receipt.Unproven(version.Number(), proof.Binary(c.Machine, hash, p.Path), env))
	}
	if len(list) == 0 {
		list = append(list, receipt.Unproven(version.Number(), receipt.Binary{}, env))
	}
	return list, nil
}
