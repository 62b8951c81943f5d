package edit

import (
	"strings"
	"testing"
)

// TestReplacesEdge: an edge that cargo refuses gives way to the right one, or goes where that is there already.
func TestReplacesEdge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, text, instead string
		add                  []string
		want                 string // empty: refused
	}{
		{"the only one", "[features]\ncuda = [\"nn/cuad\"] # x\n", "nn/cuad", []string{"nn/cuda"}, "[features]\ncuda = [\"nn/cuda\"] # x\n"},
		{"the first", "[features]\ncuda = ['a', 'b']\n", "a", []string{"c"}, "[features]\ncuda = [\"c\", 'b']\n"},
		{"the last, on lines of its own", "[features]\ncuda = [\n  \"a\",\n  \"b\", # why\n]\n", "b", []string{"c"}, "[features]\ncuda = [\n  \"a\",\n  \"c\", # why\n]\n"},
		{"the right one is there, behind it", "[features]\ncuda = [\"a\", \"b\"]\n", "a", []string{"b"}, "[features]\ncuda = [\"b\"]\n"},
		{"the right one is there, before it", "[features]\ncuda = [\"b\", \"a\", \"c\"]\n", "a", []string{"b"}, "[features]\ncuda = [\"b\", \"c\"]\n"},
		{"the right one is there, at the end", "[features]\ncuda = [\"b\", \"a\"]\n", "a", []string{"b"}, "[features]\ncuda = [\"b\"]\n"},
		{"it is not there", "[features]\ncuda = [\"b\"]\n", "a", []string{"c"}, ""},
		{"it is another feature's", "[features]\ncuda = []\nrocm = [\"a\"]\n", "a", []string{"c"}, ""},
		{"nothing in its place", "[features]\ncuda = [\"a\"]\n", "a", nil, ""},
		{"two in its place", "[features]\ncuda = [\"a\"]\n", "a", []string{"b", "c"}, ""},
	} {
		got, err := AddEdges([]byte(tt.text), Edit{Manifest: "Cargo.toml", Feature: "cuda", Instead: tt.instead, Add: tt.add})
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q %v, want %q", tt.story, got, err, tt.want)
		}
	}
}

// TestDeclares: a feature that enables nothing yet is written as an empty list, once.
func TestDeclares(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[features]\ncuda = []\n": "[features]\ncuda = []\n", "[features]\ncuda = [\"a\"]\n": "[features]\ncuda = [\"a\"]\n",
		"[features]\n": "[features]\ncuda = []\n", "": "[features]\ncuda = []\n", "[package]\n\n": "[package]\n\n[features]\ncuda = []\n",
	} {
		if got, err := AddEdges([]byte(text), Edit{Feature: "cuda"}); string(got) != want || err != nil {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
}

// TestEditLines: how an edit is said, and that keys and values are TOML.
func TestEditLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		e     Edit
		parts []string
	}{
		{Edit{Feature: "cuda", Add: []string{"a/b", "c"}}, []string{"`cuda`", `"a/b", "c"`}}, {Edit{Feature: "cuda"}, []string{"`cuda`", "declared"}},
		{Edit{Feature: "cuda", Add: []string{"a"}, Instead: "b"}, []string{`"a"`, `instead of "b"`}},
	} {
		for _, part := range tt.parts {
			if got := tt.e.String(); !strings.Contains(got, part) || strings.Contains(got, "declared") != (len(tt.e.Add) == 0) || strings.Contains(got, "instead") != (tt.e.Instead != "") {
				t.Errorf("%+v: %s", tt.e, got)
			}
		}
	}
	for feature, want := range map[string]string{"cuda-12_a": "cuda-12_a = []", "a b": `"a b" = []`, "": `"" = []`, "c++": `"c++" = []`} {
		if got := FeatureLine(feature, nil); got != want {
			t.Errorf("%q: %s", feature, got)
		}
	}
}
