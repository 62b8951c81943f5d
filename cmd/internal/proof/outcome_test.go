package proof

import (
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
)

// The exit code of a proof: the program's own where it failed by itself, else the verdict's.
func TestOutcomeOfAProof(t *testing.T) {
	tests := []struct {
		story    string
		kind     verify.Kind
		exit     verify.Exit
		expected int
		gpu, cpu error // where the GPU, where the CPU was to be used
	}{
		{"proven", verify.Proved, verify.Exit{}, 0, nil, exit.Code(exit.OtherKernels)},
		{"on the CPU", verify.NotUsed, verify.Exit{}, 0, exit.Code(exit.NotUsed), nil},
		{"other kernels", verify.OtherKernels, verify.Exit{}, 0, exit.Code(exit.OtherKernels), exit.Code(exit.OtherKernels)},
		{"it could not be told", verify.Unproved, verify.Exit{}, 0, exit.Code(exit.Unproved), exit.Code(exit.Unproved)},
		{"no device", verify.NoDevice, verify.Exit{}, 0, exit.Code(exit.Unproved), exit.Code(exit.Unproved)},
		{"it failed", verify.Unproved, verify.Exit{Code: 3}, 0, exit.Code(3), exit.Code(3)},
		{"it failed as expected", verify.Proved, verify.Exit{Code: 3}, 3, nil, exit.Code(exit.OtherKernels)},
		{"it should have failed", verify.Unproved, verify.Exit{}, 3, exit.Code(exit.Unproved), exit.Code(exit.Unproved)},
		{"a signal", verify.Unproved, verify.Exit{Code: 139, Signal: "SIGSEGV"}, 0, exit.Killed{Code: 139}, exit.Killed{Code: 139}},
		{"its time was over: the signal was ours", verify.Unproved, verify.Exit{Code: 130, TimedOut: true}, 0, exit.Code(exit.Unproved), exit.Code(exit.Unproved)},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			p := Proof{Verdict: verify.Verdict{Kind: tt.kind}, Evidence: verify.Evidence{Ran: true, Exit: tt.exit}}
			if got := Outcome(p, tt.expected, false); got != tt.gpu {
				t.Errorf("where the GPU was to be used: %v, want %v", got, tt.gpu)
			}
			if got := Outcome(p, tt.expected, true); got != tt.cpu {
				t.Errorf("where the CPU was to be used: %v, want %v", got, tt.cpu)
			}
		})
	}
}

// TestEveryVerdictHasACode: a verdict that the table lacks would exit with 0.
func TestEveryVerdictHasACode(t *testing.T) {
	for _, k := range verify.Kinds() {
		if (k.Code(false) == 0) != (k == verify.Proved) || (k.Code(true) == 0) != (k == verify.NotUsed) {
			t.Errorf("%s: %d, %d", k, k.Code(false), k.Code(true))
		}
	}
}

// TestInCI: services set the variable; people switch it off by a word.
func TestInCI(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "1": true, "woodpecker": true, "": false, "0": false, "false": false, "False": false} {
		h := buildenv.Host{OS: buildenv.Linux, Env: buildenv.NewEnv(buildenv.Linux, []string{"CI=" + value})}
		if got := inCI(&session.Machine{Host: h}); got != want {
			t.Errorf("CI=%s: %v", value, got)
		}
	}
}
