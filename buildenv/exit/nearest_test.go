package exit_test

import (
	"testing"

	"gpubuild/buildenv/exit"
)

func TestNearest(t *testing.T) {
	known := []string{"doctor", "toolchain", "env", "scan", "--kernel", "--bins", "--bin", "--features"}
	for word, want := range map[string]string{
		"docotr": "doctor", "toolchian": "toolchain", "sacn": "scan", "foo": "", "nextest": "", "--kernell": "--kernel", "--feature": "--features",
		"--bogus": "", "": "", "--bind": "--bin",
	} {
		if got := exit.Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
