package pipeline

import (
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/audit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/featurecheck"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu"
)

// Result is what the stages of one command line found. After a failure the later fields are zero.
type Result struct {
	Judged  bool             // there is GPU work, and the result of the subcommand is judged
	Session *session.Session // nil: no project is open
	// Features is cargo's answer and what it means.
	Features featurecheck.Judged
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
}

// rendered is the result as package report takes it.
func (r Result) rendered(c Command, trace *finding.Trace) report.Stages {
	line, o := c.line(), c.Options
	st := report.Stages{
		Verb:          line.Verb,
		Judged:        r.Judged,
		Answer:        r.Features.Answer,
		Asked:         line.Features,
		Set:           report.SetOf(r.Tools),
		Stale:         r.Stale.Lines(),
		Cleaned:       r.Stale.Cleaned(),
		CompileErrors: r.Built.CompileErrors,
		Cause:         r.Cause,
		Audited:       r.Audit.Program,
		Audits:        Audits(r.Audit.Modes),
		Findings:      r.Findings,
		Proving: report.Proving{
			Asked:        o.Proof.Wanted,
			Required:     o.Proof.Required,
			EndedByAudit: r.EndedByAudit,
			Unmade:       r.Proof.NotProven,
			Missed:       r.Proof.Missed,
		},
		Checks: trace.Checks(),
		Watch:  r.Watch,

		EndedByWatch: r.EndedByWatch,
	}
	if s := r.Session; s != nil {
		st.Manifest, st.Root = c.Machine.Shown(s.Project.Manifest), s.Project.Root
		st.Proving.Asked = st.Proving.Asked || s.Config.Prove.Value != nil
		st.Proving.MarkedOnly = proof.Marks(s) != nil && !o.Proof.ExpectCPU
	}
	if line.Verb == "run" || line.Verb == "test" || line.Verb == "bench" {
		st.Proving.Asked = !line.Has("--no-run")
	}
	for _, p := range r.Built.Programs {
		made := report.Program{
			Name:    p.Name,
			Path:    p.Path,
			Source:  p.Source,
			Kind:    p.Kind,
			Package: p.Package,
			Marked:  proof.Marked(r.Session, p),
		}
		if code, err := proof.Scan(c.Machine, p.Path); err == nil {
			made.Code, made.Images = proof.Line(code), report.Images(code)
		}
		st.Programs = append(st.Programs, made)
	}
	for _, p := range r.Proof.Proofs {
		st.Proofs = append(st.Proofs, report.ProgramProof{Program: p.Program, Proof: report.OfProgram(p)})
	}
	return st
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
	verb, env := c.line().Verb, c.Machine.Host.Env
	for _, p := range r.Built.Programs {
		if proven[p.Path] || p.Kind == "test" && verb != "test" && verb != "bench" {
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

// Audits are the outcomes of an audit as package report takes them.
func Audits(all []audit.Outcome) []report.Audit {
	var out []report.Audit
	for _, m := range all {
		out = append(out, report.Audit{
			Mode: m.Mode, Outcome: string(m.Kind), Why: m.Why, Said: m.Said, Code: m.Code, Reached: m.Reached, Passed: m.Passed(),
		})
	}
	return out
}
