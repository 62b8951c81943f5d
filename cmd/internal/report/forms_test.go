package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// TestForms: which forms of a result a command line writes. What is not known yet, because nothing came of it or somebody interrupted it, is
// not written; an error before the result is, but for a receipt.
func TestForms(t *testing.T) {
	t.Parallel()
	h, err := local.Host()
	noError(t, err)
	interrupted := fmt.Errorf("cargo: %w", context.Canceled)
	all := "json junit receipt sarif"
	for story, tt := range map[string]struct {
		made, annotated, answered, actions bool
		asked                              string
		end                                error
		written                            string
		code                               int
	}{
		"all forms":                         {true, true, false, false, all, nil, all, 0},
		"none":                              {true, true, false, false, "", nil, "", 0},
		"only JSON":                         {true, true, false, false, "json", nil, "json", 0},
		"only SARIF":                        {true, true, false, false, "sarif", nil, "sarif", 0},
		"only JUnit":                        {true, true, false, false, "junit", nil, "junit", 0},
		"only a receipt":                    {true, true, false, false, "receipt", nil, "receipt", 0},
		"made, and then interrupted":        {true, true, false, false, all, interrupted, all, 130},
		"nothing to say":                    {false, true, false, false, all, nil, "", 0},
		"interrupted before":                {false, true, false, true, all, interrupted, "", 130},
		"an error before":                   {false, true, false, false, all, exit.Errorf(exit.Missing, "", "none"), "json junit sarif", exit.Missing},
		"an error before, and answered":     {false, true, true, false, all, exit.Errorf(exit.Missing, "", "none"), "junit sarif", exit.Missing},
		"an error of a verb without result": {false, false, false, false, all, exit.Errorf(exit.Missing, "", "none"), "json", exit.Missing},
		"on GitHub Actions":                 {true, true, false, true, "", nil, "summary", 0},
		"on GitHub Actions, without result": {true, false, false, true, "", nil, "", 0},
	} {
		dir := t.TempDir()
		h := h
		h.Cwd, h.Env = dir, h.Env.Set("PATH", "").Set("RUNNER_NAME", "laptop").Unset("GITHUB_ACTIONS").Set("GITHUB_STEP_SUMMARY", filepath.Join(dir, "summary"))
		if tt.actions {
			h.Env = h.Env.Set("GITHUB_ACTIONS", "true")
		}
		var said, out bytes.Buffer
		m := &session.Machine{Shell: &console.Shell{Out: &out, Err: &said}, Host: h, Began: began, JSONWritten: &atomic.Bool{}}
		m.JSONWritten.Store(tt.answered)
		found := []finding.Finding{{ID: "features.unreached", Severity: finding.Error, Message: "not reached"}}
		o := report.Report{HasResult: tt.made, Annotated: tt.annotated, Collected: report.Collected{Result: report.Result{Verb: "build", Findings: found}}}
		for form, to := range map[string]*string{"sarif": &o.Files.SARIF, "junit": &o.Files.JUnit, "receipt": &o.Files.Receipt} {
			if strings.Contains(tt.asked, form) {
				*to = filepath.Join(dir, form)
			}
		}
		if name := filepath.Join(dir, "json"); strings.Contains(tt.asked, "json") {
			o.Files.JSON = &name
		}
		one := receipt.Unproven("devel", receipt.Binary{Path: "/x/app", SHA256: "abc"}, h.Env)
		o.Receipts = func() ([]receipt.Receipt, error) { return []receipt.Receipt{one, one}, nil }
		if code := report.Finish(m, []string{"build"}, o, tt.end); code != tt.code {
			t.Errorf("%s: exit code %d", story, code)
		}
		if tt.end != nil && strings.Count(said.String(), "none") > 1 {
			t.Errorf("%s: %s", story, said.String())
		}
		if (strings.Contains(said.String(), "::error")) != (tt.written == "summary") {
			t.Errorf("%s: annotations:\n%s", story, said.String())
		}
		written := map[string]string{}
		entries, err := os.ReadDir(dir)
		noError(t, err)
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			noError(t, err)
			written[e.Name()] = string(text)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(written)), " "); got != tt.written {
			t.Errorf("%s: %q, want %q", story, got, tt.written)
		}
		if text := written["json"]; text != "" && (!json.Valid([]byte(text)) || !tt.made && !strings.Contains(text, fmt.Sprintf(`"exit_code": %d`, tt.code))) {
			t.Errorf("%s: %s", story, text)
		}
		if text := written["receipt"]; text != "" {
			r, err := receipt.Decode([]byte(text))
			if err != nil || !r.Intact() || len(r.More) != 1 || !r.Time.Equal(began) || !strings.Contains(string(r.Result), `"build"`) ||
				r.Origin.Machine != receipt.Hidden([]string{"laptop"})[0] || strings.Contains(text, "laptop") {
				t.Errorf("%s: %v\n%s", story, err, text)
			}
		}
	}
}

// TestReceiptsThatCannotBe: an error of theirs is the command's, and no receipt is no file.
func TestReceiptsThatCannotBe(t *testing.T) {
	t.Parallel()
	h, err := local.Host()
	noError(t, err)
	for _, err := range []error{nil, errors.New("it changed")} {
		h.Cwd = t.TempDir()
		m := &session.Machine{Shell: &console.Shell{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}, Host: h, Began: began}
		file := filepath.Join(h.Cwd, "receipt")
		o := report.Report{HasResult: true, Collected: report.Collected{Result: report.Result{Verb: "run"}}, Files: report.Files{Receipt: file},
			Receipts: func() ([]receipt.Receipt, error) { return nil, err }}
		if code := report.Finish(m, []string{"run"}, o, nil); (code != 0) != (err != nil) {
			t.Errorf("%v: %d", err, code)
		}
		if _, gone := os.Stat(file); gone == nil {
			t.Errorf("%v: there is a receipt", err)
		}
	}
}

// TestPathsOfFindings: SARIF names files below the checkout, or else below the repository; any other by its whole path.
func TestPathsOfFindings(t *testing.T) {
	t.Parallel()
	local, err := local.Host()
	noError(t, err)
	top := local.Real(t.TempDir())
	for _, dir := range []string{".git", "w/app", "other"} {
		noError(t, os.MkdirAll(filepath.Join(top, filepath.FromSlash(dir)), 0o755))
	}
	noError(t, os.WriteFile(filepath.Join(top, ".git", "HEAD"), nil, 0o644))
	in := func(name string) string { return filepath.Join(top, filepath.FromSlash(name)) }
	for story, tt := range map[string]struct {
		cwd, workspace, project, path, want string
	}{
		"below the repository":            {in("w"), "", "app/Cargo.toml", "app/src/a.rs", "w/app/src/a.rs"},
		"below the checkout":              {in("w"), in("w"), "app/Cargo.toml", "app/src/a.rs", "app/src/a.rs"},
		"below the project's checkout":    {in("other"), in("w"), in("w/app/Cargo.toml"), in("w/app/src/a.rs"), "app/src/a.rs"},
		"another checkout":                {in("w"), in("other"), "app/Cargo.toml", "app/src/a.rs", "w/app/src/a.rs"},
		"outside":                         {in("w"), in("w"), "app/Cargo.toml", in("other/a.rs"), in("other/a.rs")},
		"no file, of a project":           {in("w"), in("w"), "app/Cargo.toml", "", "app/Cargo.toml"},
		"no file, and no project":         {in("w"), "", "", "", "w/gpubuild.toml"},
		"without a project, in the other": {in("other"), "", "", "a.rs", "other/a.rs"},
	} {
		h := local
		h.Cwd, h.Env = tt.cwd, h.Env.Set("PATH", "").Set("GITHUB_WORKSPACE", tt.workspace).Unset("GITHUB_ACTIONS")
		m := &session.Machine{Shell: &console.Shell{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}, Host: h, Began: began}
		r := report.Result{Verb: "build", Project: tt.project, Findings: []finding.Finding{{ID: "a.b", Severity: finding.Error, Message: "x", Path: tt.path}}}
		file := filepath.Join(t.TempDir(), "sarif")
		report.Finish(m, []string{"build"}, report.Report{HasResult: true, Collected: report.Collected{Result: r}, Files: report.Files{SARIF: file}}, nil)
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), `"`+tt.want+`"`) && !strings.Contains(string(text), `"`+(&url.URL{Scheme: "file", Path: tt.want}).String()+`"`) {
			t.Errorf("%s: no %s in %v\n%s", story, tt.want, err, text)
		}
	}
}

// TestWordsOfChecks: what each check says, and what it does not.
func TestWordsOfChecks(t *testing.T) {
	t.Parallel()
	const reach, tools, stale, build, code, run = report.CheckReach, report.CheckToolchain, report.CheckStale, report.CheckBuild, report.CheckCode, report.CheckRun
	made := func(err error, ids ...string) (out []finding.Check) {
		for i, id := range ids {
			out = append(out, finding.Check{ID: id})
			if i == len(ids)-1 {
				out[i].Err = err
			}
		}
		return out
	}
	failed := exit.Code(exit.Stale)
	ended := &buildenv.ExitError{Cmd: buildenv.Cmd{Path: "/usr/bin/cargo"}, Result: buildenv.Result{Code: 101}}
	cause := &finding.Finding{ID: "explain.x", Message: "cause", Fix: "fix"}
	app := func(p *report.Proof) []report.Program {
		return []report.Program{{Name: "app", Path: "/w/app", Kind: "bin", Proof: p}}
	}
	for story, tt := range map[string]struct {
		stages report.Collected
		result report.Result
		end    error
		check  string
		want   string // STATE: message | detail; empty: there is no such check
	}{
		"not reached after a failure":      {report.Collected{StageChecks: made(errors.New("misfit"), reach, tools)}, report.Result{}, errors.New("misfit"), stale, "skipped: not reached: toolchain failed"},
		"not reached, and nothing failed":  {report.Collected{StageChecks: made(nil, reach, tools)}, report.Result{}, context.Canceled, stale, "skipped: not reached"},
		"what the features enable":         {report.Collected{StageChecks: made(nil, reach), Reach: "app: cuda"}, report.Result{}, nil, reach, "passed: app: cuda"},
		"what the features do not enable":  {report.Collected{StageChecks: made(failed, reach), Reach: "app: cuda"}, report.Result{Findings: []finding.Finding{{Severity: finding.Warning, Message: "w"}, {Severity: finding.Error, Message: "e"}}}, failed, reach, "failed: e"},
		"errors of what is reached":        {report.Collected{StageChecks: made(nil, reach), Reach: "app: cuda"}, report.Result{Findings: []finding.Finding{{Severity: finding.Error, Message: "e"}}}, nil, reach, "passed: app: cuda"},
		"the tools":                        {report.Collected{StageChecks: made(nil, reach, tools)}, report.Result{Set: &report.Set{Toolkit: "13.4", Compiler: "gcc 12", Arch: "sm_90"}}, nil, tools, "passed: CUDA 13.4, gcc 12, sm_90"},
		"nothing stale":                    {report.Collected{StageChecks: made(nil, reach, tools, stale)}, report.Result{}, nil, stale, "passed: nothing is stale"},
		"what was cleaned":                 {report.Collected{StageChecks: made(nil, reach, tools, stale)}, report.Result{Stale: []string{"a: nvcc"}, Cleaned: []string{"a", "b"}}, nil, stale, "passed: cleaned a, b"},
		"what is stale":                    {report.Collected{StageChecks: made(failed, reach, tools, stale)}, report.Result{Stale: []string{"a: nvcc", "b: gcc"}, Cleaned: []string{"a"}}, failed, stale, "failed: a: nvcc; b: gcc"},
		"one program of two proofs":        {report.Collected{StageChecks: made(nil, build)}, report.Result{Programs: append(app(nil), app(nil)...)}, nil, build, "passed: 1 program"},
		"a build that has no proof's code": {report.Collected{StageChecks: made(exit.Code(exit.NotUsed), build)}, report.Result{}, exit.Code(exit.NotUsed), build, "failed: 0 programs"},
		"a failed build with its cause":    {report.Collected{StageChecks: made(ended, build), Cause: cause}, report.Result{}, ended, build, "failed: " + ended.Error() + " | cause\nfix"},
		"a build that succeeded":           {report.Collected{StageChecks: made(nil, build), Cause: cause}, report.Result{}, nil, build, "passed: 0 programs"},
		"the cause is the build's":         {report.Collected{StageChecks: made(failed, stale), Cause: cause}, report.Result{Stale: []string{"a"}}, failed, stale, "failed: a"},
		"rustc's errors": {report.Collected{StageChecks: made(ended, build), Root: "/w", CompileErrors: []cargo.Diagnostic{{Message: "one", Path: "src/a.rs", Line: 3}, {Message: "two", Path: "/x/b.rs"}}}, report.Result{}, ended,
			build, "failed: src/a.rs:3: one | src/a.rs:3: one\n/x/b.rs: two"},
		"rustc's errors of a check":       {report.Collected{StageChecks: made(ended, reach, build), Root: "/w", CompileErrors: []cargo.Diagnostic{{Message: "one", Path: "src/a.rs", Line: 3}}}, report.Result{}, ended, reach, "passed"},
		"a run that was explained":        {report.Collected{StageChecks: made(exit.Code(3), run)}, report.Result{Verb: "run", Findings: []finding.Finding{{ID: "other.x", Message: "no"}, {ID: "explain.x", Message: "why", Evidence: "as seen", Fix: "fix"}}}, exit.Code(3), run, "failed | why\nas seen\nfix"},
		"a run that ended well":           {report.Collected{StageChecks: made(nil, run)}, report.Result{Verb: "run", Findings: []finding.Finding{{ID: "explain.x", Message: "why"}}}, nil, run, "passed"},
		"clippy proves nothing":           {report.Collected{StageChecks: made(nil, code)}, report.Result{Verb: "clippy", Programs: app(nil)}, nil, report.CheckProof, ""},
		"check proves nothing":            {report.Collected{StageChecks: made(nil, code)}, report.Result{Verb: "check", Programs: app(nil)}, nil, report.CheckProof, ""},
		"nothing was to be proven":        {report.Collected{}, report.Result{Verb: "build", Programs: app(nil)}, nil, report.CheckProof, "skipped: nothing was run"},
		"no GPU":                          {report.Collected{Proving: report.Proving{Asked: true}}, report.Result{Verb: "run", Programs: app(nil)}, nil, report.CheckProof, "skipped: " + report.NoGPU},
		"no proof for another reason":     {report.Collected{Proving: report.Proving{Asked: true, WhyNone: "no probe"}}, report.Result{Verb: "run", Programs: app(nil)}, nil, report.CheckProof, "skipped: no probe"},
		"a proof that was required":       {report.Collected{Proving: report.Proving{Required: true}}, report.Result{Verb: "run", Programs: app(nil)}, nil, report.CheckProof, "failed: nothing was run"},
		"proven":                          {report.Collected{Proving: report.Proving{Asked: true}}, report.Result{Verb: "run", Programs: app(&report.Proof{Verdict: verify.Proved.String(), Device: "H200", Lines: []string{"a", "b"}})}, nil, report.CheckProof, "passed: ran its kernel on H200 | a\nb"},
		"proven, where it was required":   {report.Collected{Proving: report.Proving{Required: true}}, report.Result{Verb: "run", Programs: app(&report.Proof{Verdict: verify.Proved.String(), Device: "H200"})}, exit.Code(exit.Unproved), report.CheckProof, "passed: ran its kernel on H200"},
		"not proven":                      {report.Collected{Proving: report.Proving{Asked: true}}, report.Result{Verb: "run", Programs: app(&report.Proof{Verdict: verify.NotUsed.String(), Why: "why", Lines: []string{"a"}})}, nil, report.CheckProof, "skipped: not used: why | a"},
		"a watch that ended it otherwise": {report.Collected{EndedByWatch: true}, report.Result{Verb: "other", Checks: []report.Check{{ID: "own", State: report.Passed, Message: "kept"}}}, exit.Code(1), "own", "passed: kept"},
	} {
		m := &session.Machine{Shell: &console.Shell{}, Host: buildenv.Host{OS: buildenv.Linux, Cwd: "/w"}, Began: time.Unix(1700000000, 0)}
		if tt.stages.Result, tt.stages.Judged = tt.result, true; tt.stages.Verb == "" {
			tt.stages.Verb = "build"
		}
		got := ""
		for _, c := range report.Assemble(m, nil, tt.stages, tt.end).Checks {
			if c.ID == tt.check {
				got = strings.TrimSuffix(c.State+": "+c.Message, ": ")
				if c.Detail != "" {
					got += " | " + c.Detail
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", story, got, tt.want)
		}
	}
}

// TestFindingsOfTheEnd: what the stages left without a finding gets one, where the command ended by it.
func TestFindingsOfTheEnd(t *testing.T) {
	t.Parallel()
	ended := &buildenv.ExitError{Cmd: buildenv.Cmd{Path: "/usr/bin/cargo"}, Result: buildenv.Result{Code: 101}}
	lost := report.Program{Name: "app", Source: "/w/src/main.rs", Proof: &report.Proof{Verdict: verify.Unproved.String(), Why: "lost", Finding: "elsewhere.unreachable"}}
	proved := func(k verify.Kind, asked report.Proving) report.Collected {
		program := report.Program{Name: "app", Proof: &report.Proof{Verdict: k.String(), Why: "why"}}
		return report.Collected{Judged: true, Proving: asked, Result: report.Result{Programs: []report.Program{program}}}
	}
	errors := []cargo.Diagnostic{{Message: "one", Path: "src/a.rs", Line: 3}, {Message: "two", Path: "/x/b.rs"}}
	for story, tt := range map[string]struct {
		stages report.Collected
		end    error
		want   string // ID PATH severity of each
	}{
		"the configuration":             {report.Collected{Judged: true}, fmt.Errorf("here: %w", &config.Error{Path: "/w/gpubuild.toml", Line: 3, Problem: "no"}), "config.wrong gpubuild.toml error"},
		"the cause of a build":          {report.Collected{Judged: true, Cause: &finding.Finding{ID: "explain.x", Severity: finding.Note}}, ended, "explain.x  error"},
		"a cause, and no failure":       {report.Collected{Judged: true, Cause: &finding.Finding{ID: "explain.x"}}, nil, ""},
		"no GPU":                        {report.Collected{Judged: true, Proving: report.Proving{WhyNone: report.NoGPU}}, exit.Code(exit.Unproved), "proof.no-device  error"},
		"no proof":                      {report.Collected{Judged: true, Proving: report.Proving{WhyNone: "no probe"}}, exit.Code(exit.Unproved), "proof.unproved  error"},
		"no proof, and ended otherwise": {report.Collected{Judged: true, Proving: report.Proving{WhyNone: "no probe"}}, exit.Code(3), ""},
		"a place":                       {report.Collected{Judged: true, Result: report.Result{Programs: []report.Program{lost}}}, nil, "elsewhere.unreachable /w/src/main.rs error"},
		"proven":                        {proved(verify.Proved, report.Proving{Required: true}), nil, ""},
		"not proven":                    {proved(verify.NotUsed, report.Proving{}), nil, "proof.not-used  warning"},
		"not proven, and required":      {proved(verify.NotUsed, report.Proving{Required: true}), nil, "proof.not-used  error"},
		"not proven, and ended by it":   {proved(verify.NotUsed, report.Proving{}), exit.Code(exit.NotUsed), "proof.not-used  error"},
		"ended by one that is marked":   {proved(verify.NotUsed, report.Proving{MarkedOnly: true}), exit.Code(exit.NotUsed), "proof.not-used  warning"},
		"ended by an audit":             {proved(verify.NotUsed, report.Proving{EndedByAudit: true}), exit.Code(exit.NotUsed), "proof.not-used  warning"},
		"marks that were missed":        {report.Collected{Judged: true, Proving: report.Proving{Missed: []string{"a"}}}, nil, "proof.not-run  " + finding.RuleOf("proof.not-run").Severity},
		"rustc's errors":                {report.Collected{Judged: true, Root: "/w", CompileErrors: errors}, ended, "build.compile-error src/a.rs error, build.compile-error /x/b.rs error, build.failed  error"},
		"errors of a build that ended":  {report.Collected{Judged: true, Root: "/w", CompileErrors: errors}, nil, ""},
		"without GPU work":              {report.Collected{CompileErrors: errors}, ended, "build.failed  error"},
	} {
		m := &session.Machine{Shell: &console.Shell{}, Host: buildenv.Host{OS: buildenv.Linux, Cwd: "/w"}, Began: time.Unix(1700000000, 0)}
		tt.stages.Verb = "build"
		var got []string
		for _, f := range report.Assemble(m, nil, tt.stages, tt.end).Findings {
			got = append(got, f.ID+" "+f.Path+" "+f.Severity)
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", story, text, tt.want)
		}
	}
}
