package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// CheckRun is the program's own run under cargo; what it showed of the GPU is the proofs' matter.
const CheckRun = "run"

// CheckAudit is a mode of an audit.
const CheckAudit = "audit"

// CheckWatch is an alert that was to fail the run.
const CheckWatch = "watch"

// Collected is a part of a result, and what else the stages of a cargo command returned. A stage that was not reached leaves its zero
// value.
type Collected struct {
	Result // without the checks, and without what the end adds to the findings

	Judged        bool   // there is GPU work, and the verb is one whose result is judged
	Root          string // the workspace's directory, in which cargo starts rustc
	Reach         string // in a line, what the features enable
	EndedByWatch  bool   // the exit code is the watch's: nothing else failed
	CompileErrors []cargo.Diagnostic
	Cause         *finding.Finding // of a failed build, where it is known
	Proving       Proving
	StageChecks   []finding.Check
	Parts         []cargo.Part // of the command line, as far as it was parsed; nil: it could not be
}

// Proving is what was to be proven, and why some of it was not.
type Proving struct {
	Asked        bool // the run was to prove something
	Required     bool // each program's missing proof is an error
	MarkedOnly   bool // of the programs only those that are marked count
	EndedByAudit bool // the exit code is the audit's
	WhyNone      string
	Missed       []string // what the configuration marks and this run left out
}

// Assemble makes the one result of a command line from what its stages returned; everything else is rendered from it. words are the command
// line, and end is how the command ended.
func Assemble(m *session.Machine, words []string, s Collected, end error) Result {
	r, others := s.Result, end
	if s.EndedByWatch {
		others = nil
	}
	watching, watchFindings := WatchEnds(s.Watch)
	r.Checks = withFailure(slices.Concat(s.checks(others), watching), s.Verb, r.Findings, end)
	ended := endFindings(m, s, others)
	var lines []string // rustc's errors
	for _, f := range ended {
		if f.ID == "build.compile-error" {
			lines = append(lines, place(f)+": "+f.Message)
		}
	}
	failed := slices.IndexFunc(r.Checks, func(c Check) bool { return c.State == Failed && c.Name == "" })
	if failed >= 0 && len(lines) > 0 {
		r.Checks[failed].Message, r.Checks[failed].Detail = lines[0], strings.Join(lines, "\n")
	}
	r.Row, r.Gpubuild, r.At = m.Host.Env.Get(origin.RowVariable), version.Number(), m.Began.UTC().Truncate(time.Second)
	r.Seconds, r.Command, r.Code = time.Since(m.Began).Seconds(), Redact(words, s.Parts), exit.Of(end)
	r.Findings = slices.Concat(r.Findings, ended, watchFindings)
	return r.redact(words, s.Parts, m.Host.Env)
}

// SetOf is the part of a result that says what was built with; nil: nothing of it is known.
func SetOf(t tools.Tools) *Set {
	s := t.Set
	out := Set{Driver: cmp.Or(s.Driver.Version, t.Facts.Driver.Version), ArchOrigin: s.CapabilityOrigin}
	if s.Toolkit != nil {
		out.Toolkit, out.Root = cmp.Or(s.Toolkit.Label, s.Toolkit.Version.String()), s.Toolkit.Root
	}
	if s.Compiler != nil {
		out.Compiler = strings.TrimSpace(s.Compiler.Kind + " " + s.Compiler.Version)
	}
	if s.CUDNN != nil {
		out.CUDNN = s.CUDNN.Version
	}
	out.Arch = gpu.Archs(s.Archs())
	if s.Toolkit == nil && s.Compiler == nil && out.Driver == "" {
		return nil
	}
	return &out
}

// newProof is what a verdict and its evidence say in a result.
func newProof(v verify.Verdict, e verify.Evidence) *Proof {
	out := &Proof{
		Verdict: v.Kind.String(), Why: v.Why, Lines: v.Lines, Device: v.Device, UUID: v.UUID, Driver: e.Control.Loaded.Version,
		Backend: string(e.Backend), Adapter: e.Adapter(), Launches: v.Launches, TotalNS: v.Total,
	}
	for _, k := range v.Kernels {
		if k.Matches {
			out.Kernels = append(out.Kernels, k.Name)
		}
	}
	return out
}

// NewProof is what the run of a program showed, here or on another machine.
func NewProof(p proof.Proof) *Proof {
	out := newProof(p.Verdict, p.Evidence)
	out.Host, out.Finding = p.Host, p.Finding
	return out
}

// ProveResult is what the proof of one program came to.
func ProveResult(m *session.Machine, p proof.Proof, r *fatbin.Report, ended error) Result {
	made := Program{Name: m.Host.Base(p.Program), Path: m.Shown(p.Program), Code: proof.Line(r), Proof: NewProof(p)}
	c := Collected{}.proofCheck(made, exit.Done)
	c.State = Passed
	out := Result{Verb: "prove", Programs: []Program{made}}
	out.AddKernels(r)
	if ended != nil {
		c.State = Failed
		if f, ok := ProofFinding(made, true); ok {
			out.Findings = append(out.Findings, f)
		}
	}
	out.Checks = []Check{c}
	return out
}
