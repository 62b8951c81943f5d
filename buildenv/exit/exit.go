// Package exit holds gpubuild's exit codes and turns an error into one. It prints nothing and ends nothing: the caller does. It owns the
// table behind `gpubuild help exit-codes` and docs/exit-codes.md.
package exit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/xrash/smetrics"

	"gpubuild/buildenv"
)

// The exit codes. Cargo's or the program's own non-zero code takes precedence where they failed; 20 to 23 replace only a 0.
const (
	Done         = 0
	Other        = 1
	Usage        = 2
	Unreached    = 10
	Missing      = 11
	Misfit       = 12
	Stale        = 13
	NotUsed      = 20
	Unproved     = 21
	OtherKernels = 22
	Alert        = 23
	Config       = 30
	Internal     = 70
	Interrupted  = 130
)

// Code is an error whose meaning was printed already: only the exit code is left to say.
type Code int

func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }
func (c Code) ExitCode() int { return int(c) }

// Killed is the code of a program that a signal ended: gpubuild ends by that signal, too, as cargo does.
type Killed struct{ Code Code }

func (k Killed) Error() string { return k.Code.Error() }
func (k Killed) Unwrap() error { return k.Code }

// Signal is the signal that ended a program whose end is the whole error; 0: none did.
func Signal(err error) int {
	var killed Killed
	child, isChild := err.(*buildenv.ExitError)
	switch {
	case errors.Is(err, context.Canceled):
	case errors.As(err, &killed):
		return int(killed.Code) - 128
	case isChild && child.Result.Signal != "" && !child.Result.TimedOut:
		return child.Result.Code - 128
	}
	return 0
}

// Of is the exit code of an error. An error type with a code of its own has a method ExitCode. A child's exit status counts
// only where the child's failure is the whole error; below another error it is a detail.
func Of(err error) int {
	var code Code
	var coded interface{ ExitCode() int }
	child, isChild := err.(*buildenv.ExitError)
	switch {
	case err == nil:
		return Done
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, context.Canceled):
		return Interrupted
	case isChild:
		return child.Result.Code
	case errors.As(err, &coded):
		return coded.ExitCode()
	}
	return Other
}

// Hint is what an error says that a user can do about it, by its method Hint; empty where it says nothing.
func Hint(err error) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return hinted.Hint()
	}
	return ""
}

// FindingID is the id of the finding that an error becomes: by its method FindingID, else that of its exit code.
func FindingID(err error) string {
	var own interface{ FindingID() string }
	if errors.As(err, &own) && own.FindingID() != "" {
		return own.FindingID()
	}
	code, id := Of(err), ""
	for _, c := range Codes {
		if c.Code == code {
			id = c.finding
		}
	}
	return cmp.Or(id, "gpubuild.failed")
}

// failure is an error with an exit code and what a user can do about it.
type failure struct {
	err  error
	code int
	fix  string
}

// Errorf makes an error that says its exit code and what to do about it; 0 and "": as an error inside has it. An error has a type of its
// own only where a caller must distinguish it from others.
func Errorf(code int, fix, format string, args ...any) error {
	return &failure{fmt.Errorf(format, args...), code, fix}
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// ExitCode is the code that it was made with, or that of the error inside.
func (f *failure) ExitCode() int {
	var coded interface{ ExitCode() int }
	if f.code == 0 && errors.As(f.err, &coded) {
		return coded.ExitCode()
	}
	return cmp.Or(f.code, Other)
}

// Hint is the fix that it was made with, or that of the error inside.
func (f *failure) Hint() string { return cmp.Or(f.fix, Hint(f.err)) }

// UsageError says what is wrong with our own part of a command line, and what to write instead.
type UsageError struct{ What, Fix string }

func (e *UsageError) Error() string { return e.What }
func (e *UsageError) ExitCode() int { return Usage }
func (e *UsageError) Hint() string  { return e.Fix }

// Usagef makes a UsageError.
func Usagef(fix, format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...), fix}
}

// Codes lists every code with its meaning.
var Codes = []struct {
	Code    int
	Meaning string
	finding string // the id of an error with this code that has none of its own
}{
	{Done, "done", ""},
	{Other, "something else went wrong; the message says what", ""},
	{Usage, "the command line or a variable is wrong, or a file that it names cannot be used", "command.wrong"},
	{Unreached, "a requested feature does not enable a GPU crate of the binary", ""},
	{Missing, "a component is missing: toolkit, host compiler, cuDNN, cargo", "toolchain.missing"},
	{Misfit, "components do not work together", "toolchain.misfit"},
	{Stale, "something is stale: `gpubuild stale` found it, or cleaning is not allowed or did not help", ""},
	{NotUsed, "the program ran on the CPU", ""},
	{Unproved, "not proven", ""},
	{OtherKernels, "the program used the GPU, but no kernel matched; or [test] coverage was not reached", ""},
	{Alert, "an alert that --fail-on names, or kernels that grew beyond [scan], and nothing else failed", ""},
	{Config, "a manifest, gpubuild.toml or a metadata table is missing or wrong", "config.wrong"},
	{Internal, "internal error: please report it", ""},
	{Interrupted, "interrupted", ""},
}

// Table renders Codes for help and docs/exit-codes.md.
func Table() string {
	var b strings.Builder
	for _, e := range Codes {
		fmt.Fprintf(&b, "%5d  %s\n", e.Code, e.Meaning)
	}
	b.WriteString("other  cargo's or the program's own code, when they failed\n")
	return b.String()
}

// Unknown is the error for a word that is none of those that are known: it names the one that was most likely meant, or says the fix.
func Unknown(what, word string, known []string, fix string) error {
	if near := Nearest(word, known); near != "" {
		return Usagef("", "unknown %s `%s`; did you mean `%s`?", what, word, near)
	}
	return Usagef(fix, "unknown %s `%s`", what, word)
}

// Nearest is the known word that was most likely meant by a misspelled one; empty if none is close.
func Nearest(word string, known []string) string {
	if len(word) > 64 { // no word of ours is that long, and the comparison takes time that grows with the length
		return ""
	}
	best, bestAt := "", min(3, len(strings.TrimPrefix(strings.TrimLeft(word, "-"), "gpu-"))/2)+1
	for _, k := range known {
		if k == "--gpu-"+strings.TrimPrefix(word, "--") { // prove has --gpu-device, since --device is what programs have
			return k
		}
		if d := smetrics.WagnerFischer(word, k, 1, 1, 1); d < bestAt || d == bestAt && best != "" && k < best {
			best, bestAt = k, d
		}
	}
	return best
}
