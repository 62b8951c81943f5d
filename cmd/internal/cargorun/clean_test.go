package cargorun

import (
	"bytes"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestWaitFilter: what cargo waits for is reported at once; its other words are kept for an error.
func TestWaitFilter(t *testing.T) {
	var reported []string
	var kept bytes.Buffer
	w := waitFilter(&kept, func(s string) { reported = append(reported, s) })
	for _, piece := range []string{"    Block", "ing waiting for file lock on artifact directory\n", "    Blocking waiting for file lock on package cache\nwarning: a\n",
		"\x1b[1m\x1b[36m    Blocking\x1b[0m waiting for file lock on build directory\r\n", "error: b"} {
		hosttest.Must(w.Write([]byte(piece)))(t)
		if piece == "    Block" && len(reported) > 0 {
			t.Error("reported before the line was complete")
		}
	}
	if got := strings.Join(reported, "|"); got != "waiting for file lock on artifact directory|waiting for file lock on package cache|waiting for file lock on build directory" {
		t.Errorf("reported %q", got)
	}
	w.End()
	hosttest.Equal(t, kept.String(), "warning: a\nerror: b", "kept")
}
