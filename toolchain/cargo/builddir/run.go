// Package builddir is the only reader of what cargo keeps for itself in a build directory: where build scripts wrote (OUT_DIR),
// when they ran and what they printed, and with which features they were compiled. It knows the layout of cargo up to 1.99 and
// that of 1.100 (-Zbuild-dir-new-layout).
//
// Cargo documents none of it, so what is read here may only lead to a look at a file or to a rebuild, never to taking something
// as up to date. It writes and removes nothing.
package builddir

import (
	"time"

	"gpubuild/buildenv"
)

// Time answers when a build script began and how long it ran, by the times of cargo's own files: it touches invoked.timestamp as
// it starts the script, and writes stderr and root-output beside it when that has ended; the file output is no use, because it is
// given the time of the beginning (measured, cargo 1.95). false where either is not there, or where the later one is older: the
// script failed, which leaves those of its last good run.
func Time(h buildenv.Host, outDir string) (began time.Time, took time.Duration, ok bool) {
	for _, stamp := range stamps(h, outDir) {
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

// Ran answers when a build script last ran, in ns, from the file that cargo touches as it starts the script; 0 when there is
// none. The messages do not say it: build-script-executed has no fresh flag. The file lies beside out (layouts up to 1.99) or in
// run beside it (1.100).
func Ran(h buildenv.Host, outDir string) int64 {
	for _, p := range stamps(h, outDir) {
		if fi, err := h.Files.Stat(p); err == nil && !fi.IsDir() {
			return fi.ModTime().UnixNano()
		}
	}
	return 0
}

// Finished says whether the last run of a build script came to a good end: cargo writes down what it printed behind that
// (`output` beside out, `stdout` in run; cargo 1.95 and its nightly, src/cargo/core/compiler/custom_build.rs, and as seen). What
// one has left that failed or was ended may be half.
func Finished(h buildenv.Host, outDir string) bool {
	ran := Ran(h, outDir)
	unit := h.Dir(outDir)
	for _, p := range []string{h.Join(unit, "run", "stdout"), h.Join(unit, "output")} {
		if fi, err := h.Files.Stat(p); err == nil && !fi.IsDir() {
			return fi.ModTime().UnixNano() >= ran
		}
	}
	return false
}

// stamps lists where that file may be, newest layout first.
func stamps(h buildenv.Host, outDir string) []string {
	unit := h.Dir(outDir)
	return []string{h.Join(unit, "run", "invoked.timestamp"), h.Join(unit, "invoked.timestamp")}
}
