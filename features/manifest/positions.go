package manifest

import (
	"strings"
)

// Span is where a key stands in a manifest: the line of the key, and the bytes of its value (of the header, for a table).
type Span struct{ line, Start, End int }

// Locate finds the places of all keys of a TOML text. The text has been read by the TOML reader before, which has no positions; where
// the two should ever disagree a key is just not found. Entries of an array of tables share one name; the first one counts.
func Locate(data []byte) map[string]Span {
	s := &locator{data: data, line: 1, spans: map[string]Span{}}
	s.document()
	return s.spans
}

func SpanKey(path []string) string { return strings.Join(path, "\x00") }

type locator struct {
	data  []byte
	pos   int
	line  int
	depth int
	spans map[string]Span
}

const maxNesting = 100 // deeper values are skipped to the end of their line

func (s *locator) document() {
	if strings.HasPrefix(string(s.data[:min(3, len(s.data))]), "\uFEFF") {
		s.pos = 3
	}
	var table []string
	for {
		s.blank(true)
		if s.pos >= len(s.data) {
			return
		}
		begin := s.pos
		if s.peek() == '[' {
			line := s.line
			s.pos++
			if s.peek() == '[' {
				s.pos++
			}
			path, ok := s.key()
			s.endOfLine()
			if ok {
				table = path
				s.record(table, Span{line, begin, s.pos})
			}
			continue
		}
		if !s.pair(table) {
			s.endOfLine()
		}
		if s.pos == begin { // nothing that can be read: never stand still
			s.advance()
		}
	}
}

// pair reads `key = value` below prefix.
func (s *locator) pair(prefix []string) bool {
	line := s.line
	key, ok := s.key()
	if !ok {
		return false
	}
	s.blank(false)
	if s.peek() != '=' {
		return false
	}
	s.pos++
	s.blank(false)
	path := append(append([]string{}, prefix...), key...)
	for i := len(prefix) + 1; i < len(path); i++ { // dotted keys open tables on their way
		s.record(path[:i], Span{line, s.pos, s.pos})
	}
	start := s.pos
	ok = s.value(path)
	s.record(path, Span{line, start, s.pos})
	return ok
}

func (s *locator) record(path []string, at Span) {
	k := SpanKey(path)
	if _, known := s.spans[k]; !known {
		s.spans[k] = at
	}
}

// key reads a dotted key.
func (s *locator) key() ([]string, bool) {
	var path []string
	for {
		s.blank(false)
		switch c := s.peek(); {
		case c == '"' || c == '\'':
			begin := s.pos
			if !s.text() {
				return path, false
			}
			path = append(path, unquote(string(s.data[begin:s.pos])))
		default:
			begin := s.pos
			for s.pos < len(s.data) && bare(s.data[s.pos]) {
				s.pos++
			}
			if s.pos == begin {
				return path, false
			}
			path = append(path, string(s.data[begin:s.pos]))
		}
		s.blank(false)
		if s.peek() != '.' {
			return path, true
		}
		s.pos++
	}
}

func bare(c byte) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// value skips a value; keys of inline tables are recorded below path, unless path is nil.
func (s *locator) value(path []string) bool {
	if s.depth++; s.depth > maxNesting {
		s.depth--
		return false
	}
	defer func() { s.depth-- }()
	switch s.peek() {
	case '"', '\'':
		return s.text()
	case '[':
		s.pos++
		for {
			s.blank(true)
			switch s.peek() {
			case ']':
				s.pos++
				return true
			case ',':
				s.pos++
				continue
			case 0:
				return false
			}
			if !s.value(nil) {
				return false
			}
		}
	case '{':
		s.pos++
		for {
			s.blank(true)
			switch s.peek() {
			case '}':
				s.pos++
				return true
			case ',':
				s.pos++
				continue
			case 0:
				return false
			}
			if path == nil {
				path = []string{""} // inside an array: never asked for
			}
			if !s.pair(path) {
				return false
			}
		}
	}
	begin := s.pos
	for s.pos < len(s.data) && !strings.ContainsRune(",]}#\n", rune(s.data[s.pos])) {
		s.pos++
	}
	for s.pos > begin && (s.data[s.pos-1] == ' ' || s.data[s.pos-1] == '\t' || s.data[s.pos-1] == '\r') {
		s.pos--
	}
	return s.pos > begin
}

// text skips a string of any of the four kinds.
func (s *locator) text() bool {
	q := s.data[s.pos]
	long := s.pos+2 < len(s.data) && s.data[s.pos+1] == q && s.data[s.pos+2] == q
	if long {
		s.pos += 3
	} else {
		s.pos++
	}
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '\\' && q == '"':
			s.advance()
			if s.pos < len(s.data) {
				s.advance()
			}
			continue
		case c == '\n' && !long:
			return false
		case c == q && !long:
			s.pos++
			return true
		case c == q && s.pos+2 < len(s.data) && s.data[s.pos+1] == q && s.data[s.pos+2] == q:
			s.pos += 3
			for n := 0; n < 2 && s.peek() == q; n++ { // up to two quotes may stand before the closing three
				s.pos++
			}
			return true
		}
		s.advance()
	}
	return false
}

// blank skips spaces, and with lines also line ends and comments.
func (s *locator) blank(lines bool) {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == ' ' || c == '\t':
			s.pos++
		case lines && (c == '\n' || c == '\r'):
			s.advance()
		case lines && c == '#':
			for s.pos < len(s.data) && s.data[s.pos] != '\n' {
				s.pos++
			}
		default:
			return
		}
	}
}

func (s *locator) endOfLine() {
	for s.pos < len(s.data) && s.data[s.pos] != '\n' {
		s.pos++
	}
}

func (s *locator) advance() {
	if s.data[s.pos] == '\n' {
		s.line++
	}
	s.pos++
}

func (s *locator) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// unquote takes the quotes off a key. Escapes are rare enough in keys to be left as they are, but for the two that names can need.
func unquote(q string) string {
	if len(q) < 2 {
		return q
	}
	t := q[1 : len(q)-1]
	if q[0] == '"' {
		t = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(t)
	}
	return t
}

// ArrayElements lists the places of an array's strings and of the comma behind the last one, -1 without.
func ArrayElements(data []byte, from, to int) (list []Span, comma int, ok bool) {
	s := &locator{data: data[:to], pos: from, line: 1, spans: map[string]Span{}}
	comma = -1
	for {
		s.blank(true)
		switch s.peek() {
		case 0:
			return list, comma, s.pos >= to
		case ',':
			comma = s.pos
			s.pos++
		case '"', '\'':
			begin := s.pos
			if !s.text() {
				return nil, -1, false
			}
			list = append(list, Span{Start: begin, End: s.pos})
			comma = -1
		default:
			return nil, -1, false
		}
	}
}
