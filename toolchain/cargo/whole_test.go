package cargo

import (
	"context"
	"io"
	"strings"
	"testing"

	"gpubuild/buildenv"
)

// slowRunner is a cargo that writes its answer in pieces and may fail after it.
type slowRunner struct {
	pieces []string
	before func() // called when all is written, before the end
	code   int
	said   string
}

func (s slowRunner) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	for _, p := range s.pieces {
		if _, err := io.WriteString(c.Stdout, p); err != nil {
			return buildenv.Result{}, err
		}
	}
	s.before()
	if _, err := io.WriteString(c.Stderr, s.said); err != nil {
		return buildenv.Result{}, err
	}
	if s.code != 0 {
		return buildenv.Result{Code: s.code}, &buildenv.ExitError{Cmd: c, Result: buildenv.Result{Code: s.code}}
	}
	return buildenv.Result{}, nil
}

// TestGraphIsTakenWhileCargoEnds: what is whole is told once and before cargo's end; what is the answer cargo's end decides.
func TestGraphIsTakenWhileCargoEnds(t *testing.T) {
	h := host(t, machine)
	tool, err := Find(h, Line{})
	if err != nil {
		t.Fatal(err)
	}
	const graph = `{"version":1,"units":[],"roots":[]}`
	tests := []struct {
		story              string
		pieces             []string
		code               int
		told, graph, wrong string
	}{
		{"in one piece", []string{graph + "\n"}, 0, graph, graph + "\n", ""},
		{"in three", []string{graph[:9], graph[9:20], graph[20:] + "\n"}, 0, graph, graph + "\n", ""},
		{"the line end alone", []string{graph, "\n"}, 0, graph, graph + "\n", ""},
		{"more behind it", []string{graph + "\nmore", " and\nmore\n"}, 0, graph, graph + "\nmore and\nmore\n", ""},
		{"no line end", []string{graph[:9], graph[9:]}, 0, "", graph, ""},
		{"cargo fails in the end", []string{graph + "\n"}, 101, graph, "", "error: no"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			var told []string
			early := 0
			run := slowRunner{tt.pieces, func() { early = len(told) }, tt.code, "error: no\n"}
			if tt.code == 0 {
				run.said = ""
			}
			got, err := Graph(context.Background(), h, run, tool, Request{Line: Line{Verb: "build"}, Asking: Asking{Private: Private{Root: t.TempDir()}}, Mkdir: func(string) error { return nil },
				Whole: func(g []byte) { told = append(told, string(g)) }})
			if strings.Join(told, "|") != tt.told || early != len(told) {
				t.Errorf("told %q, %d of them before the end; want %q", told, early, tt.told)
			}
			if string(got.Graph) != tt.graph || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("answered %q, %v; want %q, %q", got.Graph, err, tt.graph, tt.wrong)
			}
		})
	}
}
