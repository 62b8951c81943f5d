package cargo

import (
	"time"

	"gpubuild/buildenv"
)

// ScriptTime answers when a build script began and how long it ran, by the times of cargo's own files: it touches invoked.timestamp as it starts the
// script, and writes stderr and root-output beside it when that has ended; the file output is no use, because it is given the time of the beginning
// (measured, cargo 1.95). false where either is not there, or where the later one is older: the script failed, which leaves those of its last good run.
func ScriptTime(h buildenv.Host, outDir string) (began time.Time, took time.Duration, ok bool) {
	for _, stamp := range ScriptStamps(h, outDir) {
		a, err := h.Files.Stat(stamp)
		if err != nil || a.IsDir() {
			continue
		}
		for _, name := range []string{"root-output", "stderr"} {
			b, err := h.Files.Stat(h.Join(h.Dir(stamp), name))
			if err == nil && !b.IsDir() && !b.ModTime().Before(a.ModTime()) {
				return a.ModTime(), b.ModTime().Sub(a.ModTime()), true
			}
		}
	}
	return time.Time{}, 0, false
}
