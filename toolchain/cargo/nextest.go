package cargo

import (
	"slices"
	"strings"
)

// What cargo-nextest has in common with `cargo test`, by the same names. Source: nextest's book, "Running tests", and `cargo nextest run
// --help` (0.9.148). Not among them: --profile, -j and --test-threads, which are nextest's own there, and everything after --.
var nextestFlags = []string{
	"--features", "--all-features", "--no-default-features", "--package", "--workspace", "--all", "--exclude",
	"--lib", "--bin", "--bins", "--example", "--examples", "--test", "--tests", "--bench", "--benches",
	"--all-targets", "--release", "--target", "--target-dir", "--manifest-path", "--config", "-Z", "--locked",
	"--offline", "--frozen", "--color", "--no-run", "--quiet", "--verbose", "--ignore-rust-version",
}

// Flags of nextest's that cargo calls otherwise.
var nextestNames = map[string]string{"--cargo-profile": "--profile", "--build-jobs": "--jobs"}

// Nextest returns the `cargo test` that builds what `cargo nextest run` runs; false where the line is none. Filters and nextest's own
// flags are left out: they choose among what is built.
func (l Line) Nextest() (Line, bool) {
	if len(l.Positional) == 0 || l.Positional[0] != "run" && l.Positional[0] != "r" {
		return Line{}, false
	}
	return l.NextestBuild()
}

// NextestBuild is Nextest for every word of nextest that builds: run, list, archive.
func (l Line) NextestBuild() (Line, bool) {
	if l.Verb != "nextest" || len(l.Positional) == 0 || l.Has("--help", "--version") ||
		!slices.Contains([]string{"run", "r", "list", "archive"}, l.Positional[0]) {
		return Line{}, false
	}
	words := append(append(l.before(), "test"), l.keep(nextestFlags...)...)
	for i, w := range l.Args {
		name, value, joined := strings.Cut(w, "=")
		cargos := nextestNames[name]
		switch {
		case cargos == "":
		case joined:
			words = append(words, cargos, value)
		case i+1 < len(l.Args):
			words = append(words, cargos, l.Args[i+1])
		}
	}
	test, _, err := Split(words, nil)
	return test, err == nil
}
