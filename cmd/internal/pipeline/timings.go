package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// phaseCargo is the phase in which cargo builds.
const phaseCargo = "cargo"

// Timings is the answer of --gpu-timings=FILE.
type Timings struct {
	Seconds  float64      `json:"seconds"` // from the first phase to the last, measured
	Steps    []TimedPhase `json:"steps"`   // they come one after another and add up to seconds
	Compiled int          `json:"compiled"`
	Fresh    int          `json:"fresh"`
	// Kernels are a part of the phase cargo, side by side with other work: they do not add up to it.
	Kernels []TimedScript `json:"kernels"`
}

// TimedPhase is one phase of a run.
type TimedPhase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // measured
}

// TimedScript is a build script of a GPU package that ran: where its kernels were compiled.
type TimedScript struct {
	Package string  `json:"package"`
	Version string  `json:"version"`
	Seconds float64 `json:"seconds"`
	By      string  `json:"by"` // what the time was taken from
}

const byFiles = "estimated: times of cargo's files around the build script, which compiles the kernels"

// TimingsOf says where the time of a run went: by its phases, by cargo's
// messages, and by the build scripts of the GPU packages that answer lists.
func TimingsOf(h buildenv.Host, phases []finding.Phase, total time.Duration, messages []cargo.Message, answer *features.Answer) Timings {
	t := Timings{Seconds: total.Seconds(), Kernels: []TimedScript{}}
	var began time.Time
	for _, p := range phases {
		t.Steps = append(t.Steps, TimedPhase{p.Name, p.Took.Seconds()})
		if p.Name == phaseCargo {
			began = p.Began
		}
	}
	for _, m := range messages {
		switch {
		case m.Reason == cargo.Artifact && m.Fresh:
			t.Fresh++
		case m.Reason == cargo.Artifact:
			t.Compiled++
		}
	}
	t.Kernels = append(t.Kernels, scriptTimes(h, began, messages, answer)...)
	return t
}

// Print writes the table, and the file if one is named; ok says whether the command succeeded.
func (t Timings) Print(m *session.Machine, file string, ok bool) error {
	for _, l := range t.lines() {
		m.Shell.Status(l[0], "%s", l[1])
	}
	if file == "" {
		return nil
	}
	return report.Answer(m, &file, "timings", ok, nil, t)
}

// took is a time in milliseconds, or from ten seconds on in seconds, in a column.
func took(seconds float64) string {
	if seconds < 10 {
		return fmt.Sprintf("%8.0f ms", seconds*1000)
	}
	return fmt.Sprintf("%9.1f s", seconds)
}

// lines is the table: the status word of each line, and its text.
func (t Timings) lines() [][2]string {
	out := [][2]string{{"Timings", strings.TrimLeft(took(t.Seconds), " ")}}
	for _, s := range t.Steps {
		line := fmt.Sprintf("%-12s %s", s.Name, took(s.Seconds))
		if s.Name == phaseCargo {
			line += fmt.Sprintf("  %d compiled, %d fresh", t.Compiled, t.Fresh)
		}
		out = append(out, [2]string{"", line})
		if s.Name != phaseCargo {
			continue
		}
		for _, k := range t.Kernels {
			out = append(out, [2]string{"",
				fmt.Sprintf("  of these   %s  %s %s, by the times of cargo's files", took(k.Seconds), k.Package, k.Version)})
		}
	}
	return out
}

// scriptTimes are those of the GPU packages' build scripts that this build, which began then, ran, the longest first.
func scriptTimes(h buildenv.Host, began time.Time, messages []cargo.Message, answer *features.Answer) []TimedScript {
	gpu := map[string]bool{}
	if answer != nil {
		for _, u := range answer.Units {
			gpu[u.Name] = true
		}
	}
	fresh := freshPackages(messages)
	var out []TimedScript
	for _, m := range messages {
		id := manifest.ParsePkgID(m.PackageID)
		if m.Reason != cargo.ScriptExecuted || !gpu[id.Name] || fresh[m.PackageID] || began.IsZero() {
			continue
		}
		// A file system may keep whole seconds only: a script that began in the second of our own beginning counts.
		ran, ended := builddir.Ran(h, m.OutDir), builddir.Ended(h, m.OutDir)
		if ended != 0 && ran >= began.Truncate(time.Second).UnixNano() {
			out = append(out, TimedScript{id.Name, id.Version, time.Duration(ended - ran).Seconds(), byFiles})
		}
	}
	slices.SortStableFunc(out, func(a, b TimedScript) int {
		switch {
		case a.Seconds > b.Seconds:
			return -1
		case a.Seconds < b.Seconds:
			return 1
		}
		return 0
	})
	return out
}

// freshPackages are those of which cargo called everything that it built fresh: their scripts did not run, whatever the files' times say. A
// script that runs makes its own package's targets dirty; cargo reports the script itself without saying whether it ran.
func freshPackages(messages []cargo.Message) map[string]bool {
	fresh := map[string]bool{}
	for _, m := range messages {
		if m.Reason != cargo.Artifact || slices.Contains(m.Target.Kind, "custom-build") {
			continue
		}
		before, seen := fresh[m.PackageID]
		fresh[m.PackageID] = m.Fresh && (before || !seen)
	}
	return fresh
}
