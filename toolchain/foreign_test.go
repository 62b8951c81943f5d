package toolchain

import (
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

func TestForeign(t *testing.T) {
	for _, tt := range []struct {
		arch, target string
		want         bool
	}{
		{"amd64", "x86_64-unknown-linux-gnu", false},
		{"amd64", "x86_64-pc-windows-msvc", false},
		{"amd64", "aarch64-unknown-linux-gnu", true},
		{"arm64", "aarch64-pc-windows-msvc", false},
		{"arm64", "x86_64-pc-windows-msvc", true},
		{"amd64", "i686-pc-windows-msvc", true},
		{"amd64", "my-board", false}, // a .json of the user's own
		{"amd64", "", false},
	} {
		hosttest.Equal(t, Foreign(buildenv.Host{Arch: tt.arch}, tt.target), tt.want, tt.target, tt.arch)
	}
}
