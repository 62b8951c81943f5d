package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"gpubuild/buildenv/hosttest/need"
)

// TestNushellCompletes asks a real nu at a terminal: Tab behind "gpubuild toolch" writes the word out.
func TestNushellCompletes(t *testing.T) {
	nu := need.Tool(t, "nu")
	dir := t.TempDir()
	script, err := exec.Command(binary(t), "completion", "nu").Output()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config.nu")
	if err := os.WriteFile(config, append([]byte("$env.config.show_banner = false\n$env.PROMPT_COMMAND = { \"READY\" }\n"), script...),
		0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(nu, "--config", config, "--env-config", os.DevNull)
	c.Env = append(os.Environ(), "TERM=xterm", "HOME="+dir, "XDG_CONFIG_HOME="+dir, "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"))
	c.Dir = dir
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		need.Missing(t, "terminal", "%v", err)
	}
	defer func() { _ = c.Process.Kill(); tty.Close(); _ = c.Wait() }()
	var mu sync.Mutex
	var shown bytes.Buffer
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			shown.Write(buf[:n])
			mu.Unlock()
			for range bytes.Count(buf[:n], []byte("\x1b[6n")) { // where is the cursor? it waits for an answer
				_, _ = tty.WriteString("\x1b[1;1R")
			}
		}
	}()
	await := func(text string) {
		t.Helper()
		for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			mu.Lock()
			have := shown.String()
			mu.Unlock()
			if strings.Contains(have, text) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%q never came:\n%q", text, have)
			}
		}
	}
	await("READY")
	if _, err := tty.WriteString("gpubuild toolch\t"); err != nil {
		t.Fatal(err)
	}
	await("toolchain")
}
