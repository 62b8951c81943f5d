package cargo

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Reasons of the messages that are understood (cargo's external-tools
// reference). Others, compiler diagnostics among them, go to the caller raw.
const (
	Artifact       = "compiler-artifact"
	ScriptExecuted = "build-script-executed"
	Finished       = "build-finished"
)

// Message is one of cargo's JSON messages. The reason says which fields it has.
type Message struct {
	Reason    string `json:"reason"`
	PackageID string `json:"package_id"`

	// compiler-artifact
	ManifestPath string   `json:"manifest_path"`
	Target       Target   `json:"target"`
	Profile      Profile  `json:"profile"`
	Features     []string `json:"features"`
	Filenames    []string `json:"filenames"`
	Executable   string   `json:"executable"` // empty unless it is one
	Fresh        bool     `json:"fresh"`

	// build-script-executed: sent for fresh scripts too, not for one that failed. One package sends several when its script ran for
	// several targets or feature sets; out_dir distinguishes them.
	LinkedLibs  []string    `json:"linked_libs"`
	LinkedPaths []string    `json:"linked_paths"`
	Cfgs        []string    `json:"cfgs"`
	Env         [][2]string `json:"env"`
	OutDir      string      `json:"out_dir"`

	// build-finished
	Success bool `json:"success"`

	Raw []byte `json:"-"` // the line without its end; valid until the callback returns
}

// Target is what a package's unit makes.
type Target struct {
	Kind       []string `json:"kind"`
	CrateTypes []string `json:"crate_types"`
	Name       string   `json:"name"`
	SrcPath    string   `json:"src_path"`
}

// Profile is how a unit was compiled.
type Profile struct {
	OptLevel        string `json:"opt_level"`
	DebugAssertions bool   `json:"debug_assertions"`
	OverflowChecks  bool   `json:"overflow_checks"`
	Test            bool   `json:"test"`
}

// maxLine is the longest line that is taken for a message; a diagnostic with a macro's expansion can have megabytes. A longer one is
// passed on as other output, in pieces.
const maxLine = 16 << 20

// Known says that cargo may send a message of this reason; other JSON on the same stream is the program's own.
func knownReason(r string) bool {
	switch r {
	case Artifact, ScriptExecuted, Finished, "compiler-message", "timing-info", "future-incompat", "future-incompat-report":
		return true
	}
	return false
}

// understood says which of them are decoded into a Message.
func understood(r string) bool { return r == Artifact || r == ScriptExecuted || r == Finished }

// ParseMessage reads one line. It is a message only if it begins with { and has a known reason (external-tools.md: programs share the
// stream). A message that is cargo's but not understood has only Reason and Raw.
func ParseMessage(line []byte) (Message, bool) {
	text := bytes.TrimRight(line, "\r\n")
	if len(text) == 0 || text[0] != '{' {
		return Message{}, false
	}
	var head struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(text, &head) != nil || !knownReason(head.Reason) {
		return Message{}, false
	}
	m := Message{Reason: head.Reason}
	if understood(head.Reason) {
		if json.Unmarshal(text, &m) != nil {
			return Message{}, false
		}
		m.Reason = head.Reason
	}
	m.Raw = text
	return m, true
}

// LineWriter reads cargo's stdout: Each gets the messages of cargo, Other, which may be nil, every other line with its end as it came.
// Close passes on a last line without an end. Not for use by several goroutines at once.
type LineWriter struct {
	Each  func(Message)
	Other func(line []byte)

	buf    []byte
	long   bool // inside a line that was too long to be a message
	closed bool
}

// Write takes some bytes of the stream. The callbacks' slices are valid only during the call.
func (w *LineWriter) Write(p []byte) (int, error) {
	if w.closed {
		return 0, errors.New("write after close")
	}
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			w.hold(p)
			break
		}
		if len(w.buf) == 0 && !w.long {
			w.line(p[:i+1])
		} else {
			w.hold(p[:i+1])
			w.flush()
		}
		w.long = false
		p = p[i+1:]
	}
	return n, nil
}

// hold keeps the beginning of a line. Only what may become a message is kept; a program's prompt must not wait for its line's end.
func (w *LineWriter) hold(p []byte) {
	if w.long || len(w.buf) == 0 && p[0] != '{' || len(w.buf)+len(p) > maxLine {
		w.long = true
		w.other(w.buf)
		w.buf = w.buf[:0]
		w.other(p)
		return
	}
	w.buf = append(w.buf, p...)
}

func (w *LineWriter) flush() {
	if len(w.buf) > 0 {
		w.line(w.buf)
		w.buf = w.buf[:0]
	}
}

func (w *LineWriter) line(b []byte) {
	if len(b) > maxLine {
		w.other(b)
		return
	}
	if m, ok := ParseMessage(b); ok {
		if w.Each != nil {
			w.Each(m)
		}
		return
	}
	w.other(b)
}

func (w *LineWriter) other(b []byte) {
	if len(b) > 0 && w.Other != nil {
		w.Other(b)
	}
}

// Close passes on what is left.
func (w *LineWriter) Close() error {
	w.flush()
	w.closed = true
	return nil
}
