package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv/cache"
	"gpubuild/toolchain/cargo/builddir"
)

// underWay is the file that says when cargo built in a target directory without an end of its own: later builds know by it which build scripts may have been
// ended in the middle. Its own next run may take what is half for whole (seen: cudaforge 0.1.6 and an object file that nvcc
// had begun, "up-to-date, skipping compilation", and the program did not link).
func (j *journey) underWay() string { return j.lockPath() + ".building" }

// lockPath is where gpubuilds lock a target directory. It lies in our cache: a target directory that we made would lack what cargo puts into its own
// (CACHEDIR.TAG).
func (j *journey) lockPath() string {
	return j.Host.Join(j.CacheDir, "locks", cache.Name(j.Host.Real(j.graph.Places.BuildDirectory)))
}

// span is when a build was under way, in ns; to is 0 while it is, or where nobody saw its end.
type span struct{ from, to int64 }

// spans are those of builds that did not end by themselves. What cannot be read is none: then a script counts as one that failed by itself.
func (j *journey) spans() (out []span) {
	data, err := j.Host.ReadFile(j.underWay(), 1<<20)
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

const keptSpans = 100 // of the last interrupted builds of one target directory

func (j *journey) keepSpans(list []span) error {
	var b strings.Builder
	for _, s := range list[max(0, len(list)-keptSpans):] {
		fmt.Fprintln(&b, s.from, s.to)
	}
	return cache.WriteFile(j.underWay(), []byte(b.String()), 0o600)
}

// beginBuild notes that a build is under way, and that those before it are not any more; the answer takes the note back. Other builds' notes stay: one of
// another profile or package that ends well says nothing of what an interrupted one has left.
func (j *journey) beginBuild() (endedByItself func()) {
	before, now := j.spans(), time.Now().UnixNano()
	for i := range before {
		if before[i].to == 0 {
			before[i].to = now
		}
	}
	err := cache.Make(j.Host.Dir(j.underWay()))
	if err == nil {
		err = j.keepSpans(append(before[:len(before):len(before)], span{from: now}))
	}
	if err != nil {
		j.Shell.Detail("should this build be interrupted, the next one will not know: %v", err)
		return func() {}
	}
	return func() {
		if err := j.keepSpans(before); err != nil {
			j.Shell.Detail("that this build ended is not noted: %v", err) // costs a look at the next one
		}
	}
}

// coarse is how far the time of a file may lie behind the clock: the kernel's tick.
const coarse = int64(20 * time.Millisecond)

// cutOff says whether the build script that last wrote to an OUT_DIR was ended before its own end, with the build that it was part of.
func (j *journey) cutOff(outDir string) bool {
	ran := builddir.Ran(j.Host, outDir)
	if ran == 0 || builddir.Finished(j.Host, outDir) {
		return false
	}
	return slices.ContainsFunc(j.spans(), func(s span) bool { return s.from-coarse <= ran && (s.to == 0 || ran < s.to) })
}
