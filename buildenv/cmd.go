package buildenv

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Cmd is a process to be started, as a value: built in one function, compared in tests, run in another.
type Cmd struct {
	Path    string        // the program's absolute path
	Args    []string      // without the program's own name
	Dir     string        // where it starts; empty: the current directory
	Env     []string      // its whole environment as "NAME=value"
	Blank   bool          // of other files than these streams, which it inherits on Unix, it has empty ones
	Stdin   io.Reader     // nil: no input
	Stdout  io.Writer     // nil: collected in Result.Stdout
	Stderr  io.Writer     // nil: collected in Result.Stderr
	Timeout time.Duration // 0: none
	Grace   time.Duration // how long it may take to end after it was asked to, before it is killed; 0: the runner's
	Limit   int64         // bytes of each stream that are collected; 0: 64 MiB. More is dropped and Result.Truncated set
	// Memory is how many bytes of its own each process may have (RLIMIT_DATA; files that are mapped are not counted); 0: any number. Only
	// on Linux; elsewhere nothing limits it.
	Memory int64
	// Stop, when it is closed, asks the tree to end by SIGTERM; after Grace it is killed. Timeout asks by SIGTERM, too, where Stop is set.
	Stop <-chan struct{}
}

// ProgramGrace is the Grace of the user's own programs: an interrupted training run may write a checkpoint. It is what `docker stop` gives.
const ProgramGrace = 10 * time.Second

func (c Cmd) String() string { return strings.Join(append([]string{c.Path}, c.Args...), " ") }

// Runner runs a process to its end.
type Runner interface {
	Run(ctx context.Context, c Cmd) (Result, error)
}

// Result is what came of a process that was started.
type Result struct {
	Code      int           // exit status; 128+n when a signal n ended it
	Signal    string        // name of the signal that ended it, if one did
	Stdout    []byte        // only when Cmd.Stdout was nil
	Stderr    []byte        // only when Cmd.Stderr was nil
	Truncated bool          // more was written than Cmd.Limit allowed, or its end was not waited for
	TimedOut  bool          // Cmd.Timeout ended it
	Stopped   bool          // Cmd.Stop ended it
	Elapsed   time.Duration // wall-clock time
}

// ExitError says that a process ran and ended with another status than 0.
type ExitError struct {
	Cmd    Cmd
	Result Result
}

func (e *ExitError) Error() string {
	name := e.Cmd.Path[strings.LastIndexAny(e.Cmd.Path, `/\`)+1:]
	if len(e.Cmd.Args) > 0 {
		name += " " + e.Cmd.Args[0]
	}
	how := fmt.Sprintf("exit status %d", e.Result.Code)
	switch {
	case e.Result.TimedOut:
		how = fmt.Sprintf("ended after %s without an answer", e.Cmd.Timeout)
	case e.Result.Signal != "":
		how = "ended by signal " + e.Result.Signal
	}
	tail := cmp.Or(lastLines(string(e.Result.Stderr), 5), lastLines(string(e.Result.Stdout), 5)) // nvcc.exe complains to stdout
	if tail != "" {
		return name + ": " + how + ":\n" + tail
	}
	return name + ": " + how
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
