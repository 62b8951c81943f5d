package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
)

// NotFoundError says that neither a directory nor its parents hold a Cargo.toml.
type NotFoundError struct{ Dir string }

func (e *NotFoundError) Error() string {
	return "no Cargo.toml in " + e.Dir + " or any directory above it"
}

func (e *NotFoundError) ExitCode() int { return exit.Config }

func (e *NotFoundError) Hint() string {
	return "go to the project's directory or name its manifest with --manifest-path"
}

// Error says what is wrong in a manifest and where. Line and Column count from 1; 0 means that the place is not known.
type Error struct {
	Path         string
	Line, Column int
	Message      string
	Text         string // the line itself
	Err          error  // what reading it answered; nil when the text is wrong
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": " + e.Message)
	if text := e.Excerpt(); text != "" {
		b.WriteString("\n" + text)
	}
	return b.String()
}

var notTab = lazyregexp.New(`[^\t]`)

// Excerpt is the line with a caret below the place; empty where the place is not known.
func (e *Error) Excerpt() string {
	if e.Line <= 0 || e.Text == "" {
		return ""
	}
	n := strconv.Itoa(e.Line)
	gap := strings.Repeat(" ", len(n))
	// tabs are kept, so that the caret is below its character
	return fmt.Sprintf("%s |\n%s | %s\n%s | %s^", gap, n, e.Text, gap, notTab.ReplaceAllString(e.Text[:min(e.Column-1, len(e.Text))], " "))
}

func (e *Error) ExitCode() int { return exit.Config }
func (e *Error) Unwrap() error { return e.Err }

func (e *Error) Hint() string {
	if e.Err != nil {
		return "check that the file exists and may be read"
	}
	if e.Line > 0 {
		return fmt.Sprintf("correct line %d of %s", e.Line, e.Path)
	}
	return "correct " + e.Path
}

// SyntaxError turns what the TOML reader says into an Error with its place. ParseError.ErrorWithPosition of BurntSushi/toml v1.6 is not
// called: it panics on a file with CRLF and an unterminated string. Its offsets are right where lines end with a single byte.
func SyntaxError(path string, data []byte, err error) *Error {
	text, pe := string(data), toml.ParseError{}
	if !errors.As(err, &pe) {
		return &Error{Path: path, Message: err.Error()}
	}
	if strings.Contains(text, "\r\n") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		_, again := toml.Decode(text, &map[string]any{})
		errors.As(again, &pe)
	}
	start := min(max(pe.Position.Start, 0), len(text))
	begin := strings.LastIndexByte(text[:start], '\n') + 1
	line, _, _ := strings.Cut(text[begin:], "\n")
	return &Error{Path: path, Line: strings.Count(text[:start], "\n") + 1, Column: start - begin + 1,
		Message: cmp.Or(pe.Message, strings.TrimPrefix(err.Error(), "toml: ")),
		Text:    strings.ToValidUTF8(line[:min(len(line), 200)], "\uFFFD")}
}
