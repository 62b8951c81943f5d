package console

import (
	"context"
	"errors"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/cargo"
)

// Finish prints the error that a run ended with, where nobody has said it yet, and answers the exit code.
func Finish(shell *Shell, err error) int {
	var code exit.Code
	var refused *cargo.RefusedError
	exited, isExit := err.(*buildenv.ExitError)
	switch {
	case err == nil, errors.As(err, &code): // a code alone: what it means was printed already
	case errors.Is(err, context.Canceled):
		shell.Error("interrupted")
	case errors.As(err, &refused): // cargo's own words, once, as they are
		shell.Cargo(string(refused.Stderr))
		shell.Hint(refused.Fix)
	case isExit && len(exited.Result.Stderr) == 0: // the program had our stderr and said itself what was wrong
	default:
		shell.Failure(err)
	}
	return exit.Of(err)
}
