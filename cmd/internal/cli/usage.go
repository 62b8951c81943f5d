package cli

import (
	"gpubuild/buildenv/exit"
)

// usageError says what is wrong with our own part of the command line.
type usageError struct{ What, Fix string }

func (e *usageError) Error() string { return e.What }

// ExitCode is exit.Usage.
func (e *usageError) ExitCode() int { return exit.Usage }
func (e *usageError) Hint() string  { return e.Fix }
