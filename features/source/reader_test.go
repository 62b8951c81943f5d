package source

import (
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

// TestTexts: what single texts of build scripts show.
func TestTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"fn main() {}": false, `run("nvcc")`: true, `env("NVCC")`: true, "cuda(true)": false} {
		hosttest.Equal(t, NamesNvcc(text), want, text)
	}
	const list = `match v { "11.8" => (11, 8), "12.10" => (12, 10), "12.9" => (12, 9), v => panic!("Unsupported cuda toolkit version: {v}") }`
	for text, want := range map[string]string{list: "12.10", strings.ReplaceAll(list, "Unsupported", "unknown"): "unknown", "Unsupported cuda toolkit version": "unknown"} {
		if got := NewestKnown(text); got.String() != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	for word, want := range map[string]string{"-Ia/b": "a/b", "-La": "a", "-isystema": "a", "a-I": "a-I", "-iquotex": "x"} {
		hosttest.Equal(t, WithoutFlag(word), want, word)
	}
}

// TestUnchanging: what packages of the system or cargo replace as a whole, and what a user may change.
func TestUnchanging(t *testing.T) {
	t.Parallel()
	linux := hosttest.Memory(nil)
	linux.Env = buildenv.NewEnv(buildenv.Linux, nil)
	windows := buildenv.Host{OS: buildenv.Windows, Env: buildenv.NewEnv(buildenv.Windows, []string{`SystemRoot=C:\Windows`, `ProgramFiles=C:\Program Files`, `CARGO_HOME=C:\c`})}
	for _, tt := range []struct {
		h    buildenv.Host
		path string
		want bool
	}{
		{linux, "/usr/bin/python3", true}, {linux, "/usr/binary/x", false}, {linux, "/usr/local/bin/x", false}, {linux, "/usr/src/app", false}, {linux, "/etc/os-release", true},
		{linux, "/home/u/.cargo/registry/src/a/x-1", true}, {linux, "/home/u/.cargo/git/checkouts/x", true}, {linux, "/home/u/.cargo/bin/x", false}, {linux, "/w/vendor/x", false},
		{windows, `C:\Windows\System32\cmd.exe`, true}, {windows, `C:\w\x`, false}, {windows, `C:\Program Files\Git\bin\sh.exe`, true}, {windows, `C:\c\registry\src\x`, true},
	} {
		hosttest.Equal(t, Unchanging(tt.h, tt.path), tt.want, tt.path)
	}
}
