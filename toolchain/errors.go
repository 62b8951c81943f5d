package toolchain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
)

// Loser is a candidate that was not chosen.
type Loser struct {
	What   string `json:"what"`  // CUDA toolkit, host compiler, cuDNN
	Where  string `json:"where"` // path
	Origin string `json:"origin"`
	Why    string `json:"why"`
}

func (l Loser) String() string {
	s := l.What + " " + l.Where
	if l.Origin != "" && l.Origin != l.Where {
		s += " (" + l.Origin + ")"
	}
	return s + ": " + l.Why
}

// Part is the part of a set that is at fault; it is the id of doctor's check of that part.
type Part string

// Parts.
const (
	PartToolkit    Part = "cuda.toolkit"
	PartCapability Part = "capability"
	PartCompiler   Part = "host.compiler"
	PartSDK        Part = "windows.sdk"
	PartCUDNN      Part = "cudnn"
	PartROCm       Part = "rocm"
)

// AtFault is the part that an error of Choose is about; empty: parts do not fit each other.
func AtFault(err error) Part {
	if missing, ok := errors.AsType[*MissingError](err); ok {
		return missing.Part
	}
	if misfit, ok := errors.AsType[*MisfitError](err); ok {
		return misfit.Part
	}
	return ""
}

// MissingError says that a component is not on this machine.
type MissingError struct {
	What   string   // CUDA toolkit, host compiler, cuDNN
	Losers []Loser  // what was found instead, and why it does not count
	Places []string // where was looked
	Unread []string // what could not be looked at: it may be there
	Fix    string
	Part   Part
}

func (e *MissingError) Error() string {
	s := "there is no " + e.What
	if len(e.Losers) == 0 && len(e.Places) > 0 {
		s += " in " + strings.Join(e.Places, ", ")
	}
	return s + losers(e.Losers) + unread(e.Unread)
}

func (e *MissingError) ExitCode() int { return exit.Missing }
func (e *MissingError) Hint() string  { return e.Fix }

// MisfitError says that what is on this machine does not fit together.
type MisfitError struct {
	What   string // what does not fit: "no CUDA toolkit fits gcc 15.1.0 (/usr/bin/gcc)"
	Losers []Loser
	Unread []string // what could not be looked at: one that fits may be there
	Fix    string
	Part   Part
}

// Error says each reason once: the loser that What is about is not listed again.
func (e *MisfitError) Error() string {
	others := slices.DeleteFunc(slices.Clone(e.Losers), func(l Loser) bool {
		return strings.Contains(e.What, l.Where) && strings.HasSuffix(e.What, l.Why)
	})
	return e.What + losers(others) + unread(e.Unread)
}

func (e *MisfitError) ExitCode() int { return exit.Misfit }

// Hint says what a user can do about it: the smallest change that makes a set.
func (e *MisfitError) Hint() string { return e.Fix }

func losers(all []Loser) string {
	var b strings.Builder
	for _, l := range all {
		fmt.Fprintf(&b, "\n  %s", l)
	}
	return b.String()
}

func unread(all []string) string {
	var b strings.Builder
	for _, u := range all {
		b.WriteString("\n  " + u)
	}
	return b.String()
}
