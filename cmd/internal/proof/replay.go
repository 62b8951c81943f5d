package proof

import (
	"io"
	"os"
	"path/filepath"
	"time"

	"gpubuild/buildenv"
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
	replay *cargo.Replay
	files  []*os.File // what is inherited
	ack    *os.File   // our side of the pipe on which the mark is answered
	colour bool
}

// filterReplay prepares the streams of a run; the state tells the runner what it will find.
func (r Request) filterReplay(heard *Listener, s *runnerState) (*replayFilter, error) {
	// Who wants to see everything sees what cargo does; nextest draws on its stderr, and takes what the programs say for theirs.
	if r.Session.Line.Verbose > 0 || r.Nextest != nil {
		return &replayFilter{}, nil
	}
	o := &replayFilter{replay: &cargo.Replay{To: heard.Stderr}}
	f, direct := heard.Stderr.(*os.File)
	if !direct {
		shared := heard.Stdout == heard.Stderr
		heard.Stderr, s.Marks = o.replay, true
		if shared {
			heard.Stdout = o.replay
		}
		return o, nil
	}
	if !proc.Inheritance || proc.FileMark(f) == "" {
		return &replayFilter{}, nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o.files, o.ack, o.colour = []*os.File{f, theirs}, ours, r.Session.Machine.Shell.Colour
	s.Marks, s.Stderr, s.Ack = true, proc.FileMark(f), proc.FileMark(theirs)
	o.replay.Mark = func() { _, _ = ours.Write([]byte{1}) } // nobody reads it: the runner has ended, or never was
	o.replay.Lines = true
	heard.Stderr = o.replay
	return o, nil
}

// coloured asks for cargo's colours where its stderr, a pipe now, ends at a terminal that has them.
func (o *replayFilter) coloured(l cargo.Line) cargo.Line {
	if !o.colour || l.Color != "" {
		return l
	}
	return l.WithConfig(`term.color="always"`)
}

// configure makes the command of the second cargo write through the filter.
func (o *replayFilter) configure(c *buildenv.Cmd, runner []string) {
	if o.replay == nil {
		return
	}
	o.replay.Runner = runner
	c.Inherit = o.files
}

func (o *replayFilter) close() {
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

// announce tells the run that the program begins. It answers the program's stderr: the user's own where it was handed through.
func (s runnerState) announce(m *session.Machine) io.Writer {
	if !s.Marks {
		return m.Shell.Err
	}
	if s.Ack == "" {
		// Programs share the stream: the first mark is the last that is looked for.
		f, err := os.OpenFile(filepath.Join(s.Dir, "began"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return m.Shell.Err
		}
		f.Close()
	}
	_, _ = io.WriteString(m.Shell.Err, cargo.ReplayMark) // a stderr that nobody reads
	f, ok := proc.Inherited(3, s.Stderr)
	if ack, here := proc.Inherited(4, s.Ack); here {
		done := make(chan struct{})
		go func() {
			_, _ = ack.Read(make([]byte, 1))
			close(done)
		}()
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
