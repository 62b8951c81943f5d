package app

import (
	"fmt"
	"sort"
	"time"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/report"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// stopwatch measures the road's steps, one after another. A nil one measures nothing.
type stopwatch struct {
	now   func() time.Time
	began time.Time
	steps []timedStep
}

// timedStep is one step of the road.
type timedStep struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // measured
	at      time.Time
}

// timedScript is a build script of a GPU package that ran: where its kernels were compiled.
type timedScript struct {
	Package string  `json:"package"`
	Version string  `json:"version"`
	Seconds float64 `json:"seconds"`
	By      string  `json:"by"` // what the time was taken from
}

// timings is the answer of --gpu-timings=FILE.
type timings struct {
	Seconds  float64     `json:"seconds"` // from the first step to the last, measured
	Steps    []timedStep `json:"steps"`   // they come one after another and add up to seconds
	Compiled int         `json:"compiled"`
	Fresh    int         `json:"fresh"`
	// Kernels are a part of the step cargo, side by side with other work: they do not add up to it.
	Kernels []timedScript `json:"kernels"`
}

const byFiles = "estimated: times of cargo's files around the build script, which compiles the kernels"

func startWatch(now func() time.Time) *stopwatch { return &stopwatch{now: now, began: now()} }

// step ends the step that is under way and begins the next.
func (s *stopwatch) step(name string) {
	if s == nil {
		return
	}
	at := s.now()
	s.end(at)
	s.steps = append(s.steps, timedStep{Name: name, at: at})
}

func (s *stopwatch) end(at time.Time) {
	if n := len(s.steps); n > 0 {
		s.steps[n-1].Seconds = at.Sub(s.steps[n-1].at).Seconds()
	}
}

// result ends the measurement.
func (s *stopwatch) result() timings {
	at := s.now()
	s.end(at)
	return timings{Seconds: at.Sub(s.began).Seconds(), Steps: s.steps, Kernels: []timedScript{}}
}

// tellTimings says where the time went: a table on stderr, and in a file where one was asked for.
func (j *journey) tellTimings(ok bool) error {
	if j.watch == nil {
		return nil
	}
	t := j.watch.result()
	for _, m := range j.messages {
		switch {
		case m.Reason == cargo.Artifact && m.Fresh:
			t.Fresh++
		case m.Reason == cargo.Artifact:
			t.Compiled++
		}
	}
	t.Kernels = append(t.Kernels, j.scriptTimes()...)
	for _, l := range t.lines() {
		j.Shell.Status(l[0], "%s", l[1])
	}
	if j.options.Timings == nil || *j.options.Timings == "" {
		return nil
	}
	data, err := report.Envelope("timings", ok, nil, t)
	if err != nil {
		return err
	}
	return cache.WriteFile(j.Host.Abs(*j.options.Timings), data, 0o644)
}

// lines is the table: the status word of each line, and its text.
func (t timings) lines() [][2]string {
	out := [][2]string{{"Timings", fmt.Sprintf("%.1f s", t.Seconds)}}
	for _, s := range t.Steps {
		line := fmt.Sprintf("%-12s %8.1f s", s.Name, s.Seconds)
		if s.Name == stepCargo {
			line += fmt.Sprintf("  %d compiled, %d fresh", t.Compiled, t.Fresh)
		}
		out = append(out, [2]string{"", line})
		if s.Name != stepCargo {
			continue
		}
		for _, k := range t.Kernels {
			out = append(out, [2]string{"", fmt.Sprintf("  of these %10.1f s  %s %s, by the times of cargo's files", k.Seconds, k.Package, k.Version)})
		}
	}
	return out
}

// The step in which cargo builds has its own words.
const stepCargo = "cargo"

// scriptTimes are those of the GPU packages' build scripts that this build ran, the longest first.
func (j *journey) scriptTimes() []timedScript {
	var began time.Time
	for _, s := range j.watch.steps {
		if s.Name == stepCargo {
			began = s.at
		}
	}
	gpu := map[string]bool{}
	if j.reach != nil {
		for _, u := range j.reach.Units {
			gpu[u.Name] = true
		}
	}
	fresh := freshPackages(j.messages)
	var out []timedScript
	for _, m := range j.messages {
		id := manifest.ParsePkgID(m.PackageID)
		if m.Reason != cargo.ScriptExecuted || !gpu[id.Name] || fresh[m.PackageID] || began.IsZero() {
			continue
		}
		// A file system may keep whole seconds only: a script that began in the second of our own beginning counts.
		if at, took, ok := builddir.Time(j.Host, m.OutDir); ok && !at.Before(began.Truncate(time.Second)) {
			out = append(out, timedScript{id.Name, id.Version, took.Seconds(), byFiles})
		}
	}
	sort.SliceStable(out, func(i, k int) bool { return out[i].Seconds > out[k].Seconds })
	return out
}

// freshPackages are those of which cargo called everything that it built fresh: their scripts did not run, whatever the files' times say. A script
// that runs makes its own package's targets dirty; cargo reports the script itself without saying whether it ran.
func freshPackages(messages []cargo.Message) map[string]bool {
	fresh := map[string]bool{}
	for _, m := range messages {
		if m.Reason != cargo.Artifact || contains(m.Target.Kind, "custom-build") {
			continue
		}
		before, seen := fresh[m.PackageID]
		fresh[m.PackageID] = m.Fresh && (before || !seen)
	}
	return fresh
}
