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
	Locked bool   // only because our own question writes no Cargo.lock, and the build would
	NoLock bool   // Locked, and there is none yet
	// NoPrivateLock: this cargo (before 1.95, or so) takes no Cargo.lock but the workspace's.
	NoPrivateLock bool
	// Unfetched says which crate was never fetched, and why cargo did not fetch it now; empty: that is not what it refuses.
	Unfetched string
	Err       error
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

// What cargo (1.95) says of a crate that it does not have, and of a network that does not answer.
var (
	unfetchedCrate = lazyregexp.New("(?:no matching package(?: named)?|failed to (?:get|download|load source for dependency)|" +
		"failed to select a version for(?: the requirement)?) `([^ `]+)")
	offlineWords = lazyregexp.New(`you're using offline mode|but --offline was specified|you are in the offline mode`)
	networkWords = lazyregexp.New(`spurious network error|network failure seems to have happened|[Cc]ould not resolve|[Cc]ould ?n[o']t connect|` +
		`failed to connect|failed to resolve address|[Tt]imed? ?out|download of config\.json failed`)
)

// Unfetched reads from cargo's words that a crate was never fetched, and why cargo does not fetch it: then it knows nothing of the
// dependencies, and its refusal says nothing about the project.
func Unfetched(stderr string) string {
	text := stripANSI(stderr)
	crate := "a dependency"
	if m := unfetchedCrate.FindStringSubmatch(text); m != nil {
		crate = m[1]
	}
	switch {
	case offlineWords.MatchString(text):
		return crate + " is not fetched yet"
	case networkWords.MatchString(text) && strings.Contains(text, "Caused by:"):
		lines := strings.Split(strings.TrimSpace(text), "\n")
		return crate + " is not fetched yet, and cargo could not reach the index: " + strings.TrimSpace(lines[len(lines)-1])
	}
	return ""
}

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
