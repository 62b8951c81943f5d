package watch

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/console"
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
		if got := Verdict(tt.summary); got != tt.want {
			t.Errorf("%+v: got %v, want %v", tt, got, tt.want)
		}
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
