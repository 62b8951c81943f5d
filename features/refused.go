package features

import (
	"fmt"
	"strings"
)

// Refused answers the first fault of the members' [features] tables that makes cargo refuse the whole workspace, worded as cargo 1.95 words it; nil where
// there is none of these. Cargo knows more faults than these: it is asked wherever it may be.
// Source: cargo's core/summary.rs, build_feature_map, and the cargo book, features.md.
func (p *Project) Refused() error {
	for _, m := range p.Members {
		for _, name := range sortedKeys(m.Features) {
			if name == "" {
				return m.refuse(name, "feature name cannot be empty")
			}
			if strings.HasPrefix(name, "dep:") || strings.Contains(name, "/") {
				return m.refuse(name, "feature named `%s` is not allowed to hold `dep:` or a slash", name)
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
