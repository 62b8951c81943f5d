package cargo

import (
	"slices"
	"strings"
)

// installFlags are those of `cargo install` (1.95) that a build does not have.
var installFlags = []flagSpec{
	{"version", 0, one}, {"index", 0, one}, {"registry", 0, one},
	{"git", 0, one}, {"branch", 0, one}, {"tag", 0, one}, {"rev", 0, one}, {"path", 0, one},
	{"root", 0, one}, {"force", 'f', none}, {"dry-run", 'n', none}, {"no-track", 0, none}, {"list", 0, none}, {"debug", 0, none},
}

// Install is what a `cargo install` builds.
type Install struct {
	Path     string   // --path; empty: a registry or a repository, of which nothing is here before cargo fetched it
	List     bool     // --list builds nothing
	Features []string // asked for, split
	Build    Line     // with Path: the build that compiles the same
	Unlocked Line     // … where there is no Cargo.lock: --locked then only makes cargo install warn
}

// Install reads the words of `cargo install`; false for any other verb. It builds with the release profile by default, and
// looks for the package in --path only, not upwards.
func (l Line) Install() (Install, bool) {
	if l.Verb != "install" || l.Has("--help") {
		return Install{}, false
	}
	in := Install{Features: l.Features, List: l.Has("--list")}
	words := append(l.before(), "build")
	if !l.Has("--debug", "--profile") {
		words = append(words, "--release")
	}
	for _, f := range l.flags() {
		if f.Name == "--path" {
			in.Path = f.Value
			words = append(words, "--manifest-path", strings.TrimRight(f.Value, `/\`)+"/Cargo.toml")
		}
	}
	words = append(words, l.keep("--bin", "--bins", "--example", "--examples", "--features", "--all-features", "--no-default-features",
		"--profile", "--target", "--ignore-rust-version", "--config", "-Z", "--offline", "--verbose", "--quiet", "--color")...)
	build, _, err := Split(slices.Concat(words, l.keep("--locked", "--frozen")), nil)
	if err != nil {
		return Install{}, false
	}
	in.Build = build
	if l.Has("--frozen") {
		words = append(words, "--offline")
	}
	in.Unlocked, _, err = Split(words, nil)
	return in, err == nil
}
