package report_test

import (
	"slices"
	"testing"
	"time"

	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/verify"
)

// TestStatusOfRuns: what the results of a row come to, the newest run first, of which each has several commands.
func TestStatusOfRuns(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	build := []report.Check{{ID: report.CheckBuild, State: report.Passed}}
	proofs := func(kinds ...verify.Kind) (out []report.Program) {
		for _, k := range kinds {
			out = append(out, report.Program{Name: "app", Proof: &report.Proof{Verdict: k.String(), Why: "of " + k.String(), Device: k.String()}})
		}
		return out
	}
	made := func(second int, verb string, code int, checks []report.Check, programs ...report.Program) report.Result {
		r := report.Result{Verb: verb, Command: []string{verb}, Row: "row", Code: code, Checks: checks, Programs: programs, Origin: &origin.Origin{}}
		if second > 0 {
			r.At = start.Add(time.Duration(second) * time.Second)
		}
		return r
	}
	in := func(o origin.Origin, r report.Result) report.Result {
		r.Origin = &o
		return r
	}
	skipped := []report.Check{{ID: report.CheckReach, State: report.Passed}, {ID: report.CheckBuild, State: report.Skipped}}
	ci := func(attempt int) origin.Origin { return origin.Origin{Run: "1", Attempt: attempt} }
	of := func(part string, r report.Result) report.Result {
		r.Command = append(r.Command, "-p", part)
		return in(origin.Origin{Commit: "a"}, r)
	}
	ends := func(check, name, state, says string) []report.Check {
		return append(build[:1:1], report.Check{ID: check, Name: name, State: state, Message: says})
	}
	stale := []report.Check{{ID: report.CheckStale, State: report.Failed}}
	strange := report.Program{Name: "unit", Proof: &report.Proof{Verdict: "superb"}}
	broken := []report.Check{{ID: report.CheckBuild, State: report.Failed, Message: "no"}}
	for story, tt := range map[string]struct {
		results       []report.Result
		status        report.Status
		why           string
		counted, runs int // results, and runs of them that say anything
	}{
		"two of no time":                     {[]report.Result{made(0, "build", 0, build), made(0, "build", 0, build)}, report.StatusCompiled, "", 2, 2},
		"two commands at the same time":      {[]report.Result{made(1, "build", 0, build), made(1, "check", 0, build)}, report.StatusCompiled, "", 2, 2},
		"one command at the same time":       {[]report.Result{made(1, "build", 0, build), made(1, "build", 0, build)}, report.StatusCompiled, "", 1, 1},
		"what says nothing counts as none":   {[]report.Result{made(1, "run", 0, build, proofs(verify.Proved)...), made(2, "stale", 0, nil)}, report.StatusProven, "", 2, 1},
		"two commits":                        {[]report.Result{in(origin.Origin{Commit: "a"}, made(1, "build", 0, build)), in(origin.Origin{Commit: "b"}, made(2, "check", 0, build))}, report.StatusCompiled, "", 2, 2},
		"one commit, two commands":           {[]report.Result{in(origin.Origin{Commit: "a"}, made(1, "build", 0, build)), in(origin.Origin{Commit: "a"}, made(2, "check", 0, build))}, report.StatusCompiled, "", 2, 1},
		"one commit, here and by CI":         {[]report.Result{in(origin.Origin{Commit: "a"}, made(1, "build", 0, build)), in(origin.Origin{Commit: "a", Run: "1"}, made(2, "check", 0, build))}, report.StatusCompiled, "", 2, 2},
		"one commit, by CI and here":         {[]report.Result{in(origin.Origin{Commit: "a", Run: "1"}, made(1, "build", 0, build)), in(origin.Origin{Commit: "a"}, made(2, "check", 0, build))}, report.StatusCompiled, "", 2, 2},
		"one run of CI, another commit":      {[]report.Result{in(origin.Origin{Commit: "a", Run: "1"}, made(1, "build", 0, build)), in(origin.Origin{Commit: "b", Run: "1"}, made(2, "check", 0, build))}, report.StatusCompiled, "", 2, 1},
		"a run's proof, before its build":    {[]report.Result{in(origin.Origin{Run: "1"}, made(1, "run", 0, build, proofs(verify.Proved)...)), in(origin.Origin{Run: "1"}, made(2, "build", 0, build))}, report.StatusProven, "", 2, 1},
		"a run's proof, behind its build":    {[]report.Result{in(origin.Origin{Run: "1"}, made(2, "run", 0, build, proofs(verify.Proved)...)), in(origin.Origin{Run: "1"}, made(1, "build", 0, build))}, report.StatusProven, "", 2, 1},
		"a run's failure, behind its proof":  {[]report.Result{in(origin.Origin{Run: "1"}, made(1, "run", 0, build, proofs(verify.Proved)...)), in(origin.Origin{Run: "1"}, made(2, "build", 101, broken))}, report.StatusFailed, "build: no", 2, 1},
		"a run's failure, before its proof":  {[]report.Result{in(origin.Origin{Run: "1"}, made(2, "run", 0, build, proofs(verify.Proved)...)), in(origin.Origin{Run: "1"}, made(1, "build", 101, broken))}, report.StatusFailed, "build: no", 2, 1},
		"proven, and a build that failed":    {[]report.Result{made(1, "run", 101, broken, proofs(verify.Proved)...)}, report.StatusFailed, "build: no", 1, 1},
		"built, and no proof":                {[]report.Result{made(1, "run", 21, build)}, report.StatusCompiled, "", 1, 1},
		"not built, and no proof":            {[]report.Result{made(1, "run", 21, skipped)}, report.StatusNone, "", 1, 0},
		"a proof of another command":         {[]report.Result{made(1, "prove", 0, nil)}, report.StatusNone, "", 1, 0},
		"a check that failed":                {[]report.Result{made(1, "doctor", 1, nil)}, report.StatusFailed, "it ended with 1", 1, 1},
		"a check that passed":                {[]report.Result{made(1, "doctor", 0, nil)}, report.StatusChecked, "", 1, 1},
		"of two programs the second is":      {[]report.Result{made(1, "test", 0, build, proofs(verify.NotUsed, verify.Proved)...)}, report.StatusProven, "", 1, 1},
		"it was to run on the CPU":           {[]report.Result{made(1, "run", 0, build, proofs(verify.NotUsed)...)}, report.StatusNoProof, "of " + verify.NotUsed.String(), 1, 1},
		"other kernels stay other kernels":   {[]report.Result{made(1, "run", 0, build, proofs(verify.OtherKernels)...)}, report.StatusOther, "of " + verify.OtherKernels.String(), 1, 1},
		"a proof that does not hold":         {[]report.Result{made(1, "prove", 0, nil, proofs(verify.Unproved)...)}, report.StatusUnproved, "of " + verify.Unproved.String(), 1, 1},
		"so said prove":                      {[]report.Result{made(1, "prove", 0, nil, proofs(verify.NoDevice)...)}, report.StatusNoProof, "of " + verify.NoDevice.String(), 1, 1},
		"of two, each was to be":             {[]report.Result{made(1, "test", 20, build, proofs(verify.NotUsed, verify.Proved)...)}, report.StatusCPU, "of " + verify.NotUsed.String(), 1, 1},
		"of two, each was to be, the second": {[]report.Result{made(1, "test", 20, build, proofs(verify.Proved, verify.NotUsed)...)}, report.StatusCPU, "of " + verify.NotUsed.String(), 1, 1},
		"a program before one without proof": {[]report.Result{made(1, "test", 0, build, append(proofs(verify.Proved), report.Program{Name: "unit"})...)}, report.StatusProven, "", 1, 1},
		"one of the tests of a program": {[]report.Result{made(1, "test", 20, build, report.Program{Name: "app", Kind: "test", Test: "a::b", Proof: &report.Proof{Verdict: verify.NotUsed.String(), Why: "why"}})},
			report.StatusCPU, "app a::b: why", 1, 1},
		"no checks, and it ended well":                   {[]report.Result{made(1, "build", 0, nil)}, report.StatusCompiled, "", 1, 1},
		"fix compiles, too":                              {[]report.Result{made(1, "fix", 0, nil)}, report.StatusCompiled, "", 1, 1},
		"doc that failed":                                {[]report.Result{made(1, "rustdoc", 101, nil)}, report.StatusFailed, "it ended with 101", 1, 1},
		"rustc builds, too":                              {[]report.Result{made(1, "rustc", 0, nil)}, report.StatusCompiled, "", 1, 1},
		"no checks, and it did not":                      {[]report.Result{made(1, "build", 101, nil)}, report.StatusFailed, "it ended with 101", 1, 1},
		"a verdict of another version":                   {[]report.Result{made(1, "test", 0, build, append(proofs(verify.Proved), strange)...)}, report.StatusProven, "", 1, 1},
		"run again in one run of CI":                     {[]report.Result{in(ci(1), made(1, "build", 101, broken)), in(ci(1), made(2, "build", 0, build))}, report.StatusCompiled, "", 2, 1},
		"another attempt of a run of CI":                 {[]report.Result{in(ci(1), made(1, "build", 101, broken)), in(ci(2), made(2, "check", 0, build))}, report.StatusCompiled, "", 2, 2},
		"the graver of a run's failures":                 {[]report.Result{in(ci(1), made(1, "run", 20, build, proofs(verify.NotUsed)...)), in(ci(1), made(2, "build", 101, broken))}, report.StatusFailed, "build: no", 2, 1},
		"what a build would clean":                       {[]report.Result{made(1, "stale", 13, stale)}, report.StatusNone, "", 1, 0},
		"an alert that fails a run":                      {[]report.Result{made(1, "run", 23, ends(report.CheckWatch, "throttle", report.Failed, "slow"))}, report.StatusFailed, "watch throttle: slow", 1, 1},
		"watched, without an alert":                      {[]report.Result{made(1, "run", 0, ends(report.CheckWatch, "throttle", report.Passed, ""))}, report.StatusCompiled, "", 1, 1},
		"a proof demanded and not made":                  {[]report.Result{made(1, "build", 21, ends(report.CheckProof, "app", report.Failed, "no GPU"), report.Program{Name: "app"})}, report.StatusUnproved, "no GPU", 1, 1},
		"a proof not demanded and not made":              {[]report.Result{made(1, "build", 0, ends(report.CheckProof, "app", report.Skipped, "no GPU"), report.Program{Name: "app"})}, report.StatusNoProof, "no GPU", 1, 1},
		"run without a GPU":                              {[]report.Result{made(1, "run", 0, ends(report.CheckProof, "app", report.Skipped, report.NoGPU), report.Program{Name: "app"})}, report.StatusNoProof, report.NoGPU, 1, 1},
		"built without a GPU":                            {[]report.Result{made(1, "build", 0, ends(report.CheckProof, "app", report.Skipped, report.NoGPU), report.Program{Name: "app"})}, report.StatusNoProof, report.NoGPU, 1, 1},
		"built, and nothing was run":                     {[]report.Result{made(1, "build", 0, ends(report.CheckProof, "app", report.Skipped, "nothing was run"), report.Program{Name: "app"})}, report.StatusNoProof, "nothing was run", 1, 1},
		"built here, and proven on a machine with a GPU": {[]report.Result{in(origin.Origin{Run: "1"}, made(2, "build", 0, ends(report.CheckProof, "app", report.Skipped, report.NoGPU))), in(origin.Origin{Run: "1"}, made(1, "prove", 0, nil, proofs(verify.Proved)...))}, report.StatusProven, "", 2, 1},
		"another command succeeds later":                 {[]report.Result{of("a", made(1, "test", 1, broken)), of("a", made(6, "build", 0, build))}, report.StatusFailed, "build: no", 2, 1},
		"the same one succeeds later":                    {[]report.Result{of("a", made(1, "test", 1, broken)), of("a", made(6, "build", 0, build)), of("a", made(9, "test", 0, build))}, report.StatusCompiled, "", 3, 2},
		"two commands in one second":                     {[]report.Result{of("a", made(1, "build", 1, broken)), of("b", made(1, "build", 0, build))}, report.StatusFailed, "build: no", 2, 1},
	} {
		for range 2 { // in whichever order the files come
			rows := report.Join(observed(tt.results...), nil)
			if r := rows[0]; len(rows) != 1 || r.Status != tt.status || r.Why != tt.why || r.Results != tt.counted || r.Runs != tt.runs {
				t.Errorf("%s: %q, %q, %d results, %d runs", story, r.Status, r.Why, r.Results, r.Runs)
			}
			slices.Reverse(tt.results)
		}
	}
}

// TestRowIsOfTheNewest: what was built, and with what, is the newest result's that says so.
func TestRowIsOfTheNewest(t *testing.T) {
	t.Parallel()
	s := samples()["proven"]
	day := func(n int, set *report.Set, features *report.Features) report.Result {
		return at(s, "r", began.AddDate(0, 0, n), func(r *report.Result) { r.Set, r.Features = set, features })
	}
	asked := func(f string) *report.Features { return &report.Features{Asked: []string{f}} }
	for _, part := range []report.Set{{Toolkit: "13"}, {Arch: "sm_90"}, {Driver: "580"}, {Compiler: "gcc"}} {
		rows := report.Join(observed(day(1, &report.Set{Toolkit: "old"}, asked("old")), day(3, nil, nil), day(2, &part, asked("new"))), nil)
		if r := rows[0]; r.Set != part || !slices.Equal(r.Features, []string{"new"}) {
			t.Errorf("%+v: %+v, %q", part, r.Set, r.Features)
		}
	}
	// A row that comes and goes is behind those that are red now, and before the others.
	now := func(row string, n int, change func(*report.Result)) report.Result {
		return at(s, row, began.AddDate(0, 0, n), change)
	}
	rows := report.Join(observed(now("a-good", 1, nil), now("b-flaky", 1, nil), now("b-flaky", 2, cpu), now("b-flaky", 3, nil), now("c-red", 1, cpu)), nil)
	if rows[0].ID != "c-red" || rows[1].ID != "b-flaky" || !rows[1].Flaky || rows[2].ID != "a-good" {
		t.Errorf("%+v", rows)
	}
}
