package verify

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/gpu/probe"
)

// What a user reads of a verdict: which kernels ran and whether they count, and what to do about what is missing.
func TestWhatIsSaidOfAVerdict(t *testing.T) {
	for _, tt := range []struct {
		story string
		from  func() Evidence
		spoil func(*Evidence)
		rules Rules
		want  []string
		not   string
	}{
		{"proven", proven, nil, Rules{}, []string{"ran: 3 launches of matmul, 3µs on the device", "where: H200 (" + uuid + ", capability 9.0), driver 580.65.06"}, "missing"},
		{"on the CPU", silent, nil, Rules{}, []string{"where: this machine has H200", "next: check that CUDA is enabled (gpubuild features)"}, "missing"},
		{"another kernel", other, nil, Rules{}, []string{"ran: 3 launches of other kernels: relu", "if relu is the kernel, name it: --kernel '^relu$'", "below [prove], [test] or [bench]: kernel = '^relu$'"}, ""},
		{"two other kernels", other, func(e *Evidence) {
			e.Processes[0].Kernels = append(e.Processes[0].Kernels, e.Processes[0].Kernels[0])
			e.Processes[0].Kernels[1].Name = "softmax"
		}, Rules{}, []string{"if one of them is the kernel, name it: --kernel '^relu$' or --kernel '^softmax$' ("}, ""},
		{"the product in a child", proven, func(e *Evidence) { e.Processes[0].Self = false }, Rules{},
			[]string{"ran: 3 launches, of which none counts: matmul (in a child)", "let it count: --child app"}, "other kernels"},
		{"the product on another device", proven, nil, Rules{Device: "1"}, []string{"ran: 3 launches, of which none counts: matmul", "ask for it, or for none: --gpu-device"}, "--kernel"},
		{"_exit", other, func(e *Evidence) { e.Processes[0].End = nil }, Rules{}, []string{"Let it return from main or call exit"}, ""},
		{"its status", proven, func(e *Evidence) { e.Exit.Code = 3 }, Rules{}, []string{"next: The exit code 3 is the program's own, and no verdict. If it is to end so: --expect-exit 3 (--gpu-expect-exit on cargo's verbs)"}, ""},
		{"its status, and a child", proven, func(e *Evidence) { e.Exit.Code, e.Processes[0].Self = 3, false }, Rules{}, []string{"--expect-exit 3"}, "--child"},
		{"a signal", proven, func(e *Evidence) { e.Exit.Code, e.Exit.Signal = 139, "SIGSEGV" }, Rules{}, []string{"self-test of the recorder: gpubuild's own kernel ran"}, "--expect-exit"},
		{"no time", proven, func(e *Evidence) { e.Exit.TimedOut, e.Exit.Signal = true, "SIGKILL" }, Rules{}, []string{"more time with --timeout"}, ""},
		{"no room", silent, func(e *Evidence) { e.LostFiles = 1 }, Rules{}, []string{"GPUBUILD_CACHE"}, ""},
		{"a device that somebody opened", silent, func(e *Evidence) { e.Watch.Nodes = []string{"/dev/nvidiactl"} }, Rules{}, []string{"Keep the environment of what it starts"}, ""},
		{"children", idle, func(e *Evidence) { e.Watch.Children = true }, Rules{}, []string{"start no process before the program has its context"}, ""},
		{"nothing waited", proven, func(e *Evidence) { e.Processes[0].Kernels[0].Waited = 0 }, Rules{}, []string{"next: Let it wait for its kernels"}, ""},
		{"a fork of it", fork(0), func(e *Evidence) { e.Launcher = false }, Rules{}, []string{"let it count: --child app"}, ""},
		{"another root", silent, func(e *Evidence) { e.Watch.Seen[0].OwnRoot = true }, Rules{}, []string{"runs in there by itself"}, ""},
		{"hidden", silent, func(e *Evidence) { e.Control.Outcome, e.Hidden = ControlNoDevice, "CUDA_VISIBLE_DEVICES=" }, Rules{}, []string{"run it without that setting"}, "a machine with a GPU"},
		{"a stub", silent, func(e *Evidence) {
			e.Control.Outcome, e.Control.Why = ControlFailed, "cuInit: the driver could not be initialised (CUDA error 34: "+refusals[34].what+")"
		}, Rules{}, []string{"Take the stub's directory out of LD_LIBRARY_PATH"}, ""},
		{"no device", silent, func(e *Evidence) { e.Control.Outcome = ControlNoDevice }, Rules{}, []string{"prove on a machine with a GPU"}, ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			e := tt.from()
			e.After = &Control{Outcome: ControlRecorded, Real: true}
			if tt.spoil != nil {
				tt.spoil(&e)
			}
			v := Judge(e, tt.rules)
			text := strings.Join(v.Lines, "\n")
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %q in\n%s", v.Kind, want, text)
				}
			}
			if tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("%s: %q in\n%s", v.Kind, tt.not, text)
			}
			if len(v.Lines) > 6 {
				t.Errorf("%d lines", len(v.Lines))
			}
		})
	}
}

// Each refusal of CUPTI's that a machine may answer has a remedy of its own.
func TestRemediesOfCUPTI(t *testing.T) {
	seen := map[string]int{}
	for _, rc := range []int{33, 40, 41, 43, 45} {
		u := probe.Unavailable{Step: "enable", RC: rc, Why: "CUPTI_ERROR_X"}
		e := Evidence{Control: Control{Outcome: ControlUnrecorded}}
		r := remedy(e, summary{}, Verdict{Kind: Unproved, Why: "the positive control ran, but was not recorded: CUPTI could not record: " + u.String()})
		if other, ok := seen[r]; r == "" || ok {
			t.Errorf("%d: %q, as %d", rc, r, other)
		}
		seen[r] = rc
	}
}

// .ci/gpu says at once that there is no GPU.
func TestGPUScriptWithoutGPU(t *testing.T) {
	for _, node := range []string{"/dev/nvidiactl", "/dev/dxg"} {
		if _, err := os.Stat(node); err == nil {
			need.Missing(t, "no-gpu", "there is a GPU here")
		}
	}
	bash := need.Tool(t, "bash")
	out, err := exec.Command(bash, filepath.Join("..", "..", ".ci", "gpu"), "run", t.TempDir(), t.TempDir()).CombinedOutput()
	var exited *exec.ExitError
	if !errors.As(err, &exited) || exited.ExitCode() != 21 || !strings.Contains(string(out), "there is no NVIDIA GPU here") {
		t.Errorf("%v: %s", err, out)
	}
}
