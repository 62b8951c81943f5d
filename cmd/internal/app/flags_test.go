package app

import "testing"

// TestOnlyOnNamesWhatThereIs holds that the table of flags for some verbs speaks of flags and verbs that there are.
func TestOnlyOnNamesWhatThereIs(t *testing.T) {
	declared := map[string]bool{}
	for _, f := range flags {
		declared[f.name] = true
	}
	for name, verbsOf := range onlyOn {
		if !declared[name] {
			t.Errorf("--%s is not declared", name)
		}
		for _, v := range verbsOf {
			if !ours(v) {
				t.Errorf("--%s is for %s, which is no verb of ours", name, v)
			}
		}
	}
}
