package hosttest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// OK ends a test at an error.
func OK(t testing.TB, err error) {
	if t.Helper(); err != nil {
		t.Fatal(err)
	}
}

// Must returns the value of a call that must not fail, and ends the test where it does: Must(f())(t), as a call of two values can have no
// further argument.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		OK(t, err)
		return v
	}
}

// Must2 is Must of two values.
func Must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		OK(t, err)
		return a, b
	}
}

// Equal reports two values that differ, and what they are of.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	t.Helper()
	if text := fmt.Sprintf("%+v", got); got != want && strings.Contains(text, "\n") {
		t.Errorf("%v: got\n%s\nwant\n%+v", about, text, want)
	} else if got != want {
		t.Errorf("%v: got %q, want %q", about, text, fmt.Sprintf("%+v", want))
	}
}

// PlainDir is a temporary directory whose path has no blank, for formats in which a blank ends a path and nothing quotes it.
func PlainDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if !strings.Contains(dir, " ") {
		return dir
	}
	dir, err := os.MkdirTemp("/tmp", "gpubuild-test-")
	OK(t, err)
	t.Cleanup(func() { OK(t, os.RemoveAll(dir)) })
	return dir
}
