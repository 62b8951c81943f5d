package report

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/audit"
	"gpubuild/gpu"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

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
