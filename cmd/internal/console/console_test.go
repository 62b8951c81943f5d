package console_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/console"
	"gpubuild/toolchain/cargo"
)

func TestColour(t *testing.T) {
	for _, tt := range []struct {
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			lookup := func(k string) (string, bool) { v, ok := tt.env[k]; return v, ok }
			hosttest.Equal(t, console.Colour(tt.flag, lookup, tt.terminal), tt.want)
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
	hosttest.Equal(t, err.String(), want)
	err.Reset()
	quiet := &console.Shell{Err: &err, Quiet: true}
	quiet.Status("Locating", "x")
	quiet.Finding(finding.Finding{ID: "a.note", Severity: "note", Message: "m", Fix: "f"})
	quiet.Alert("Not proven:", "no GPU here")
	hosttest.Equal(t, err.String(), " Not proven: no GPU here\n")
}

func TestNothingSteersATerminal(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"plain text, ümlaut, 漢字, \u200d", "plain text, ümlaut, 漢字, \u200d"},
		{"a\tb\nc\r\nd", "a\tb\nc\nd"},
		{"\x1b[2J\x1b]0;title\x07\x7f\b\x00", `\x1b[2J\x1b]0;title\x07\x7f\x08\x00`},
		{"over\rwritten", `over\x0dwritten`},
		{"\u009b31m", `\u009b31m`},
		{"\x9b31m \xff", `\x9b31m \xff`},
		{"user\u202e\u2066x\u200f", `user\u202e\u2066x\u200f`},
		{"a real \ufffd", "a real \ufffd"},
	} {
		hosttest.Equal(t, console.Visible(tt.in), tt.want, tt.in)
	}
	hosttest.Equal(t, console.VisibleColoured("\x1b[1m\x1b[31merror\x1b[0m: \x1b[2J"), "\x1b[1m\x1b[31merror\x1b[0m: \\x1b[2J")
	in := "\x1b \u009b \u202e \x7f \\x7f"
	data := hosttest.Must(json.Marshal(in))(t)
	shown := console.VisibleJSON(data)
	var back string
	if err := json.Unmarshal(shown, &back); err != nil || back != in || console.Visible(string(shown)) != string(shown) {
		t.Errorf("%s: %q, %v", shown, back, err)
	}
}

// TestEveryMessageIsFiltered: whatever of a Shell is called, with colours or without.
func TestEveryMessageIsFiltered(t *testing.T) {
	const evil = "\x1b[2Jx"
	var out bytes.Buffer
	for _, colour := range []bool{false, true} {
		s := &console.Shell{Out: &out, Err: &out, Colour: colour, Verbose: true, OutTerminal: true}
		s.Status("Found", "%s", evil)
		s.Alert("Found", "%s", evil)
		s.Detail("%s", evil)
		s.Warning("%s", evil)
		s.Note("%s", evil)
		s.Hint(evil)
		s.Failure(errors.New(evil))
		s.Finding(finding.Finding{ID: evil, Severity: finding.Error, Message: evil, Path: evil, Line: 1, Evidence: evil, Fix: evil})
		s.Failure(&cargo.RefusedError{Stderr: []byte(evil), Fix: evil})
		hosttest.OK(t, errors.Join(s.Print(evil), s.Data(evil)))
	}
	if got := strings.Count(out.String(), `\x1b[2Jx`); strings.Contains(out.String(), evil) || got != 2*16 {
		t.Errorf("%d: %q", got, out.String())
	}
}

// TestLongLines: of a name of a megabyte, which cargo takes, no line of an answer or a message is longer than a kernel's name.
func TestLongLines(t *testing.T) {
	var out bytes.Buffer
	s := &console.Shell{Out: &out, Err: &out}
	long := strings.Repeat("x", 1<<20)
	hosttest.OK(t, errors.Join(s.Print(long+"\na row\n"), s.Page(long)))
	s.Note("%s", long)
	s.Hint(long)
	before := out.Len()
	s.Error("%s", strings.Repeat("\u202e", 999)) // which takes 6 bytes to show
	if line := out.String()[before:]; len(line) != 1001 || !strings.HasSuffix(line, "… (6001 bytes)\n") {
		t.Errorf("%d bytes: %s", len(line), line)
	}
	if out.Len() > 30<<10 || !strings.Contains(out.String(), "xxx… (1048576 bytes)\na row\n") {
		t.Errorf("%d bytes: %.300s", out.Len(), out.String())
	}
}

// TestFold: what goes on stands below its text, and a command stays whole.
func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"short":                              "short",
		"one two three four five":            "one two three\nfour five",
		"  --a  one two three four":          "  --a  one two\n       three\n       four",
		"  command: gpubuild doctor --for x": "  command: gpubuild doctor --for x",
		"  gpubuild doctor  looks at it":     "  gpubuild doctor\n        looks at\n        it",
	} {
		hosttest.Equal(t, console.Fold(text, 16), want, text)
	}
}
