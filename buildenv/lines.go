package buildenv

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// LongestLine is how much of a line is kept before its end has come; a longer one is given out in pieces. A diagnostic with a macro's
// expansion can have megabytes.
const LongestLine = 16 << 20

// Lines gives what is written to it to Each, line by line with their ends. Of two writers at once
// a line may begin with the other's beginning.
type Lines struct {
	Each func(line []byte)
	held []byte
	mu   sync.Mutex
}

// Write never fails.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.SplitAfterSeq(p, []byte("\n")) {
		l.held = append(l.held, line...)
		if bytes.HasSuffix(line, []byte("\n")) || len(l.held) > LongestLine {
			l.flush()
		}
	}
	return len(p), nil
}

// End gives out a last line that has no end.
func (l *Lines) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
}

func (l *Lines) flush() {
	if len(l.held) > 0 {
		l.Each(l.held)
		l.held = l.held[:0]
	}
}

// Pieces reads a file piece by piece, each with the end of the one before it, until enough has been seen.
func Pieces(f io.Reader, overlap int, enough func(piece []byte) bool) error {
	buf := make([]byte, 1<<20+overlap)
	for kept := 0; ; {
		n, err := io.ReadFull(f, buf[kept:])
		piece := buf[:kept+n]
		if enough(piece) || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kept = copy(buf, piece[len(piece)-overlap:])
	}
}
