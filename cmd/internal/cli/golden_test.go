package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"gpubuild/cmd/internal/cli"
	"gpubuild/cmd/internal/console"
)

// TestHelpIsGolden compares every page of help; a change of it is read in review.
func TestHelpIsGolden(t *testing.T) {
	pages := [][]string{{"--help"}, {"help", "exit-codes"}, {"help", "environment"}, {"help", "config"}, {"help", "results"}, {"help", "kernels"}, {"prove", "-h"}, {"stale", "-h"}, {"toolchain", "help"},
		{"help", "ci", "init"}, {"help", "toolchain", "install"}, {"man"}}
	for _, verb := range cli.VerbNames() {
		pages = append(pages, []string{verb, "--help"})
	}
	for _, page := range pages {
		name := strings.Trim(strings.ReplaceAll(strings.Join(page, "-"), "--help", "help"), "-")
		t.Run(name, func(t *testing.T) {
			var out, err bytes.Buffer
			if code := cli.Main(append([]string{"gpubuild"}, page...), nil, &out, &err); code != 0 {
				t.Fatalf("ended with %d: %s", code, err.String())
			}
			if err.Len() > 0 {
				t.Errorf("help is data and belongs on stdout; stderr has %q", err.String())
			}
			for i, line := range strings.Split(out.String(), "\n") {
				if page[0] != "man" && utf8.RuneCountInString(line) > console.Width && !strings.Contains(line, "  ") {
					t.Errorf("line %d has more than %d columns: %s", i+1, console.Width, line)
				}
			}
			path := filepath.Join("..", "..", "..", "testdata", "golden", "help", name+".txt")
			if *update {
				noError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				noError(t, os.WriteFile(path, out.Bytes(), 0o644))
			}
			want, readErr := os.ReadFile(path)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if got := out.String(); got != string(want) {
				t.Errorf("differs from %s (rewrite with -update and read it):\n%s", path, got)
			}
		})
	}
}
