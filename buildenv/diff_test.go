package buildenv_test

import (
	"testing"

	"gpubuild/buildenv"
)

func TestDiff(t *testing.T) {
	h := buildenv.Host{OS: buildenv.Windows}
	env := buildenv.NewEnv(h.OS, []string{`Path=C:\Windows`, "GONE=1"})
	d := buildenv.Delta{}
	d.Add(buildenv.Prepend, "PATH", `C:\sdk`, "the SDK")
	d.Add(buildenv.Prepend, "PATH", `C:\cl`, "the SDK")
	d.Add(buildenv.Set, "VSCMD_VER", "17.14", "the prompt")
	d.Add(buildenv.Unset, "gone", "", "in the way")
	d.Add(buildenv.Prepend, "Path", `C:\cuda`, "the toolkit")
	const want = `-PATH=C:\Windows
+PATH=C:\cuda;C:\cl;C:\sdk;C:\Windows
 # the SDK
 # the toolkit
+VSCMD_VER=17.14
 # the prompt
-gone=1
 # in the way
`
	if got := buildenv.Diff(h, env, d); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
