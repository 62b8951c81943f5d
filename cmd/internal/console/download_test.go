package console_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/console"
)

// TestDownloadBar: on a terminal one line with how much there is, how fast it comes, and how long it still takes; elsewhere nothing. The
// first speed is that of the download, and not one over a millisecond.
func TestDownloadBar(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var err bytes.Buffer
			s := &console.Shell{Err: &err, ErrTerminal: terminal}
			set, end := s.Download(200e6)
			time.Sleep(time.Millisecond) // of the test's own clock
			set(1e6)
			if err.Len() > 0 {
				t.Errorf("shown after a millisecond: %q", err.String())
			}
			time.Sleep(time.Second)
			set(50e6)
			end()
			got := err.String()
			if !terminal {
				hosttest.Equal(t, got, "", "without a terminal")
				return
			}
			for _, part := range []string{"Fetching", "25%", "50/200 MB, 50 MB/s)", "[1s:3s]"} {
				if !strings.Contains(got, part) {
					t.Errorf("no %q in %q", part, got)
				}
			}
			if strings.Contains(got, "\n") {
				t.Errorf("more than a line: %q", got)
			}
		})
	}
}
