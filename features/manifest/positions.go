package manifest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Span is where a key stands in a manifest: the line of the key, and the bytes of its value; of a table's header the name in it. A table
// that only dotted keys open has an empty one.
type Span struct{ Line, Start, End int }

// Positions are the places of a text's keys. Entries of an array of tables share one name, of which the first one counts.
type Positions map[string]Span

// Locate finds the places of all keys of a TOML text, as far as it can be read.
func Locate(data []byte) Positions {
	l := &locator{found: Positions{}, line: 1}
	text := bytes.TrimPrefix(data, []byte("\uFEFF"))
	l.shift = len(data) - len(text)
	l.text = text
	l.parser.Reset(text)
	var table []string
	for l.parser.NextExpression() {
		switch e := l.parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			path, first, last := l.key(e)
			table = path
			l.record(table, Span{l.lineOf(first), first, last})
		case unstable.KeyValue:
			l.pair(table, e)
		}
	}
	return l.found
}

// At answers the place of a key.
func (p Positions) At(path ...string) (Span, bool) {
	s, ok := p[strings.Join(path, "\x00")]
	return s, ok
}

// Entries lists the places of the values directly below a table at the top.
func (p Positions) Entries(table string) []Span {
	var out []Span
	for path, s := range p {
		if key, ok := strings.CutPrefix(path, table+"\x00"); ok && !strings.Contains(key, "\x00") {
			out = append(out, s)
		}
	}
	return out
}

type locator struct {
	parser unstable.Parser
	text   []byte
	shift  int // bytes before text
	found  Positions
	at     int // lines are counted up to here
	line   int
}

// pair records `key = value` below a table, and what lies in an inline table.
func (l *locator) pair(table []string, e *unstable.Node) {
	key, first, last := l.key(e)
	line := l.lineOf(first)
	path := slices.Concat(table, key)
	start := last + bytes.IndexByte(l.text[last:], '=') + 1
	for start < len(l.text) && (l.text[start] == ' ' || l.text[start] == '\t') {
		start++
	}
	for i := len(table) + 1; i < len(path); i++ { // dotted keys open tables on their way
		l.record(path[:i], Span{line, start, start})
	}
	l.record(path, Span{line, start, int(e.Raw.Offset + e.Raw.Length)})
	if e.Value().Kind == unstable.InlineTable {
		for it := e.Value().Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				l.pair(path, it.Node())
			}
		}
	}
}

// key answers a dotted key and the bytes from its first part to its last one.
func (l *locator) key(e *unstable.Node) (path []string, first, last int) {
	for it := e.Key(); it.Next(); {
		raw := it.Node().Raw
		if path == nil {
			first = int(raw.Offset)
		}
		path, last = append(path, string(it.Node().Data)), int(raw.Offset+raw.Length)
	}
	return path, first, last
}

func (l *locator) record(path []string, s Span) {
	k := strings.Join(path, "\x00")
	if _, known := l.found[k]; !known {
		s.Start, s.End = s.Start+l.shift, s.End+l.shift
		l.found[k] = s
	}
}

// lineOf counts on: keys are visited in their order.
func (l *locator) lineOf(offset int) int {
	l.line += bytes.Count(l.text[l.at:offset], []byte("\n"))
	l.at = offset
	return l.line
}
