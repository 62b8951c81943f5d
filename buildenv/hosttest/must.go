package hosttest

import (
	"fmt"
	"strings"
	"testing"
)

// OK ends a test at an error.
func OK(t testing.TB, err error) {
	if t.Helper(); err != nil {
		t.Fatal(err)
	}
}

// Must returns the value of a call that must not fail. It panics: a call of two values can have no further argument, such as the test.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Must2 is Must of two values.
func Must2[A, B any](a A, b B, err error) (A, B) { return a, Must(b, err) }

// Equal reports two values that differ, and what they are of.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	t.Helper()
	if text := fmt.Sprintf("%+v", got); got != want && strings.Contains(text, "\n") {
		t.Errorf("%v: got\n%s\nwant\n%+v", about, text, want)
	} else if got != want {
		t.Errorf("%v: got %q, want %q", about, text, fmt.Sprintf("%+v", want))
	}
}
