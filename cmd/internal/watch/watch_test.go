package watch

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
)

// TestVerdict: an alert that is named ends with 23; one that is named and cannot come, and a watch without any GPU, with 21.
func TestVerdict(t *testing.T) {
	t.Parallel()
	hot := []gpu.Alert{{Kind: gpu.AlertTemperature}}
	for _, tt := range []struct {
		summary gpu.Summary
		want    error
	}{
		{summary: gpu.Summary{Alerts: hot}},
		{summary: gpu.Summary{Alerts: hot, FailOn: []string{"ecc", "temperature"}}, want: exit.Code(exit.Alert)},
		{summary: gpu.Summary{Alerts: hot, Unseen: []string{"ecc"}, FailOn: []string{"ecc", "temperature"}}, want: exit.Code(exit.Alert)},
		{summary: gpu.Summary{Unseen: []string{"ecc"}, FailOn: []string{"ecc"}}, want: exit.Code(exit.Unproved)},
		{summary: gpu.Summary{Unseen: []string{"ecc"}, FailOn: []string{"lost"}}},
	} {
		hosttest.Equal(t, Verdict(tt.summary), tt.want, tt)
	}
	began := gpu.NewWatch(gpu.DefaultThresholds(), nil, time.Unix(1, 0))
	s := summarize(began, time.Unix(2, 0), false, nil, errors.New("no driver"), []string{"lost"})
	if Verdict(s) != exit.Code(exit.Unproved) || !slices.Equal(s.Notes, []string{"no driver"}) {
		t.Errorf("%+v", s)
	}
}

// TestUnseenLines: a GPU that does not report something is named where others do, and for how long it did not.
func TestUnseenLines(t *testing.T) {
	t.Parallel()
	s := gpu.Summary{GPUs: []gpu.Usage{
		{Index: 1, Unseen: []string{"throttle", "ecc"}, Denied: true, Seconds: 26}, {Index: 2},
		{Index: 3, Unseen: gpu.AlertKinds},
	}}
	want := []string{"GPU 1: not watched for all the time, because the driver does not let this user read it (Insufficient Permissions): " +
		"throttle, ecc"}
	if got := unseen(s); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	s = gpu.Summary{GPUs: []gpu.Usage{{Unseen: []string{"ecc"}}, {Index: 1, Unseen: []string{"ecc"}}}}
	if got := unseen(s); !slices.Equal(got, []string{"not watched for all the time, because the driver does not report it: ecc"}) {
		t.Errorf("%q", got)
	}
}

// TestOneSilentGPU: it is named, and the others are not said to have been silent.
func TestOneSilentGPU(t *testing.T) {
	t.Parallel()
	w := gpu.NewWatch(gpu.DefaultThresholds(), nil, time.Unix(0, 0))
	for i := range int64(4) {
		w.Add(gpu.Sample{Time: time.Unix(i, 0), Temperature: 40})
		w.Add(gpu.Sample{Time: time.Unix(i, 0), Index: 1})
	}
	s := summarize(w, time.Unix(2, 0), true, nil, nil, []string{"lost"})
	if Verdict(s) != exit.Code(exit.Unproved) || !slices.Equal(s.Notes, []string{"GPU 1: watched only 0.0 of 3.0 s: it did not answer"}) {
		t.Errorf("%+v", s)
	}
}

// TestRowFits: in a narrow terminal the name is shortened, and every number stays.
func TestRowFits(t *testing.T) {
	used, busy := uint64(12e9), 100
	s := gpu.Sample{Time: time.Unix(9, 0), Name: "NVIDIA RTX PRO 6000 Blackwell Server Edition", Utilisation: &busy, MemoryUsed: &used, MemoryTotal: 141e9,
		Temperature: 71, ClockMHz: 1980, PowerMW: 700000}
	for _, columns := range []int{60, 80} {
		var printed strings.Builder
		(&Lines{Shell: &console.Shell{Out: &printed, Columns: columns}}).Write(s)
		row := strings.TrimSuffix(printed.String(), "\n")
		if n := len([]rune(row)); n > columns {
			t.Errorf("%d columns: %d: %s", columns, n, row)
		}
		for _, number := range []string{"GPU 0", "100%", "12.0/141.0 GB", "71 °C", "1980 MHz", "700 W", "…"} {
			if !strings.Contains(row, number) {
				t.Errorf("%d columns: no %s: %s", columns, number, row)
			}
		}
	}
}

// TestLines: a GPU has a line every five seconds, as JSON each sample has one, and who is quiet has none.
func TestLines(t *testing.T) {
	t.Parallel()
	for story, tt := range map[string]struct {
		json, quiet bool
		want        int
	}{"for people": {false, false, 3}, "as JSON": {true, false, 5}, "JSON of who is quiet": {true, true, 5}, "quiet": {false, true, 0}} {
		var printed strings.Builder
		lines := &Lines{Shell: &console.Shell{Out: &printed}, JSON: tt.json, Quiet: tt.quiet}
		for _, s := range []gpu.Sample{{Time: time.Unix(10, 0)}, {Time: time.Unix(10, 0), Index: 1}, {Time: time.Unix(14, 0)}, {Time: time.Unix(15, 0)}, {Time: time.Unix(19, 0)}} {
			lines.Write(s)
		}
		if got := strings.Count(printed.String(), "\n"); got != tt.want || strings.Contains(printed.String(), "{") != tt.json {
			t.Errorf("%s: %d lines:\n%s", story, got, printed.String())
		}
	}
	heat, busy := uint64(0x20), 7
	for want, s := range map[string]gpu.Sample{
		"GPU 2  A                     does not answer":                                      {Index: 2, Name: "A", Lost: true},
		"GPU 0  A                       -  -       -         -      -":                      {Name: "A"},
		"GPU 0  A                      7%  -   50 °C  1000 MHz    9 W":                      {Name: "A", Utilisation: &busy, Temperature: 50, ClockMHz: 1000, PowerMW: 9900},
		"GPU 0  A                       -  -       -         -      -  slowed down by heat": {Name: "A", Throttle: &heat},
	} {
		hosttest.Equal(t, Row(s, 0), want)
	}
	long := strings.Repeat("n", 60)
	if got := Row(gpu.Sample{Name: long}, 0); !strings.Contains(got, long) {
		t.Errorf("of any length: %q", got)
	}
}

// TestWhyNotWatched: the note names the GPU that was silent only where the driver answered, and says what the driver said of itself.
func TestWhyNotWatched(t *testing.T) {
	t.Parallel()
	for story, tt := range map[string]struct {
		second, answering bool // samples of the second GPU to the end, and of any
		notes             []string
		want              string
	}{
		"all of them":            {true, true, []string{"a note"}, "a note"},
		"the driver":             {true, false, nil, "watched only 3.0 of 20.0 s: the driver did not answer any more"},
		"the driver, and why":    {true, false, []string{"a", "b"}, "watched only 3.0 of 20.0 s: a; b"},
		"one of two":             {false, true, nil, "GPU 1: watched only 0.0 of 3.0 s: it did not answer"},
		"one of two, and a note": {false, true, []string{"a"}, "GPU 1: watched only 0.0 of 3.0 s: a"},
	} {
		w := gpu.NewWatch(gpu.DefaultThresholds(), nil, time.Unix(0, 0))
		for i := range int64(4) {
			w.Add(gpu.Sample{Time: time.Unix(i, 0), Temperature: 40})
			w.Add(gpu.Sample{Time: time.Unix(i, 0), Index: 1, Temperature: map[bool]int{true: 40}[tt.second]})
		}
		until := time.Unix(2, 0)
		if !tt.answering {
			until = time.Unix(20, 0)
		}
		s := summarize(w, until, tt.answering, tt.notes, nil, nil)
		if len(s.Notes) != 1 || s.Notes[0] != tt.want {
			t.Errorf("%s: %q", story, s.Notes)
		}
	}
}

// TestFailOn: the kinds of alerts that a flag names, in one list or in several.
func TestFailOn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"ecc": "lost ecc", "ecc,temperature": "lost ecc temperature", "xids": "", "xid": "lost xid", "ecc,": "", "": ""} {
		kinds := []string{"lost"}
		err := AddFailOn(&kinds, text)
		if (err != nil) != (want == "") || err == nil && strings.Join(kinds, " ") != want {
			t.Errorf("%q: %q, %v", text, kinds, err)
		}
	}
}

// echo prints what it is asked to run.
type echo struct{}

func (echo) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if c.Stdout == nil { // the driver's
		return buildenv.Result{}, errors.New("no answer")
	}
	_, err := c.Stdout.Write([]byte(c.Path + " " + strings.Join(c.Args, " ")))
	if _, limited := ctx.Deadline(); limited {
		err = errors.New("limited")
	}
	return buildenv.Result{}, err
}

// TestCommand: the program that is watched, by its path or by its name, and for how long.
func TestCommand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words    string
		toStderr bool
		limit    time.Duration
		out, err string // of the command
		program  string // the program's error
	}{
		{"./app -x", false, 0, "/w/app -x", "", ""}, {"/w/app", false, 0, "/w/app ", "", ""}, {"app 1", false, 0, "/bin/app 1", "", ""}, {"app", false, time.Hour, "/bin/app ", "", "limited"},
		{"app", true, 0, "", "", ""}, {"./gone", false, 0, "", "./gone does not exist", ""}, {"gone", false, 0, "", "gone", ""},
	} {
		h := hosttest.Must(hosttest.Parse([]byte("os: linux\ncwd: /w\n-- @env --\nPATH=/bin\n-- @empty --\n/w/app +x\n/bin/app +x\n")))(t)
		var out, said bytes.Buffer
		m := &session.Machine{Host: h, Runner: echo{}, Shell: &console.Shell{Out: &out, Err: &said}}
		c := Command{Words: strings.Fields(tt.words), For: tt.limit}
		_, watched, err := c.program(t.Context(), m, Options{Thresholds: gpu.DefaultThresholds()}, tt.toStderr)
		if tt.program != "" && err != nil && err.Error() == tt.program {
			err = nil
		}
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) || out.String() != tt.out || err == nil && watched == nil || tt.toStderr != strings.Contains(said.String(), "/bin/app") {
			t.Errorf("%s: %v, watched %v, %q, %q", tt.words, err, watched, out.String(), said.String())
		}
	}
}
