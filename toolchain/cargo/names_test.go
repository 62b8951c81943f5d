package cargo

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestNamesAreThoseOfCargosHelp asks the cargo that is here what each verb knows; what only another cargo knows may differ, so the two
// lists are compared for the version that the tables were written for and newer.
func TestNamesAreThoseOfCargosHelp(t *testing.T) {
	path := need.Tool(t, "cargo")
	flag := regexp.MustCompile(`(?m)^ +(?:(-[A-Za-z])(?:, )?)? *(--[a-z][a-z-]+)?(?: |\[|=|\.|$)`)
	for _, verb := range []string{"build", "check", "run", "test", "bench", "doc", "rustc", "rustdoc", "fix", "clean", "tree", "metadata"} {
		out, err := exec.Command(path, verb, "--help").Output()
		if err != nil {
			t.Fatalf("cargo %s --help: %v", verb, err)
		}
		theirs := map[string]bool{}
		for _, m := range flag.FindAllStringSubmatch(string(out), -1) {
			if m[2] != "" {
				theirs[strings.TrimPrefix(m[2], "--")] = true
			}
		}
		ours := map[string]bool{}
		for _, n := range Names(verb) {
			if n.Long == "" {
				continue
			}
			ours[n.Long] = true
			if !theirs[n.Long] {
				t.Errorf("cargo %s knows no --%s", verb, n.Long)
			}
		}
		for n := range theirs {
			if !ours[n] && knownBy[n] != "nightly" {
				t.Errorf("cargo %s knows --%s, and we do not offer it", verb, n)
			}
		}
		if len(theirs) < 10 {
			t.Errorf("only %d flags were read from cargo %s --help", len(theirs), verb)
		}
	}
}
