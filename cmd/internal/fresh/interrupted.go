package fresh

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// lockPath is where gpubuilds lock a target directory. It lies in our cache: a target directory that we made would lack what
// cargo puts into its own (CACHEDIR.TAG).
func lockPath(m *session.Machine, places cargo.Places) string {
	return m.Host.Join(m.CacheDir, "locks", cache.Name(m.Host.Real(places.BuildDirectory)))
}

// spansPath is the file that says when cargo built in a target directory without an end of its own: later builds know by it which
// build scripts may have been ended in the middle. Their own next run may take what is half for whole (seen: cudaforge 0.1.6 and
// an object file that nvcc had begun, "up-to-date, skipping compilation", and the program did not link).
func spansPath(m *session.Machine, places cargo.Places) string {
	return lockPath(m, places) + ".building"
}

// span is when a build was running, in ns; to is 0 while it is, or where nobody saw its end.
type span struct{ from, to int64 }

const keptSpans = 100 // of the last interrupted builds of one target directory

// spans are those of builds that did not end by themselves. What cannot be read
// is none: then a script counts as one that failed by itself.
func spans(m *session.Machine, path string) (out []span) {
	data, err := m.Host.ReadFile(path, 1<<20)
	if err != nil {
		return nil
	}
	for _, line := range strings.Split(string(data), "\n") {
		var s span
		if n, err := fmt.Sscan(line, &s.from, &s.to); n == 2 && err == nil {
			out = append(out, s)
		}
	}
	return out
}

func keepSpans(path string, list []span) error {
	var b strings.Builder
	for _, s := range list[max(0, len(list)-keptSpans):] {
		fmt.Fprintln(&b, s.from, s.to)
	}
	return cache.WriteFile(path, []byte(b.String()), 0o600)
}

// Begin notes that a build is running, and that those before it are not any more; ended takes
// the note back once cargo has ended by itself. Other builds' notes stay: one of another
// profile or package that ends well says nothing of what an interrupted one has left.
func Begin(m *session.Machine, places cargo.Places) (ended func()) {
	path := spansPath(m, places)
	before, now := spans(m, path), time.Now().UnixNano()
	for i := range before {
		if before[i].to == 0 {
			before[i].to = now
		}
	}
	err := cache.Make(m.Host.Dir(path))
	if err == nil {
		err = keepSpans(path, append(slices.Clip(before), span{from: now}))
	}
	if err != nil {
		m.Shell.Detail("cannot record that a build is running; an interrupted build may go unnoticed: %v", err)
		return func() {}
	}
	return func() {
		if err := keepSpans(path, before); err != nil {
			m.Shell.Detail("cannot record that the build has ended: %v", err) // costs a look at the next one
		}
	}
}

// coarse is how far the time of a file may lie behind the clock: the kernel's tick.
const coarse = int64(20 * time.Millisecond)

// interrupted says whether the build script that last wrote to an OUT_DIR was ended before its own end, with the build that it
// was part of.
func (s *State) interrupted(outDir string) bool {
	ran := builddir.Ran(s.host, outDir)
	if ran == 0 || builddir.Finished(s.host, outDir) {
		return false
	}
	list := spans(s.b.Machine, spansPath(s.b.Machine, s.b.Graph.Places))
	return slices.ContainsFunc(list, func(s span) bool { return s.from-coarse <= ran && (s.to == 0 || ran < s.to) })
}
