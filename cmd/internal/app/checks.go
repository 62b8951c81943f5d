package app

import (
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
)

func (j *journey) reachedCheck(id string) bool {
	for _, c := range j.checks {
		if c.ID == id {
			return true
		}
	}
	return false
}

// roadChecks are the walk's checks with words, those that were not reached, and one for each program's proof.
func (j *journey) roadChecks(programs []report.Program, end error) []report.Check {
	if !j.walked {
		return []report.Check{endCheck(report.CheckBuild, end)}
	}
	var out []report.Check
	stopped := ""
	for _, id := range []string{report.CheckReach, report.CheckToolchain, report.CheckStale, report.CheckBuild, report.CheckCode} {
		c := report.Check{ID: id, State: report.Skipped}
		for _, made := range j.checks {
			if made.ID == id {
				c = made
			}
		}
		switch {
		case c.State == report.Skipped:
			c.Message = "not reached"
			if stopped != "" {
				c.Message += ": " + stopped + " failed"
			}
		case c.State == report.Failed:
			stopped = id
		}
		if c.State != report.Skipped && c.Message == "" {
			c.Message = j.stepWords(id, c.State)
		}
		if id == report.CheckBuild && c.State == report.Failed && j.cause != nil {
			c.Detail = strings.TrimSpace(j.cause.Message + "\n" + j.cause.Fix)
		}
		out = append(out, c)
	}
	if j.Line.Verb == "check" || j.Line.Verb == "clippy" {
		return out
	}
	for _, c := range j.checks {
		if c.ID == checkRun {
			out = append(out, c)
		}
	}
	out = append(out, auditChecks(j.audited, j.Host.Base(j.auditedProgram)+" ")...)
	code := exit.Of(end)
	for _, p := range programs {
		c := report.Check{ID: report.CheckProof, Name: p.Name, State: report.Skipped, Message: "nothing was run"}
		required := j.required(p, code)
		switch {
		case p.Proof == nil && j.proofAsked():
			c.Message = orWord(j.notProven, "no GPU here")
		case p.Proof == nil:
		case p.Proof.Verdict == report.Proved:
			c.State, c.Message = report.Passed, "ran its kernel on "+p.Proof.Device
		default:
			c.Message = p.Proof.Verdict + ": " + p.Proof.Why
		}
		if p.Proof != nil {
			c.Detail = strings.Join(p.Proof.Lines, "\n")
		}
		if c.State == report.Skipped && required {
			c.State = report.Failed
		}
		out = append(out, c)
	}
	return out
}

// proofAsked says whether this run was to prove something.
func (j *journey) proofAsked() bool {
	switch j.Line.Verb {
	case "run", "test", "bench":
		return !j.Line.NoRun
	}
	return j.options.Prove || j.Config.Prove.Value != nil
}

// stepWords says in a line what a step came to.
func (j *journey) stepWords(id, state string) string {
	switch id {
	case report.CheckReach:
		for _, f := range j.findings {
			if state == report.Failed && f.Severity == finding.Error {
				return f.Message
			}
		}
		if j.reach != nil {
			return strings.Join(reachLines(j.reach), "; ")
		}
	case report.CheckToolchain:
		if s := j.setResult(); s != nil {
			var words []string
			for _, w := range []string{prefixed("CUDA ", s.Toolkit), s.Compiler, prefixed("cuDNN ", s.CUDNN), s.Arch} {
				if w != "" {
					words = append(words, w)
				}
			}
			return strings.Join(words, ", ")
		}
	case report.CheckStale:
		if state == report.Failed {
			return strings.Join(j.staleLines(), "; ")
		}
		if list := j.cleanedPackages(); len(list) > 0 {
			return "cleaned " + strings.Join(list, ", ")
		}
		return "nothing is stale"
	case report.CheckBuild:
		return report.Count(len(j.programs), "program")
	case report.CheckCode:
		return "what was built is from the tools and for the architecture that were asked for"
	}
	return ""
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// endCheck is a check of something that has no other words than its error.
func endCheck(id string, err error) report.Check {
	if err == nil {
		return report.Check{ID: id, State: report.Passed}
	}
	return report.Check{ID: id, State: report.Failed, Message: err.Error()}
}

// withFailure sees to it that what ended badly has a check that failed: a reader of JUnit looks at nothing else.
func withFailure(checks []report.Check, verb string, end error) []report.Check {
	if exit.Of(end) == exit.Done {
		return checks
	}
	for _, c := range checks {
		if c.State == report.Failed {
			return checks
		}
	}
	return append(checks, endCheck(orWord(verb, report.CheckBuild), end))
}
