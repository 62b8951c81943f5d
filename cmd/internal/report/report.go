// Package report words what the other rooms found: status lines like cargo's, findings, and the JSON envelope of every verb. It decides
// nothing about the machine; a result is made elsewhere, once, and only rendered here.
//
// It owns the envelope format "gpubuild/<verb>/1".
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Severities of a finding.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
	SeverityNote    = "note"
)

// Finding is one thing that a person or a machine should know, with the place where it can be mended.
type Finding struct {
	ID       string `json:"id"` // stable, such as features.unreached
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"` // from 1; 0 when there is none
	Fix      string `json:"fix,omitempty"`
	Evidence string `json:"evidence,omitempty"`
}

// Shell writes messages as cargo does: the verb bold and right-aligned to 12 columns on stderr, results on stdout.
type Shell struct {
	Out, Err io.Writer
	Colour   bool
	Quiet    bool // status lines are left out; warnings and errors are not
	Verbose  bool // Detail lines are written
	Guarded  bool // a step of GitHub Actions reads along: quoted text must not be taken for its commands
}

const (
	green  = "\x1b[1m\x1b[32m"
	yellow = "\x1b[1m\x1b[33m"
	red    = "\x1b[1m\x1b[31m"
	cyan   = "\x1b[1m\x1b[36m"
	reset  = "\x1b[0m"
)

func (s *Shell) paint(colour, text string) string {
	if !s.Colour {
		return text
	}
	return colour + text + reset
}

// line writes one whole message at once, so that it is not cut by a child's output. Nothing can be done about a stderr that cannot be
// written to.
func (s *Shell) line(text string) {
	if s.Guarded {
		text = Disarmed(text)
	}
	_, _ = io.WriteString(s.Err, text+"\n")
}

// Status writes what was done or found, behind a verb of at most 12 letters.
func (s *Shell) Status(verb, format string, args ...any) {
	if !s.Quiet {
		s.line(s.paint(green, fmt.Sprintf("%12s", verb)) + " " + fmt.Sprintf(format, args...))
	}
}

// Loud is Status in the colour of a warning, and is written even when quiet: what must not be missed.
func (s *Shell) Loud(verb, format string, args ...any) {
	s.line(s.paint(yellow, fmt.Sprintf("%12s", verb)) + " " + fmt.Sprintf(format, args...))
}

// Detail writes a line below a status, only when verbose.
func (s *Shell) Detail(format string, args ...any) {
	if s.Verbose && !s.Quiet {
		s.line(strings.Repeat(" ", 13) + fmt.Sprintf(format, args...))
	}
}

// Warning, Note and Error write a message of that weight.
func (s *Shell) Warning(format string, args ...any) {
	s.line(s.paint(yellow, "warning") + ": " + fmt.Sprintf(format, args...))
}

// Note writes what is worth knowing and needs no action.
func (s *Shell) Note(format string, args ...any) {
	if !s.Quiet {
		s.line(s.paint(cyan, "note") + ": " + fmt.Sprintf(format, args...))
	}
}

// Error writes why it goes no further.
func (s *Shell) Error(format string, args ...any) {
	s.line(s.paint(red, "error") + ": " + fmt.Sprintf(format, args...))
}

// Hint writes what to do, on a line of its own behind a blank one.
func (s *Shell) Hint(text string) {
	if text != "" {
		s.line("\n" + s.paint(cyan, "hint") + ": " + text)
	}
}

// Finding writes a finding: its message, the place, the evidence when verbose, and the fix.
func (s *Shell) Finding(f Finding) {
	switch f.Severity {
	case SeverityError:
		s.Error("%s [%s]", f.Message, f.ID)
	case SeverityWarning:
		s.Warning("%s [%s]", f.Message, f.ID)
	default:
		if s.Quiet {
			return
		}
		s.Note("%s [%s]", f.Message, f.ID)
	}
	if f.Path != "" {
		place := f.Path
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", f.Path, f.Line)
		}
		s.line("  --> " + place)
	}
	if f.Evidence != "" && s.Verbose {
		for _, l := range strings.Split(f.Evidence, "\n") {
			s.line("   = " + l)
		}
	}
	if f.Fix != "" {
		s.Hint(strings.ReplaceAll(f.Fix, "\n", "\n      "))
	}
}

// Envelope renders a verb's machine-readable answer: schema, ok, findings (there even when empty) and the fields of a struct beside them.
func Envelope(verb string, ok bool, findings []Finding, fields any) ([]byte, error) {
	if findings == nil {
		findings = []Finding{}
	}
	head, err := json.Marshal(struct {
		Schema   string    `json:"schema"`
		OK       bool      `json:"ok"`
		Findings []Finding `json:"findings"`
	}{"gpubuild/" + verb + "/1", ok, findings})
	if err != nil {
		return nil, err
	}
	if fields != nil {
		body, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		if len(body) < 2 || body[0] != '{' {
			return nil, fmt.Errorf("the fields of a %s answer are no JSON object", verb)
		}
		if string(body) != "{}" {
			head = append(append(head[:len(head)-1:len(head)-1], ','), body[1:]...)
		}
	}
	var out bytes.Buffer
	if err := json.Indent(&out, head, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Colour decides whether messages are coloured. The order is cargo's and uv's: the flag, CARGO_TERM_COLOR, NO_COLOR, CLICOLOR_FORCE,
// CLICOLOR, then whether stderr is a terminal that is not dumb.
func Colour(flag string, lookup func(string) (string, bool), terminal bool) bool {
	if flag == "" {
		flag, _ = lookup("CARGO_TERM_COLOR")
	}
	switch flag {
	case "always":
		return true
	case "never":
		return false
	}
	if v, _ := lookup("NO_COLOR"); v != "" {
		return false
	}
	if v, _ := lookup("CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	if v, _ := lookup("CLICOLOR"); v == "0" {
		return false
	}
	term, _ := lookup("TERM")
	return terminal && term != "dumb"
}

// Bytes words a size in the units that download tools use: 1 MB is 10^6 bytes.
func Bytes(n int64) string {
	switch {
	case n >= 1_000_000_000:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1_000_000:
		return fmt.Sprintf("%d MB", (n+500_000)/1_000_000)
	case n >= 1000:
		return fmt.Sprintf("%d kB", (n+500)/1000)
	}
	return fmt.Sprintf("%d bytes", n)
}
