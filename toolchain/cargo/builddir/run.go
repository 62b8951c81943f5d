// Package builddir is the only reader of what cargo keeps for itself in a build directory: where build scripts wrote (OUT_DIR),
// when they ran and what they printed. It knows the layout of cargo up to 1.99 and
// that of 1.100 (-Zbuild-dir-new-layout).
//
// Cargo documents none of it, so what is read here may only lead to a look at a file or to a rebuild, never to taking something
// as up to date. It writes and removes nothing.
package builddir

import (
	"cmp"
	"strings"

	"gpubuild/buildenv"
)

// Ran returns when a build script last ran, in ns, from the file that cargo touches as it starts the script; 0 when there is none. The
// messages do not say it: build-script-executed has no fresh flag.
func Ran(h buildenv.Host, outDir string) int64 { return at(h, stamp(h, outDir)) }

func at(h buildenv.Host, path string) int64 {
	if fi, err := h.Files.Stat(path); err == nil && !fi.IsDir() {
		return cmp.Or(fi.ModTime().UnixNano(), 1) // archives and images give every file the first second of 1970, which is a time, too
	}
	return 0
}

// Finished reports whether the last run of a build script came to a good end: cargo writes down what it printed after that (cargo 1.95 and
// its nightly, src/cargo/core/compiler/custom_build.rs, and as seen). A script that failed, was ended, or is still at work may have left
// half of its files.
func Finished(h buildenv.Host, outDir string) bool {
	printed := at(h, Printed(h, outDir))
	return printed != 0 && printed >= Ran(h, outDir)
}

// Printed is where cargo keeps what the script of an OUT_DIR printed: output next to out (layouts up to 1.99) or run/stdout (1.100).
func Printed(h buildenv.Host, outDir string) string {
	if unit := h.Dir(outDir); strings.Contains(h.Base(unit), "-") {
		return h.Join(unit, "output")
	}
	return h.Join(h.Dir(outDir), "run", "stdout")
}

// stamp is the file that cargo touches as it starts the script. A unit's directory is PACKAGE-HASH in the older layouts, and HASH in 1.100.
func stamp(h buildenv.Host, outDir string) string {
	if unit := h.Dir(outDir); strings.Contains(h.Base(unit), "-") {
		return h.Join(unit, "invoked.timestamp")
	}
	return h.Join(h.Dir(outDir), "run", "invoked.timestamp")
}
