package cargo

import (
	"strings"
	"testing"
)

// TestPurposes spells out every set of subcommands that other packages ask for.
func TestPurposes(t *testing.T) {
	sets := map[string]struct {
		is    func(Purpose) bool
		verbs string
	}{
		"Judged":    {Purpose.Judged, "build rustc run test bench check clippy"},
		"Starts":    {Purpose.Starts, "run test bench"},
		"Compiles":  {Purpose.Compiles, "build rustc run test bench check clippy doc rustdoc fix"},
		"Other":     {func(p Purpose) bool { return p == Other }, "clean tree metadata publish nextest fmt new"},
		"Installs":  {func(p Purpose) bool { return p == Installs }, "install"},
		"Documents": {func(p Purpose) bool { return p == Documents }, "doc rustdoc fix"},
		"Checks":    {func(p Purpose) bool { return p == Checks }, "check clippy"},
		"Builds":    {func(p Purpose) bool { return p == Builds }, "build rustc"},
		"Runs":      {func(p Purpose) bool { return p == Runs }, "run"},
		"Tests":     {func(p Purpose) bool { return p == Tests }, "test bench"},
	}
	var verbs []string
	for verb := range purposes {
		verbs = append(verbs, verb)
	}
	verbs = append(verbs, "clean", "tree", "metadata", "publish", "nextest", "fmt", "new")
	for name, set := range sets {
		want := strings.Fields(set.verbs)
		for _, verb := range verbs {
			l, _, err := Split([]string{verb}, nil)
			if err != nil {
				t.Fatal(err)
			}
			in := false
			for _, w := range want {
				in = in || w == verb
			}
			if set.is(PurposeOf(verb)) != in || set.is(l.Purpose()) != in {
				t.Errorf("%s of %s is %v", name, verb, !in)
			}
		}
	}
	for typed, want := range map[string]bool{
		"run": true, "r -q": true, "test": true, "t --no-run": false, "bench --no-run": false, "build": false, "": false, "--list": false,
	} {
		l, _, err := Split(strings.Fields(typed), nil)
		if err != nil || l.Starts() != want {
			t.Errorf("%q starts a program: %v, %v", typed, l.Starts(), err)
		}
	}
}
