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
	"gpubuild/features"
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

// Stages is what the stages of one cargo command returned. A stage that was not reached leaves its zero value.
type Stages struct {
	Verb     string
	Manifest string // of the project, as people read it; empty: there is none
	Root     string // the workspace's directory, in which cargo starts rustc
	Judged   bool   // there is GPU work, and the verb is one whose result is judged

	Answer *features.Reach
	Asked  []string // the features of the command line
	Set    *Set
	// Stale are the lines that say what cargo believed fresh; Cleaned are the packages that were cleaned.
	Stale, Cleaned []string

	Watch        *gpu.Summary // of the GPUs while the program ran; nil: they were not watched
	EndedByWatch bool         // the exit code is the watch's: nothing else failed

	Programs      []Program // their paths are absolute; Assemble adds the proofs
	CompileErrors []cargo.Diagnostic
	Cause         *finding.Finding // of a failed build, where it is known

	Audited string // the program that was audited
	Audits  []Audit
	Proofs  []ProgramProof
	Proving Proving

	Findings []finding.Finding
	Checks   []finding.Check
}

// ProgramProof is what one process of a program showed.
type ProgramProof struct {
	Program string // its path
	Proof   *Proof
}

// Proving is what was to be proven, and why some of it was not.
type Proving struct {
	Asked        bool // the run was to prove something
	Required     bool // each program's missing proof is an error
	MarkedOnly   bool // of the programs only those that are marked count
	EndedByAudit bool // the exit code is the audit's
	Unmade       string
	Missed       []string // what the configuration marks and this run left out
}

// Begin is what every verb's result begins with.
func Begin(m *session.Machine, words []string, verb string, end error) Result {
	return Result{
		Verb: verb, Row: m.Host.Env.Get(origin.RowVariable), Gpubuild: version.Number(), At: m.Began.UTC().Truncate(time.Second),
		Seconds: time.Since(m.Began).Seconds(),
		Command: Redact(append([]string{"gpubuild"}, words...)), Code: exit.Of(end), Findings: []finding.Finding{}, Checks: []Check{},
	}
}

// Assemble makes the one result of a cargo command from what its stages returned; everything else is rendered from it. words are the
// command line, and end is how the command ended.
func Assemble(m *session.Machine, words []string, s Stages, end error) Result {
	r := Begin(m, words, s.Verb, end)
	r.Features, r.Stale, r.Cleaned, r.Project = FeaturesOf(s.Answer, s.Asked), s.Stale, s.Cleaned, s.Manifest
	r.Watch = s.Watch
	if s.Judged {
		r.Set = s.Set
	}
	r.Programs = programs(m, s)
	others := end
	if s.EndedByWatch {
		others = nil
	}
	watching, watchFindings := watchEnds(s.Watch)
	r.Checks = withFailure(append(s.checks(r.Programs, others, m.Host.Base(s.Audited)), watching...), s.Verb, end)
	for i, c := range r.Checks {
		if lines := compileErrorLines(m, s, end); c.State == Failed && c.Name == "" && len(lines) > 0 {
			r.Checks[i].Message, r.Checks[i].Detail = lines[0], strings.Join(lines, "\n")
			break
		}
	}
	r.Findings = append(r.Findings, s.Findings...)
	r.Findings = slices.Concat(r.Findings, endFindings(m, s, r, others), watchFindings)
	return r.redact(words, m.Host.Env)
}

// OfVerb makes the result of one of our own verbs from its part of it.
func OfVerb(m *session.Machine, words []string, part Result, end error) Result {
	r := Begin(m, words, part.Verb, end)
	r.Project, r.Features, r.Set = part.Project, part.Features, part.Set
	r.Programs, r.Stale, r.Cleaned, r.Origin = part.Programs, part.Stale, part.Cleaned, part.Origin
	r.Findings, r.Checks = append(r.Findings, part.Findings...), append(r.Checks, part.Checks...)
	if f, ok := failure(m, end, part.Verb); ok {
		r.Findings = append(r.Findings, f)
	}
	r = r.redact(words, m.Host.Env)
	if len(r.Checks) == 0 {
		r.Checks = append(r.Checks, endCheck(part.Verb, end))
	}
	r.Checks = withFailure(r.Checks, part.Verb, end)
	return r
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
	if !s.Capability.IsZero() {
		out.Arch = gpu.Arch{Capability: s.Capability}.String() + s.Suffix
	}
	for _, d := range t.Facts.Devices {
		out.Devices = append(out.Devices, Device{UUID: d.UUID, Name: d.Name, Capability: d.Capability.String()})
	}
	if s.Toolkit == nil && s.Compiler == nil && out.Driver == "" && len(out.Devices) == 0 {
		return nil
	}
	return &out
}

// programs joins what was built with what was proven.
func programs(m *session.Machine, s Stages) []Program {
	var out []Program
	taken := map[int]bool{}
	for _, p := range s.Programs {
		if p.Kind == "test" && s.Verb != "test" && s.Verb != "bench" {
			continue
		}
		if s.Audited != "" && m.Host.SamePath(s.Audited, p.Path) {
			p.Audit = s.Audits
		}
		for i, got := range s.Proofs {
			if !taken[i] && m.Host.SamePath(got.Program, p.Path) {
				taken[i] = true
				p.Proof = got.Proof
				break
			}
		}
		p.Path, p.Source = m.Shown(p.Path), m.Shown(p.Source)
		out = append(out, p)
	}
	for i, got := range s.Proofs { // what cargo started and did not name, such as a doctest
		if !taken[i] {
			out = append(out, Program{Name: m.Host.Base(got.Program), Path: m.Shown(got.Program), Proof: got.Proof})
		}
	}
	return out
}

// Images counts the device code of a file by kind and architecture.
func Images(r *fatbin.Report) []Image {
	var out []Image
	for _, im := range r.Images {
		one := Image{Kind: im.Kind, Arch: im.Arch.String(), Toolkit: im.Toolkit, Count: 1}
		if one.Kind == fatbin.PTXText {
			one.Kind = fatbin.PTX
		}
		same := func(i Image) bool { return i.Kind == one.Kind && i.Arch == one.Arch && i.Toolkit == one.Toolkit }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].Count++
		} else {
			out = append(out, one)
		}
	}
	return out
}

// ProofOf is what a verdict and its evidence say in a result.
func ProofOf(v verify.Verdict, e verify.Evidence) *Proof {
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

// OfProgram is what the run of a program showed, here or on another machine.
func OfProgram(p proof.Proof) *Proof {
	out := ProofOf(p.Verdict, p.Evidence)
	out.Host, out.Finding = p.Host, p.Finding
	return out
}

// verdictCode says whether an exit code is that of a verdict.
func verdictCode(code int) bool {
	return code == exit.NotUsed || code == exit.Unproved || code == exit.OtherKernels
}

// OfProof is what the proof of one program came to.
func OfProof(m *session.Machine, p proof.Proof, r *fatbin.Report, ended error) Result {
	made := Program{
		Name:   m.Host.Base(p.Program),
		Path:   m.Shown(p.Program),
		Code:   proof.Line(r),
		Images: Images(r),
		Proof:  OfProgram(p),
	}
	c := Check{
		ID:      CheckProof,
		Name:    made.Name,
		State:   Passed,
		Message: "ran its kernel on " + p.Verdict.Device,
		Detail:  strings.Join(p.Verdict.Lines, "\n"),
	}
	if p.Verdict.Kind != verify.Proved {
		c.Message = ""
		if p.Verdict.Why != "" {
			c.Message = p.Verdict.Kind.String() + ": " + p.Verdict.Why
		}
	}
	out := Result{Verb: "prove", Programs: []Program{made}}
	if ended != nil {
		c.State = Failed
		if f, ok := ProofFinding(made, true); ok {
			out.Findings = append(out.Findings, f)
		}
	}
	out.Checks = []Check{c}
	return out
}
