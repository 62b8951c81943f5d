package console

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpubuild/buildenv/lazyregexp"
)

// Visible shows what a terminal would obey: control characters and those that reorder text become \x1b, \u202e, and bytes that are no text
// \xff. Line breaks and tabs stay. Everything that gpubuild prints goes through it; what cargo and programs print themselves does not.
func Visible(text string) string {
	if !strings.ContainsFunc(text, obeyed) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\r' && strings.HasPrefix(text[i:], "\r\n"):
		case r < 0x80 && obeyed(r) || r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case obeyed(r) && r != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// obeyed reports whether a terminal does something else than show a character. CVE-2021-42574 has those that reorder text.
func obeyed(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == utf8.RuneError: // perhaps a byte that is no text
		return true
	}
	return unicode.IsControl(r) || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F || r == 0x061C ||
		r == 0x2028 || r == 0x2029
}

// VisibleJSON is Visible for what encoding/json made, which is text and escapes the control characters below U+0020 itself.
func VisibleJSON(data []byte) []byte {
	var out []byte
	for _, r := range string(data) {
		if r >= 0x7f && r != utf8.RuneError && obeyed(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

var colours = lazyregexp.New("\x1b\\[[0-9;]*m")

// VisibleColoured is Visible that keeps colours, of a text that cargo wrote.
func VisibleColoured(text string) string {
	var b strings.Builder
	at := 0
	for _, c := range colours.FindAllStringIndex(text, -1) {
		b.WriteString(Visible(text[at:c[0]]) + text[c[0]:c[1]])
		at = c[1]
	}
	return b.String() + Visible(text[at:])
}

// Cargo writes to stderr what cargo said, with its colours.
func (s *Shell) Cargo(text string) {
	text = VisibleColoured(text)
	if s.Guarded {
		text = Disarmed(text)
	}
	_, _ = io.WriteString(s.Err, text)
}

// Ask writes a question to stderr, behind which the answer is typed.
func (s *Shell) Ask(question string) { _, _ = io.WriteString(s.Err, Visible(question)) }

// Print writes an answer for people to stdout.
func (s *Shell) Print(text string) error {
	text = cut(Visible(text), longestAnswer)
	if s.OutColour {
		text = painted(text)
	}
	_, err := io.WriteString(s.Out, text)
	return err
}

// Data writes what a program reads: the lines of a shell, a patch, a workflow. It is written as it is, except to a terminal.
func (s *Shell) Data(text string) error {
	if s.OutTerminal {
		text = Visible(text)
	}
	_, err := io.WriteString(s.Out, text)
	return err
}

// JSONLines writes each of cargo's JSON messages as a line. Nobody reads a closed stdout: cargo reports it.
func JSONLines(w io.Writer) func(message []byte) {
	return func(message []byte) { _, _ = w.Write(append(VisibleJSON(message), '\n')) }
}
