package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/gpu/probe"
)

// TestRecordsCutAtEveryByte: what is left of an orderly record, however short, never says that nothing was launched, and proves only where the whole
// line of the launch is left. The same of two records, of which one process wrote into the other's.
func TestRecordsCutAtEveryByte(t *testing.T) {
	head := `{"event":"injected","version":1,"pid":7,"ppid":6,"started":99,"exe":"/x/app","exe_device":1,"exe_inode":2}` + "\n" +
		`{"event":"recording","cupti":130500,"libcupti":"/x/libcupti.so.13","libcuda":"/usr/lib/libcuda.so.1","driver":13000,"callbacks":0,"drivers":[]}` + "\n"
	device := `{"event":"device","ordinal":0,"uuid":"` + uuid + `","name":"H200","major":9,"minor":0}` + "\n" +
		`{"event":"driver","drivers":["/usr/lib/libcuda.so.1"],"nodes":["/dev/nvidia0"]}` + "\n"
	kernel := `{"event":"kernel","name":"matmul","device":0,"context":1,"stream":7,"grid":[2,2,1],"block":[16,16,1],"start":10,"end":14}` + "\n"
	end := `{"event":"end","flush":0,"kernels":1,"unfinished":0,"dropped":0,"accepted":1,"lost_writes":0}` + "\n"
	waited := `{"event":"waited","context":1,"function":"cuCtxSynchronize","correlation":9}` + "\n"
	judged := func(text string) Verdict {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "7-99.jsonl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := probe.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		e := proven()
		e.After, e.Processes = &Control{Outcome: ControlRecorded, Real: true}, nil
		e.BadLines, e.CutFiles, e.LostFiles, e.Truncated = r.Bad, r.Cut, r.Lost, r.Truncated
		for _, p := range r.Processes {
			e.Processes = append(e.Processes, Process{Process: p, Self: p.ExeInode == 2, Real: true})
		}
		return Judge(e, Rules{})
	}
	for _, order := range [][]string{{head, device, kernel, waited, end}, {head, kernel, waited, device, end}} {
		whole := strings.Join(order, "")
		launched := strings.Index(whole, waited) + len(waited)
		described := strings.Index(whole, device) + strings.Index(device, "\n") + 1
		for n := range len(whole) + 1 {
			want := Unproved
			if n >= launched && n >= described {
				want = Proved
			}
			if v := judged(whole[:n]); v.Kind != want {
				t.Fatalf("%d of %d bytes: %s: %s, want %s\n%s", n, len(whole), v.Kind, v.Why, want, whole[:n])
			}
		}
		// What another process of the same number wrote stands in the middle of ours, or the other way round.
		other := strings.Replace(strings.Replace(whole, `"exe_inode":2`, `"exe_inode":3`, 1), "/x/app", "/x/other", 1)
		silent := head + strings.Replace(end, `"kernels":1,"unfinished":0,"dropped":0,"accepted":1`, `"kernels":0,"unfinished":0,"dropped":0,"accepted":0`, 1)
		if v := judged(silent); v.Kind != NotUsed {
			t.Fatalf("%s: %s", v.Kind, v.Why)
		}
		mixed := 0
		for _, at := range lineEnds(other) {
			for _, cut := range lineEnds(silent) {
				// other's first lines, ours up to a line, the rest of other, the rest of ours
				v := judged(other[:at] + silent[:cut] + other[at:] + silent[cut:])
				if v.Kind == Proved || v.Kind == NotUsed || v.Kind == OtherKernels {
					t.Errorf("%s, of a binary that launched nothing and another process that did: %d, %d", v.Kind, at, cut)
				}
				mixed++
			}
		}
		if mixed < 15 {
			t.Errorf("only %d mixtures", mixed)
		}
	}
}

// lineEnds returns where each line of text ends, and its beginning.
func lineEnds(text string) []int {
	out := []int{0}
	for i, c := range text {
		if c == '\n' {
			out = append(out, i+1)
		}
	}
	return out
}
