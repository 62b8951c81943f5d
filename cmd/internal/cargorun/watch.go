package cargorun

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// watch reads what cargo writes while it builds, so that a failure can be explained.
//
// Cargo draws its progress bar and colours only when its stderr is a terminal; there it gets one of ours, of which every byte goes on to
// the user's (proc.Pane). Where that is not possible it keeps the real one, and only the JSON messages that the user asked for are read. A
// failed build script's output cannot be read afterwards instead: cargo 1.95 sends no message of it and leaves the files of its last good
// run (measured). Everywhere else (a file, a pipe, CI) cargo's stderr passes through gpubuild, byte for byte.
type watch struct {
	*explain.Watcher // nil without usable rules
	errors           cargo.Diagnostics
	stderr           io.Writer // what cargo gets
	sees             bool      // cargo's stderr passes through
	close            func()    // to be called when cargo has ended
}

// readAlong is the variable with which a user keeps cargo on the real terminal.
const readAlong = "GPUBUILD_READ_ALONG"

// newWatch never keeps a build from running: without usable rules nothing is explained.
func newWatch(m *session.Machine) *watch {
	w := &watch{stderr: m.Shell.Err, close: func() {}}
	var read io.Writer = &w.errors
	if rules, err := explain.Default(); err != nil {
		m.Shell.Detail("failures will not be explained: %v", err)
	} else {
		w.Watcher = explain.NewWatcher(rules)
		read = io.MultiWriter(&w.errors, w.Watcher)
	}
	f, ok := m.Shell.Err.(*os.File)
	if !ok || !local.Terminal(f) {
		w.sees = true
		w.stderr = io.MultiWriter(m.Shell.Err, read)
		return w
	}
	if m.Host.Env.Get(readAlong) == "never" {
		return w
	}
	pane, err := proc.OpenPane(f, read)
	if err != nil {
		m.Shell.Detail("cargo keeps the terminal to itself: %v", err)
		return w
	}
	w.sees, w.stderr, w.close = true, pane.Stderr, pane.Close
	return w
}

// message reads a JSON message that the user asked for; a linker's error is in one.
func (w *watch) message(raw []byte) {
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
