// Package exit holds gpubuild's exit codes and turns an error into one. It prints nothing and ends nothing: the caller does. It owns the
// table behind `gpubuild help exit-codes` and README.
package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv"
)

// The exit codes. Cargo's or the program's own non-zero code takes precedence where they failed; 20 to 22 replace only a 0.
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
	Config       = 30
	Internal     = 70
	Interrupted  = 130
)

// Code is an error whose meaning was printed already: only the exit code is left to say.
type Code int

func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// ExitCode is the code itself.
func (c Code) ExitCode() int { return int(c) }

// Of is the exit code that an error stands for. An error type with a code of its own has a method ExitCode. A child's exit status counts
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

// UsageError says what is wrong with our own part of a command line, and what to write instead.
type UsageError struct{ What, Fix string }

func (e *UsageError) Error() string { return e.What }

// ExitCode is Usage.
func (e *UsageError) ExitCode() int { return Usage }

// Hint is what to write instead.
func (e *UsageError) Hint() string { return e.Fix }

// Codes lists every code with its meaning.
var Codes = []struct {
	Code    int
	Meaning string
}{
	{Done, "done"},
	{Other, "something else went wrong; the message says what"},
	{Usage, "the command line is wrong, or a file that it names cannot be used"},
	{Unreached, "a feature does not reach a GPU crate that ends up in the binary"},
	{Missing, "a component is missing: toolkit, host compiler, cuDNN, cargo"},
	{Misfit, "components do not fit together"},
	{Stale, "stale: cleaning was not allowed, or did not help; `gpubuild stale` found something"},
	{NotUsed, "the program ran on the CPU"},
	{Unproved, "not proven, or no device here"},
	{OtherKernels, "the GPU was used, but by no kernel that was looked for"},
	{Config, "a manifest, gpubuild.toml or a metadata table is missing or wrong"},
	{Internal, "a fault of gpubuild itself"},
	{Interrupted, "interrupted"},
}

// Table renders Codes for help and README.
func Table() string {
	var b strings.Builder
	for _, e := range Codes {
		fmt.Fprintf(&b, "%5d  %s\n", e.Code, e.Meaning)
	}
	b.WriteString("other  cargo's or the program's own code, when they failed\n")
	return b.String()
}
