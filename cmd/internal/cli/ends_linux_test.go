package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/cli"
	"gpubuild/gpu/verify"
)

// opens waits until a process has a file open.
func opens(t *testing.T, pid int, file string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		fds, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && to == file {
				return
			}
		}
	}
	t.Fatalf("%s was not opened", file)
}

// TestEveryVerbEndsWhenInterrupted: a verb that reads without end, or waits in the kernel, ends with 130, and prints no goroutine dump
// for SIGQUIT.
func TestEveryVerbEndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge")
	noError(t, errors.Join(os.WriteFile(huge, nil, 0o600), os.Truncate(huge, 40<<30)))
	tests := []struct {
		name   string
		signal syscall.Signal
		args   []string
		file   string // is open when it reads; empty: nobody writes to its standard input
	}{
		{"explain reads standard input", syscall.SIGINT, []string{"explain", "-"}, ""},
		{"explain reads a pipe by its name", syscall.SIGTERM, []string{"explain", "/dev/stdin"}, ""},
		{"scan reads 40 GB", syscall.SIGTERM, []string{"scan", "--json", huge}, huge},
		{"scan reads 40 GB, SIGQUIT", syscall.SIGQUIT, []string{"scan", "--json", huge}, huge},
		{"report reads a pipe by its name", syscall.SIGHUP, []string{"report", "/dev/stdin"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out lines
			c := exec.Command(binary(t), tt.args...)
			c.Env = append(os.Environ(), "GPUBUILD_CACHE="+filepath.Join(t.TempDir(), "cache"))
			c.Stdout, c.Stderr = &out, &out
			in, err := c.StdinPipe()
			noError(t, err)
			defer in.Close()
			noError(t, c.Start())
			switch tt.file {
			case "":
				if _, err := in.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil { // more than a pipe holds: it reads
					t.Fatal(err)
				}
			default:
				opens(t, c.Process.Pid, tt.file)
			}
			noError(t, c.Process.Signal(tt.signal))
			defer time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() }).Stop() // it goes on reading
			err = c.Wait()
			var ended *exec.ExitError
			if !errors.As(err, &ended) || ended.ExitCode() != exit.Interrupted {
				t.Errorf("ended with %v, want exit status 130", err)
			}
			if got := out.String(); got != "error: interrupted\n" {
				t.Errorf("printed %q", got)
			}
		})
	}
}

// TestNoProgramSurvivesAKill: kill -9 of gpubuild ends the runner, which cargo made of itself, and the program.
func TestNoProgramSurvivesAKill(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	dir := t.TempDir()
	writeFiles(t, dir, sleeping)
	mark := "GPUBUILD_TEST_MARK=" + dir
	var out lines
	c := exec.Command(binary(t), "run", "--features", "cuda")
	c.Dir, c.Stdout, c.Stderr = dir, &out, &out
	c.Env = append(os.Environ(), mark, "SLOW_RUN=1", "GPUBUILD_CACHE="+filepath.Join(dir, "cache"), "CARGO_NET_OFFLINE=true",
		"CARGO_TERM_COLOR=never")
	noError(t, c.Start())
	out.await(t, "began true")
	noError(t, c.Process.Kill())
	_ = c.Wait() // when all who hold its output are gone
	if l := leftAfter(t, mark); len(l) > 0 {
		t.Errorf("left behind: %q", l)
	}
}

// panicking is a standard input on which reading panics.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("a test's panic") }

// TestAPanic: a panic in a verb is an internal error.
func TestAPanic(t *testing.T) {
	var stdout, stderr lines
	args := []string{"gpubuild", "explain", "-"}
	got := cli.MainForTest(args, panicking{}, &stdout, &stderr, verify.RealDriver, verify.DeviceNodes)
	if text := stderr.String(); got != exit.Internal || !strings.Contains(text, "error: internal error: a test's panic") ||
		!strings.Contains(text, "ends_linux_test.go") || !strings.Contains(text, "please report this") {
		t.Errorf("ended with %d:\n%s", got, text)
	}
}

// binary is this test binary as gpubuild (see TestMain): an interrupt needs a process of its own, not a function.
func binary(t testing.TB) string {
	t.Helper()
	if need.Count(t, "built", 0) > 0 {
		return built(t, "linux", "./cmd/gpubuild", "build")
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) { // testscript puts its own in front, and TestMain perhaps cargo's before it
		if path := filepath.Join(dir, "gpubuild"); exists(path) {
			return path
		}
	}
	t.Fatal("testscript's directory is not on PATH")
	return ""
}
