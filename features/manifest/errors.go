package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/exit"
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

// Excerpt is the line with a caret below the place; empty where the place is not known.
func (e *Error) Excerpt() string {
	if e.Line <= 0 || e.Text == "" {
		return ""
	}
	n := strconv.Itoa(e.Line)
	gap := strings.Repeat(" ", len(n))
	return fmt.Sprintf("%s |\n%s | %s\n%s | %s^", gap, n, e.Text, gap, pad(e.Text, e.Column-1))
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

// pad is as wide as the first n bytes of text, tabs kept so that the caret stands below its character.
func pad(text string, n int) string {
	var b strings.Builder
	for i, r := range text {
		if i >= n {
			break
		}
		if r == '\t' {
			b.WriteByte('\t')
			continue
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// SyntaxError turns what the TOML reader says into an Error with its place. ParseError.ErrorWithPosition of BurntSushi/toml v1.6 is not
// called: it panics on a file with CRLF and an unterminated string.
func SyntaxError(path string, data []byte, err error) *Error {
	me := &Error{Path: path, Message: err.Error()}
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		return me
	}
	if unix := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")); len(unix) < len(data) { // it counts lines wrongly behind a \r
		var again toml.ParseError
		if _, err := toml.Decode(string(unix), &map[string]any{}); errors.As(err, &again) {
			data, pe = unix, again
		}
	}
	me.Message = pe.Message
	if me.Message == "" {
		me.Message = strings.TrimPrefix(err.Error(), "toml: ")
	}
	start := min(max(pe.Position.Start, 0), len(data))
	me.Line = pe.Position.Line
	// The reader's own offset decides: its line is one too far when the text ended early.
	begin := strings.LastIndexByte(string(data[:start]), '\n') + 1
	if n := strings.Count(string(data[:start]), "\n") + 1; n < me.Line || me.Line <= 0 {
		me.Line = n
	} else if n > me.Line {
		begin = lineStart(data, me.Line)
		start = begin
	}
	end := len(data)
	if i := strings.IndexByte(string(data[begin:]), '\n'); i >= 0 {
		end = begin + i
	}
	me.Text = strings.ToValidUTF8(strings.TrimRight(string(data[begin:end]), "\r"), "\uFFFD")
	if len(me.Text) > 200 {
		me.Text = strings.ToValidUTF8(me.Text[:200], "")
	}
	me.Column = min(start-begin, len(me.Text)) + 1
	return me
}

func lineStart(data []byte, line int) int {
	at := 0
	for ; line > 1; line-- {
		i := strings.IndexByte(string(data[at:]), '\n')
		if i < 0 {
			return at
		}
		at += i + 1
	}
	return at
}
