package proof

import (
	"testing"

	"gpubuild/gpu/verify"
)

// TestEndedForTime: only where every failure is our own signal, and cargo's code is that program's, is the run's failure not its own.
func TestEndedForTime(t *testing.T) {
	well, failed := verify.Exit{}, verify.Exit{Code: 3}
	over, trapped := verify.Exit{Code: 130, Signal: "SIGINT", TimedOut: true}, verify.Exit{Code: 0, TimedOut: true}
	tests := []struct {
		story string
		ends  []verify.Exit
		code  int
		want  bool
	}{
		{"its time was over", []verify.Exit{over}, 130, true},
		{"one of two", []verify.Exit{well, over}, 130, true},
		{"cargo fails for another reason", []verify.Exit{over}, 101, false},
		{"another program failed by itself", []verify.Exit{failed, over}, 130, false},
		{"it failed in its time", []verify.Exit{failed}, 3, false},
		{"it ended well when it was asked to", []verify.Exit{trapped}, 101, false},
		{"nothing was proven", nil, 130, false},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			var proofs []Proof
			for _, e := range tt.ends {
				proofs = append(proofs, Proof{Evidence: verify.Evidence{Exit: e}})
			}
			if got := endedForTime(proofs, tt.code); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
