// Package watch watches the GPUs, alone or while a program runs, and says what was wrong and how busy they were. What
// is an alert, gpu.Watch decides.
package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
)

// Options say what is watched for.
type Options struct {
	Thresholds gpu.Thresholds
	Sample     func(gpu.Sample) // called with every sample; nil: nobody wants them
	Program    bool             // a program runs meanwhile
	FailOn     []string         // kinds of alerts that fail the command
}

// AddFailOn adds the kinds of a list with commas: the flag may be given more than once.
func AddFailOn(kinds *[]string, text string) error {
	for k := range strings.SplitSeq(text, ",") {
		if !slices.Contains(gpu.AlertKinds, k) {
			return fmt.Errorf("%.200q is none of %s", k, strings.Join(gpu.AlertKinds, ", "))
		}
		*kinds = append(*kinds, k)
	}
	return nil
}

// within is a context that ends after a time; 0: with the one that it is made of.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// Watcher watches in the background.
type Watcher struct {
	m      *session.Machine
	o      Options
	mu     sync.Mutex
	judge  *gpu.Watch
	cancel context.CancelFunc
	done   chan struct{}
	first  chan struct{}  // closed with the first sample; nil: the watch has begun
	newest chan time.Time // of each sample, if Stop waits for it
	ended  func() error   // of the caller's context
	notes  []string
	err    error
}

// firstSample is how long the beginning of a watch waits for the driver.
const firstSample = driver.StartTimeout

// Start begins to watch, with the first sample: what a program did before could not be seen. Alerts are printed as they come.
func Start(ctx context.Context, m *session.Machine, o Options) *Watcher {
	first := make(chan struct{})
	w := &Watcher{m: m, o: o, judge: gpu.NewWatch(o.Thresholds, o.visible(m), time.Now()), done: make(chan struct{}),
		first: first, newest: make(chan time.Time), ended: ctx.Err}
	ctx, w.cancel = context.WithCancel(ctx)
	go func() {
		w.notes, w.err = m.Driver().Watch(ctx, w.take)
		close(w.done)
	}()
	select {
	case <-first:
	case <-w.done:
	case <-ctx.Done():
	case <-time.After(firstSample):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first = nil // a watch that has not begun by now lacks its beginning
	return w
}

// visible says which GPUs the program may use; nil: there is none.
func (o Options) visible(m *session.Machine) func(gpu.Sample) bool {
	if !o.Program {
		return nil
	}
	devices, isSet := m.Host.Env.Lookup("CUDA_VISIBLE_DEVICES")
	return gpu.Visible(devices, isSet, m.Host.Env.Get("CUDA_DEVICE_ORDER"))
}

func (w *Watcher) take(s gpu.Sample) {
	select {
	case w.newest <- s.Time:
	default:
	}
	w.mu.Lock()
	if w.first != nil {
		w.judge = gpu.NewWatch(w.o.Thresholds, w.o.visible(w.m), s.Time)
		defer close(w.first)
		w.first = nil
	}
	alerts := w.judge.Add(s)
	w.mu.Unlock()
	if w.o.Sample != nil {
		w.o.Sample(s)
	}
	for _, a := range alerts {
		w.m.Shell.Warning("%s", a.Message)
	}
}

// Done is closed when nothing can be watched any more.
func (w *Watcher) Done() <-chan struct{} { return w.done }

// lastSample is how long the end of a watch waits for one more sample: it shows that the driver answered to the end. Starting
// nvidia-smi can take a second or more.
const lastSample = 3 * time.Second

// Stop ends the watch and answers what it came to. The error says that no GPU could be watched.
func (w *Watcher) Stop() (gpu.Summary, error) {
	until, late := time.Now(), time.After(lastSample)
	answering, waiting := false, true
	for waiting && !answering {
		select {
		case t := <-w.newest:
			answering = t.After(until)
		case <-w.done:
			answering, waiting = w.ended() != nil, false // the user's interrupt ends both
		case <-late:
			waiting = false
		}
	}
	w.cancel()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return summarize(w.judge, until, answering, w.notes, w.err, w.o.FailOn), w.err
}

// summarize is the summary of a watch; its first note says for how long it was not watched, and why.
func summarize(judge *gpu.Watch, until time.Time, answering bool, notes []string, err error, failOn []string) gpu.Summary {
	s := judge.Summary(until, answering)
	s.FailOn = failOn
	seconds, asked, whole := judge.Coverage(until, answering)
	switch {
	case err != nil:
		s.Notes = []string{err.Error()}
	case !whole:
		who, why := "", "the driver did not answer any more"
		if silent := slices.DeleteFunc(slices.Clone(s.GPUs), answers); answering && len(silent) > 0 {
			who, why = fmt.Sprintf("GPU %d: ", silent[0].Index), "it did not answer"
		}
		if len(notes) > 0 {
			why = strings.Join(notes, "; ")
		}
		first := fmt.Sprintf("%swatched only %.1f of %.1f s: %s", who, seconds.Seconds(), asked.Seconds(), why)
		s.Notes = append([]string{first}, s.Notes...)
	default:
		s.Notes = append(s.Notes, notes...)
	}
	return s
}

// answers reports whether a GPU answered all the time, whatever it reported.
func answers(u gpu.Usage) bool { return !slices.Contains(u.Unseen, gpu.AlertLost) }

// Verdict is the error of a watch: 23 where an alert was to fail it; 21 where one was that could not be watched for all the time.
func Verdict(s gpu.Summary) error {
	for _, a := range s.Alerts {
		if slices.Contains(s.FailOn, a.Kind) {
			return exit.Code(exit.Alert)
		}
	}
	if slices.ContainsFunc(s.Unseen, func(k string) bool { return slices.Contains(s.FailOn, k) }) {
		return exit.Code(exit.Unproved)
	}
	return nil
}

// Print writes the summary of a watch.
func Print(m *session.Machine, s gpu.Summary, watched error) {
	if watched != nil {
		m.Shell.Warning("%s", watched.Error())
		return
	}
	for _, u := range s.GPUs {
		m.Shell.Alert("Watched", "%s", u.Text())
	}
	count := map[string]int{}
	for _, a := range s.Alerts {
		count[a.Kind]++
	}
	var kinds []string
	for _, k := range gpu.AlertKinds {
		if count[k] > 0 {
			mark := ""
			if slices.Contains(s.FailOn, k) {
				mark = ", which --fail-on names"
			}
			kinds = append(kinds, fmt.Sprintf("%s (%d%s)", k, count[k], mark))
		}
	}
	whole := !slices.Contains(s.Unseen, gpu.AlertLost)
	for i, n := range s.Notes {
		if whole || i > 0 {
			m.Shell.Note("%s", n)
		} else {
			m.Shell.Warning("%s", n)
		}
	}
	for _, n := range unseen(s) {
		m.Shell.Note("%s", n)
	}
	if len(kinds) > 0 {
		m.Shell.Alert("Alerts", "%s", strings.Join(kinds, ", "))
	}
}

// unseen says what was not watched for all the time, and why, in a line for all GPUs of which that is the same. That a GPU did not answer
// at all has been said.
func unseen(s gpu.Summary) []string {
	var lines []string
	of := map[string][]string{}
	for _, u := range s.GPUs {
		kinds := slices.DeleteFunc(slices.Clone(u.Unseen), func(k string) bool { // nvidia-smi never has it: that is said to who asks for it
			return k == gpu.AlertXid && !slices.Contains(s.FailOn, k)
		})
		if len(kinds) == 0 || !answers(u) {
			continue
		}
		why := "the driver does not report it"
		if u.Denied {
			why = "the driver does not let this user read it (Insufficient Permissions)"
		}
		line := fmt.Sprintf("not watched for all the time, because %s: %s", why, strings.Join(kinds, ", "))
		if of[line] == nil {
			lines = append(lines, line)
		}
		of[line] = append(of[line], fmt.Sprint(u.Index))
	}
	for i, line := range lines {
		if len(of[line]) < len(s.GPUs) {
			lines[i] = "GPU " + strings.Join(of[line], ", ") + ": " + line
		}
	}
	return lines
}

// Alone watches until it is interrupted or for a time, and shows a line for each GPU every few seconds.
func Alone(ctx context.Context, m *session.Machine, o Options, limit time.Duration) (gpu.Summary, error) {
	w := Start(ctx, m, o)
	until, stop := within(ctx, limit)
	defer stop()
	select {
	case <-until.Done():
	case <-w.Done():
	}
	s, err := w.Stop()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return s, err
}

// Row is a sample in one line of that many columns; 0: of any length. Where it would be longer, the name is shortened and no number is.
func Row(s gpu.Sample, columns int) string {
	row := func(tail string) string {
		head, width := fmt.Sprintf("GPU %d  ", s.Index), max(20, utf8.RuneCountInString(s.Name))
		if columns > 0 {
			width = max(4, min(width, columns-len(head)-utf8.RuneCountInString(tail)))
		}
		if name := []rune(s.Name); len(name) > width {
			s.Name = string(name[:width-1]) + "…"
		}
		return fmt.Sprintf("%s%-*s%s", head, width, s.Name, tail)
	}
	if s.Lost {
		return row("  does not answer")
	}
	or := func(known bool, format string, values ...any) string {
		if !known {
			return "-"
		}
		return fmt.Sprintf(format, values...)
	}
	memory, utilisation := "-", "-"
	if s.Utilisation != nil {
		utilisation = fmt.Sprintf("%d%%", *s.Utilisation)
	}
	if s.MemoryUsed != nil {
		memory = fmt.Sprintf("%5.1f/%.1f GB", float64(*s.MemoryUsed)/1e9, float64(s.MemoryTotal)/1e9)
	}
	tail := fmt.Sprintf(" %4s  %s  %6s  %8s  %5s", utilisation, memory,
		or(s.Temperature > 0, "%3d °C", s.Temperature), or(s.ClockMHz > 0, "%4d MHz", s.ClockMHz),
		or(s.PowerMW > 0, "%3d W", s.PowerMW/1000))
	if why := s.Throttling(); why != "" {
		tail += "  slowed down by " + why
	}
	return row(tail)
}
