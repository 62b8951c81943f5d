package buildenv

import "testing"

func FuzzParseStat(f *testing.F) {
	f.Add("12 (a) b) (c) S 3 12 12 0 -1 4194560 3337 2725901 0 411 0 3 3479 1218 20 0 1 0 77 0 0")
	f.Add("12 (")
	f.Fuzz(func(t *testing.T, text string) { ParseStat(text) })
}

func TestParseStat(t *testing.T) {
	got, ok := ParseStat("42 (a) b (c)) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 0 0\n")
	if !ok || got != (ProcStat{Parent: 7, Started: 9876, Ended: true}) {
		t.Errorf("%+v %v", got, ok)
	}
	for _, bad := range []string{"", "42", "42 (a)", "42 (a) R x", "42 R 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 0 0"} {
		if _, ok := ParseStat(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}
