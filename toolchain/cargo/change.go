package cargo

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// Change is what a command line is to ask for in addition.
type Change struct {
	Features []string // as --features takes them
	Without  []string // features that were asked for and are not to be
	Alone    string   // manifest of the one package that is built, with these Features alone; empty: those that were asked for

	NoDefault bool // --no-default-features, also where it was not typed
}

// Change returns the command line with a change: all features in one --features behind the verb, everything else as it was typed.
func (l Line) Change(c Change) (Line, error) {
	var feats, words []string
	asked, replaced := slices.Clone(l.Features), []string{"--features"}
	if c.Alone != "" {
		asked, words = nil, []string{"--manifest-path", c.Alone}
		replaced = append(replaced, "--manifest-path", "--package", "--workspace", "--all", "--exclude", "--all-features")
	}
	if c.NoDefault {
		words, replaced = append(words, "--no-default-features"), append(replaced, "--no-default-features")
	}
	for _, f := range append(asked, c.Features...) {
		if !slices.Contains(feats, f) && !slices.Contains(c.Without, f) {
			feats = append(feats, f)
		}
	}
	if len(feats) > 0 {
		words = append(words, "--features", strings.Join(feats, ","))
	}
	return l.with(words, replaced...)
}

// with is the line with words behind the verb, and without the flags that they replace.
func (l Line) with(added []string, replaced ...string) (Line, error) {
	words := slices.Concat(l.head(), []string{l.verbWord()}, added)
	for _, it := range l.items {
		kept := slices.ContainsFunc(it.flags, func(f Flag) bool { return !slices.Contains(replaced, f.Name) })
		if kept || len(it.flags) == 0 {
			words = append(words, it.words...)
		}
	}
	if l.HasTrailing {
		words = append(append(words, "--"), l.Trailing...)
	}
	changed, _, err := Split(words, nil)
	if err != nil {
		return l, err
	}
	changed.AliasConfig = l.AliasConfig
	return changed, nil
}

// WithConfig adds --config arguments that beat all others of the line. Cargo forgets those before the verb when one stands after it, so
// they come along.
func (l Line) WithConfig(settings ...string) Line {
	var words []string
	for _, s := range append(slices.Clone(l.Config), settings...) {
		words = append(words, "--config", s)
	}
	l, _ = l.with(words, "--config") // words that were split before are split again
	return l
}

// WithDirectories has cargo build in a directory where the environment alone would not: --target-dir and --config go before it.
func (l Line) WithDirectories(dir string) Line {
	if l.TargetDir != "" {
		l, _ = l.with([]string{"--target-dir", dir}, "--target-dir")
	}
	if slices.ContainsFunc(l.Config, func(c string) bool { return strings.Contains(c, "build-dir") || !strings.Contains(c, "=") }) {
		l = l.WithConfig("build.build-dir=" + buildenv.TOMLString(dir))
	}
	return l
}
