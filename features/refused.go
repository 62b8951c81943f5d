package features

import (
	"fmt"
	"strings"
)

// Refused answers the first fault of the members' [features] tables that makes cargo refuse the whole workspace, worded as cargo 1.95 words it; nil where
// there is none of these. Cargo knows more faults than these: it is asked wherever it may be.
// Source: cargo's core/summary.rs, build_feature_map, and the cargo book, features.md.
func (p *Project) Refused() error {
	if p.unmatched != "" {
		root := p.byPath[p.RootManifest]
		e := &ManifestError{Path: p.RootManifest, Message: fmt.Sprintf("workspace member %q matches nothing", p.unmatched)}
		if root != nil {
			e.Line, e.Column = root.Line("workspace", "members"), 1
		}
		return e
	}
	for _, m := range p.Members {
		for _, name := range sortedKeys(m.Features) {
			if name == "" {
				return m.refuse(name, "feature name cannot be empty")
			}
			if strings.HasPrefix(name, "dep:") || strings.Contains(name, "/") {
				return m.refuse(name, "feature named `%s` is not allowed to hold `dep:` or a slash", name)
			}
			if c, first, bad := badFeatureRune(name); bad {
				if first {
					return m.refuse(name, "invalid character `%c` in feature name: `%s`, the first character must be a Unicode XID start character or digit", c, name)
				}
				return m.refuse(name, "invalid character `%c` in feature name: `%s`, characters must be Unicode XID characters, '-', `+`, or `.`", c, name)
			}
			for _, s := range m.Features[name] {
				if why := m.refusedEdge(ParseEdge(s)); why != "" {
					return m.refuse(name, "feature `%s` includes `%s`, but %s", name, s, why)
				}
			}
		}
	}
	return nil
}

// badFeatureRune finds what cargo allows in no feature name; first says that only the first place forbids it. Of letters beyond ASCII cargo's tables judge.
// Source: cargo's restricted_names.rs, validate_feature_name (1.95).
func badFeatureRune(name string) (c rune, first, bad bool) {
	for i, c := range name {
		word := c >= 0x80 || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		switch {
		case word:
		case i == 0:
			return c, true, true
		case c != '-' && c != '+' && c != '.':
			return c, false, true
		}
	}
	return 0, false, false
}

func (p *Package) refuse(feature, format string, a ...any) error {
	return &ManifestError{Path: p.Manifest, Line: p.FeatureLine(feature), Column: 1, Message: fmt.Sprintf(format, a...)}
}

// refusedEdge says what cargo has against an edge; empty where nothing.
func (p *Package) refusedEdge(e Edge) string {
	entry, optional := false, false
	key := e.Dep
	if key == "" {
		key = e.Feature
	}
	for _, d := range p.Dependencies {
		if d.Key == key {
			entry, optional = true, optional || d.Optional
		}
	}
	switch {
	case e.Dep == "":
		_, feature := p.Features[e.Feature]
		switch {
		case feature || optional && p.implicit(e.Feature):
		case optional:
			return fmt.Sprintf("`%s` is an optional dependency without an implicit feature: use `dep:%s`", key, key)
		case entry:
			return fmt.Sprintf("`%s` is not an optional dependency", key)
		default:
			return fmt.Sprintf("`%s` is neither a dependency nor another feature", key)
		}
	case !entry:
		return fmt.Sprintf("`%s` is not a dependency", key)
	case !optional && (e.Feature == "" || e.Weak):
		return fmt.Sprintf("`%s` is not an optional dependency", key)
	}
	return ""
}
