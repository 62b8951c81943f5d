package fatbin

import (
	"bytes"
	"cmp"
	"slices"
)

// Each thing is looked for by one byte of it, which the processor's wide registers find, and then by the others: of the fatbin's magic
// number 50 ED 55 BA by ED, which is rare in machine code; an ELF file by 7F; PTX by the dot of .version and .target.
const (
	fatbinByte = 0xed
	elfByte    = 0x7f
	ptxByte    = '.'
)

// match looks at a candidate: one of those three bytes, which lies at i of data.
func match(data []byte, i int) (kind hitKind, at int, ok bool) {
	switch data[i] {
	case fatbinByte:
		return fatbinHit, i - 1, i > 0 && i+2 < len(data) && data[i+1] == 0x55 && data[i+2] == 0xba && data[i-1] == 0x50
	case elfByte:
		return elfHit, i, i+5 < len(data) && data[i+1] == 'E' && string(data[i:i+6]) == "\x7fELF\x02\x01"
	case ptxByte:
		if i+6 >= len(data) || data[i+1] != 'v' && data[i+1] != 't' {
			return 0, 0, false
		}
		return ptxHit, i, string(data[i:i+7]) == ".target" || i+7 < len(data) && string(data[i:i+8]) == ".version"
	}
	return 0, 0, false
}

const blockSize = 32 << 10 // each byte is looked for in a block while it is in the nearest cache

// find appends what may begin in data, which lies at base, in order. A hit in the overlap of two pieces is found twice at most.
func find(data []byte, base int64, hits []hit) []hit {
	began := len(hits)
	for at := 0; at < len(data); at += blockSize {
		block := data[at:min(at+blockSize, len(data))]
		for _, b := range []byte{fatbinByte, elfByte, ptxByte} {
			for i := 0; ; i++ {
				n := bytes.IndexByte(block[i:], b)
				if n < 0 {
					break
				}
				i += n
				if kind, off, ok := match(data, at+i); ok {
					hits = append(hits, hit{base + int64(off), kind})
				}
			}
		}
	}
	slices.SortFunc(hits[began:], func(a, b hit) int { return cmp.Compare(a.off, b.off) })
	return hits
}
