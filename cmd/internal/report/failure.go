package report

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

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
