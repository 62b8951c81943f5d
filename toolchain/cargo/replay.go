package cargo

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

// ReplayMark is the line that a runner writes to cargo's stderr for a Replay to see
// that its program begins: whatever follows may be the program's.
const ReplayMark = "\x00gpubuild: the program begins\n"

// maxReplay bounds what is held back; more than that is passed on.
const maxReplay = 16 << 20

// Replay filters the stderr of a cargo that has nothing left to build. Such a cargo says again what the build before it said: the
// warnings of every fresh unit, and Finished (measured, cargo 1.95). That is held back until Finished or the mark, and then dropped;
// where cargo builds after all, or fails before, all of it passes; that it waits for another cargo is said at once, and what follows may
// still be said again. From there on lines pass, with our runner taken out of cargo's `Running`, and from the mark on every byte.
type Replay struct {
	To     io.Writer
	Runner []string // our own words in front of the user's runner and the program
	Mark   func()   // called when the mark has come and all before it was written; may be nil
	Lines  bool     // programs write elsewhere: marks come again, and all that passes is cargo's lines

	mu       sync.Mutex
	held     []byte // whole lines that may be a replay
	part     []byte // a line without its end
	finished bool   // Finished came, or it is clear that this is no replay
	passes   bool   // nothing is looked at any more
}

var (
	replayFinished = lazyregexp.New(`^ *Finished `)
	replayBuilds   = lazyregexp.New(
		`^ *(Compiling|Checking|Dirty|Documenting|Updating|Downloading|Downloaded|Locking|Adding) |^error`,
	)
	replayBlocking = lazyregexp.New(`^ *Blocking `)
	replayRunning  = lazyregexp.New("^( *Running `)(.*)(`\r?\n)$")
	// What cargo writes bare of a command's words; others it quotes (cargo-util, ProcessBuilder's Display: shell-escape).
	bareWord = lazyregexp.New(`^[A-Za-z0-9_./,:=@%+-]+$`)
)

// Write answers To's error.
func (r *Replay) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passes {
		return r.To.Write(p)
	}
	r.part = append(r.part, p...)
	for !r.passes {
		end := bytes.IndexByte(r.part, '\n')
		if end < 0 {
			break
		}
		line := r.part[:end+1]
		r.part = r.part[end+1:]
		if err := r.line(line); err != nil {
			return len(p), err
		}
	}
	if r.passes || len(r.held)+len(r.part) > maxReplay {
		return len(p), r.release()
	}
	return len(p), nil
}

func (r *Replay) line(line []byte) error {
	if before, is := bytes.CutSuffix(line, []byte(ReplayMark)); is {
		if !r.finished {
			r.held = nil
		}
		r.finished, r.passes = true, !r.Lines
		err := r.write(before)
		if r.passes {
			err = r.release()
		}
		if r.Mark != nil {
			r.Mark()
		}
		return err
	}
	text := colour.ReplaceAllString(string(line), "")
	if i := strings.LastIndexByte(strings.TrimRight(text, "\r\n"), '\r'); i >= 0 {
		text = text[i+1:] // a progress bar stood before it
	}
	switch {
	case r.finished:
		return r.write(r.running(line))
	case replayFinished.MatchString(text):
		r.held, r.finished = r.held[:0], true
	case replayBlocking.MatchString(text):
		return r.write(line)
	default:
		r.held = append(r.held, line...)
		if replayBuilds.MatchString(text) {
			r.finished = true // what is held is no replay
			err := r.write(r.held)
			r.held = nil
			return err
		}
	}
	return nil
}

// running takes our runner out of cargo's line, so that it names what a user
// would have started. A coloured line has its colours before the command.
func (r *Replay) running(line []byte) []byte {
	var words []string
	for _, w := range r.Runner {
		if !bareWord.MatchString(w) {
			w = buildenv.PosixQuote(w)
		}
		words = append(words, w)
	}
	if len(words) == 0 || !replayRunning.MatchString(colour.ReplaceAllString(string(line), "")) {
		return line
	}
	return bytes.Replace(line, []byte("`"+strings.Join(words, " ")+" "), []byte("`"), 1)
}

func (r *Replay) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := r.To.Write(b)
	return err
}

// release writes everything that was held.
func (r *Replay) release() error {
	r.passes = true
	b := append(r.held, r.part...)
	r.held, r.part = nil, nil
	return r.write(b)
}

// Close ends a stream. What is still held has met neither Finished nor a mark, so that nobody knows it for a replay: under -q doc tests
// write so, into the same pipe. It passes.
func (r *Replay) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.release()
}
