package cli

import (
	"os"
	"strings"
	"testing"

	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/tools"
)

// TestReadmeNamesEveryVerb holds the list of verbs against the README.
func TestReadmeNamesEveryVerb(t *testing.T) {
	data, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verbs() {
		if !strings.Contains(string(data), "`"+v.Name+"`") {
			t.Errorf("README does not name the verb %s", v.Name)
		}
	}
}

// TestFlagNamesAreUnique: of two flags with one name on one verb the first would never be set.
func TestFlagNamesAreUnique(t *testing.T) {
	var check func(name string, v verb)
	check = func(name string, v verb) {
		seen := map[string]bool{}
		for _, f := range v.flags {
			if seen[f.Name] {
				t.Errorf("two flags of %s are called %s", name, f.Name)
			}
			seen[f.Name] = true
		}
		for _, s := range v.verbs {
			check(name+" "+s.Name, s)
		}
	}
	for _, v := range verbs() {
		check(v.Name, v)
	}
	check("cargo's", verb{flags: cargoFlags(&pipeline.Options{})})
}

// TestFlagsStandAnywhere: our verbs take flags behind a positional word, too.
func TestFlagsStandAnywhere(t *testing.T) {
	for _, words := range []string{"--libraries FILE --json=out", "FILE --libraries --json=out", "FILE --json=out --libraries -- x"} {
		v, _ := find("scan")
		line, given, err := v.split(strings.Fields(words))
		if err != nil || len(given) != 2 || len(line.Positional) != 1 {
			t.Errorf("%s: %v, %v, %v", words, given, line.Positional, err)
		}
	}
}

// TestStaleRepeatsItsFlags: the commands that its hint names do nothing about another build than the one that was looked at.
func TestStaleRepeatsItsFlags(t *testing.T) {
	t.Parallel()
	v, _ := find("stale")
	for words, want := range map[string]string{
		"--explain": "",
		"+nightly --features cuda -p app --json=out --toolkit 13.4": "; with the same flags:\n" +
			"      gpubuild +nightly build --features cuda -p app --gpu-toolkit=13.4 --gpu-arch=sm_90\n" +
			"      gpubuild +nightly stale --clean --features cuda -p app --toolkit=13.4 --arch=sm_90",
	} {
		line, _, err := v.split(strings.Fields(words))
		if err != nil {
			t.Fatal(err)
		}
		var o tools.Options
		if want != "" {
			o.Toolkit, o.Arch = "13.4", "sm_90"
		}
		if got := o.Commands("", line); got != want {
			t.Errorf("%s: %s", words, got)
		}
	}
}
