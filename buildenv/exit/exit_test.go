package exit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gpubuild/buildenv"
)

type coded struct{}

func (coded) Error() string { return "coded" }
func (coded) ExitCode() int { return Misfit }

func TestOf(t *testing.T) {
	child := &buildenv.ExitError{Result: buildenv.Result{Code: 101}}
	tests := []struct {
		story string
		err   error
		want  int
	}{
		{"no error", nil, Done},
		{"an error that says nothing of a code", errors.New("x"), Other},
		{"an error with a code", coded{}, Misfit},
		{"an error with a code below others", fmt.Errorf("a: %w", fmt.Errorf("b: %w", coded{})), Misfit},
		{"a code alone", Code(Stale), Stale},
		{"a code below another error", fmt.Errorf("a: %w", Code(Stale)), Stale},
		{"a child that failed", child, 101},
		{"a child that failed on the way to something else", fmt.Errorf("asking rustc: %w", child), Other},
		{"interrupted", fmt.Errorf("a: %w", context.Canceled), Interrupted},
		{"interrupted, and the child's end says so too", errors.Join(child, context.Canceled), Interrupted},
		{"interrupted after a verdict was printed", errors.Join(Code(Unproved), context.Canceled), Unproved},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			if got := Of(tt.err); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}
