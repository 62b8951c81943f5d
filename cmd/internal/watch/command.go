package watch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
)

// Command is `gpubuild watch`: alone, or while a program runs.
type Command struct {
	Words  []string      // the program's; none: the GPUs are watched alone
	FailOn []string      // nil: as the configuration has it
	For    time.Duration // 0: until it is interrupted, or the program ends
	JSON   *string
}

// Run watches, and prints or writes what was seen.
func (c Command) Run(ctx context.Context, s *session.Session) error {
	m, table := s.Machine, s.Config.Watch.Value
	o := Options{Program: len(c.Words) > 0, FailOn: c.FailOn, Thresholds: table.Thresholds()}
	if !o.Program && slices.Contains(o.FailOn, gpu.AlertIdle) {
		return exit.Usagef("gpubuild watch --fail-on idle -- COMMAND", "--fail-on idle needs a program: without one, a GPU may be idle")
	}
	if o.FailOn == nil && table != nil {
		o.FailOn = table.FailOn
	}
	lines := Lines{Shell: m.Shell, JSON: c.JSON != nil && *c.JSON == "", Quiet: o.Program || c.JSON != nil && *c.JSON != ""}
	o.Sample = lines.Write
	var summary gpu.Summary
	var watched, ended error
	if o.Program {
		summary, watched, ended = c.program(ctx, m, o, lines.JSON)
	} else {
		summary, watched = Alone(ctx, m, o, c.For)
	}
	Print(m, summary, watched)
	late := errors.Is(ended, context.DeadlineExceeded)
	if late {
		m.Shell.Warning("the program still ran after %s (--for), and was ended", c.For)
	}
	if ended == nil || late {
		ended = Verdict(summary)
	}
	switch {
	case ended != nil:
	case late:
		ended = exit.Code(exit.Interrupted)
	case watched != nil && !o.Program:
		ended = exit.Code(exit.Unproved)
	}
	_, findings := report.WatchEnds(&summary)
	if watched != nil {
		f := finding.New("driver", watched.Error())
		if ended != nil {
			f.Severity = finding.Error
		}
		findings = []finding.Finding{f}
	}
	var child *buildenv.ExitError
	switch {
	case late, errors.Is(ended, context.Canceled):
		findings = append(findings, finding.New("watch.ended", "the program was ended before its own end"))
	case errors.As(ended, &child):
		findings = append(findings, finding.New("run.failed", ended.Error()))
	}
	if !lines.JSON {
		return cmp.Or(report.Answer(m, c.JSON, "watch", ended == nil, findings, summary), ended)
	}
	m.NoteJSON()
	answer, err := report.Envelope("watch", ended == nil, findings, summary)
	var line bytes.Buffer // the last of the lines
	if err == nil {
		err = json.Compact(&line, answer)
	}
	if err == nil {
		err = m.Shell.Data(line.String() + "\n")
	}
	if errors.Is(err, syscall.EPIPE) { // the reader has ended, which does not change how the program did
		err = nil
	}
	return cmp.Or(err, ended)
}

// program runs the program with the user's own streams and watches meanwhile. The second error is the program's.
func (c Command) program(ctx context.Context, m *session.Machine, o Options, toStderr bool) (gpu.Summary, error, error) {
	cmd, err := m.Command(c.Words, m.Host.Env)
	if err != nil {
		return gpu.Summary{}, nil, err
	}
	if toStderr {
		cmd.Stdout = m.Shell.Err // stdout belongs to the samples
		session.OutliveReaders()
	}
	w := Start(ctx, m, o)
	until, stop := within(ctx, c.For)
	defer stop()
	_, err = m.Runner.Run(until, cmd)
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
