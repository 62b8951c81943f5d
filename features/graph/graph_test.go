package graph

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
)

func TestParseTree(t *testing.T) {
	text := strings.Join([]string{
		"0app v0.1.0 (/w/app) cuda",
		"1candle-core v0.11.1 cpu,cuda",
		"2cudarc v0.19.10 (https://git.example/u/cudarc#abcd) driver",
		"2candle-kernels v0.11.1 ",
		"1candle-nn v0.11.1 (/w/a (copy)/nn) cuda",
		"2candle-core v0.11.1 cpu,cuda (*)",
		"1pm v0.1.0 (proc-macro) (/w/pm) ",
		"2candle-core v0.10.0 cuda",
		"",
		"0other v0.1.0 (/w/other) ",
		"1candle-core v0.11.1 cpu,cuda (*)",
	}, "\n")
	tree, err := ParseTree(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	names := func(root int) []string {
		var out []string
		for _, i := range tree.Linked(tree.Roots[root]) {
			out = append(out, tree.Nodes[i].Name+" "+tree.Nodes[i].Version)
		}
		return out
	}
	if got, want := names(0), []string{"app 0.1.0", "candle-core 0.11.1", "candle-nn 0.11.1", "cudarc 0.19.10", "candle-kernels 0.11.1"}; !reflect.DeepEqual(
		got,
		want,
	) {
		t.Errorf("app links %v", got)
	}
	if got, want := names(1), []string{"other 0.1.0", "candle-core 0.11.1", "cudarc 0.19.10", "candle-kernels 0.11.1"}; !reflect.DeepEqual(
		got,
		want,
	) {
		t.Errorf("other links %v: a repeated package keeps what it links", got)
	}
	if nn := tree.Nodes[tree.Roots[0]+4]; nn.Source != "/w/a (copy)/nn" {
		t.Errorf("a directory with brackets: %+v", nn)
	}
	for _, bad := range []string{"app v0.1.0", "2app v0.1.0", "0app", "0app v0.1.0 (/w"} {
		if _, err := ParseTree(strings.NewReader(bad)); exit.Hint(err) == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestParseGraphRefuses(t *testing.T) {
	for story, text := range map[string]string{
		"no JSON":            "warning: something",
		"another version":    `{"version":2,"units":[],"roots":[]}`,
		"no version":         `{"units":[],"roots":[]}`,
		"a root too far":     `{"version":1,"units":[],"roots":[0]}`,
		"an edge too far":    `{"version":1,"units":[{"pkg_id":"a","dependencies":[{"index":1}]}],"roots":[0]}`,
		"a unit of nothing":  `{"version":1,"units":[{}],"roots":[0]}`,
		"cut off":            `{"version":1,"units":[{"pkg_id":"a"`,
		"features no list":   `{"version":1,"units":[{"pkg_id":"a","features":"x"}],"roots":[]}`,
		"a second text":      `{"version":1,"units":[],"roots":[]}{}`,
		"version as a text":  `{"version":"1","units":[],"roots":[]}`,
		"nothing whatsoever": "",
	} {
		if _, err := Parse(strings.NewReader(text)); exit.Hint(err) == "" {
			t.Errorf("%s: %v", story, err)
		}
	}
}

// TestTreeOfSeveralTargets: what is asked of one target after the other is kept apart; one answer for several is none.
func TestTreeOfSeveralTargets(t *testing.T) {
	const linux, windows = "0app v0.1.0 (/w)\n\n", "0app v0.1.0 (/w)\n1cudarc v0.19.10\n\n"
	tree, err := ParseTree(strings.NewReader("[target] x86_64-unknown-linux-gnu\n" + linux + "[target] x86_64-pc-windows-msvc\n" + windows))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range tree.Roots {
		got = append(got, fmt.Sprint(tree.Nodes[r].Platform, " ", len(tree.Linked(r))))
	}
	if want := "x86_64-unknown-linux-gnu 1, x86_64-pc-windows-msvc 2"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	if tree, err := ParseTree(strings.NewReader(linux + windows)); err == nil {
		t.Errorf("an answer for two targets at once was read as %+v", tree)
	}
}
