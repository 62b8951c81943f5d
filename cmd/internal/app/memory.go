package app

import (
	"runtime"
	"runtime/debug"
)

// firstCollection is how much memory is had before any of it is collected: what nearly every run needs for a large workspace's manifests and cargo's
// answer, which are needed until its end.
const firstCollection = 64 << 20

// shortLived lets a run of some milliseconds end without a collection of garbage. One that needs more memory, or lives longer, collects as any program.
func shortLived() {
	percent := debug.SetGCPercent(-1)
	if percent < 0 { // GOGC=off: there is a limit of the user's own, or none is wanted
		return
	}
	limit := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, firstCollection))
	runtime.SetFinalizer(&struct{ is *int }{new(int)}, func(any) { // runs after the first collection
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}
