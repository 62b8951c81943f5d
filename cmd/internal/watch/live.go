package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
)

// history is how many samples a sparkline shows, shownAlerts how many alerts are below the GPUs.
const (
	history     = 40
	shownAlerts = 8
)

// view is the live view: a row and a sparkline for each GPU, alerts below.
type view struct {
	judge  *gpu.Watch
	latest []gpu.Sample
	curves map[int][]int
	alerts []gpu.Alert
}

// liveView shows the GPUs until the user ends it, and leaves the terminal as it was.
func liveView(ctx context.Context, m *session.Machine, o Options) (gpu.Summary, error) {
	screen, err := tcell.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return gpu.Summary{}, fmt.Errorf("this terminal cannot show the live view: %w; `gpubuild watch | cat` shows lines", err)
	}
	defer screen.Fini()
	watching, cancel := context.WithCancel(ctx)
	samples, ended := make(chan gpu.Sample), make(chan error, 1)
	var notes []string
	go func() {
		var err error
		notes, err = driver.Watch(watching, m.Host, m.Runner, func(s gpu.Sample) {
			select {
			case samples <- s:
			case <-watching.Done():
			}
		})
		ended <- err
	}()
	keys := make(chan tcell.Event)
	go func() { screen.ChannelEvents(keys, watching.Done()) }()
	v := &view{judge: gpu.NewWatch(o.Thresholds, nil, time.Now()), curves: map[int][]int{}}
	var failed error
	answering := true
	for running := true; running; {
		draw(screen, v.lines(screen.Size()))
		select {
		case s := <-samples:
			v.add(s)
		case event, open := <-keys:
			key, isKey := event.(*tcell.EventKey)
			running = open && !(isKey && (key.Rune() == 'q' || key.Key() == tcell.KeyEscape || key.Key() == tcell.KeyCtrlC))
			if _, resized := event.(*tcell.EventResize); resized {
				screen.Sync()
			}
		case failed = <-ended:
			running, answering = false, ctx.Err() != nil
		case <-ctx.Done():
			running = false
		}
	}
	cancel()
	if answering {
		failed = <-ended
	}
	if len(v.latest) > 0 {
		failed = nil
	}
	return summarize(v.judge, time.Now(), answering, notes, failed, o.FailOn), failed
}

func draw(screen tcell.Screen, lines []string) {
	screen.Clear()
	for y, line := range lines {
		for x, r := range []rune(line) {
			screen.SetContent(x, y, r, nil, tcell.StyleDefault)
		}
	}
	screen.Show()
}

func (v *view) add(s gpu.Sample) {
	v.alerts = append(v.alerts, v.judge.Add(s)...)
	v.alerts = v.alerts[max(0, len(v.alerts)-shownAlerts):]
	if at := slices.IndexFunc(v.latest, func(l gpu.Sample) bool { return l.Index == s.Index }); at < 0 {
		v.latest = append(v.latest, s)
	} else {
		v.latest[at] = s
	}
	utilisation := -1
	if s.Utilisation != nil {
		utilisation = *s.Utilisation
	}
	curve := append(v.curves[s.Index], utilisation)
	v.curves[s.Index] = curve[max(0, len(curve)-history):]
}

// lines are what the view shows: the sparklines only where the alerts have room below them.
func (v *view) lines(width, height int) []string {
	if len(v.latest) == 0 {
		return []string{"asking the driver", "", "q ends it"}
	}
	var out []string
	for _, s := range v.latest {
		out = append(out, Row(s, width))
		if 2*len(v.latest)+len(v.alerts)+2 <= height {
			out = append(out, "    "+spark(v.curves[s.Index]))
		}
	}
	for _, a := range v.alerts {
		out = append(out, a.Time.Format(time.TimeOnly)+"  "+a.Message)
	}
	return append(out, "", "q ends it")
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

// spark draws utilisation from 0 to 100 percent.
func spark(curve []int) string {
	const bars = "▁▂▃▄▅▆▇█"
	var b strings.Builder
	for _, v := range curve {
		if v < 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteString(string([]rune(bars)[min(v*8/101, 7)]))
	}
	return b.String()
}
