package edit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

func TestAddEdges(t *testing.T) {
	one := []string{"candle-nn/cuda"}
	two := []string{"candle-nn/cuda", "engine?/cuda"}
	for _, tt := range []struct {
		story, text string
		add         []string
		want        string // empty: as before
	}{
		{"an empty file", "", one, "[features]\ncuda = [\"candle-nn/cuda\"]\n"},
		{"nothing is missing", "[features]\ncuda=[ 'candle-nn/cuda' ,] # x\n", one, ""},
		{"an empty list", "[features]\ncuda = []\n[dependencies]\n", one, "[features]\ncuda = [\"candle-nn/cuda\"]\n[dependencies]\n"},
		{"an empty list with a blank", "[features]\ncuda = [ ]\n", one, "[features]\ncuda = [ \"candle-nn/cuda\" ]\n"},
		{
			"behind the others",
			"[features]\ncuda = [\"a\"]  # why\n",
			two,
			"[features]\ncuda = [\"a\", \"candle-nn/cuda\", \"engine?/cuda\"]  # why\n",
		},
		{"half is there", "[features]\ncuda = [\"engine?/cuda\"]\n", two, "[features]\ncuda = [\"engine?/cuda\", \"candle-nn/cuda\"]\n"},
		{"a comma at the end", "[features]\ncuda = [\"a\",]\n", one, "[features]\ncuda = [\"a\", \"candle-nn/cuda\",]\n"},
		{"single quotes", "[features]\ncuda = ['a']\n", one, "[features]\ncuda = ['a', \"candle-nn/cuda\"]\n"},
		{"several lines", "[features]\ncuda = [\n  \"a\", # first\n  \"b\", # second\n  # done\n]\n", two,
			"[features]\ncuda = [\n  \"a\", # first\n  \"b\", # second\n  \"candle-nn/cuda\",\n  \"engine?/cuda\",\n  # done\n]\n"},
		{"several lines without a last comma", "[features]\ncuda = [\n\t\"a\",\n\t\"b\" # second\n]\n", two,
			"[features]\ncuda = [\n\t\"a\",\n\t\"b\", # second\n\t\"candle-nn/cuda\",\n\t\"engine?/cuda\"\n]\n"},
		{
			"several lines, none of them taken",
			"[features]\n  cuda = [\n    # nothing yet\n  ]\n",
			one,
			"[features]\n  cuda = [\n    # nothing yet\n      \"candle-nn/cuda\",\n  ]\n",
		},
		{
			"CRLF",
			"[features]\r\ncuda = [\r\n  \"a\",\r\n]\r\n",
			one,
			"[features]\r\ncuda = [\r\n  \"a\",\r\n  \"candle-nn/cuda\",\r\n]\r\n",
		},
		{
			"CRLF, no such feature",
			"[features]\r\nfast = []\r\n\r\n[lib]\r\n",
			one,
			"[features]\r\nfast = []\r\ncuda = [\"candle-nn/cuda\"]\r\n\r\n[lib]\r\n",
		},
		{
			"no such feature",
			"[features]\n  fast = [] # f\n\n[dependencies]\na = '1'\n",
			one,
			"[features]\n  fast = [] # f\n  cuda = [\"candle-nn/cuda\"]\n\n[dependencies]\na = '1'\n",
		},
		{
			"no such feature, the table is empty and last",
			"[package]\nname = 'a'\n[features]",
			one,
			"[package]\nname = 'a'\n[features]\ncuda = [\"candle-nn/cuda\"]\n",
		},
		{"no table", "[package]\nname = 'a'", one, "[package]\nname = 'a'\n\n[features]\ncuda = [\"candle-nn/cuda\"]\n"},
		{
			"dotted keys",
			"features.fast = []\nfeatures.cuda = [\"a\"]\n[package]\nname = 'a'\n",
			one,
			"features.fast = []\nfeatures.cuda = [\"a\", \"candle-nn/cuda\"]\n[package]\nname = 'a'\n",
		},
		{
			"an inline table",
			"features = { fast = [], cuda = ['a'] } # x\n",
			one,
			"features = { fast = [], cuda = ['a', \"candle-nn/cuda\"] } # x\n",
		},
		{"dotted keys, no such feature", "features.fast = []\n[package]\nname = 'a'\n", one,
			"features.fast = []\nfeatures.cuda = [\"candle-nn/cuda\"]\n[package]\nname = 'a'\n"},
		{"an inline table, no such feature", "features = { fast = [] } # x\n", one, "features = { fast = [], cuda = [\"candle-nn/cuda\"] } # x\n"},
		{"an empty inline table", "features = {}\n", one, "features = { cuda = [\"candle-nn/cuda\"] }\n"},
		{
			"a byte order mark and quoted keys",
			"\uFEFF[\"features\"]\n\"cuda\" = []\n",
			one,
			"\uFEFF[\"features\"]\n\"cuda\" = [\"candle-nn/cuda\"]\n",
		},
		{
			"a text that only looks like the place",
			"[package]\ndescription = \"\"\"\n[features]\ncuda = []\n\"\"\"\n[features]\ncuda = []\n",
			one,
			"[package]\ndescription = \"\"\"\n[features]\ncuda = []\n\"\"\"\n[features]\ncuda = [\"candle-nn/cuda\"]\n",
		},
		{
			"inheritance stays",
			"[features]\ncuda = []\n[dependencies]\ncandle-nn.workspace = true\nx = { workspace = true, features = [ \"cuda\" ] }\n",
			one,
			"[features]\ncuda = [\"candle-nn/cuda\"]\n[dependencies]\ncandle-nn.workspace = true\nx = { workspace = true, features = [ \"cuda\" ] }\n",
		},
	} {
		t.Run(tt.story, func(t *testing.T) {
			if tt.want == "" {
				tt.want = tt.text
			}
			got := hosttest.Must(AddEdges([]byte(tt.text), Edit{Manifest: "Cargo.toml", Feature: "cuda", Add: tt.add}))(t)
			hosttest.Equal(t, string(got), tt.want, got)
			if again, err := AddEdges(got, Edit{Feature: "cuda", Add: tt.add}); err != nil || !bytes.Equal(again, got) {
				t.Errorf("a second time changes it: %v\n%s", err, again)
			}
		})
	}
}

func TestAddEdgesRefuses(t *testing.T) {
	for _, text := range []string{"[features\n", "[features]\ncuda = 3\n", "features = 3\n", "[features]\ncuda = [[]]\n", "[[features]]\ncuda = []\n"} {
		_, err := AddEdges([]byte(text), Edit{Manifest: "/w/Cargo.toml", Feature: "cuda", Add: []string{"a/b"}})
		if exit.Hint(err) == "" || !strings.Contains(err.Error(), "/w/Cargo.toml") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzAddEdges: whatever TOML goes in, the result parses, only bytes were inserted, and it differs in the edges alone. AddEdges checks the
// last one itself; here it is looked at in another way, by the reader's list of keys.
func FuzzAddEdges(f *testing.F) {
	for _, s := range []string{"[features]\ncuda = [ # x\n \"a\", ]\n", "features.cuda=[\"a\"\n,\"b\"]", "features={a=[]}", "[package]\r\nname='a'\r\n", "[features]\n'cuda'=[\"\"\"\na\"\"\",'b']#", "a=1#\n[[b]]\nc=nan\n[features]"} {
		f.Add(s, "cuda", "nn/cuda")
	}
	f.Fuzz(func(t *testing.T, text, feature, edge string) {
		var before, after map[string]any
		mdBefore, err := toml.Decode(strings.TrimPrefix(text, "\uFEFF"), &before)
		out, editErr := AddEdges([]byte(text), Edit{Feature: feature, Add: []string{edge}})
		if err != nil {
			if editErr == nil {
				t.Fatalf("edited what cannot be read: %q", text)
			}
			return
		}
		if editErr != nil {
			return
		}
		mdAfter, err := toml.Decode(strings.TrimPrefix(string(out), "\uFEFF"), &after)
		if err != nil {
			t.Fatalf("%q → %q: %v", text, out, err)
		}
		list, _ := featureList(after, feature)
		if !slices.Contains(list, edge) {
			t.Fatalf("%q → %q: no edge", text, out)
		}
		at := 0
		for i := range out { // the old text is what remains when the inserted bytes are left out
			if at < len(text) && out[i] == text[at] {
				at++
			}
		}
		if at != len(text) {
			t.Fatalf("%q → %q: bytes were taken away", text, out)
		}
		known := map[string]bool{}
		for _, k := range mdBefore.Keys() {
			known[k.String()] = true
		}
		for _, k := range mdAfter.Keys() {
			if !known[k.String()] && k[0] != "features" {
				t.Fatalf("%q → %q: new key %s", text, out, k)
			}
		}
		if had, _ := featureList(before, feature); slices.Contains(had, edge) && string(out) != text {
			t.Fatalf("%q → %q: nothing was missing", text, out)
		}
	})
}

// TestDiffApplies holds the diffs against a program that reads them.
func TestDiffApplies(t *testing.T) {
	git := need.Tool(t, "git")
	var long strings.Builder
	for i := 0; i < 40; i++ {
		fmt.Fprintf(&long, "line %d\n", i%7)
	}
	mid := long.String()
	for i, tt := range []struct{ old, now string }{
		{"a\n", "a\nb\n"}, {"a", "a\nb\n"}, {"", "x\n"}, {"a\nb\nc\n", "b\nc\n"}, {"a\r\nb\r\n", "a\r\nx\r\nb\r\n"},
		{"top\n" + mid + "end", "new\ntop!\n" + mid + "end\nmore"},
		{mid, "x\n" + mid[:100] + "\ny\n" + mid[100:]},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "Cargo.toml")
		hosttest.OK(t, os.WriteFile(path, []byte(tt.old), 0o644))
		c := exec.Command(git, "apply", "--whitespace=nowarn", "-")
		c.Dir, c.Stdin = dir, strings.NewReader(Diff("Cargo.toml", []byte(tt.old), []byte(tt.now)))
		c.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := c.CombinedOutput(); err != nil && tt.old != "" {
			t.Errorf("%d: %v: %s\n%s", i, err, out, Diff("Cargo.toml", []byte(tt.old), []byte(tt.now)))
			continue
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != tt.now && tt.old != "" {
			t.Errorf("%d: %v\ngot  %q\nwant %q", i, err, got, tt.now)
		}
	}
	hosttest.Equal(t, Diff("x", []byte("a\n"), []byte("a\n")), "", "a diff of nothing")
}

// FuzzAddDependency: whatever TOML goes in, the result parses, only bytes were inserted, and the entry is there.

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
		hosttest.Equal(t, FeatureLine(feature, nil), want, feature)
	}
}
