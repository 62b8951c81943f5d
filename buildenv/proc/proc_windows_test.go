package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
)

func helperUnix(string, []string) int { return 99 }

// TestArgumentsOfAScript: none of them is a command to cmd.exe. Wine expands a variable all the same, so only TestBatchLine has one.
func TestArgumentsOfAScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), "two words.bat")
	if err := os.WriteFile(script, []byte("@echo off\r\necho [%1]\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		"plain":                      "[plain]",
		"two words":                  `["two words"]`,
		`x"&echo INJECTED&rem "`:     `["x""&echo INJECTED&rem """]`,
		"&echo INJECTED":             `["&echo INJECTED"]`,
		"a|echo INJECTED>injected.x": `["a|echo INJECTED>injected.x"]`,
	} {
		c := buildenv.Cmd{Path: script, Args: []string{arg}, Dir: t.TempDir(), Env: os.Environ()}
		res, err := Runner{}.Run(context.Background(), c)
		got := strings.TrimSpace(string(res.Stdout))
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", arg, got, err, want)
		}
	}
	c := buildenv.Cmd{Path: script, Args: []string{"a\r\necho INJECTED"}, Env: os.Environ()}
	var start *StartError
	if _, err := (Runner{}).Run(context.Background(), c); !errors.As(err, &start) {
		t.Errorf("a line break: %v", err)
	}
}
