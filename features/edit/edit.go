package edit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/rogpeppe/go-internal/diff"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/features/manifest"
)

// Edit is one feature of one manifest that lacks edges.
type Edit struct {
	Manifest string   `json:"manifest"`
	Feature  string   `json:"feature"`
	Add      []string `json:"add"`
	// an edge that cargo refuses, in the place of which the first of Add is written; empty: none
	Instead string `json:"instead_of,omitempty"`
}

func (e Edit) String() string {
	text := "now enables " + quoted(e.Add, ", ")
	if e.Instead != "" {
		text += " instead of " + buildenv.TOMLString(e.Instead)
	}
	if len(e.Add) == 0 {
		text = "is declared now"
	}
	return fmt.Sprintf("`%s` %s", e.Feature, text)
}

// quoted writes strings as TOML has them, with something between them.
func quoted(list []string, between string) string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, buildenv.TOMLString(s))
	}
	return strings.Join(out, between)
}

// AddEdges writes edges into a manifest's [features] table. Only bytes are inserted, none is changed or taken away: comments, order,
// quoting and line ends stay as they are. What is there already is not written again; when nothing is missing the answer is data itself.
// The result has been read again and differs from data in these edges and in nothing else; where that cannot be had, there is an error.
func AddEdges(data []byte, e Edit) ([]byte, error) {
	fail := func(why string) ([]byte, error) {
		return nil, exit.Errorf(0, "write the edge by hand", "%s: `%s` is not edited: %s", e.Manifest, e.Feature, why)
	}
	before, err := buildenv.ReadTOML(data)
	if err != nil {
		return fail("the manifest cannot be read: " + err.Error())
	}
	have, ok := featureList(before, e.Feature)
	if !ok {
		return fail("it is not a list of strings")
	}
	add := slices.DeleteFunc(manifest.Union(e.Add), func(s string) bool { return slices.Contains(have, s) })
	feats, _ := before["features"].(map[string]any)
	_, declared := feats[e.Feature]
	ed, want := &editor{data: data, nl: lineEnd(data), spans: manifest.Locate(data)}, slices.Concat(have, add)
	var out []byte
	switch at := slices.Index(have, e.Instead); {
	case e.Instead != "" && (at < 0 || len(e.Add) != 1):
		return fail("`" + e.Instead + "` is not in it")
	case e.Instead != "":
		if out, want = ed.replace(e.Feature, at, add), slices.Delete(slices.Clone(have), at, at+1); len(add) > 0 {
			want = slices.Insert(want, at, add[0])
		}
	case len(add) == 0 && (declared || len(e.Add) > 0):
		return data, nil
	default:
		out = ed.insert(e.Feature, add)
	}
	if out == nil {
		return fail("it is written in a form that is not understood here")
	}
	after, err := buildenv.ReadTOML(out)
	if err != nil {
		return fail("the text would not be TOML any more")
	}
	list := make([]any, 0, len(want))
	for _, s := range want {
		list = append(list, s)
	}
	if feats == nil {
		feats = map[string]any{}
		before["features"] = feats
	}
	if feats[e.Feature] = list; !same(before, after) {
		return fail("more than the edges would change")
	}
	return out, nil
}

// same compares by text, because NaN is not equal to itself and times carry
// their zone as a pointer. Maps are printed in the order of their keys.
func same(a, b map[string]any) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) }

func featureList(raw map[string]any, feature string) ([]string, bool) {
	table, ok := raw["features"].(map[string]any)
	if !ok {
		return nil, raw["features"] == nil
	}
	list, ok := table[feature].([]any)
	if !ok {
		return nil, table[feature] == nil
	}
	out := make([]string, 0, len(list))
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// lineEnd is how the file ends its lines: as the first one does.
func lineEnd(data []byte) string {
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

type editor struct {
	data  []byte
	nl    string
	spans manifest.Positions
}

// insert returns the text with the edges; nil where the form is not understood. A feature that is not there yet gets a line behind the
// last entry of [features], in the form of these, or a new table.
func (e *editor) insert(feature string, add []string) []byte {
	if at, ok := e.spans.At("features", feature); ok {
		return e.intoArray(at, add)
	}
	line := FeatureLine(feature, add)
	head, ok := e.spans.At("features")
	last := e.spans.Last("features")
	switch {
	case !ok:
		return e.newTable(line)
	case e.data[head.Start] == '{' && last.End == 0:
		return splice(e.data, head.Start+1, " "+line+" ")
	case e.data[head.Start] == '{':
		return splice(e.data, last.End, ", "+line)
	case head.End == head.Start: // dotted keys
		line = "features." + line
	case last.End == 0:
		return e.afterLine(head.End, line)
	}
	return e.afterLine(last.End, e.indentation(last.Start)+line)
}

// newTable puts [features] behind everything else, where it can be part of nothing.
func (e *editor) newTable(line string) []byte {
	gap := e.nl
	if bytes.HasSuffix(e.data, []byte(e.nl+e.nl)) || len(e.data) == 0 {
		gap = ""
	} else if e.data[len(e.data)-1] != '\n' {
		gap += e.nl
	}
	return splice(e.data, len(e.data), gap+"[features]"+e.nl+line+e.nl)
}

// afterLine puts a line behind the one in which at lies.
func (e *editor) afterLine(at int, line string) []byte {
	if i := bytes.IndexByte(e.data[at:], '\n'); i >= 0 {
		return splice(e.data, at+i+1, line+e.nl)
	}
	return splice(e.data, len(e.data), e.nl+line+e.nl)
}

// indentation is the white space with which the line of a place begins.
func (e *editor) indentation(at int) string {
	line := bytes.TrimPrefix(e.data[bytes.LastIndexByte(e.data[:at], '\n')+1:at], []byte("\uFEFF"))
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// intoArray puts elements behind the last one of an array, in the manner of that one: on lines of their own where it has one, with
// a comma at the end where there was one.
func (e *editor) intoArray(at manifest.Span, add []string) []byte {
	if at.End <= at.Start+1 || e.data[at.Start] != '[' || e.data[at.End-1] != ']' {
		return nil
	}
	shut := at.End - 1
	elements, comma, ok := arrayElements(e.data, at)
	if !ok {
		return nil
	}
	if len(elements) == 0 {
		inner := e.data[at.Start+1 : shut]
		if i := bytes.LastIndexByte(inner, '\n'); i >= 0 { // an empty array over several lines: a line before the one that closes it
			line := e.indentation(shut) + "    "
			return splice(e.data, at.Start+1+i+1, line+quoted(add, ","+e.nl+line)+","+e.nl)
		}
		pad := ""
		if len(inner) > 0 {
			pad = " "
		}
		return splice(e.data, at.Start+1, pad+quoted(add, ", "))
	}
	last := elements[len(elements)-1]
	line := e.nl + e.indentation(last.Start)
	if !bytes.HasSuffix(e.data[:last.Start], []byte(line)) {
		return splice(e.data, last.End, ", "+quoted(add, ", "))
	}
	behind, text := max(last.End, comma+1), line+quoted(add, ","+line)
	if i := bytes.Index(e.data[behind:shut], []byte(e.nl)); i >= 0 { // with the comment of the last one
		behind += i
	}
	if comma >= 0 {
		return splice(e.data, behind, text+",")
	}
	return splice(splice(e.data, behind, text), last.End, ",")
}

// arrayElements lists the places of an array's strings and of the comma behind
// the last one, -1 without; false where it holds anything else.
func arrayElements(data []byte, array manifest.Span) (list []manifest.Span, comma int, ok bool) {
	const key = "x="
	var p unstable.Parser
	p.Reset(append([]byte(key), data[array.Start:array.End]...))
	if !p.NextExpression() || p.Expression().Value().Kind != unstable.Array {
		return nil, -1, false
	}
	for it := p.Expression().Value().Children(); it.Next(); {
		if it.Node().Kind != unstable.String {
			return nil, -1, false
		}
		start := array.Start - len(key) + int(it.Node().Raw.Offset)
		list = append(list, manifest.Span{Start: start, End: start + int(it.Node().Raw.Length)})
	}
	if len(list) == 0 {
		return nil, -1, true
	}
	for i := list[len(list)-1].End; i < array.End; i++ {
		switch data[i] {
		case ',':
			return list, i, true
		case '#':
			i += bytes.IndexByte(data[i:array.End], '\n')
		}
	}
	return list, -1, true
}

func splice(data []byte, at int, text string) []byte {
	return slices.Concat(data[:at], []byte(text), data[at:])
}

// Key writes a key, bare where that can be.
func Key(key string) string {
	if key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == "" {
		return key
	}
	return buildenv.TOMLString(key)
}

// replace writes an edge in the place of another; without one the other goes, with the comma next to it.
func (e *editor) replace(feature string, at int, by []string) []byte {
	array, _ := e.spans.At("features", feature)
	elements, _, ok := arrayElements(e.data, array)
	if !ok || at >= len(elements) {
		return nil
	}
	span, text := elements[at], ""
	switch {
	case len(by) > 0:
		text = buildenv.TOMLString(by[0])
	case at > 0:
		span.Start = elements[at-1].End
	case len(elements) > 1:
		span.End = elements[1].Start
	}
	return slices.Concat(e.data[:span.Start], []byte(text), e.data[span.End:])
}

// Diff is the unified diff of two texts, as git and patch read it; empty when they are the same.
func Diff(path string, old, now []byte) string {
	_, text, _ := bytes.Cut(diff.Diff("a/"+path, old, "b/"+path, now), []byte("\n")) // the first line repeats the names
	return string(text)
}

// FeatureLine is a line of a [features] table.
func FeatureLine(feature string, edges []string) string {
	return Key(feature) + " = [" + quoted(edges, ", ") + "]"
}
