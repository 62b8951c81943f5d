package cargo

import (
	"slices"
	"strings"
)

// installFlags are those of `cargo install` (1.95) as far as they decide what is built; installOwn those that only say where it comes
// from and goes to.
var (
	installFlags = []flagSpec{
		{"bin", 0, maybe}, {"bins", 0, none}, {"example", 0, maybe}, {"examples", 0, none},
		{"features", 'F', one}, {"all-features", 0, none}, {"no-default-features", 0, none},
		{"profile", 0, one}, {"target", 0, maybe}, {"ignore-rust-version", 0, none},
	}
	installOwn = []flagSpec{
		{"version", 0, one}, {"index", 0, one}, {"registry", 0, one},
		{"git", 0, one}, {"branch", 0, one}, {"tag", 0, one}, {"rev", 0, one}, {"path", 0, one},
		{"root", 0, one}, {"force", 'f', none}, {"dry-run", 'n', none}, {"no-track", 0, none}, {"list", 0, none},
		{"debug", 0, none}, {"message-format", 0, one}, {"jobs", 'j', hyphen}, {"keep-going", 0, none},
		{"target-dir", 0, one}, {"timings", 0, attached},
	}
)

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
	words := append(l.prefixed(), l.Global...)
	words = append(words, "build")
	known, decides := grammarOf(globalFlags, installFlags, installOwn), grammarOf(globalFlags, installFlags)
	in, release := Install{}, true
	for args := l.Args; len(args) > 0; {
		it, ok := known.parse(args)
		if !ok || !strings.HasPrefix(args[0], "-") {
			args = args[1:]
			continue
		}
		args = args[len(it.words):]
		for _, f := range it.flags {
			switch f.Name {
			case "--path":
				in.Path = f.Value
			case "--list":
				in.List = true
			case "--debug", "--profile":
				release = false
			}
			if _, ok := decides.long[strings.TrimPrefix(f.Name, "--")]; ok || f.Name == "-Z" {
				words = append(words, f.words()...)
			}
		}
	}
	if release {
		words = append(words, "--release")
	}
	if in.Path != "" {
		words = append(words, "--manifest-path", strings.TrimRight(in.Path, `/\`)+"/Cargo.toml")
	}
	var err error
	if in.Build, _, err = Split(words, nil); err != nil {
		return Install{}, false
	}
	free := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "--locked" })
	for i, w := range free {
		if w == "--frozen" {
			free[i] = "--offline"
		}
	}
	if in.Unlocked, _, err = Split(free, nil); err != nil {
		return Install{}, false
	}
	in.Features = in.Build.Features
	return in, true
}
