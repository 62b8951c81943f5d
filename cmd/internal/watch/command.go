package watch

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
)

// Command runs a command with the user's own streams, for at most a time unless that is 0, and watches meanwhile. The second error is the
// program's.
func Command(
	ctx context.Context, m *session.Machine, o Options, limit time.Duration, words []string, toStderr bool,
) (gpu.Summary, error, error) {
	path := words[0]
	if strings.ContainsAny(path, `/\`) {
		path = m.Host.Abs(path)
		if _, err := m.Host.Files.Stat(path); err != nil {
			return gpu.Summary{}, nil, &exit.UsageError{What: words[0] + " does not exist", Fix: "build it first, or give its path"}
		}
	} else if found, err := m.Host.LookPath(path); err != nil {
		return gpu.Summary{}, nil, &exit.UsageError{What: err.Error(), Fix: "install it or give its path"}
	} else {
		path = found
	}
	out := m.Shell.Out
	if toStderr {
		out = m.Shell.Err // stdout belongs to the samples
		session.OutliveReaders()
	}
	w := Start(ctx, m, o)
	until, stop := within(ctx, limit)
	defer stop()
	_, err := m.Runner.Run(until, buildenv.Cmd{
		Path: path, Args: words[1:], Env: m.Host.Env.Entries(), Stdin: m.Stdin, Stdout: out, Stderr: m.Shell.Err,
		Grace: buildenv.ProgramGrace,
	})
	summary, watched := w.Stop()
	return summary, watched, err
}

// Sample is a line of --json.
type Sample struct {
	Schema string `json:"schema"`
	gpu.Sample
}

// Lines writes samples to stdout: as JSON, or for people a line for each GPU every few seconds.
type Lines struct {
	Shell *console.Shell
	JSON  bool
	Quiet bool
	mu    sync.Mutex
	last  map[int]time.Time
}

// everyLine is how often a GPU gets a line off a terminal.
const everyLine = 5 * time.Second

// Write is for Options.Sample.
func (w *Lines) Write(s gpu.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.JSON:
		line, err := json.Marshal(Sample{"gpubuild/watch-sample/1", s})
		if err == nil {
			_ = w.Shell.Data(string(line) + "\n") // nobody reads a closed stdout
		}
	case !w.Quiet && s.Time.Sub(w.last[s.Index]) >= everyLine:
		if w.last == nil {
			w.last = map[int]time.Time{}
		}
		w.last[s.Index] = s.Time
		_ = w.Shell.Print(Row(s, w.Shell.Columns) + "\n")
	}
}
