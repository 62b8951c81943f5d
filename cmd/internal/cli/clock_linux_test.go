package cli_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// shift moves the times of all files below a directory, as if the clock had jumped the other way.
func shift(t *testing.T, dir string, to func(time.Time) time.Time) {
	t.Helper()
	noError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() == fs.ModeSymlink {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chtimes(path, to(info.ModTime()), to(info.ModTime()))
	}))
}

// TestClockJumps: files of the target directory, the cache and the project come from the future, from long ago or from 1970, as after a
// jump of the clock. What another toolkit made or an edited kernel needs is never called up to date, and nothing fails.
// GPUBUILD_TEST=random=1 tries every jump.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	by := func(d time.Duration) func(time.Time) time.Time {
		return func(at time.Time) time.Time { return at.Add(d) }
	}
	const year = 365 * 24 * time.Hour
	jumps := map[string]func(time.Time) time.Time{"back an hour": by(time.Hour), "back ten years": by(10 * year),
		"ahead an hour": by(-time.Hour), "ahead ten years": by(-10 * year),
		"all of 1970": func(time.Time) time.Time { return time.Unix(0, 0) }}
	if need.Count(t, "random", 0) == 0 {
		jumps = map[string]func(time.Time) time.Time{"back an hour": jumps["back an hour"]}
	}
	for _, jump := range slices.Sorted(maps.Keys(jumps)) {
		t.Run(jump, func(t *testing.T) {
			t.Parallel()
			s := newShared(t)
			places := map[string][]string{"target": {s.dir + "/target"}, "cache": {s.top + "/cache"}, "project": {s.dir + "/sys", s.dir + "/src"},
				"toolkits": {s.a, s.b}, "all": {s.top}}
			kernel, letter := filepath.Join(s.dir, "sys", "kernel.cu"), byte('k')
			s.build(s.a, "sm_90")
			for _, place := range slices.Sorted(maps.Keys(places)) {
				move := func() {
					for _, dir := range places[place] {
						shift(t, dir, jumps[jump])
					}
				}
				story := jump + ", " + place
				move()
				s.stale(story, s.a, 0, "up to date")
				s.stale(story, s.b, 13, "app-sys")
				s.build(s.a, "sm_90")
				s.holds(story+", the same", "app/target/debug/app", first, "sm_90")
				move()
				s.build(s.b, "sm_90")
				s.holds(story+", another toolkit", "app/target/debug/app", second, "sm_90")
				// as long as before and of the same time: only the content shows it
				info, err := os.Stat(kernel)
				noError(t, err)
				letter++
				noError(t, os.WriteFile(kernel, fmt.Appendf(nil, "__global__ void %c() {}\n", letter), 0o600))
				noError(t, os.Chtimes(kernel, info.ModTime(), info.ModTime()))
				s.stale(story+", an edited kernel", s.b, 13, "app-sys")
				s.build(s.b, "sm_90")
				out, err := exec.Command(filepath.Join(s.dir, "target", "debug", "app")).Output()
				if err != nil || !bytes.Contains(out, fmt.Appendf(nil, ".entry %c()", letter)) {
					t.Errorf("%s: the kernel is not %c: %v\n%s", story, letter, err, out)
				}
				s.stale(story+", after that", s.b, 0, "up to date")
				s.build(s.a, "sm_90")
				s.holds(story+", and back", "app/target/debug/app", first, "sm_90")
			}
		})
	}
}

// content is the SHA-256 of every file below a directory.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	noError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	}))
	return all
}

// TestReadOnlyTarget: a user who may not write to the target directory gets an error that names it and says what to do, and all of it is as
// it was; may they write again, the build is right.
func TestReadOnlyTarget(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		need.Missing(t, "root", "only root can become another user")
	}
	s := newShared(t)
	s.target = filepath.Join(s.dir, "target")
	s.build(s.a, "sm_90")
	succeeds(t, exec.Command("sh", "-ec", `mkdir -p "$1/home" && chmod 755 "$1" "$1/.." && chown -R 64123:64123 "$1/cache" "$1/home" &&
chmod -R a-w "$1/app/target"`, "sh", s.top))
	before := content(t, s.target)
	for story, tt := range map[string]struct {
		args []string
		code int    // 0: it only reads, or has nothing to do
		says string // of an error
	}{
		"nothing changed":    {[]string{"build", "--features", "cuda", "--gpu-toolkit=" + s.a, "--gpu-arch", "sm_90"}, -1, s.target},
		"another toolkit":    {[]string{"build", "--features", "cuda", "--gpu-toolkit=" + s.b, "--gpu-arch", "sm_90"}, -1, s.target},
		"only asked":         {[]string{"stale", "--features", "cuda", "--toolkit=" + s.b, "--arch=sm_90"}, 13, "app-sys"},
		"what is stale goes": {[]string{"stale", "--clean", "--features", "cuda", "--toolkit=" + s.b, "--arch=sm_90"}, -1, s.target},
		"all goes":           {[]string{"clean"}, -1, s.target},
		"a program is read":  {[]string{"scan", "target/debug/app"}, 0, ""},
		"a proof":            {[]string{"prove", "target/debug/app"}, 21, ""},
	} {
		c := s.command(nil, append([]string{"sh", "-c", `exec "$@"`, "sh", binary(t)}, tt.args...)...) // the shell takes on what Go only hands on
		c.Env = append(c.Env, "HOME="+filepath.Join(s.top, "home"), "CARGO_HOME="+filepath.Join(s.top, "home", ".cargo"),
			"RUSTUP_HOME="+rustupHome())
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64123, Gid: 64123},
			AmbientCaps: []uintptr{2}} // CAP_DAC_READ_SEARCH: cargo and this test may be in the home of root
		out, err := c.CombinedOutput()
		code := c.ProcessState.ExitCode()
		if tt.code >= 0 && code != tt.code || tt.code < 0 && (code <= 0 || code == 70) || !strings.Contains(string(out), tt.says) {
			t.Errorf("%s: ended with %v, want %d and %q\n%s", story, err, tt.code, tt.says, out)
		}
		if tt.code < 0 && tt.args[0] != "clean" && !strings.Contains(string(out), "hint: ") { // clean is cargo itself
			t.Errorf("%s: no hint\n%s", story, out)
		}
		if now := content(t, s.target); !maps.Equal(now, before) {
			t.Fatalf("%s: the target directory changed\n%s", story, out)
		}
	}
	succeeds(t, exec.Command("sh", "-ec", `chown -R 0:0 "$1/cache" && chmod -R u+w "$1/app/target"`, "sh", s.top))
	s.build(s.b, "sm_90")
	s.holds("writable again", "app/target/debug/app", second, "sm_90")
}
