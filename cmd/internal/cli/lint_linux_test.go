//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestHookEndsOnCtrlC stops the hook's program while it waits for a manifest, which here is a pipe that nothing comes through.
func TestHookEndsOnCtrlC(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"Cargo.toml":             "[workspace]\nmembers = [\"candle-core\", \"app\", \"last\"]\nresolver = \"2\"\n",
		"Cargo.lock":             "version = 4\n",
		"candle-core/Cargo.toml": "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n[features]\ncuda = []\n",
		"candle-core/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn gpu() {}\n",
		"app/Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n" +
			"[dependencies]\ncandle-core = { path = \"../candle-core\" }\n",
		"app/src/lib.rs":  "",
		"last/src/lib.rs": "",
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
	_ = c.Wait()
	pipe.Close()
	if code, got := c.ProcessState.ExitCode(), said.String(); code != 130 || got != "error: interrupted\n" {
		t.Errorf("ended with %d:\n%s", code, got)
	}
}
