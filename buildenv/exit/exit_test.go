package exit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

type coded struct{}

func (coded) Error() string { return "coded" }
func (coded) ExitCode() int { return Misfit }

func TestOf(t *testing.T) {
	child := &buildenv.ExitError{Result: buildenv.Result{Code: 101}}
	for _, tt := range []struct {
		story string
		err   error
		want  int
	}{
		{"no error", nil, Done},
		{"an error that says nothing of a code", errors.New("x"), Other},
		{"an error with a code", coded{}, Misfit},
		{"an error with a code below others", fmt.Errorf("a: %w", fmt.Errorf("b: %w", coded{})), Misfit},
		{"a code that is given over an inner one", Errorf(Missing, "", "a: %w", coded{}), Missing},
		{"no code is given over an inner one", Errorf(0, "", "a: %w", coded{}), Misfit},
		{"neither has one", Errorf(0, "", "a"), Other},
		{"a code alone", Code(Stale), Stale},
		{"a code below another error", fmt.Errorf("a: %w", Code(Stale)), Stale},
		{"a child that failed", child, 101},
		{"a child that failed on the way to something else", fmt.Errorf("asking rustc: %w", child), Other},
		{"interrupted", fmt.Errorf("a: %w", context.Canceled), Interrupted},
		{"interrupted, and the child's end says so too", errors.Join(child, context.Canceled), Interrupted},
		{"interrupted after a verdict was printed", errors.Join(Code(Unproved), context.Canceled), Unproved},
	} {
		t.Run(tt.story, func(t *testing.T) {
			hosttest.Equal(t, Of(tt.err), tt.want, "exit code")
		})
	}
}

// TestSignal: gpubuild ends by the signal that ended its program, and only if that is the whole end.
func TestSignal(t *testing.T) {
	t.Parallel()
	child := &buildenv.ExitError{Result: buildenv.Result{Code: 134, Signal: "SIGABRT"}}
	for _, tt := range []struct {
		story  string
		err    error
		want   int
		status int
	}{
		{"no error", nil, 0, Done},
		{"a verdict's program", Killed{139}, 11, 139},
		{"below another error", fmt.Errorf("a: %w", Killed{143}), 15, 143},
		{"cargo's program", child, 6, 134},
		{"a child on the way to something else", fmt.Errorf("asking rustc: %w", child), 0, Other},
		{"a status as a shell's of a signal", Code(134), 0, 134},
		{"its time was over: the signal was ours", &buildenv.ExitError{Result: buildenv.Result{Code: 130, Signal: "SIGINT", TimedOut: true}}, 0, 130},
		{"interrupted", errors.Join(child, context.Canceled), 0, Interrupted},
		{"a program that was interrupted with us", errors.Join(Killed{130}, context.Canceled), 0, 130},
		{"cargo's status of a program that a signal ended", &buildenv.ExitError{Result: buildenv.Result{Code: 134}}, 0, 134},
	} {
		if got := Signal(tt.err); got != tt.want || Of(tt.err) != tt.status {
			t.Errorf("%s: signal %d, code %d, want %d, %d", tt.story, got, Of(tt.err), tt.want, tt.status)
		}
	}
}

// TestHint: the outer hint counts; without one, that of the error inside.
func TestHint(t *testing.T) {
	t.Parallel()
	inner := &UsageError{What: "x", Fix: "inner"}
	for _, tt := range []struct {
		story string
		err   error
		want  string
	}{
		{"its own", Errorf(Usage, "outer", "a: %w", inner), "outer"},
		{"that of the error inside", Errorf(Usage, "", "a: %w", inner), "inner"},
		{"through a plain wrapper", fmt.Errorf("b: %w", inner), "inner"},
		{"none", errors.New("x"), ""},
	} {
		hosttest.Equal(t, Hint(tt.err), tt.want, tt.story)
	}
}
