package explain

// minLiteral is the shortest literal text that may bring a line to be looked at.
const minLiteral = 7

// searcher finds many literal texts in one pass. It is Wu and Manber's method ("A fast algorithm for
// multi-pattern searching", 1994): of each literal a window of minLiteral bytes is taken, and a table over
// the last three bytes of the place looked at says how far no window can end, so that most bytes are never
// read. Aho and Corasick's automaton was the other choice; it reads every byte, and was slower than grep.
type searcher struct {
	shift   [1 << 16]uint8
	bucket  [1 << 16][]window // of a hash whose shift is 0
	longest int
}

// window is the part of a literal that is searched for.
type window struct {
	literal int
	offset  int // of the window in the literal
	text    string
}

func hash(a, b, c byte) uint16 { return uint16(a) ^ uint16(b)<<4 ^ uint16(c)<<9 ^ uint16(b)>>3 }

// newSearcher needs literals of at least minLiteral bytes.
func newSearcher(literals []string) *searcher {
	s := &searcher{}
	for i := range s.shift {
		s.shift[i] = minLiteral - 2
	}
	for i, l := range literals {
		s.longest = max(s.longest, len(l))
		at := rarest(l)
		for end := 2; end < minLiteral; end++ {
			h := hash(l[at+end-2], l[at+end-1], l[at+end])
			s.shift[h] = min(s.shift[h], uint8(minLiteral-1-end))
		}
		last := at + minLiteral - 1
		h := hash(l[last-2], l[last-1], l[last])
		s.bucket[h] = append(s.bucket[h], window{i, at, l})
	}
	return s
}

// rarest answers the window of a literal whose letters are the least usual in
// build logs, so that the table's entries for usual ones stay wide.
func rarest(l string) int {
	const usual = "etaoinsrcldumpg -/._"
	best, at := int(^uint(0)>>1), 0
	for i := 0; i+minLiteral <= len(l); i++ {
		score := 0
		for j := i; j < i+minLiteral; j++ {
			for k := 0; k < len(usual); k++ {
				if usual[k] == l[j] {
					score += len(usual) - k
				}
			}
		}
		if score < best {
			best, at = score, i
		}
	}
	return at
}

// each calls found with every literal that stands in text and begins at from or later, in the order of their windows.
func (s *searcher) each(text []byte, from int, found func(literal, at int)) {
	for i := from + minLiteral - 1; i < len(text); {
		h := hash(text[i-2], text[i-1], text[i])
		if n := s.shift[h]; n != 0 {
			i += int(n)
			continue
		}
		for _, w := range s.bucket[h] {
			at := i - (minLiteral - 1) - w.offset
			if at >= from && at+len(w.text) <= len(text) && string(text[at:at+len(w.text)]) == w.text {
				found(w.literal, at)
			}
		}
		i++
	}
}
