package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/local"
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

// TestAForeignCUPTI: the records of another CUPTI than the one that was asked for prove nothing; by another name it is the same file.
func TestAForeignCUPTI(t *testing.T) {
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ours, theirs, link := filepath.Join(dir, "libcupti.so.13"), filepath.Join(dir, "libcupti.so.12"), filepath.Join(dir, "libcupti.so")
	for _, f := range []string{ours, theirs} {
		if err := os.WriteFile(f, []byte(f), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(ours, link); err != nil {
		t.Fatal(err)
	}
	recorded := func(by string) (out Process) {
		out.Pid, out.Recording, out.LibCUPTI = 7, true, by
		return out
	}
	for _, by := range []string{ours, link} {
		if got := within(h, recorded(by), ours); len(got) > 0 {
			t.Errorf("%s: %v", by, got)
		}
	}
	got := within(h, recorded(theirs), ours)
	if len(got) != 1 || !got[0].Against || !strings.Contains(got[0].What, theirs+" instead of "+ours) {
		t.Fatalf("%v", got)
	}
	e := proven()
	e.Conflicts = got
	if v := Judge(e, Rules{}); v.Kind != Unproved || v.Why != got[0].What {
		t.Errorf("%s: %s", v.Kind, v.Why)
	}
}
