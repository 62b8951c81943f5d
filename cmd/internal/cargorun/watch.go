package cargorun

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// watch reads what cargo writes while it builds, so that a failure can be explained. Cargo's stderr passes through gpubuild, byte for byte;
// where it ends at a terminal, cargo is asked to draw its bar and colours all the same (cargo.Line.OnTerminal). A failed build script's
// output cannot be read afterwards instead: cargo 1.95 sends no message of it and leaves the files of its last good run (measured).
type watch struct {
	listener  explain.Tail
	errors    cargo.Diagnostics
	lines     buildenv.Lines // feeds errors, and sees waited
	waited    bool           // another cargo holds the lock of the build directory
	installed []string       // what cargo says to install, and where
	stderr    io.Writer      // what cargo gets
	sees      bool           // cargo's stderr passes through
	width     int            // of the terminal where it ends; 0: none
}

// ReadAlong is the variable with which a user keeps cargo on the real terminal.
const ReadAlong = "GPUBUILD_READ_ALONG"

func newWatch(m *session.Machine) *watch {
	w := &watch{stderr: m.Shell.Err}
	w.lines.Each = func(line []byte) {
		w.errors.Line(line)
		w.waited = w.waited || lockHeld.Match(line)
		if path := installing.FindSubmatch(line); path != nil && m.Host.IsAbs(string(path[1])) {
			w.installed = append(w.installed, string(path[1]))
		}
	}
	if f, ok := m.Shell.Err.(*os.File); ok && local.Terminal(f) {
		if w.width = local.Width(f); w.width == 0 || m.Host.Env.Get(ReadAlong) == "never" {
			w.width = 0
			return w
		}
	}
	w.sees, w.stderr = true, io.MultiWriter(m.Shell.Err, &w.lines, &w.listener)
	return w
}

var lockHeld = lazyregexp.New(`Blocking\S* waiting for file lock on (?:build|artifact)`)

var installing = lazyregexp.New(`^\s*\S*(?:Installing|Replacing)\S* (.+?)\r?\n?$`)

// message reads a JSON message that the user asked for; a linker's error is in one.
func (w *watch) message(raw []byte) {
	var m struct {
		Message struct{ Level, Rendered string }
	}
	if bytes.Contains(raw, []byte(`"reason":"compiler-message"`)) && json.Unmarshal(raw, &m) == nil && m.Message.Level == "error" {
		_, _ = w.lines.Write([]byte(m.Message.Rendered + "\n"))
	}
	_, _ = w.listener.Write(append(raw[:len(raw):len(raw)], '\n')) // never fails
}
