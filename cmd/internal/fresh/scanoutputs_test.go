package fresh

import (
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/gpu"
)

func TestNotBuilt(t *testing.T) {
	s := &State{gpu: []features.ScriptUnit{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "b", Features: []string{"x"}}}}
	if got := s.notBuilt([]string{"a", "c"}); !slices.Equal(got, []string{"b"}) {
		t.Errorf("not built: %q", got)
	}
}

// TestFaultLines: device code is told in one line where no reason of the same package says as much already, and what may stay is not.
func TestFaultLines(t *testing.T) {
	s := &State{
		compared: stale.Result{Reasons: []stale.Reason{{Package: "reasoned"}}, Unknown: []stale.Doubt{{Unit: stale.Unit{Package: "unknown"}}}},
		faults: []Fault{{Package: "reasoned", State: codeCleaned, Message: "1"}, {Package: "unknown", State: codeCleaned, Message: "2"}, {Package: "kept", State: codeAccepted, Message: "3"},
			{Package: "wrong", State: codeWrong, Message: "4"}, {Package: "old", State: codeCleaned, Message: "5"}, {Package: "old", State: codeCleaned, Message: "5"}},
	}
	if got := s.faultLines(); !slices.Equal(got, []string{"4", "5"}) {
		t.Errorf("told: %q", got)
	}
	if w := s.wrongFault(); w == nil || w.Package != "wrong" {
		t.Errorf("wrong: %+v", w)
	}
}

// TestHoldsLines: what is in two places is told once.
func TestHoldsLines(t *testing.T) {
	sm90, err := gpu.ParseArch("sm_90")
	if err != nil {
		t.Fatal(err)
	}
	twice := stale.Code{File: "a.o", Kernel: "k", Kernels: 2, Makes: []stale.Make{{Kind: "cubin", Arch: sm90, NVCC: "13.4.92"}, {Kind: "ptx", Arch: sm90, PTX: "9.4"}}}
	got := holdsLines([]stale.Code{twice, twice})
	if want := "a.o: kernel k and 1 more: sm_90 code from nvcc 13.4.92|a.o: kernel k and 1 more: PTX 9.4 for sm_90"; strings.Join(got, "|") != want {
		t.Errorf("got %q", got)
	}
}
