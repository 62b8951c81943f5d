package cli

import (
	"testing"

	"gpubuild/buildenv/exit"
)

// TestFlagsOfFeatures: which of the flags of `features` exclude each other.
func TestFlagsOfFeatures(t *testing.T) {
	t.Parallel()
	for story, tt := range map[string]struct {
		o    featuresOptions
		good bool
	}{
		"none":                 {featuresOptions{}, true},
		"why":                  {featuresOptions{Why: "x"}, true},
		"fix":                  {featuresOptions{Fix: true}, true},
		"fix, as it would be":  {featuresOptions{Fix: true, DryRun: true}, true},
		"lint and fix":         {featuresOptions{Fix: true, Lint: true}, true},
		"the manifests alone":  {featuresOptions{ManifestOnly: true}, true},
		"lint, by manifests":   {featuresOptions{ManifestOnly: true, Lint: true}, true},
		"as it would be, what": {featuresOptions{DryRun: true}, false},
		"why and fix":          {featuresOptions{Why: "x", Fix: true}, false},
		"why and lint":         {featuresOptions{Why: "x", Lint: true}, false},
		"why, by manifests":    {featuresOptions{Why: "x", ManifestOnly: true}, false},
		"fix, by manifests":    {featuresOptions{ManifestOnly: true, Fix: true}, false},
	} {
		if err := tt.o.checkFeatures(); (err == nil) != tt.good || err != nil && (exit.Of(err) != exit.Usage || exit.Hint(err) == "") {
			t.Errorf("%s: %v", story, err)
		}
	}
}
