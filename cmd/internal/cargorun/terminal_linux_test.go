package cargorun

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// On a terminal cargo draws its bar, as wide as the terminal, and its colours, and a failure is explained all the same.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	need.Tool(t, "cargo")
	for _, tt := range []struct {
		story          string
		env            map[string]string
		config         string
		quiet          bool
		coloured, bars bool
		read           bool
	}{
		{story: "as on a terminal", coloured: true, bars: true, read: true},
		{story: "the environment wants no colours", env: map[string]string{"CARGO_TERM_COLOR": "never"}, bars: true, read: true},
		{story: "the configuration wants no bar", config: "[term]\nprogress.when = \"never\"\n", coloured: true, read: true},
		{story: "the configuration wants no colours", config: "[term]\ncolor = \"never\"\n", bars: true, read: true},
		{story: "quiet", quiet: true, coloured: true, read: true},
		{story: "CI", env: map[string]string{"CI": "1"}, coloured: true, read: true},
		{story: "cargo keeps the terminal", env: map[string]string{"GPUBUILD_READ_ALONG": "never"}, coloured: true, bars: true},
	} {
		t.Run(tt.story, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{
				"Cargo.toml":         "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
				"src/main.rs":        "fn main() {}\n",
				"build.rs":           "fn main() { eprintln!(\"nvcc fatal   : Unsupported gpu architecture 'compute_10'\"); std::process::exit(1) }\n",
				".cargo/config.toml": tt.config,
			} {
				path := filepath.Join(dir, name)
				hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
			}
			host := hosttest.Must(local.Host())(t)
			host.Cwd = dir
			for _, name := range []string{"CI", "TF_BUILD", "CARGO_TERM_COLOR", "CARGO_TERM_PROGRESS_WHEN", "NO_COLOR", "CARGO_TARGET_DIR"} {
				host.Env = host.Env.Unset(name)
			}
			host.Env = host.Env.Set("TERM", "xterm")
			for name, value := range tt.env {
				host.Env = host.Env.Set(name, value)
			}
			ours, theirs := hosttest.Must2(pty.Open())(t)
			defer ours.Close()
			hosttest.OK(t, pty.Setsize(theirs, &pty.Winsize{Rows: 30, Cols: 72}))
			var screen bytes.Buffer
			read := make(chan struct{})
			go func() {
				_, _ = io.Copy(&screen, ours) // ends with an error when the last of the other side is closed
				close(read)
			}()
			words := []string{"build", "--offline"}
			if tt.quiet {
				words = append(words, "--quiet")
			}
			line, _ := hosttest.Must2(cargo.Split(words, nil))(t)
			line.Dir = dir
			shell := &console.Shell{Out: io.Discard, Err: theirs, Colour: true}
			m := &session.Machine{Host: host, Runner: proc.Runner{}, Shell: shell, CacheDir: t.TempDir()}
			s := hosttest.Must(session.Open(m, line))(t)
			tool := hosttest.Must(cargo.Find(host, line))(t)
			tool.Dir = dir
			built, err := Build(context.Background(), s, tool, Output{Other: io.Discard})
			theirs.Close()
			<-read
			text := screen.String()
			if err == nil {
				t.Errorf("the build did not fail: %s", text)
			}
			hosttest.Equal(t, strings.Contains(text, "\x1b[1m\x1b[91merror"), tt.coloured, "colours", text)
			hosttest.Equal(t, strings.Contains(text, "Building"), tt.bars, "a bar", text)
			hosttest.Equal(t, built.Match.Known(), tt.read, "known", text)
			if built.Unread == tt.read {
				t.Errorf("unread: %v", built.Unread)
			}
		})
	}
}
