package cli

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeNamesEveryVerb holds the list of verbs against the README.
func TestReadmeNamesEveryVerb(t *testing.T) {
	data, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verbs() {
		if !strings.Contains(string(data), "`"+v.name+"`") {
			t.Errorf("README does not name the verb %s", v.name)
		}
	}
}

// TestFlagNamesAreUnique: of two flags with one name on one verb the first would never be set.
func TestFlagNamesAreUnique(t *testing.T) {
	for _, v := range append(verbs(), verb{name: "cargo's", flags: cargoFlags()}) {
		seen := map[string]bool{}
		for _, f := range v.flags {
			if seen[f.Name] {
				t.Errorf("two flags of %s are called %s", v.name, f.Name)
			}
			seen[f.Name] = true
		}
	}
}

// TestFlagsStandAnywhere: urfave stops at the first positional word, and our verbs take flags behind it, too.
func TestFlagsStandAnywhere(t *testing.T) {
	for _, words := range []string{"--list FILE --json=out", "FILE --list --json=out", "FILE --json=out --list -- x"} {
		v, _ := find("scan")
		line, given, err := v.split(strings.Fields(words))
		if err != nil || len(given) != 2 || len(line.Positional) != 1 {
			t.Errorf("%s: %v, %v, %v", words, given, line.Positional, err)
		}
	}
}
