package cargorun

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
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

// Clean runs cargo's cleaning of a build directory. What cargo waits for is printed at once, its other words only with its error.
func Clean(ctx context.Context, m *session.Machine, c buildenv.Cmd, dir string) error {
	var kept bytes.Buffer
	lines := waitFilter(&kept, func(what string) {
		if strings.Contains(what, "package cache") {
			m.Shell.Status("Blocking", "%s, which another cargo holds", what)
			return
		}
		m.Shell.Status("Blocking", "%s: another cargo is at work in %s, and nothing is removed under it", what, dir)
	})
	c.Stdout, c.Stderr = io.Discard, lines
	_, err := m.Runner.Run(ctx, c)
	lines.End()
	if said := strings.TrimSpace(kept.String()); err != nil && said != "" && ctx.Err() == nil {
		err = cleanFailed(said, dir)
	}
	return err
}

var blocking = lazyregexp.New(`Blocking(?:\x1b\[[0-9;]*m)* (waiting for .*)`)

// waitFilter reports "Blocking waiting for file lock on …" as it comes and keeps everything else.
func waitFilter(kept *bytes.Buffer, waits func(what string)) *buildenv.Lines {
	return &buildenv.Lines{Each: func(line []byte) {
		if m := blocking.FindSubmatch(line); m != nil {
			waits(strings.TrimSpace(string(m[1])))
		} else {
			kept.Write(line)
		}
	}}
}

// cleanFailed is cargo's own message about why it could not remove something, with what to do about the commonest reasons. What it has not
// removed is still there and still reported as stale.
func cleanFailed(words, dir string) error {
	fix := "nothing that is stale was taken for good; run it again when cargo's reason is gone"
	switch {
	case strings.Contains(words, "Read-only file system"), strings.Contains(words, "ermission denied"),
		strings.Contains(words, "Access is denied"):
		fix = "make " + dir + " one that you may write to, or build into another directory with --target-dir"
	case strings.Contains(words, "No space left"):
		fix = "free some space on the disk that holds " + dir
	}
	return exit.Errorf(0, fix, "cargo could not clean %s:\n%s", dir, strings.TrimPrefix(words, "error: "))
}
