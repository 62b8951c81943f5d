package cli

import (
	"strings"
	"testing"
)

func TestVerbFirst(t *testing.T) {
	for _, tt := range []struct{ typed, want string }{
		{"clean --release", "clean --release"},
		{"+nightly stale --release", "stale +nightly --release"},
		{"+nightly -v --color never stale", "stale +nightly -v --color never"},
		{"-q --config=a.b=1 stale -p x", "stale -q --config=a.b=1 -p x"},
		{"+nightly build", "+nightly build"},
		{"+nightly prove app", "+nightly prove app"},
		{"-v build", "-v build"},
		{"+nightly cargo clean", "+nightly cargo clean"},
		{"-C dir clean", "-C dir clean"},
		{"-Z unstable-options features", "features -Z unstable-options"},
		{"--manifest-path app/Cargo.toml features --lint", "features --manifest-path app/Cargo.toml --lint"},
		{"-p app --features cuda stale", "stale -p app --features cuda"},
		{"-p features", "-p features"},
		{"-q cache clean", "cache -q clean"},
		{"--color always version", "version --color always"},
		{"--bin features run", "--bin features run"},
		{"--release -- features", "--release -- features"},
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
