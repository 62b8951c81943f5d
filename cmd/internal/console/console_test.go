package console_test

import (
	"bytes"
	"testing"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/console"
)

func TestColour(t *testing.T) {
	tests := []struct {
		name, flag string
		env        map[string]string
		terminal   bool
		want       bool
	}{
		{"a terminal", "", nil, true, true},
		{"a pipe", "", nil, false, false},
		{"the flag wins over NO_COLOR", "always", map[string]string{"NO_COLOR": "1"}, false, true},
		{"GitHub Actions sets CARGO_TERM_COLOR", "", map[string]string{"CARGO_TERM_COLOR": "always"}, false, true},
		{"NO_COLOR wins over CLICOLOR_FORCE", "", map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, true, false},
		{"an empty NO_COLOR says nothing", "", map[string]string{"NO_COLOR": ""}, true, true},
		{"a dumb terminal", "", map[string]string{"TERM": "dumb"}, true, false},
		{"auto asks the terminal", "auto", nil, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lookup := func(k string) (string, bool) { v, ok := tt.env[k]; return v, ok }
			if got := console.Colour(tt.flag, lookup, tt.terminal); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestShellAlignsLikeCargo(t *testing.T) {
	var err bytes.Buffer
	s := &console.Shell{Err: &err}
	s.Status("Locating", "CUDA %s", "13.4")
	s.Detail("not shown unless verbose")
	s.Finding(finding.Finding{ID: "features.unreached", Severity: "error", Message: "cuda stops at app", Path: "Cargo.toml", Line: 7, Fix: "add it", Evidence: "unit graph"})
	want := "    Locating CUDA 13.4\nerror: cuda stops at app [features.unreached]\n  --> Cargo.toml:7\n\nhint: add it\n"
	if err.String() != want {
		t.Errorf("got %q, want %q", err.String(), want)
	}
	err.Reset()
	quiet := &console.Shell{Err: &err, Quiet: true}
	quiet.Status("Locating", "x")
	quiet.Finding(finding.Finding{ID: "a.note", Severity: "note", Message: "m", Fix: "f"})
	quiet.Loud("Unproved", "no GPU here")
	if err.String() != "    Unproved no GPU here\n" {
		t.Errorf("got %q", err.String())
	}
}
