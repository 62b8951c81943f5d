package proof

import (
	"io"
	"os"
	"path/filepath"
	"time"

	"gpubuild/buildenv/fault"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// replayFilter keeps the second cargo of a run from saying again what the first has said: warnings of every fresh unit, and Finished.
//
// Where the user's stderr is a terminal or a file, programs must have that itself. Cargo then gets a pipe of ours, and our runner, which
// inherits the user's stderr through cargo as descriptor 3, gives it to the program, once all that cargo wrote before it has been passed
// on. Where stderr is a pipe, which we read along, cargo and the program share ours as before. On Windows nothing can be handed through
// cargo: on a terminal it says it twice.
type replayFilter struct {
	stdout, stderr io.Writer     // what cargo writes to
	replay         *cargo.Replay // nil: nothing is filtered
	files          []*os.File    // what is inherited
	ack            *os.File      // our side of the pipe on which the mark is answered
	colour         bool
}

// handover is what a runner must know of its run's streams.
type handover struct {
	Marks  bool   `json:"marks,omitempty"`  // the run waits for the mark on stderr
	Stderr string `json:"stderr,omitempty"` // what identifies the user's stderr, descriptor 3; empty: it is the runner's own
	Ack    string `json:"ack,omitempty"`    // the same of descriptor 4, on which the run answers the mark
}

// filterReplay prepares the streams of a run; runner is the command of our runner, which cargo announces.
func (r Request) filterReplay(stdout, stderr io.Writer, runner []string) (replayFilter, handover, error) {
	as := replayFilter{stdout: stdout, stderr: stderr}
	// Who wants to see everything sees what cargo does; nextest draws on its stderr, and takes what the programs say for theirs.
	if r.Session.Line.Verbose > 0 || r.Nextest != nil {
		return as, handover{}, nil
	}
	f, direct := stderr.(*os.File)
	if !direct {
		replay := &cargo.Replay{To: stderr, Runner: runner}
		o := replayFilter{stdout: stdout, stderr: replay, replay: replay}
		if stdout == stderr {
			o.stdout = replay
		}
		return o, handover{Marks: true}, nil
	}
	if !proc.Inheritance || proc.FileMark(f) == "" {
		return as, handover{}, nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return as, handover{}, err
	}
	replay := &cargo.Replay{To: stderr, Runner: runner, Lines: true,
		Mark: func() { _, _ = ours.Write([]byte{1}) }} // nobody reads it: the runner has ended, or never was
	return replayFilter{stdout: stdout, stderr: replay, replay: replay, files: []*os.File{f, theirs}, ack: ours,
		colour: r.Session.Machine.Shell.Colour}, handover{Marks: true, Stderr: proc.FileMark(f), Ack: proc.FileMark(theirs)}, nil
}

// coloured asks for cargo's colours where its stderr, a pipe now, ends at a terminal that has them.
func (o replayFilter) coloured(l cargo.Line) cargo.Line {
	if !o.colour || l.Color != "" {
		return l
	}
	return l.WithConfig(`term.color="always"`)
}

func (o replayFilter) close() {
	if o.replay == nil {
		return
	}
	_ = o.replay.Close() // a stderr that nobody reads
	if o.ack != nil {
		o.ack.Close()
		o.files[1].Close()
	}
}

// ackTime is how long a runner waits for the run to pass on what cargo wrote; it takes microseconds unless the machine is overloaded.
const ackTime = 2 * time.Second

// announce signals to the run that the program begins. It returns the program's stderr: the user's own where cargo passed it on.
func (h handover) announce(m *session.Machine, dir string) io.Writer {
	if !h.Marks {
		return m.Shell.Err
	}
	if h.Ack == "" {
		// Programs share the stream: the first mark is the last that is looked for.
		f, err := os.OpenFile(filepath.Join(dir, "began"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return m.Shell.Err
		}
		f.Close()
	}
	_, _ = io.WriteString(m.Shell.Err, cargo.ReplayMark) // a stderr that nobody reads
	f, ok := proc.Inherited(3, h.Stderr)
	if ack, here := proc.Inherited(4, h.Ack); here {
		done := make(chan struct{})
		fault.Go(func() {
			_, _ = ack.Read(make([]byte, 1))
			close(done)
		})
		select {
		case <-done:
		case <-time.After(ackTime):
		}
	}
	if ok {
		return f
	}
	return m.Shell.Err
}
