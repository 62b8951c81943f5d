package exit_test

import (
	"strings"
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
	long := strings.Repeat("x", 65)
	if got := exit.Nearest(long, []string{long + "y"}); got != "" {
		t.Errorf("a long word: %q", got)
	}
	for _, of := range [][]string{{"--devices", "--gpu-device"}, {"--gpu-device", "--devices"}} {
		if got := exit.Nearest("--device", of); got != "--gpu-device" {
			t.Errorf("of %q: %q", of, got)
		}
	}
	for _, of := range [][]string{{"aab", "aac"}, {"aac", "aab"}} { // equally near
		if got := exit.Nearest("aaa", of); got != "aab" {
			t.Errorf("of %q: %q", of, got)
		}
	}
	for word, want := range map[string]string{"docotr": "unknown word `docotr`; did you mean `doctor`?|", "foo": "unknown word `foo`|see help"} {
		err := exit.Unknown("word", word, known, "see help")
		if got := err.Error() + "|" + exit.Hint(err); got != want || exit.Of(err) != exit.Usage {
			t.Errorf("%s: %s", word, got)
		}
	}
}
