package cargo

import (
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// MissingError says that there is no cargo to be called.
type MissingError struct {
	Why string // where it was looked for
	Fix string
	Err error
}

func (e *MissingError) Error() string { return "no cargo: " + e.Why }

// ExitCode is exit.Missing.
func (e *MissingError) ExitCode() int { return exit.Missing }

// Hint says what to do about it.
func (e *MissingError) Hint() string { return e.Fix }

func (e *MissingError) Unwrap() error { return e.Err }

// RefusedError says that cargo itself will not do what it was asked: an unknown feature, a broken manifest. Its words are the user's
// answer and are to be printed once, as they are, with cargo's own exit code.
type RefusedError struct {
	Code   int
	Stderr []byte // cargo's own words, colours included
	Fix    string // empty unless we know more than cargo says
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
func (e *RefusedError) Hint() string { return e.Fix }

func (e *RefusedError) Unwrap() error { return e.Err }

// FirstLine is the first line of what cargo said where an error is its refusal, else of the error.
func FirstLine(err error) string {
	text := err.Error()
	var refused *RefusedError
	if errors.As(err, &refused) {
		text = strings.TrimSpace(string(refused.Stderr))
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// AnswerError says that cargo answered something that is not what such a question is answered with.
type AnswerError struct {
	Cmd  buildenv.Cmd
	What string
	Err  error
}

func (e *AnswerError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("answer of `%s` not understood: %s: %v", shortCmd(e.Cmd), e.What, e.Err)
	}
	return fmt.Sprintf("answer of `%s` not understood: %s", shortCmd(e.Cmd), e.What)
}

// Hint says what to do about it.
func (e *AnswerError) Hint() string {
	return "run that command yourself; if its output looks right, this cargo is newer than gpubuild knows"
}

func (e *AnswerError) Unwrap() error { return e.Err }

func shortCmd(c buildenv.Cmd) string {
	words := append([]string{"cargo"}, c.Args...)
	if len(words) > 6 {
		words = append(words[:6:6], "…")
	}
	return strings.Join(words, " ")
}

// stripANSI takes terminal sequences out of a text: colours (CSI … letter) and links (OSC … BEL or ESC \).
func stripANSI(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != 0x1b || i+1 >= len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		i++
		switch s[i] {
		case '[':
			for i++; i < len(s) && (s[i] < 0x40 || s[i] > 0x7e); i++ {
			}
			i++
		case ']':
			for i++; i < len(s) && s[i] != 0x07 && s[i] != 0x1b; i++ {
			}
			if i < len(s) && s[i] == 0x1b {
				i++
			}
			i++
		default:
			i++
		}
	}
	return b.String()
}
