package cargorun

import (
	"bytes"
	"context"
	"io"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/session"
)

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
