package cli

import (
	"strings"
	"testing"
)

func TestVerbFirst(t *testing.T) {
	for _, tt := range []struct{ typed, want string }{
		{"clean --release", "clean --release"},
		{"+nightly clean --release", "clean +nightly --release"},
		{"+nightly -v --color never stale", "stale +nightly -v --color never"},
		{"-q --config=a.b=1 clean -p x", "clean -q --config=a.b=1 -p x"},
		{"+nightly build", "+nightly build"},
		{"-v build", "-v build"},
		{"+nightly cargo clean", "+nightly cargo clean"},
		{"-C dir clean", "-C dir clean"},
		{"--color", "--color"},
		{"+nightly", "+nightly"},
		{"-V", "-V"},
		{"", ""},
	} {
		if got := strings.Join(verbFirst(strings.Fields(tt.typed)), " "); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.typed, got, tt.want)
		}
	}
}
