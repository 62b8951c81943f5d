package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest/need"
)

// TestExecEndsWithItsCommand: a signal that ends gpubuild ends the command that exec started, and what that started.
func TestExecEndsWithItsCommand(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	toolkit := standinToolkit(t, t.TempDir(), "13.0.88")
	for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mark := "GPUBUILD_TEST_MARK=" + dir
			var out lines
			c := exec.Command(binary(t), "exec", "--", "sh", "-c", "sleep 1000 & echo started; wait; sleep 1000")
			c.Dir, c.Stdout, c.Stderr = dir, &out, &out
			c.Env = append(os.Environ(), mark, "CUDA_HOME="+toolkit, "GPUBUILD_CACHE="+filepath.Join(dir, "cache"))
			noError(t, c.Start())
			out.await(t, "started\n")
			noError(t, c.Process.Signal(signal))
			defer time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() }).Stop()
			err := c.Wait()
			if ended, is := errors.AsType[*exec.ExitError](err); !is || ended.ExitCode() != exit.Interrupted {
				t.Errorf("ended with %v, want exit status 130\n%s", err, &out)
			}
			if l := left(t, mark); len(l) > 0 {
				t.Errorf("left behind: %q", l)
			}
		})
	}
}

// TestExecKeepsTheArchitecture: what exec starts compiles for what this target directory was built for, so that it makes nothing stale.
func TestExecKeepsTheArchitecture(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.build(s.a, "sm_86")
	for flag, want := range map[string]string{"": "cap 86", "--arch=sm_80": "cap 80"} {
		words := append([]string{"exec", "--features", "cuda", "--toolkit=" + s.a}, strings.Fields(flag)...)
		words = append(words, "--", "sh", "-c", "echo cap $CUDA_COMPUTE_CAP")
		if text := s.must(s.command(nil, append([]string{binary(t)}, words...)...)); !strings.Contains(text, want+"\n") {
			t.Errorf("exec %s: not %q\n%s", flag, want, text)
		}
	}
}
