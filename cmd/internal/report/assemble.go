package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/audit"
	"gpubuild/cmd/internal/config"
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

// checkOf is a check as a result has it. What an exit code alone means was said already.
func checkOf(c finding.Check) Check {
	out := Check{ID: c.ID, State: Passed, Seconds: c.Took.Seconds()}
	var code exit.Code
	switch {
	case c.Err == nil:
	case !errors.As(c.Err, &code):
		out.State, out.Message = Failed, worded(c.Err)
	case c.ID != CheckRun || !verify.IsCode(int(code)):
		out.State = Failed
	}
	return out
}

// checks are those that were made, those that were not reached, and one for each program's proof.
func (s Collected) checks(end error) []Check {
	switch {
	case len(s.Checks) > 0: // of one of our own verbs
		return s.Checks
	case !s.Judged:
		return []Check{endCheck(s.Verb, end)}
	}
	var out []Check
	stopped := ""
	for _, id := range []string{CheckReach, CheckToolchain, CheckStale, CheckBuild, CheckCode} {
		c := Check{ID: id, State: Skipped}
		for _, made := range s.StageChecks {
			if made.ID == id {
				c = checkOf(made)
			}
		}
		switch {
		case c.State == Skipped:
			c.Message = "not reached"
			if stopped != "" {
				c.Message += ": " + stopped + " failed"
			}
		case c.State == Failed:
			stopped = id
		}
		if c.State != Skipped && c.Message == "" {
			c.Message = s.message(id, c.State)
		}
		if id == CheckBuild && c.State == Failed && s.Cause != nil {
			c.Detail = strings.TrimSpace(s.Cause.Message + "\n" + s.Cause.Fix)
		}
		out = append(out, c)
	}
	if cargo.PurposeOf(s.Verb) == cargo.Checks {
		return out
	}
	for _, c := range s.StageChecks {
		if c.ID == CheckRun {
			ran := checkOf(c)
			for _, f := range s.Findings {
				if ran.State == Failed && strings.HasPrefix(f.ID, "explain.") {
					ran.Detail = strings.TrimSpace(f.Message + "\n" + f.Evidence + "\n" + f.Fix)
				}
			}
			out = append(out, ran)
		}
	}
	for _, p := range s.Programs {
		out = append(out, AuditChecks(p.Audit, p.Name+" ")...)
	}
	if v := s.Coverage; v != nil {
		c := Check{ID: CheckCoverage, State: Passed, Message: v.Text()}
		if v.Below() && exit.Of(end) == exit.OtherKernels {
			c.State = Failed
		}
		out = append(out, c)
	}
	for _, p := range s.Programs {
		out = append(out, s.proofCheck(p, exit.Of(end)))
	}
	return out
}

// proofCheck is the check of a program's proof, in a run that ended with code.
func (s Collected) proofCheck(p Program, code int) Check {
	c := Check{ID: CheckProof, Name: p.Title(), State: Skipped, Message: "nothing was run"}
	switch {
	case p.Proof == nil && s.Proving.Asked:
		c.Message = cmp.Or(s.Proving.WhyNone, NoGPU)
	case p.Proof == nil:
	case kindOf(p.Proof) == verify.Proved:
		c.State, c.Message = Passed, "ran its kernel on "+p.Proof.Device
	default:
		c.Message = strings.TrimSuffix(p.Proof.Verdict+": "+p.Proof.Why, ": ")
	}
	if p.Proof != nil {
		c.Detail = strings.Join(p.Proof.Lines, "\n")
	}
	if c.State == Skipped && s.Proving.requires(p, code) {
		c.State = Failed
	}
	return c
}

// requires reports whether a program's missing proof is an error, in a run that ended with code.
func (w Proving) requires(p Program, code int) bool {
	return w.Required || verify.IsCode(code) && !w.EndedByAudit && (p.Marked || !w.MarkedOnly)
}

// message says in a line what a check that has no words of its own found.
func (s Collected) message(id, state string) string {
	switch id {
	case CheckReach:
		for _, f := range s.Findings {
			if state == Failed && f.Severity == finding.Error {
				return f.Message
			}
		}
		return s.Reach
	case CheckToolchain:
		if s.Set != nil {
			facts := []fact{{"CUDA ", s.Set.Toolkit}, {"", s.Set.Compiler}, {"cuDNN ", s.Set.CUDNN}, {"", s.Set.Arch}}
			return strings.Join(words(facts), ", ")
		}
	case CheckStale:
		if state == Failed {
			return strings.Join(s.Stale, "; ")
		}
		if len(s.Cleaned) > 0 {
			return "cleaned " + strings.Join(s.Cleaned, ", ")
		}
		return "nothing is stale"
	case CheckBuild:
		files := map[string]bool{}
		for _, p := range s.Programs {
			files[p.Path] = true
		}
		return Count(len(files), "program")
	case CheckCode:
		return "what was built is from the tools and for the architecture that were asked for"
	}
	return ""
}

// fact is one thing that is known, with its name.
type fact struct{ name, value string }

// words are the facts that are known, each behind its name.
func words(facts []fact) []string {
	var out []string
	for _, f := range facts {
		if f.value != "" {
			out = append(out, f.name+f.value)
		}
	}
	return out
}

// AuditChecks are a check for each mode of an audit; prefix stands before the mode's name where the result has other checks, too.
func AuditChecks(audits []audit.ModeResult, prefix string) []Check {
	var out []Check
	for _, a := range audits {
		state := map[bool]string{true: Passed, false: Failed}[a.Passed()]
		out = append(out, Check{ID: CheckAudit, Name: prefix + a.Mode, State: state, Message: a.Why, Detail: a.Said})
	}
	return out
}

// WatchEnds are a check for each kind of alert that was to fail a watch, and the findings of those that did.
func WatchEnds(w *gpu.Summary) (checks []Check, found []finding.Finding) {
	if w == nil {
		return nil, nil
	}
	for _, k := range w.FailOn {
		c, f := Check{ID: CheckWatch, Name: k, State: Passed}, finding.New("watch.alert", "")
		var lines []string
		for _, a := range w.Alerts {
			if a.Kind == k {
				lines = append(lines, a.Message)
			}
		}
		if len(lines) == 0 && slices.Contains(w.Unseen, k) {
			f = finding.New("watch.unseen", "")
			lines = append([]string{"not watched for all the time"}, w.Notes...)
		}
		if len(lines) > 0 {
			c.State, c.Message, c.Detail = Failed, lines[0], strings.Join(lines[1:], "\n")
			f.Message, f.Evidence = k+": "+c.Message, c.Detail
			found = append(found, f)
		}
		checks = append(checks, c)
	}
	return checks, found
}

// endCheck is a check of something that has no other words than its error.
func endCheck(id string, err error) Check {
	if err == nil {
		return Check{ID: id, State: Passed}
	}
	return Check{ID: id, State: Failed, Message: worded(err)}
}

// withFailure sees to it that what ended badly has a check that failed: a reader of JUnit looks at nothing else.
func withFailure(checks []Check, verb string, found []finding.Finding, end error) []Check {
	if exit.Of(end) == exit.Done || slices.ContainsFunc(checks, func(c Check) bool { return c.State == Failed }) {
		return checks
	}
	c := endCheck(cmp.Or(verb, CheckBuild), end)
	at := slices.IndexFunc(found, func(f finding.Finding) bool { return f.Severity == finding.Error })
	if _, said := errors.AsType[exit.Code](end); said && at >= 0 { // a code alone: a finding has the reason
		c.Message = found[at].Message
	}
	return append(checks, c)
}

// endFindings are what the end of a command adds to the findings of its stages.
func endFindings(m *session.Machine, s Collected, end error) (out []finding.Finding) {
	if s.Judged {
		out = judgedFindings(m, s, end)
	}
	f, ok := failure(m, end, s.Verb)
	if ok && s.Cause != nil {
		f = *s.Cause
		f.Severity = finding.Error
	}
	if ok {
		out = append(out, f)
	}
	return out
}

// judgedFindings are those of what the stages of a cargo command left without one.
func judgedFindings(m *session.Machine, s Collected, end error) (out []finding.Finding) {
	code := exit.Of(end)
	if code == exit.Stale {
		for _, l := range s.Stale {
			out = append(out, finding.Of(finding.Finding{ID: "stale.found", Message: l, Fix: "leave --gpu-no-clean out"}))
		}
	}
	for _, p := range s.Programs {
		if f, ok := ProofFinding(p, s.Proving.requires(p, code)); ok {
			f.Path = p.Source
			out = append(out, f)
		}
	}
	if why := s.Proving.WhyNone; why != "" && code == exit.Unproved {
		id := "proof.unproved"
		if why == NoGPU {
			id = "proof.no-device"
		}
		out = append(out, finding.Finding{ID: id, Severity: finding.Error, Message: "not proven: " + why, Fix: finding.RuleOf(id).Help})
	}
	if _, exited := end.(*buildenv.ExitError); exited {
		for _, d := range s.CompileErrors {
			file := d.Path
			if !m.Host.IsAbs(file) { // cargo starts rustc in the workspace's root
				file = m.Host.Join(s.Root, file)
			}
			out = append(out, finding.Of(finding.Finding{
				ID: "build.compile-error", Message: d.Message, Path: m.Shown(file), Line: d.Line, Column: d.Column, Width: d.Width,
				Code: d.Code, Label: d.Label,
			}))
		}
	}
	for _, missed := range s.Proving.Missed {
		out = append(out, finding.New("proof.not-run", missed))
	}
	return out
}

// ProofFinding words a proof that did not succeed. counts: that is an error.
func ProofFinding(p Program, counts bool) (finding.Finding, bool) {
	if p.Proof == nil || kindOf(p.Proof) == verify.Proved {
		return finding.Finding{}, false
	}
	f := finding.Finding{
		ID: "proof." + strings.ReplaceAll(p.Proof.Verdict, " ", "-"), Severity: finding.Warning, Message: p.Title() + ": " + p.Proof.Why,
		Evidence: strings.Join(p.Proof.Lines, "\n"),
	}
	if counts {
		f.Severity = finding.Error
	}
	if p.Proof.Finding != "" {
		f.ID, f.Severity = p.Proof.Finding, finding.Error
	}
	return f, true
}

func worded(end error) string {
	if errors.Is(end, context.Canceled) {
		return "interrupted"
	}
	return end.Error()
}

// failure words an error that nothing else has put among the findings.
func failure(m *session.Machine, end error, verb string) (finding.Finding, bool) {
	var code exit.Code
	if end == nil || errors.As(end, &code) {
		return finding.Finding{}, false
	}
	f := finding.Of(finding.Finding{ID: exit.FindingID(end), Message: worded(end), Fix: m.Shell.Pasteable(exit.Hint(end))})
	if conf, is := errors.AsType[*config.Error](end); is {
		f.Path, f.Line, f.Message = m.Shown(conf.Path), conf.Line, conf.Problem
	}
	if child, failed := end.(*buildenv.ExitError); failed {
		f.ID, f.Message = "build.failed", fmt.Sprintf("%s ended with %d", filepath.Base(child.Cmd.Path), child.Result.Code)
		if cargo.PurposeOf(verb).Starts() {
			f.ID = "run.failed"
		}
	}
	return f, true
}
