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
