package gpu

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
)

// TestAlerts: each condition raises one alert after it has lasted, and again only after it was over.
func TestAlerts(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	well := Sample{Utilisation: new(90), MemoryUsed: new(uint64), ECC: new(uint64), MemoryTotal: 100, Slowdown: 87, Temperature: 60, PCIeWidth: 16, PCIeMax: 16}
	with := func(change func(*Sample)) Sample { s := well; change(&s); return s }
	hot := with(func(s *Sample) { s.Temperature = 84 })
	narrow, asleep := with(func(s *Sample) { s.PCIeWidth = 8 }), with(func(s *Sample) { s.PCIeWidth, s.Utilisation = 8, new(int) })
	for name, tt := range map[string]struct {
		samples []Sample // one a second
		program bool
		want    string // kinds with the second in which they came
	}{
		"well":                 {samples: []Sample{well, well, well, well, well}},
		"hot":                  {samples: []Sample{hot, hot, hot, hot, hot}, want: "temperature@3"},
		"nearly hot":           {samples: repeat(with(func(s *Sample) { s.Temperature = 83 }), 5)},
		"hot for a moment":     {samples: []Sample{hot, hot, well, hot, hot, well}},
		"hot twice":            {samples: []Sample{hot, hot, hot, hot, well, hot, hot, hot, hot}, want: "temperature@3 temperature@8"},
		"no limit reported":    {samples: repeat(with(func(s *Sample) { s.Slowdown, s.Temperature = 0, 99 }), 6)},
		"throttled by heat":    {samples: repeat(with(func(s *Sample) { s.Throttle = new(uint64(0x40)) }), 5), want: "throttle@3"},
		"throttled by power":   {samples: repeat(with(func(s *Sample) { s.Throttle = new(uint64(0x4)) }), 5), want: "throttle@3"},
		"idle clocks":          {samples: repeat(with(func(s *Sample) { s.Throttle = new(uint64(0x1)) }), 5)},
		"Xid, twice":           {samples: []Sample{well, with(func(s *Sample) { s.Xid = []uint64{31, 79} }), well}, want: "xid@1 xid@1"},
		"full":                 {samples: repeat(with(func(s *Sample) { s.MemoryUsed = new(uint64(95)) }), 5), want: "memory@3"},
		"nearly full":          {samples: repeat(with(func(s *Sample) { s.MemoryUsed = new(uint64(94)) }), 5)},
		"narrow link":          {samples: repeat(with(func(s *Sample) { s.PCIeWidth = 8 }), 5), want: "pcie@3"},
		"narrow link with MIG": {samples: repeat(with(func(s *Sample) { s.PCIeWidth, s.Utilisation = 8, nil }), 5), want: "pcie@3"},
		"narrow, briefly busy": {samples: []Sample{narrow, asleep, asleep, asleep, narrow}, want: "pcie@4"},
		"narrow link asleep":   {samples: repeat(with(func(s *Sample) { s.PCIeWidth, s.Utilisation = 8, new(int) }), 5)},
		"ECC before":           {samples: repeat(with(func(s *Sample) { s.ECC = new(uint64(5)) }), 3)},
		"ECC now":              {samples: []Sample{well, with(func(s *Sample) { s.ECC = new(uint64(1)) })}, want: "ecc@1"},
		"ECC, counter reset":   {samples: []Sample{with(func(s *Sample) { s.ECC = new(uint64(5)) }), well, with(func(s *Sample) { s.ECC = new(uint64(1)) })}, want: "ecc@2"},
		"lost":                 {samples: []Sample{well, with(func(s *Sample) { s.Lost = true }), with(func(s *Sample) { s.Lost = true })}, want: "lost@1"},
		"idle":                 {samples: repeat(with(func(s *Sample) { s.Utilisation = new(int) }), 13), program: true, want: "idle@10"},
		"idle, no program":     {samples: repeat(with(func(s *Sample) { s.Utilisation = new(int) }), 13)},
		"utilisation unknown":  {samples: repeat(with(func(s *Sample) { s.Utilisation = nil }), 13), program: true},
	} {
		t.Run(name, func(t *testing.T) {
			limits := DefaultThresholds()
			limits.Idle = 10 * time.Second
			w := NewWatch(limits, when(tt.program), start)
			var got []string
			for i, s := range tt.samples {
				s.Time = start.Add(time.Duration(i) * time.Second)
				for _, a := range w.Add(s) {
					got = append(got, fmt.Sprintf("%s@%d", a.Kind, i))
				}
			}
			hosttest.Equal(t, strings.Join(got, " "), tt.want)
		})
	}
}

// TestIdleOfSeveral: a GPU that the program may not use says nothing about it; where it may use several, one that is busy can be another's.
func TestIdleOfSeveral(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		visible, order string
		hidden         bool // CUDA_VISIBLE_DEVICES is set
		utilisation    [2]int
		want           string
	}{
		"all busy":               {utilisation: [2]int{90, 90}},
		"all idle":               {utilisation: [2]int{0, 0}, want: "all 2 GPUs have been idle"},
		"one idle":               {utilisation: [2]int{90, 0}, want: "unseen"},
		"the other one busy":     {utilisation: [2]int{90, 0}, visible: "GPU-b", hidden: true, want: "GPU 1 has been idle"},
		"its own one busy":       {utilisation: [2]int{90, 0}, visible: "GPU-a", hidden: true},
		"by number, any order":   {utilisation: [2]int{90, 0}, visible: "1", hidden: true, want: "unseen"},
		"by number, PCI order":   {utilisation: [2]int{90, 0}, visible: "1", order: "PCI_BUS_ID", hidden: true, want: "GPU 1 has been idle"},
		"two by number":          {utilisation: [2]int{90, 0}, visible: "0, 1", order: "PCI_BUS_ID", hidden: true, want: "unseen"},
		"a slice of a GPU":       {utilisation: [2]int{90, 0}, visible: "MIG-x", hidden: true, want: "unseen"},
		"none":                   {utilisation: [2]int{90, 0}, hidden: true, want: "hides all GPUs"},
		"none by number":         {utilisation: [2]int{90, 0}, visible: "-1", order: "PCI_BUS_ID", hidden: true, want: "hides all GPUs"},
		"none, and all are busy": {utilisation: [2]int{90, 90}, hidden: true, want: "hides all GPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWatch(DefaultThresholds(), Visible(tt.visible, tt.hidden, tt.order), start)
			at := start
			for ; at.Before(start.Add(31 * time.Second)); at = at.Add(time.Second) {
				for i, u := range tt.utilisation {
					w.Add(Sample{Time: at, Index: i, UUID: "GPU-" + string(rune('a'+i)), Utilisation: &u})
				}
			}
			s := w.Summary(at, true)
			got := ""
			for _, a := range s.Alerts {
				got += a.Message
			}
			if slices.Contains(s.Unseen, AlertIdle) {
				got += "unseen"
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || strings.Contains(got, "hides") == strings.Contains(got, "loader") &&
				strings.Contains(got, "idle for") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// when is a program that may use every GPU, or none.
func when(runs bool) func(Sample) bool {
	if !runs {
		return nil
	}
	return Visible("", false, "")
}

func repeat(s Sample, n int) []Sample {
	out := make([]Sample, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// TestUnseen: a kind of alert is named that could not be judged over the whole watch, and only such a one.
func TestUnseen(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	all := Sample{Utilisation: new(int), Slowdown: 87, Temperature: 60, Throttle: new(uint64), MemoryUsed: new(uint64), MemoryTotal: 100, ECC: new(uint64), PCIeWidth: 16, PCIeMax: 16, XidWatched: true}
	with := func(change func(*Sample)) []Sample { s := all; change(&s); return []Sample{s} }
	every := strings.Join(AlertKinds, " ")
	for name, tt := range map[string]struct {
		round   []Sample   // every half second
		from    float64    // s after the beginning, to which
		to      float64    // the rounds come
		without [2]float64 // but not in this time
		until   float64    // the end of the watch; 0: the last round
		silent  bool       // the driver did not answer at the end
		alone   bool       // without a program
		want    string
	}{
		"all":               {round: []Sample{all}, to: 9},
		"slow to begin":     {round: []Sample{all}, from: 4, to: 9},
		"begun too late":    {round: []Sample{all}, from: 6, to: 9, want: every},
		"ended too early":   {round: []Sample{all}, to: 3, until: 9, want: every},
		"silent at the end": {round: []Sample{all}, to: 3, silent: true, want: every},
		"never":             {to: -1, until: 1, silent: true, want: every},
		"short gap":         {round: []Sample{all}, to: 20, without: [2]float64{5, 9}},
		"long gap":          {round: []Sample{all}, to: 20, without: [2]float64{5, 11}, want: every},
		"nothing":           {round: []Sample{{}}, to: 9, want: every},
		"nothing, briefly":  {round: []Sample{{}}, to: 0.5, want: every},
		"memory only":       {round: []Sample{{MemoryUsed: new(uint64), MemoryTotal: 1}}, to: 9, want: "temperature throttle ecc xid pcie idle"},
		"memory only, alone": {
			round: []Sample{{MemoryUsed: new(uint64), MemoryTotal: 1}}, to: 9, alone: true, want: "temperature throttle ecc xid pcie",
		},
		"memory with MIG":         {round: with(func(s *Sample) { s.MIG = true }), to: 9, want: "memory"},
		"no limit":                {round: with(func(s *Sample) { s.Slowdown = 0 }), to: 9, want: "temperature"},
		"no temperature":          {round: with(func(s *Sample) { s.Temperature = 0 }), to: 9, want: "temperature"},
		"no throttling":           {round: with(func(s *Sample) { s.Throttle = nil }), to: 9, want: "throttle"},
		"no memory":               {round: with(func(s *Sample) { s.MemoryUsed = nil }), to: 9, want: "memory"},
		"Xid unseen":              {round: with(func(s *Sample) { s.XidWatched = false }), to: 9, want: "xid"},
		"no ECC":                  {round: with(func(s *Sample) { s.ECC = nil }), to: 9, want: "ecc"},
		"no width":                {round: with(func(s *Sample) { s.PCIeWidth = 0 }), to: 9, want: "pcie"},
		"no greatest width":       {round: with(func(s *Sample) { s.PCIeMax = 0 }), to: 9, want: "pcie"},
		"narrow, never busy":      {round: with(func(s *Sample) { s.PCIeWidth = 8 }), to: 9, want: "pcie"},
		"narrow, busy":            {round: with(func(s *Sample) { s.PCIeWidth, s.Utilisation = 8, new(90) }), to: 9},
		"narrow with MIG":         {round: with(func(s *Sample) { s.PCIeWidth, s.Utilisation = 8, nil }), to: 9, want: "idle"},
		"lost":                    {round: with(func(s *Sample) { s.Lost = true }), to: 9, want: "temperature throttle memory ecc xid pcie idle"},
		"only another reports it": {round: append(with(func(s *Sample) { s.Index, s.ECC = 1, nil }), all), to: 9, want: "ecc"},
		"idle next to a GPU of which it is unknown": {round: append(with(func(s *Sample) { s.Index, s.Utilisation = 1, nil }), all), to: 9, want: "idle"},
		"busy next to a GPU of which it is unknown": {
			round: append(with(func(s *Sample) { s.Index, s.Utilisation = 1, nil }), with(func(s *Sample) { s.Utilisation = new(90) })...), to: 9,
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
			w := NewWatch(DefaultThresholds(), when(!tt.alone), start)
			for s := tt.from; s <= tt.to; s += 0.5 {
				if s > tt.without[0] && s < tt.without[1] {
					continue
				}
				for _, sample := range tt.round {
					sample.Time = at(s)
					w.Add(sample)
				}
			}
			hosttest.Equal(t, strings.Join(w.Summary(at(max(tt.until, tt.to)), !tt.silent).Unseen, " "), tt.want)
		})
	}
	w := NewWatch(DefaultThresholds(), when(true), start)
	for _, s := range []int{0, 1, 2, 12, 13} {
		all.Time = start.Add(time.Duration(s) * time.Second)
		w.Add(all)
	}
	if watched, asked, whole := w.Coverage(start.Add(20*time.Second), false); watched != 3*time.Second || asked != 20*time.Second || whole {
		t.Error(watched, asked, whole)
	}
}

// TestGaps: readings that are missing neither end a hold time nor begin it anew, and what is missing counts in all, not each time alone.
func TestGaps(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	well := Sample{Utilisation: new(90), Slowdown: 87, Temperature: 60, Throttle: new(uint64), MemoryUsed: new(uint64), MemoryTotal: 100, ECC: new(uint64), PCIeWidth: 16, PCIeMax: 16, XidWatched: true}
	noECC := func(s *Sample) { s.ECC = nil }
	every := strings.Join(AlertKinds, " ")
	for name, tt := range map[string]struct {
		samples int // twice a second
		change  func(*Sample)
		each    int           // of so many, the first
		missing int           // lack
		what    func(*Sample) // this; nil: there is no sample
		alerts  string
		unseen  string
	}{
		"a reading lacks for most of the time":  {samples: 53, each: 8, missing: 6, what: func(s *Sample) { s.MemoryUsed = nil }, unseen: "memory"},
		"in half of the samples of a short run": {samples: 8, each: 8, missing: 5, what: noECC, unseen: "ecc"},
		"once in a short run":                   {samples: 8, each: 8, missing: 1, what: noECC},
		"for 5 s in all":                        {samples: 41, each: 4, missing: 1, what: noECC},
		"for 6 s in all":                        {samples: 49, each: 4, missing: 1, what: noECC, unseen: "ecc"},
		"for 1 % of a long run":                 {samples: 7201, each: 100, missing: 1, what: noECC},
		"for 2 % of a long run":                 {samples: 7201, each: 100, missing: 2, what: noECC, unseen: "ecc"},
		"no samples for 2 s each time":          {samples: 41, each: 10, missing: 3},
		"no samples for 3 s each time":          {samples: 41, each: 10, missing: 5, unseen: every},
		"hot, and unreadable each third second": {
			samples: 10, change: func(s *Sample) { s.Temperature = 99 }, each: 6, missing: 2, what: func(s *Sample) { s.Temperature = 0 }, alerts: "temperature",
		},
		"full, and unreadable at times": {
			samples: 10, change: func(s *Sample) { s.MemoryUsed = new(uint64(99)) }, each: 3, missing: 1, what: func(s *Sample) { s.MemoryUsed = nil }, alerts: "memory",
		},
		"idle, and unreadable at times": {
			samples: 65, change: func(s *Sample) { s.Utilisation = new(int) }, each: 10, missing: 1, what: func(s *Sample) { s.Utilisation = nil }, alerts: "idle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWatch(DefaultThresholds(), when(true), start)
			var last time.Time
			for i := range tt.samples {
				s := well
				if tt.change != nil {
					tt.change(&s)
				}
				s.Time = start.Add(time.Duration(i) * time.Second / 2)
				if last = s.Time; i > 0 && i%tt.each < tt.missing {
					if tt.what == nil {
						continue
					}
					tt.what(&s)
				}
				w.Add(s)
			}
			s := w.Summary(last, true)
			var alerts []string
			for _, a := range s.Alerts {
				alerts = append(alerts, a.Kind)
			}
			if a, u := strings.Join(alerts, " "), strings.Join(s.Unseen, " "); a != tt.alerts || u != tt.unseen {
				t.Errorf("alerts %q, want %q; unseen %q, want %q", a, tt.alerts, u, tt.unseen)
			}
		})
	}
}

// TestUsage: what a GPU did over a while.
func TestUsage(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := NewWatch(DefaultThresholds(), when(true), start)
	for i := range 401 {
		s := Sample{Time: start.Add(time.Duration(i) * time.Second / 2), Index: 1, Name: "L4", Utilisation: new(int), MemoryTotal: 24e9, PowerMW: 100_000, Temperature: 50}
		if i%4 == 0 {
			s.Utilisation = new(80)
		}
		if i == 7 {
			s.Temperature, s.MemoryUsed, s.Throttle = 77, new(uint64(12e9)), new(uint64(0x20))
		}
		w.Add(s)
	}
	u := w.Summary(start, true).GPUs[0]
	if u.Seconds != 200 || *u.Busy < 0.199 || *u.Busy > 0.201 || u.Temperature != 77 || u.Joules != 20000 || *u.Throttled != 0.5 {
		t.Errorf("%+v", u)
	}
	want := "GPU 1 (L4) was busy 20 % of 200 s; at most 77 °C and 12.0 of 24.0 GB in samples; 20000 J; slowed down for 0 s"
	hosttest.Equal(t, u.Text(), want)
	w = NewWatch(DefaultThresholds(), when(true), start)
	w.Add(Sample{Time: start, ClockMHz: 300})
	u = w.Summary(start, true).GPUs[0]
	w.Add(Sample{Time: start, Index: 1, Utilisation: new(98), Throttle: new(uint64(0x40)), Temperature: 40})
	hosttest.Equal(t, w.Summary(start, true).GPUs[1].Text(), "GPU 1 was asked only once: utilisation 98 %; at most 40 °C in samples")
	later := Sample{Time: start.Add(time.Minute), Index: 1, Throttle: new(uint64(0x40)), Temperature: 40}
	if a := w.Add(later); len(a) != 1 || a[0].Message != "GPU 1 is slowed down by heat: 40 °C" {
		t.Errorf("%+v", a)
	}
	if data, err := json.Marshal(u); err != nil || string(data) != `{"index":0,"seconds":0,"unseen":["temperature","throttle","memory","ecc","xid","pcie","idle"]}` || u.Text() != "GPU 0 utilisation unknown" {
		t.Errorf("nothing known: %s, %v, %s", data, err, u.Text())
	}
}
