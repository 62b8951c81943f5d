package proof

import (
	"context"
	"slices"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/session"
)

type gcc string // what -dumpmachine prints

func (g gcc) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if slices.Contains(c.Args, "-dumpmachine") {
		return buildenv.Result{Stdout: []byte(g + "\n")}, nil
	}
	return buildenv.Result{Stdout: []byte("gcc.exe (Rev3, Built by MSYS2 project) 14.2.0\n")}, nil
}

// TestProbeCompilerOnWindows: MinGW's gcc builds the probe where there is no Visual Studio; that of MSYS or Cygwin would bring its library into
// the watched program.
func TestProbeCompilerOnWindows(t *testing.T) {
	t.Parallel()
	for machine, want := range map[gcc]string{"x86_64-w64-mingw32": `C:\msys64\bin\gcc.exe`, "x86_64-pc-msys": "", "x86_64-pc-cygwin": ""} {
		h := hosttest.Must(hosttest.Parse([]byte("os: windows\narch: amd64\nhome: C:\\Users\\u\ncwd: C:\\w\n-- @env --\nPath=C:\\msys64\\bin\n-- C:\\msys64\\bin\\gcc.exe --\n")))(t)
		if got := ProbeCompiler(t.Context(), &session.Machine{Host: h, Runner: machine}); got.Path != want {
			t.Errorf("%s: %q", machine, got.Path)
		}
	}
}
