package exit_test

import (
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
)

func TestNearest(t *testing.T) {
	known := []string{"doctor", "toolchain", "env", "scan", "--kernel", "--bins", "--bin", "--features"}
	for word, want := range map[string]string{
		"docotr": "doctor", "toolchian": "toolchain", "sacn": "scan", "foo": "", "nextest": "", "--kernell": "--kernel", "--feature": "--features",
		"--bogus": "", "": "", "--bind": "--bin",
	} {
		hosttest.Equal(t, exit.Nearest(word, known), want, word)
	}
	long := strings.Repeat("x", 65)
	hosttest.Equal(t, exit.Nearest(long, []string{long + "y"}), "", "a long word")
	for _, of := range [][]string{{"--devices", "--gpu-device"}, {"--gpu-device", "--devices"}} {
		hosttest.Equal(t, exit.Nearest("--device", of), "--gpu-device", of)
	}
	for _, of := range [][]string{{"aab", "aac"}, {"aac", "aab"}} { // equally near
		hosttest.Equal(t, exit.Nearest("aaa", of), "aab", of)
	}
	for word, want := range map[string]string{"docotr": "unknown word `docotr`; did you mean `doctor`?|", "foo": "unknown word `foo`|see help"} {
		err := exit.Unknown("word", word, known, "see help")
		if got := err.Error() + "|" + exit.Hint(err); got != want || exit.Of(err) != exit.Usage {
			t.Errorf("%s: %s", word, got)
		}
	}
}
