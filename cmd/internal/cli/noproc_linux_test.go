package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestWithoutProc: in a chroot without /proc, what needs no other program works.
func TestWithoutProc(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	within := func(args ...string) ([]byte, error) {
		c := exec.Command("unshare", append([]string{"-m", "sh", "-c", `mount -t tmpfs none /proc && exec "$@"`, "sh"}, args...)...)
		c.Dir, c.Env = dir, append(os.Environ(), "GPUBUILD_CACHE="+filepath.Join(dir, "cache"))
		return c.CombinedOutput()
	}
	if out, err := within("true"); err != nil {
		need.Missing(t, "mount", "%v: %s", err, out)
	}
	for _, args := range [][]string{{"version"}, {"help"}, {"help", "features"}, {"explain", "11"}, {"doctor", "--json"}} {
		out, err := within(append([]string{binary(t)}, args...)...)
		if ended, _ := err.(*exec.ExitError); err != nil && (args[0] != "doctor" || ended.ExitCode() != 11 && ended.ExitCode() != 12) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}
