package toolchain_test

import (
	"os"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain"
)

// TestGenerator holds which generator CMake crates get on Windows, and that a user's own stays.
func TestGenerator(t *testing.T) {
	const vs = `C:\Program Files\Microsoft Visual Studio\2022\Community`
	const bin = vs + `\VC\Tools\MSVC\14.44.35207\bin\HostX64\x64`
	text, err := os.ReadFile("../testdata/hosts/windows-prompt.txtar")
	if err != nil {
		t.Fatal(err)
	}
	cmake := with(kernels, func(n *toolchain.Needs) { n.Reads = []string{"cmake"} })
	for _, tt := range []struct {
		story, env, files string
		needs             toolchain.Needs
		want              string
	}{
		{"ninja on PATH", "", `C:\Windows\system32\ninja.exe` + "\n", cmake, "Ninja"},
		{"no ninja: CMake chooses", "", bin + `\nmake.exe` + "\n", cmake, ""},
		{"the user's own", "CMAKE_GENERATOR=Visual Studio 17 2022\n", bin + `\nmake.exe` + "\n", cmake, ""},
		{"no CMake in the build", "", bin + `\nmake.exe` + "\n", kernels, ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h, err := hosttest.Parse([]byte(strings.NewReplacer("-- @env --\n", "-- @env --\n"+tt.env, "-- @empty --\n", "-- @empty --\n"+
				tt.files).Replace(string(text))))
			if err != nil {
				t.Fatal(err)
			}
			s, err := toolchain.Choose(windows(h), tt.needs, toolchain.Wish{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, c := range toolchain.Environment(h, s, tt.needs).Changes {
				if c.Name == "CMAKE_GENERATOR" {
					got = c.Value
				}
			}
			if got != tt.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
