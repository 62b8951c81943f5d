package console_test

import (
	"bytes"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/console"
)

func TestPrintColoursStdout(t *testing.T) {
	const text = "✓ cache  /cache\n✗ driver  none\n  on   app 0.1.0\n  off  candle-core\n\nProof:\n  --kernel REGEX  on which\nplain\n"
	const want = "\x1b[1m\x1b[32m✓\x1b[0m cache  /cache\n\x1b[1m\x1b[31m✗\x1b[0m driver  none\n\x1b[1m\x1b[32m  on\x1b[0m   app 0.1.0\n" +
		"\x1b[1m\x1b[31m  off\x1b[0m  candle-core\n\n\x1b[1m\x1b[32mProof:\x1b[0m\n  --kernel REGEX  on which\nplain\n"
	for _, tt := range []struct {
		colour bool
		want   string
	}{{true, want}, {false, text}} {
		var out bytes.Buffer
		if err := (&console.Shell{Out: &out, OutColour: tt.colour}).Print(text); err != nil || out.String() != tt.want {
			t.Errorf("colour %v: %v, %q", tt.colour, err, out.String())
		}
	}
}

func TestHomeIsATilde(t *testing.T) {
	for _, tt := range []struct{ home, text, want string }{
		{"/home/me", "CUDA 13.4 in /home/me/cuda (PATH)", "CUDA 13.4 in ~/cuda (PATH)"},
		{"/home/me", "`/home/me`, /home/merlin/x, /mnt/home/me/x", "`~`, /home/merlin/x, /mnt/home/me/x"},
		{`C:\Users\me`, `wrote "C:\Users\me\a.json"`, `wrote "~\a.json"`},
		{"/", "in /usr", "in /usr"},
		{"", "in /usr", "in /usr"},
	} {
		var err bytes.Buffer
		s := &console.Shell{Err: &err, Home: tt.home}
		s.Status("Located", "%s", tt.text)
		s.Hint("gpubuild --gpu-toolkit=" + tt.home + "/cuda") // a hint is pasted, also between quotes, where ~ is no directory
		want := "     Located " + tt.want + "\n\nhint: gpubuild --gpu-toolkit=" + tt.home + "/cuda\n"
		hosttest.Equal(t, err.String(), want, tt.home)
	}
}
