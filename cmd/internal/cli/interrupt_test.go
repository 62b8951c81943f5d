//go:build linux

package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"gpubuild/buildenv/hosttest/need"
)

// lines collects a stream and tells when a word has come.
type lines struct {
	sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.Lock()
	defer l.Unlock()
	return l.text.String()
}

func (l *lines) await(t *testing.T, word string) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(l.String(), word) {
			return
		}
	}
	t.Fatalf("never said %q, but:\n%s", word, l)
}

// marked lists the processes that have a mark in their environment: everything that a test started.
func marked(t *testing.T, mark string) (pids []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	noError(t, err)
	for _, e := range entries {
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && bytes.Contains(env, []byte(mark)) {
			pids = append(pids, e.Name())
		}
	}
	return pids
}

// left lists the command lines of the marked processes that are still there.
func left(t *testing.T, mark string) []string {
	t.Helper()
	var found []string
	for _, pid := range marked(t, mark) {
		cmdline, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if len(cmdline) > 0 {
			found = append(found, pid+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

// succeeds runs a command that only prepares.
func succeeds(t testing.TB, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
}

// leftAfter is left when what is about to end has had its time: a minute in which all of it waits, or a minute of a processor. One that could
// run and gets no processor, on a machine where others do, is about to end: a compiler whose gcc was killed.
func leftAfter(t *testing.T, mark string) (l []string) {
	t.Helper()
	for waited := 0; waited < 6000; time.Sleep(10 * time.Millisecond) {
		if l = left(t, mark); len(l) == 0 {
			break
		}
		if !slices.ContainsFunc(l, runs) {
			waited++
		}
	}
	return l
}

// runs reports of a line of left whether that process could run, and has not run for a minute yet (proc(5): state, utime and stime).
func runs(line string) bool {
	pid, _, _ := strings.Cut(line, " ")
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if err != nil || len(f) < 13 {
		return false
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return (f[0] == "R" || f[0] == "D") && user+system < 60*100
}

func writeFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		noError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		noError(t, os.WriteFile(path, []byte(text), 0o755))
	}
}

// sleeping is a project whose program names the driver's library where its feature cuda is on, so that no stage ends the build; its build
// script and its program take their time when they are asked to. It names nvcc nowhere, so no toolkit is needed.
var sleeping = map[string]string{
	"Cargo.toml": "[package]\nname = \"sleeping\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n",
	"build.rs": "fn main() { println!(\"cargo::rerun-if-changed=build.rs\"); if std::env::var(\"SLOW_BUILD\").is_ok() { " +
		"std::thread::sleep(std::time::Duration::from_secs(100)); } }\n",
	"src/main.rs": "fn main() { println!(\"began {}\", cfg!(feature = \"cuda\")); #[cfg(feature = \"cuda\")] if std::env::args().count() > 9 { " +
		"println!(\"libcuda.so.1\"); } if std::env::var(\"SLOW_RUN\").is_ok() { " +
		"std::thread::sleep(std::time::Duration::from_secs(100)); } }\n",
}

// TestInterruptedAtAnyStep: Ctrl-C ends with 130, leaves no child and nothing half-written, and the next run is right.
func TestInterruptedAtAnyStep(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	tests := []struct {
		name, env, says string
		args            []string
		hold            bool // another cargo holds the package cache
	}{
		{"while cargo is asked", "X=1", "Blocking", []string{"build", "--features", "cuda"}, true},
		{"while a build script runs", "SLOW_BUILD=1", "Compiling", []string{"build", "--features", "cuda"}, false},
		{"while the program runs", "SLOW_RUN=1", "began true", []string{"run", "--features", "cuda"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, sleeping)
			mark := "GPUBUILD_TEST_MARK=" + dir
			home := filepath.Join(dir, "home")
			env := append(os.Environ(), mark, "GPUBUILD_CACHE="+filepath.Join(dir, "cache"), "CARGO_HOME="+home, "CARGO_NET_OFFLINE=true",
				"CARGO_TERM_COLOR=never")
			if tt.hold {
				noError(t, os.MkdirAll(home, 0o755))
				lock := flock.New(filepath.Join(home, ".package-cache"))
				noError(t, lock.Lock())
				defer lock.Unlock()
			}
			var out lines
			c := exec.Command(binary(t), tt.args...)
			c.Dir, c.Env, c.Stdout, c.Stderr = dir, append(env, tt.env), &out, &out
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			noError(t, c.Start())
			out.await(t, tt.says)
			noError(t, c.Process.Signal(syscall.SIGINT))
			err := c.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 130 {
				t.Errorf("ended with %v, want exit status 130; it said:\n%s", err, out.String())
			}
			if l := leftAfter(t, mark); len(l) > 0 { // what cargo started ends by its own signal
				t.Errorf("left behind: %q", l)
			}
			if tt.hold {
				return // the lock is still held
			}
			next := exec.Command(binary(t), "build", "--features", "cuda")
			next.Dir, next.Env = dir, env
			if text, err := next.CombinedOutput(); err != nil || !strings.Contains(string(text), "Finished") {
				t.Errorf("the next run: %v\n%s", err, text)
			}
		})
	}
}
