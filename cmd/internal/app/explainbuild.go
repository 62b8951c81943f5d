package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"

	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// buildWatch looks at what cargo says while it builds, so that a failure can be explained.
//
// Cargo draws its progress bar and colours only when its stderr is a terminal; there it gets one of ours, of which every byte goes on to the user's
// (proc.Pane). Where that cannot be had it keeps the real one, and we see no more than the JSON messages that the user asked for. A failed build
// script's words cannot be read afterwards instead: cargo 1.95 sends no message of it and leaves the files of its last good run (measured).
// Everywhere else (a file, a pipe, CI) its stderr goes through us, byte for byte.
type buildWatch struct {
	*explain.Watcher
	errors cargo.Diagnostics
	stderr io.Writer // what cargo gets
	sees   bool      // cargo's stderr passes through
	ended  func()    // to be called when cargo has ended
}

// readAlong is the variable by which a user keeps cargo on the real terminal.
const readAlong = "GPUBUILD_READ_ALONG"

// watchBuild never keeps a build from running: without usable rules nothing is explained.
func (j *journey) watchBuild() *buildWatch {
	w := &buildWatch{stderr: j.Shell.Err, ended: func() {}}
	var read io.Writer = &w.errors
	if rules, err := explain.Default(); err != nil {
		j.Shell.Detail("failures will not be explained: %v", err)
	} else {
		w.Watcher = explain.NewWatcher(rules)
		read = io.MultiWriter(&w.errors, w.Watcher)
	}
	f, ok := j.Shell.Err.(*os.File)
	if !ok || !local.Terminal(f) {
		w.sees = true
		w.stderr = io.MultiWriter(j.Shell.Err, read)
		return w
	}
	if j.Host.Env.Get(readAlong) == "never" {
		return w
	}
	pane, err := proc.OpenPane(f, read)
	if err != nil {
		j.Shell.Detail("cargo keeps the terminal to itself: %v", err)
		return w
	}
	w.sees, w.stderr, w.ended = true, pane.Stderr, pane.Close
	return w
}

// message looks at a JSON message that the user asked for; a linker's complaint stands in one.
func (w *buildWatch) message(raw []byte) {
	var m struct {
		Message struct{ Level, Rendered string }
	}
	if bytes.Contains(raw, []byte(`"reason":"compiler-message"`)) && json.Unmarshal(raw, &m) == nil && m.Message.Level == "error" {
		_, _ = w.errors.Write([]byte(m.Message.Rendered + "\n"))
	}
	if w.Watcher != nil {
		_, _ = w.Write(append(raw[:len(raw):len(raw)], '\n'))
	}
}

// explain says after cargo's own words what a failed build's cause is, if it is known. What is unknown needs no words: cargo said it.
func (j *journey) explain(ctx context.Context, w *buildWatch) {
	if w.Watcher == nil {
		return
	}
	answer := w.Answer()
	if !answer.Known() {
		if !w.sees {
			j.Shell.Note("gpubuild did not read along on this terminal; to look for a known cause, add 2>&1 | gpubuild explain")
		}
		return
	}
	f := answer.Found[0]
	words := j.situation(ctx, answer.Found[:1]).words(f)
	finding := causeFinding(f, words)
	j.cause = &finding
	j.tellCause(f.Text, answer, words)
}
