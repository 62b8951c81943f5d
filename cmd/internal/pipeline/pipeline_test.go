package pipeline

import (
	"context"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

func lineOf(t *testing.T, words ...string) cargo.Line {
	t.Helper()
	line, _ := hosttest.Must2(cargo.Split(words, nil))(t)
	return line
}

// TestWhichLinesRunPrograms: only those can be watched, and only those need the verdict of a run.
func TestWhichLinesRunPrograms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words []string
		runs  bool
	}{
		{[]string{"run"}, true}, {[]string{"test"}, true}, {[]string{"bench"}, true}, {[]string{"test", "--no-run"}, false},
		{[]string{"build"}, false}, {[]string{"check"}, false}, {[]string{"nextest", "run"}, true},
	} {
		c := Command{Line: lineOf(t, tt.words...), Machine: &session.Machine{}}
		hosttest.Equal(t, c.line().Starts(), tt.runs, tt.words, "runs is")
		c.Options.Watch = true
		if tt.runs {
			continue
		}
		if _, err := Dispatch(context.Background(), c); exit.Of(err) != exit.Usage {
			t.Errorf("%q: --gpu-watch is accepted", tt.words)
		}
	}
}

// TestWithoutGPUWorkAProofIsMissing only if one was asked for, on a command that is judged, or in CI by the configuration.
func TestWithoutGPUWorkAProofIsMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words string
		ci    string
		bin   string // of the [prove] table
		o     Options
		want  bool
	}{
		{"build", "", "", Options{}, false},
		{"build", "", "", Options{Proof: proof.Options{Wanted: true}}, true},
		{"run", "", "", Options{Proof: proof.Options{Required: true}}, true},
		{"build", "", "", Options{Audit: true}, true},
		{"doc", "", "", Options{Proof: proof.Options{Required: true}}, false},
		{"run", "", "", Options{}, false},
		{"run", "true", "", Options{}, true},
		{"run", "false", "", Options{}, false},
		{"build", "true", "", Options{}, false},
		{"test", "true", "", Options{}, true},
		{"nextest run", "true", "", Options{}, true},
		{"test --no-run", "true", "", Options{}, false},
		{"bench", "true", "", Options{}, false}, // nothing is marked
		{"run", "true", "", Options{Proof: proof.Options{AllowNoDevice: true}}, false},
		{"run", "true", "", Options{Proof: proof.Options{ExpectCPU: true}}, false},
		{"run", "true", "app", Options{}, true},
		{"run --bin app", "true", "app", Options{}, true},
		{"run --bin other", "true", "app", Options{}, false},
	} {
		m := &session.Machine{Host: buildenv.Host{Env: buildenv.Env{}.Set("CI", tt.ci)}}
		c := Command{Line: lineOf(t, strings.Fields(tt.words)...), Options: tt.o, Machine: m}
		s := &session.Session{Machine: m, Line: c.line()}
		s.Config.Prove.Value, s.Config.Test.Value = &config.Prove{Bin: tt.bin}, &config.Tested{Marked: config.Marked{GPU: []string{"app"}}}
		if got := c.demandsProof(s); got != tt.want {
			t.Errorf("%s with CI=%q, bin %q and %+v: %v, want %v", tt.words, tt.ci, tt.bin, tt.o.Proof, got, tt.want)
		}
	}
}

// TestStandInRelease: a crate's build script must know the release of the stand-in.
func TestStandInRelease(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]toolchain.Needs{
		"13.0": {},
		"12.6": {CudarcMax: gpu.Version{Major: 12, Minor: 6}},
		"12.3": {CudarcMax: gpu.Version{Major: 12, Minor: 6}, Pin: gpu.Version{Major: 12, Minor: 3}},
	} {
		hosttest.Equal(t, standInRelease(n), want, n)
	}
	hosttest.Equal(t, standInRelease(toolchain.Needs{CudarcMax: gpu.Version{Major: 13, Minor: 4}}), "13.0", "a newer limit")
}

// TestAWatchReplacesOnlyASuccess: the program's own end comes first.
func TestAWatchReplacesOnlyASuccess(t *testing.T) {
	t.Parallel()
	hot := &gpu.Summary{Alerts: []gpu.Alert{{Kind: gpu.AlertKinds[0]}}, FailOn: gpu.AlertKinds[:1]}
	if ended, err := judgeWatch(hot, nil); !ended || exit.Of(err) != exit.Alert {
		t.Errorf("a success: %v, %v", ended, err)
	}
	if ended, err := judgeWatch(hot, exit.Code(3)); ended || exit.Of(err) != 3 {
		t.Errorf("a failure: %v, %v", ended, err)
	}
	if ended, err := judgeWatch(nil, nil); ended || err != nil {
		t.Errorf("not watched: %v, %v", ended, err)
	}
}

// TestAProvenProgramHasOneReceipt: that of its proof.
func TestAProvenProgramHasOneReceipt(t *testing.T) {
	t.Parallel()
	r := Result{
		Proof: proof.Result{Proofs: []proof.Proof{{Program: "/app", Receipt: &receipt.Receipt{Gpubuild: "its own"}}}},
		Built: cargorun.Built{Programs: []cargorun.Program{{Path: "/app", Kind: "bin"}}},
	}
	list, err := r.receipts(Command{Line: lineOf(t, "build"), Machine: &session.Machine{}})
	if err != nil || len(list) != 1 || list[0].Gpubuild != "its own" {
		t.Errorf("%d receipts, %v", len(list), err)
	}
}

// TestTheBackendThatIsAskedForIsProven: else that of the features.
func TestTheBackendThatIsAskedForIsProven(t *testing.T) {
	t.Parallel()
	wgpu := Result{Features: reach.Judged{Reach: &features.Reach{
		Roots: []features.Root{{Crates: []features.CrateState{{Backend: "wgpu", On: true}}}}}}}
	if !wgpu.Features.Reach.UsesVulkan() {
		t.Fatal("the features do not enable Vulkan")
	}
	c := Command{Machine: &session.Machine{}, Line: lineOf(t, "build")}
	hosttest.Equal(t, (Plan{Command: c}).proofRequest(nil, wgpu).Given.Backend, probe.Vulkan, "of the features")
	c.Options.Proof.BackendGiven, c.Options.Proof.Backend = true, probe.CUDA
	hosttest.Equal(t, (Plan{Command: c}).proofRequest(nil, wgpu).Given.Backend, probe.CUDA, "asked for")
}

// TestCargoHadNothingToDo: what makes a build that nothing has changed for another one after all.
func TestCargoHadNothingToDo(t *testing.T) {
	t.Parallel()
	kept := noopBuild{Programs: map[string]string{}, Scripts: map[string]fresh.Before{"/t/out": {Ran: 1}}}
	h := hosttest.Must(hosttest.Parse([]byte("os: linux\n")))(t)
	m := &session.Machine{Host: h}
	for _, tt := range []struct {
		story string
		built cargorun.Built
		want  bool
	}{
		{"nothing", cargorun.Built{Messages: []cargo.Message{{Reason: cargo.Artifact, Fresh: true}}}, true},
		{"it compiled", cargorun.Built{Messages: []cargo.Message{{Reason: cargo.Artifact}}}, false},
		{"it ran a script", cargorun.Built{Messages: []cargo.Message{{Reason: cargo.ScriptExecuted, OutDir: "/t/out"}}}, false},
		{"it waited for another cargo", cargorun.Built{Waited: true}, false},
	} {
		hosttest.Equal(t, kept.same(m, tt.built), tt.want, tt.story)
	}
	if kept.Programs["/t/app"] = "another"; kept.same(m, cargorun.Built{}) {
		t.Error("a program is gone")
	}
}
