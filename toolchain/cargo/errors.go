package cargo

import (
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
)

// RefusedError says that cargo itself will not do what it was asked: an unknown feature, a broken manifest. Its words are the user's
// answer and are to be printed once, as they are, with cargo's own exit code.
type RefusedError struct {
	Code   int
	Stderr []byte // cargo's own words, colours included
	Fix    string // empty unless we know more than cargo says
	NoLock bool   // only because our own question writes no Cargo.lock, and there is none yet
	Err    error
}

// ExitCode is cargo's own exit code.
func (e *RefusedError) ExitCode() int { return e.Code }

func (e *RefusedError) Error() string {
	text := strings.TrimSpace(stripANSI(string(e.Stderr)))
	if text == "" {
		return fmt.Sprintf("cargo refused with exit status %d and no words", e.Code)
	}
	return "cargo: " + text
}

// Hint says what to do where cargo does not say it.
func (e *RefusedError) Hint() string  { return e.Fix }
func (e *RefusedError) Unwrap() error { return e.Err }

// FirstLine is the first line of what cargo said where an error is its refusal, else of the error.
func FirstLine(err error) string {
	text := err.Error()
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		text = strings.TrimSpace(string(refused.Stderr))
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// misunderstood says that cargo answered something that is not what such a question is answered with.
func misunderstood(c buildenv.Cmd, what string, err error) error {
	const fix = "run that command yourself; if its output looks right, this cargo is newer than gpubuild knows"
	if err == nil {
		return exit.Errorf(0, fix, "answer of `%s` not understood: %s", shortCmd(c), what)
	}
	return exit.Errorf(0, fix, "answer of `%s` not understood: %s: %w", shortCmd(c), what, err)
}

func shortCmd(c buildenv.Cmd) string {
	words := append([]string{"cargo"}, c.Args...)
	if len(words) > 6 {
		words = append(words[:6:6], "…")
	}
	return strings.Join(words, " ")
}

// sequences are what a terminal obeys in a text: colours (CSI … letter), links (OSC … BEL or ESC \).
var sequences = lazyregexp.New(`(?s)\x1b(\[[^@-~]*[@-~]?|\][^\x07\x1b]*(\x07|\x1b.?)?|[^\[\]])`)

func stripANSI(s string) string { return sequences.ReplaceAllString(s, "") }
