package app

import (
	"os"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
)

// TestReadmeHasTheExitCodes holds the one table of codes against the README.
func TestReadmeHasTheExitCodes(t *testing.T) {
	data, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "```text\n"+exit.Table()+"```\n") {
		t.Errorf("README's exit codes differ from the table:\n%s", exit.Table())
	}
	for _, v := range verbs() {
		if !strings.Contains(string(data), "`"+v.name+"`") {
			t.Errorf("README does not name the verb %s", v.name)
		}
	}
}

// TestFlagNamesAreUniqueInEachGroup: of two flags with one name on one verb the first would never be set.
func TestFlagNamesAreUniqueInEachGroup(t *testing.T) {
	for g := group(1); g <= onOther; g <<= 1 {
		seen := map[string]bool{}
		for _, f := range flags {
			if f.groups&g != 0 && seen[f.name] {
				t.Errorf("two flags are called %s in group %b", f.name, g)
			}
			seen[f.name] = f.groups&g != 0 || seen[f.name]
		}
	}
}

func TestSplitWords(t *testing.T) {
	tests := []struct {
		in, want string
		ok       bool
	}{
		{`--device cuda`, "--device|cuda", true},
		{`  'a b'  "c d" e\ f `, "a b|c d|e f", true},
		{`''`, "", true},
		{`'open`, "", false},
		{`end\`, "", false},
	}
	for _, tt := range tests {
		got, err := splitWords(tt.in)
		if (err == nil) != tt.ok || strings.Join(got, "|") != tt.want {
			t.Errorf("splitWords(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}
