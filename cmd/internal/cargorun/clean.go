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
	"gpubuild/toolchain/cargo"
)

// Clean runs one of cargo's cleaning commands. What cargo waits for is printed at once, and waited says whether that was another cargo at
// work in the build directory; its other words are printed only with its error.
func Clean(
	ctx context.Context, m *session.Machine, c buildenv.Cmd, places cargo.Places, stdout io.Writer,
) (waited bool, err error) {
	waiting := &waitFilter{waits: func(what string) {
		if strings.Contains(what, "package cache") {
			m.Shell.Status("Blocking", "%s, which another cargo holds", what)
			return
		}
		waited = true
		m.Shell.Status("Blocking", "%s: another cargo is at work in %s, and nothing is removed under it", what,
			places.BuildDirectory)
	}}
	c.Stdout, c.Stderr = stdout, waiting
	_, err = m.Runner.Run(ctx, c)
	if said := waiting.rest(); err != nil && said != "" && ctx.Err() == nil {
		err = cleanFailed(said, places.BuildDirectory)
	}
	return waited, err
}

// waitFilter passes on "Blocking waiting for file lock on …" as it comes and keeps everything else.
type waitFilter struct {
	waits func(what string)
	line  []byte
	kept  bytes.Buffer
}

var blocking = lazyregexp.New(`Blocking(?:\x1b\[[0-9;]*m)* (waiting for .*)`)

func (w *waitFilter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' {
			w.line = append(w.line, b)
			continue
		}
		if m := blocking.FindSubmatch(w.line); m != nil {
			w.waits(strings.TrimRight(string(m[1]), "\r"))
		} else {
			w.kept.Write(append(w.line, '\n'))
		}
		w.line = w.line[:0]
	}
	return len(p), nil
}

func (w *waitFilter) rest() string {
	w.kept.Write(w.line)
	w.line = nil
	return strings.TrimSpace(w.kept.String())
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
