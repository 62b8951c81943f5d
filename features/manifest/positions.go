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
	found, text := Positions{}, bytes.TrimPrefix(data, []byte("\uFEFF"))
	shift, line, counted := len(data)-len(text), 1, 0
	lineOf := func(offset int) int { // keys are visited in their order
		line, counted = line+bytes.Count(text[counted:offset], []byte("\n")), offset
		return line
	}
	record := func(path []string, line, start, end int) {
		if k := strings.Join(path, "\x00"); found[k] == (Span{}) {
			found[k] = Span{line, start + shift, end + shift}
		}
	}
	var pair func(table []string, e *unstable.Node) // key = value below a table, and what lies in an inline table
	pair = func(table []string, e *unstable.Node) {
		key, first, last := keyOf(e)
		line, path := lineOf(first), slices.Concat(table, key)
		start := last + bytes.IndexByte(text[last:], '=') + 1
		start += len(text[start:]) - len(bytes.TrimLeft(text[start:], " \t"))
		for i := len(table) + 1; i < len(path); i++ { // dotted keys open tables on their way
			record(path[:i], line, start, start)
		}
		record(path, line, start, int(e.Raw.Offset+e.Raw.Length))
		if e.Value().Kind == unstable.InlineTable {
			for it := e.Value().Children(); it.Next(); {
				if it.Node().Kind == unstable.KeyValue {
					pair(path, it.Node())
				}
			}
		}
	}
	var table []string
	var parser unstable.Parser
	for parser.Reset(text); parser.NextExpression(); {
		switch e := parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			path, first, last := keyOf(e)
			table = path
			record(path, lineOf(first), first, last)
		case unstable.KeyValue:
			pair(table, e)
		}
	}
	return found
}

// keyOf returns a dotted key and the bytes from its first part to its last one.
func keyOf(e *unstable.Node) (path []string, first, last int) {
	for it := e.Key(); it.Next(); {
		raw := it.Node().Raw
		if path == nil {
			first = int(raw.Offset)
		}
		path, last = append(path, string(it.Node().Data)), int(raw.Offset+raw.Length)
	}
	return path, first, last
}

// At returns the place of a key.
func (p Positions) At(path ...string) (Span, bool) {
	s, ok := p[strings.Join(path, "\x00")]
	return s, ok
}

// Last is the place of the last value directly below a table at the top; an empty one where there is none.
func (p Positions) Last(table string) (last Span) {
	for path, s := range p {
		if key, ok := strings.CutPrefix(path, table+"\x00"); ok && !strings.Contains(key, "\x00") && s.End > last.End {
			last = s
		}
	}
	return last
}
