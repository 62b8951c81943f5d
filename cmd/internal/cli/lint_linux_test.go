//go:build linux

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHookEndsOnCtrlC stops the hook's program while it reads a manifest, which here is a pipe: what it then reads is not judged any more.
func TestHookEndsOnCtrlC(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"Cargo.toml":             "[workspace]\nmembers = [\"candle-core\", \"app\", \"last\"]\nresolver = \"2\"\n",
		"Cargo.lock":             "version = 4\n",
		"candle-core/Cargo.toml": "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n[features]\ncuda = []\n",
		"candle-core/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn gpu() {}\n",
		"app/Cargo.toml":         "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n[dependencies]\ncandle-core = { path = \"../candle-core\" }\n",
		"app/src/lib.rs":         "",
		"last/src/lib.rs":        "",
	})
	last := filepath.Join(dir, "last", "Cargo.toml")
	text := []byte("[package]\nname = \"last\"\nversion = \"0.1.0\"\nedition = \"2021\"\n")
	hook := func() *exec.Cmd {
		c := exec.Command(binary(t), "features", "--manifest-only")
		c.Dir, c.Env = dir, append(os.Environ(), "GPUBUILD_CACHE="+filepath.Join(dir, "cache"))
		return c
	}
	if err := os.WriteFile(last, text, 0o644); err != nil {
		t.Fatal(err)
	}
	whole := hook()
	if out, _ := whole.CombinedOutput(); whole.ProcessState.ExitCode() != 10 {
		t.Fatalf("left alone it ends with %d:\n%s", whole.ProcessState.ExitCode(), out)
	}
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(last, 0o600); err != nil {
		t.Fatal(err)
	}
	c := hook()
	said := &lines{}
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(last, os.O_WRONLY, 0) // waits until it is read
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); pendingSignals(t, c.Process.Pid) && time.Since(begin) < 10*time.Second; {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond) // from the signal to the context is a goroutine's way
	if _, err := pipe.Write(text); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	_ = c.Wait()
	if code, got := c.ProcessState.ExitCode(), said.String(); code != 130 || got != "error: interrupted\n" {
		t.Errorf("ended with %d:\n%s", code, got)
	}
}

// pendingSignals says whether a process has a signal that it was not given yet (ShdPnd in proc_pid_status(5)).
func pendingSignals(t *testing.T, pid int) bool {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "ShdPnd:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(line, "\t 0") != ""
}
