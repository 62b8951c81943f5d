package cargorun

import (
	"context"
	"fmt"

	"gpubuild/buildenv"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// Run runs cargo as the user called it, with the user's own streams.
func Run(ctx context.Context, m *session.Machine, line cargo.Line, env buildenv.Env) error {
	return plain(ctx, m, line, env, false)
}

// Replace is Plain as the last thing that gpubuild does: on Unix cargo takes its place, and Replace does not return.
func Replace(ctx context.Context, m *session.Machine, line cargo.Line, env buildenv.Env) error {
	return plain(ctx, m, line, env, true)
}

func plain(ctx context.Context, m *session.Machine, line cargo.Line, env buildenv.Env, last bool) error {
	tool, err := cargo.Find(m.Host, line)
	if err != nil {
		return err
	}
	c := cargo.Command(tool.With(env), line)
	c.Stdin, c.Stdout, c.Stderr, c.Grace = m.Stdin, m.Shell.Out, m.Shell.Err, buildenv.ProgramGrace // it may run a program
	if last {
		proc.Become(c)
	}
	_, err = m.Runner.Run(ctx, c)
	runs := line.Purpose() == cargo.Runs
	if exit, ok := err.(*buildenv.ExitError); ok && runs && exit.Result.Signal != "" && ctx.Err() == nil {
		m.Shell.Error("the program%s", Ended(exit.Result.Code)) // who calls cargo's run sees the signal, and a shell names it
	}
	return err
}

// signals names what ended a program. POSIX shells and cargo give 128 and the number of the signal as the exit status.
var signals = map[int]string{
	129: "SIGHUP", 132: "SIGILL", 134: "SIGABRT, as a panic or assertion of C++ ends", 135: "SIGBUS", 136: "SIGFPE",
	137: "SIGKILL, as the kernel ends a program for which there is no memory", 139: "SIGSEGV", 143: "SIGTERM",
}

// Ended words an exit status, to stand behind a program's name.
func Ended(code int) string {
	text := fmt.Sprintf(" ended with %d", code)
	if name := signals[code]; name != "" {
		text += " (" + name + ")"
	}
	return text
}
