package cli

import (
	"os"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
)

// TestDocsHaveTheExitCodes holds the one table of codes against docs/exit-codes.md.
func TestDocsHaveTheExitCodes(t *testing.T) {
	data, err := os.ReadFile("../../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "```text\n"+exit.Table()+"```\n") {
		t.Errorf("the exit codes of docs/exit-codes.md differ from the table:\n%s", exit.Table())
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
