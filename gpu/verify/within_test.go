package verify

import (
	"testing"

	"gpubuild/gpu/probe"
)

// TestTwoRefusedLoads: a program tries code for another device first, and that says nothing of a kernel that ran later; code that is refused
// after the kernel does, whatever was refused before.
func TestTwoRefusedLoads(t *testing.T) {
	load := func(correlation uint32) probe.Refusal {
		return probe.Refusal{RC: 209, Function: "cuModuleLoadData", Kind: probe.Code, Context: 1, Correlation: correlation}
	}
	for _, tt := range []struct {
		story string
		loads []probe.Refusal
		want  Kind
	}{
		{"both before it", []probe.Refusal{load(1), load(2)}, Proved},
		{"the later after it", []probe.Refusal{load(1), load(90)}, Unproved},
		{"the later is written first", []probe.Refusal{load(90), load(1)}, Unproved},
	} {
		e := proven()
		e.Processes[0].Refused = tt.loads
		for i := range e.Processes[0].Kernels {
			e.Processes[0].Kernels[i].Context, e.Processes[0].Kernels[i].Last = 1, 5
		}
		if v := Judge(e, Rules{}); v.Kind != tt.want {
			t.Errorf("%s: %s: %s", tt.story, v.Kind, v.Why)
		}
	}
}
