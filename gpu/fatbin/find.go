package fatbin

import (
	"bytes"
	"cmp"
	"slices"
)

// begins are what fatbins, 64-bit ELF files and PTX begin with.
var begins = []struct {
	kind hitKind
	text []byte
}{{fatbinHit, []byte("\x50\xed\x55\xba")}, {elfHit, []byte("\x7fELF\x02\x01")}, {ptxHit, []byte(".target")}, {ptxHit, []byte(".version")}}

// find appends what may begin in data, which lies at base, in order. A hit in the overlap of two pieces is found twice at most.
func find(data []byte, base int64, hits []hit) []hit {
	began := len(hits)
	for _, b := range begins {
		for at := 0; ; at++ {
			n := bytes.Index(data[at:], b.text)
			if n < 0 {
				break
			}
			at += n
			hits = append(hits, hit{base + int64(at), b.kind})
		}
	}
	slices.SortFunc(hits[began:], func(a, b hit) int { return cmp.Compare(a.off, b.off) })
	return hits
}
