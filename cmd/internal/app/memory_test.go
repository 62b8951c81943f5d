package app

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestShortLivedCollectsInTheEnd: nothing is collected below the first limit, and as before above it.
func TestShortLivedCollectsInTheEnd(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	limit := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(limit)
	runtime.GC()
	shortLived()
	if percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1); percent != -1 || limit != firstCollection {
		t.Errorf("collected at %d %%, limit %d", percent, limit)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	none := m.NumGC
	var kept [][]byte
	for range 2 * firstCollection >> 20 {
		kept = append(kept, make([]byte, 1<<20))
	}
	runtime.ReadMemStats(&m)
	if m.NumGC == none || len(kept) == 0 {
		t.Errorf("twice the limit, and nothing was collected")
	}
	for range 1000 {
		if debug.SetMemoryLimit(-1) == math.MaxInt64 {
			break
		}
		runtime.GC()
		time.Sleep(time.Millisecond) // the finalizer has a goroutine of its own
	}
	if percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1); percent != 100 || limit != math.MaxInt64 {
		t.Errorf("afterwards %d %%, limit %d", percent, limit)
	}
	runtime.KeepAlive(kept)
}
