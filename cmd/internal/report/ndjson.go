package report

import (
	"io"
	"sync"

	"gpubuild/cmd/internal/console"
)

// ReasonPrefix begins the reason of our lines among cargo's JSON messages. Consumers skip reasons that they do not know
// (cargo's external-tools reference: "a line is JSON only if it starts with {", and new reasons may come).
const ReasonPrefix = "gpubuild-"

// Lines writes JSON lines to a stream that it shares with others, and never
// begins one inside another's line. For use by several goroutines.
type Lines struct {
	mu   sync.Mutex
	w    io.Writer
	open bool // the last byte may be in the middle of a line
}

// NewLines writes to a stream at the beginning of a line.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Write passes on what others say, as it comes.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.w.Write(p)
	if n > 0 {
		l.open = p[n-1] != '\n'
	}
	return n, err
}

// Whole writes one line without its end, on a line of its own.
func (l *Lines) Whole(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]byte, 0, len(line)+2)
	if l.open {
		out = append(out, '\n')
	}
	out = append(append(out, console.VisibleJSON(line)...), '\n')
	n, err := l.w.Write(out)
	if n > 0 {
		l.open = n < len(out)
	}
	return err
}

// Shared says that a child had the stream for itself and may have left it in the middle of a line.
func (l *Lines) Shared() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = true
}

// Event writes one of our own lines: its reason, then the fields of a struct.
func (l *Lines) Event(what string, fields any) error {
	line, err := object(struct {
		Reason string `json:"reason"`
	}{ReasonPrefix + what}, fields)
	if err != nil {
		return err
	}
	return l.Whole(line)
}
