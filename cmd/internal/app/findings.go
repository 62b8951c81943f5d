package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/report"
	"gpubuild/features/manifest"
)

// endFindings are what a walk's end adds to the findings of the features.
func (j *journey) endFindings(r report.Result, end error) []finding.Finding {
	var out []finding.Finding
	code := exit.Of(end)
	if code == exit.Stale {
		for _, l := range j.staleLines() {
			out = append(out, finding.Finding{ID: "stale.found", Severity: finding.Error, Message: l, Fix: "leave --gpu-no-clean out"})
		}
	}
	sources := map[string]string{}
	for _, p := range j.programs {
		sources[j.Shown(p.Path)] = j.Shown(p.Source)
	}
	for _, p := range r.Programs {
		if f, ok := proofFinding(p, j.required(p, code)); ok {
			f.Path = sources[p.Path]
			out = append(out, f)
		}
	}
	if isExit(end) {
		for _, d := range j.compileErrors {
			out = append(out, finding.Finding{ID: "build.compile-error", Severity: finding.Error, Message: d.Message, Path: j.Shown(j.rustcPath(d.Path)), Line: d.Line})
		}
	}
	for _, m := range j.missed {
		out = append(out, finding.Finding{ID: "proof.not-run", Severity: finding.Error, Message: m})
	}
	if f, ok := j.failure(end); ok {
		out = append(out, f)
	}
	return out
}

// proofFinding words a proof that did not succeed.
func proofFinding(p report.Program, counts bool) (finding.Finding, bool) {
	if p.Proof == nil || p.Proof.Verdict == report.Proved {
		return finding.Finding{}, false
	}
	f := finding.Finding{ID: "proof." + strings.ReplaceAll(p.Proof.Verdict, " ", "-"), Severity: finding.Warning, Message: p.Name + ": " + p.Proof.Why, Evidence: strings.Join(p.Proof.Lines, "\n")}
	if counts {
		f.Severity = finding.Error
	}
	return f, true
}

func isExit(err error) bool {
	_, ok := err.(*buildenv.ExitError)
	return ok
}

// compileErrorLines are rustc's first errors of a build that failed, a line each.
func (j *journey) compileErrorLines(end error) []string {
	if !isExit(end) {
		return nil
	}
	var out []string
	for _, d := range j.compileErrors {
		out = append(out, fmt.Sprintf("%s:%d: %s", j.Shown(j.rustcPath(d.Path)), d.Line, d.Message))
	}
	return out
}

// rustcPath makes a path of rustc's absolute: cargo starts it in the workspace's root.
func (j *journey) rustcPath(path string) string {
	if j.Host.IsAbs(path) {
		return path
	}
	return j.Host.Join(j.Project.Root, path)
}

// failure words an error that nothing else has put among the findings.
func (j *journey) failure(end error) (finding.Finding, bool) {
	f, ok := failure(end, j.Line.Verb)
	if ok && j.cause != nil {
		j.cause.Severity = finding.Error
		return *j.cause, true
	}
	f.Path = j.shownIf(f.Path)
	return f, ok
}

func (a *app) shownIf(path string) string {
	if path == "" {
		return ""
	}
	return a.Shown(path)
}

func failure(end error, verb string) (finding.Finding, bool) {
	var code exit.Code
	if end == nil || errors.As(end, &code) {
		return finding.Finding{}, false
	}
	f := finding.Finding{ID: "gpubuild.failed", Severity: finding.Error, Message: end.Error(), Fix: hintOf(end)}
	var conf *config.Error
	var toml *manifest.Error
	switch {
	case errors.As(end, &conf):
		f.ID, f.Path, f.Line, f.Message = "config.wrong", conf.Path, conf.Line, conf.Problem
		return f, true
	case errors.As(end, &toml):
		f.ID, f.Path, f.Line, f.Message = "config.wrong", toml.Path, toml.Line, toml.Message
		return f, true
	}
	if exit, ok := end.(*buildenv.ExitError); ok {
		f.ID = "build.failed"
		if verb == "run" || verb == "test" || verb == "bench" {
			f.ID = "run.failed"
		}
		f.Message = fmt.Sprintf("%s ended with %d", filepath.Base(exit.Cmd.Path), exit.Result.Code)
		return f, true
	}
	switch exit.Of(end) {
	case exit.Missing:
		f.ID = "toolchain.missing"
	case exit.Misfit:
		f.ID = "toolchain.misfit"
	case exit.Config:
		f.ID = "config.wrong"
	case exit.Usage:
		f.ID = "command.wrong"
	}
	return f, true
}
