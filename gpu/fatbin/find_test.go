package fatbin

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFindFindsAll compares find with a look at every byte, for pieces of any length that begin and end anywhere.
func TestFindFindsAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"\x50\xed\x55\xba", "\x7fELF\x02\x01", ".version", ".target", "\xed", "\x7f", ".", ".v", ".t", "\x7fELF\x02", ".versio", ".targe", "\xed\x55\xba", "\x50\xed\x55", "x", "\x00", "some words between"}
	seen := map[hitKind]int{}
	for round := range 3000 {
		var data []byte
		for len(data) < round%300 {
			data = append(data, words[r.IntN(len(words))]...)
		}
		from := r.IntN(len(data) + 1)
		data = data[from : from+r.IntN(len(data)-from+1)]
		var want []hit
		for i := range data {
			for _, b := range begins {
				if bytes.HasPrefix(data[i:], b.text) {
					want = append(want, hit{1000 + int64(i), b.kind})
					seen[b.kind]++
				}
			}
		}
		if got := find(data, 1000, nil); !slices.Equal(got, want) {
			t.Fatalf("%q: got %v, want %v", data, got, want)
		}
		if got := find(data, 1000, []hit{{5, elfHit}}); len(got) != len(want)+1 || got[0] != (hit{5, elfHit}) {
			t.Fatalf("it does not append: %v", got)
		}
	}
	for _, kind := range []hitKind{fatbinHit, elfHit, ptxHit} {
		if seen[kind] < 100 {
			t.Errorf("kind %d was met %d times", kind, seen[kind])
		}
	}
}
