package report_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
)

// TestAssemble: the checks that a run came to, those that it did not, and what an exit code alone means for a program's proof.
func TestAssemble(t *testing.T) {
	checks := func(last string, err error) []finding.Check {
		var out []finding.Check
		for _, id := range []string{report.CheckReach, report.CheckToolchain, report.CheckStale, report.CheckBuild, report.CheckCode, report.CheckRun} {
			if id == last {
				return append(out, finding.Check{ID: id, Err: err})
			}
			out = append(out, finding.Check{ID: id})
		}
		return out
	}
	app := []report.Program{{Name: "app", Path: "/w/target/app", Kind: "bin"}}
	marked := []report.Program{{Name: "gpu", Path: "/w/gpu", Kind: "test", Marked: true}, {Name: "other", Path: "/w/other", Kind: "test"}}
	onCPU := []report.Program{{Name: "app", Path: "/w/target/app", Kind: "bin", Proof: &report.Proof{Verdict: verify.NotUsed.String(), Why: "nothing was launched"}}}
	ofTests := []report.Program{{Name: "small", Path: "/w/small", Kind: "test", Test: "a"}, {Name: "small", Path: "/w/small", Kind: "test", Test: "b::c"}}
	of := func(verb string, programs []report.Program) report.Result {
		return report.Result{Verb: verb, Programs: programs}
	}
	misfit := errors.New("gcc 15 is too new")
	tests := []struct {
		story  string
		stages report.Collected
		end    error
		want   string // id or name of each check, and its state
	}{
		{"no GPU work", report.Collected{Result: of("build", nil)}, nil, "build passed"},
		{"the toolchain does not fit", report.Collected{Result: of("build", nil), Judged: true, StageChecks: checks(report.CheckToolchain, misfit)}, misfit,
			"reach passed, toolchain failed: gcc 15 is too new, stale skipped, build skipped, device-code skipped"},
		{"a check that builds no program", report.Collected{Result: of("check", nil), Judged: true, StageChecks: checks(report.CheckCode, nil)}, nil,
			"reach passed, toolchain passed, stale passed, build passed, device-code passed"},
		{"a program of a build is not run", report.Collected{Result: of("build", app), Judged: true, StageChecks: checks(report.CheckCode, nil)}, nil,
			"reach passed, toolchain passed, stale passed, build passed, device-code passed, proof app skipped"},
		{"two tests of one program", report.Collected{Result: of("build", ofTests), Judged: true, StageChecks: checks(report.CheckBuild, nil)}, nil,
			"reach passed, toolchain passed, stale passed, build passed, device-code skipped, proof small a skipped, proof small b::c skipped"},
		{"a run on the CPU: the program ended well, its proof did not",
			report.Collected{Result: of("run", onCPU), Judged: true, StageChecks: checks(report.CheckRun, exit.Code(exit.NotUsed)),
				Proving: report.Proving{Asked: true}}, exit.Code(exit.NotUsed),
			"reach passed, toolchain passed, stale passed, build passed, device-code passed, run passed, proof app failed"},
		{"the program failed itself", report.Collected{Result: of("run", app), Judged: true, StageChecks: checks(report.CheckRun, exit.Code(3))}, exit.Code(3),
			"reach passed, toolchain passed, stale passed, build passed, device-code passed, run failed, proof app skipped"},
		{"of marked tests only those count", report.Collected{Result: of("test", marked), Judged: true, StageChecks: checks(report.CheckRun, exit.Code(exit.Unproved)), Proving: report.Proving{Asked: true, MarkedOnly: true}}, exit.Code(exit.Unproved),
			"reach passed, toolchain passed, stale passed, build passed, device-code passed, run passed, proof gpu failed, proof other skipped"},
	}
	m := &session.Machine{Shell: &console.Shell{}, Host: buildenv.Host{OS: buildenv.Linux, Cwd: "/w"}, Began: time.Unix(1700000000, 0)}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			r := report.Assemble(m, []string{tt.stages.Verb}, tt.stages, tt.end)
			var got []string
			for _, c := range r.Checks {
				says := c.Title() + " " + c.State
				if c.ID == report.CheckToolchain && c.State == report.Failed {
					says += ": " + c.Message
				}
				got = append(got, says)
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
			if r.Code != exit.Of(tt.end) || r.OK() != (tt.end == nil) {
				t.Errorf("exit code %d after %v", r.Code, tt.end)
			}
		})
	}
}

// TestProofNamesItsBackend: who reads a result need not guess from the adapter what was proved.
func TestProofNamesItsBackend(t *testing.T) {
	for backend, want := range map[probe.Backend]string{probe.Vulkan: `"backend":"vulkan"`, probe.CUDA: `"verdict":"unproved","launches"`} {
		text, err := json.Marshal(report.NewProof(proof.Proof{Evidence: verify.Evidence{Backend: backend}}))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%q: %s, %v", backend, text, err)
		}
	}
}

// lostPlace is an error with a finding of its own.
type lostPlace struct{}

func (lostPlace) Error() string     { return "lost" }
func (lostPlace) ExitCode() int     { return exit.Unproved }
func (lostPlace) FindingID() string { return "elsewhere.incomplete" }

// TestEndsHaveFindings: what the end of a command is called.
func TestEndsHaveFindings(t *testing.T) {
	t.Parallel()
	ended := &buildenv.ExitError{Cmd: buildenv.Cmd{Path: "/usr/bin/cargo"}, Result: buildenv.Result{Code: 101}}
	m := &session.Machine{Shell: &console.Shell{}, Host: buildenv.Host{OS: buildenv.Linux, Cwd: "/w"}, Began: time.Unix(1700000000, 0)}
	for _, tt := range []struct {
		story, verb string
		end         error
		want        string
	}{
		{"all is well", "build", nil, ""},
		{"stale, and not to be cleaned", "build", exit.Code(exit.Stale), "stale.found kern: nvcc"},
		{"what was stale was cleaned, and the proof failed", "run", exit.Code(exit.Unproved), ""},
		{"cargo builds", "build", ended, "build.failed cargo ended with 101"},
		{"cargo runs", "run", ended, "run.failed cargo ended with 101"},
		{"cargo tests", "test", ended, "run.failed cargo ended with 101"},
		{"cargo measures", "bench", ended, "run.failed cargo ended with 101"},
		{"no toolkit", "build", exit.Errorf(exit.Missing, "", "none"), "toolchain.missing none"},
		{"no toolkit that fits", "build", exit.Errorf(exit.Misfit, "", "none"), "toolchain.misfit none"},
		{"gpubuild.toml", "build", exit.Errorf(exit.Config, "", "no"), "config.wrong no"},
		{"the command line", "build", exit.Usagef("", "no"), "command.wrong no"},
		{"a wrong line of gpubuild.toml", "build", fmt.Errorf("app: %w", &config.Error{Path: "/w/gpubuild.toml", Problem: "no key"}), "config.wrong no key"},
		{"a place that was lost", "run", fmt.Errorf("app: %w", lostPlace{}), "elsewhere.incomplete app: lost"},
		{"anything else", "build", errors.New("no"), "gpubuild.failed no"},
		{"Ctrl-C", "build", fmt.Errorf("cargo: %w", context.Canceled), "gpubuild.failed interrupted"},
	} {
		stages := report.Collected{Result: report.Result{Verb: tt.verb, Stale: []string{"kern: nvcc"}}, Judged: true}
		var got []string
		for _, f := range report.Assemble(m, nil, stages, tt.end).Findings {
			got = append(got, f.ID+" "+f.Message)
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s: got %q, want %q", tt.story, text, tt.want)
		}
	}
}

// TestAResultThatCannotBeWritten is the error where there is no other.
func TestAResultThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	h, err := local.Host()
	noError(t, err)
	h.Cwd = t.TempDir()
	file := filepath.Join(h.Cwd, "missing", "result.json")
	for _, tt := range []struct {
		end  error
		want int
	}{{nil, exit.Usage}, {exit.Code(exit.Unreached), exit.Unreached}} {
		var said strings.Builder
		m := &session.Machine{Shell: &console.Shell{Out: io.Discard, Err: &said}, Host: h, Began: time.Unix(1700000000, 0)}
		o := report.Report{HasResult: true, Collected: report.Collected{Result: report.Result{Verb: "build"}}, Files: report.Files{JSON: &file}}
		if code := report.Finish(m, []string{"build"}, o, tt.end); code != tt.want || !strings.Contains(said.String(), "there is no directory") {
			t.Errorf("after %v: %d, %s", tt.end, code, said.String())
		}
	}
}

// TestMachineOfAResult is the other one where its programs ran there.
func TestMachineOfAResult(t *testing.T) {
	t.Parallel()
	h, err := local.Host()
	noError(t, err)
	h.Cwd = t.TempDir()
	h.Env = h.Env.Set("RUNNER_NAME", "laptop").Unset("SLURMD_NODENAME")
	file := filepath.Join(h.Cwd, "result.json")
	for host, want := range map[string]string{"": "laptop", "gpu-7, Slurm job 12": "gpu-7", "gpu-8": "gpu-8"} {
		m := &session.Machine{Shell: &console.Shell{Out: io.Discard, Err: io.Discard}, Host: h, Began: time.Unix(1700000000, 0)}
		ran := []report.Program{{Name: "app", Path: "/w/app", Kind: "bin", Proof: &report.Proof{Verdict: verify.NotUsed.String(), Host: host}}}
		o := report.Report{HasResult: true, Collected: report.Collected{Result: report.Result{Verb: "prove", Programs: ran}}, Files: report.Files{JSON: &file}}
		report.Finish(m, []string{"prove"}, o, nil)
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), `"machine": "`+want+`"`) {
			t.Errorf("%q: %v\n%s", host, err, text)
		}
	}
}

// TestHistoryHasResultsOnly: what a receipt alone shows has no time, and is not kept.
func TestHistoryHasResultsOnly(t *testing.T) {
	t.Parallel()
	h, err := local.Host()
	noError(t, err)
	h.Cwd = t.TempDir()
	m := &session.Machine{Shell: &console.Shell{}, Host: h}
	kept := at(samples()["proven"], "kept", began, nil)
	timeless := at(kept, "timeless", began, func(r *report.Result) { r.At = time.Time{} })
	noError(t, report.WriteHistory(m, "history", report.Join(observed(kept, timeless), nil)))
	text, err := os.ReadFile(filepath.Join(h.Cwd, "history", "history.json"))
	if err != nil || !strings.Contains(string(text), `"kept"`) || strings.Contains(string(text), `"timeless"`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestLongTextsOfFindings: foreign text of any length in a finding or a check is cut wherever JSON has it.
func TestLongTextsOfFindings(t *testing.T) {
	t.Parallel()
	m := &session.Machine{Shell: &console.Shell{}, Host: buildenv.Host{OS: buildenv.Linux, Cwd: "/w"}}
	long := strings.Repeat("x", 1<<20)
	found := []finding.Finding{{ID: "x", Severity: finding.Error, Message: long, Fix: long}}
	for story, data := range map[string]any{
		"an answer": json.RawMessage(hosttest.Must(report.Envelope("features", false, found, struct{}{}))(t)),
		"a result": report.Assemble(m, []string{"build"}, report.Collected{Result: report.Result{Verb: "build"}, Judged: true,
			StageChecks: []finding.Check{{ID: report.CheckToolchain, Err: errors.New(long)}}}, exit.Code(10)),
	} {
		if text := hosttest.Must(json.Marshal(data))(t); len(text) > 10_000 || !strings.Contains(string(text), "(1048576 bytes)") {
			t.Errorf("%s: %d bytes: %.300s", story, len(text), text)
		}
	}
}
