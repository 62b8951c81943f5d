package hostcc_test

import (
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain/hostcc"
)

func TestInputs(t *testing.T) {
	h, err := hosttest.Parse(
		[]byte(
			"os: linux\n-- @env --\nPATH=/a:/b:/c\n-- @links --\n/b/cuda-compiler -> gcc-14\n/c/gcc -> /usr/bin/ccache\n/b/gcc -> gcc-14\n-- @empty --\n/a/gcc +x\n/b/gcc-14 +x\n/usr/bin/ccache +x\n/b/wrapped +x\n",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, want string }{
		{"/a/gcc", "/a/gcc /b/gcc /c/gcc /a/gcc /b/gcc /c/gcc"}, // a ccache that was copied to /a/gcc calls /b/gcc
		{"/b/gcc", "/a/gcc /b/gcc /c/gcc /b/gcc-14"},
		{"/c/gcc", "unknown"},
		{"/b/wrapped", "unknown"},
		{"/b/cuda-compiler", "unknown"}, // a launcher's link may lead to a compiler, too
	} {
		files, variables, ok := hostcc.Inputs(h, buildenv.Cmd{Path: tt.path})
		got := strings.Join(files, " ")
		if !ok {
			got = "unknown"
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.path, got, tt.want)
		}
		if ok && !strings.Contains(strings.Join(variables, " "), "PATH CCACHE_COMPILER") {
			t.Errorf("variables %v", variables)
		}
	}
}
