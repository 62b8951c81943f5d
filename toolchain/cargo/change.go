package cargo

import (
	"slices"
	"strings"
)

// Change is what a command line is to ask for in addition.
type Change struct {
	Features  []string // as --features takes them
	Without   []string // features that were asked for and are not to be
	Packages  []string
	Workspace bool   // instead of any -p
	Manifest  string // instead of any --manifest-path, and of the directory's own
}

// Change answers the command line with a change: all features in one --features behind the verb, everything else as it was typed.
func (l Line) Change(c Change) (Line, error) {
	var feats []string
	for _, f := range append(slices.Clone(l.Features), c.Features...) {
		if !slices.Contains(feats, f) && !slices.Contains(c.Without, f) {
			feats = append(feats, f)
		}
	}
	var words []string
	if l.Toolchain != "" {
		words = append(words, "+"+l.Toolchain)
	}
	words = append(append(words, l.Global...), l.verbWord())
	if len(feats) > 0 {
		words = append(words, "--features", strings.Join(feats, ","))
	}
	if c.Workspace {
		words = append(words, "--workspace")
	}
	if c.Manifest != "" {
		words = append(words, "--manifest-path", c.Manifest)
	}
	for _, p := range c.Packages {
		words = append(words, "-p", p)
	}
	for _, it := range l.items {
		gone := len(it.flags) > 0
		for _, f := range it.flags {
			gone = gone &&
				(f.Name == "--features" || c.Workspace && f.Name == "--package" || c.Manifest != "" && f.Name == "--manifest-path")
		}
		if gone {
			continue
		}
		words = append(words, it.words...)
	}
	if l.HasTrailing {
		words = append(append(words, "--"), l.Trailing...)
	}
	out, _, err := Split(words, nil)
	return out, err
}
