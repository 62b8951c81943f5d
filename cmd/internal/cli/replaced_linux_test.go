package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestCargoTakesOurPlace: without GPU work and without a result to write, cargo and then the program run as gpubuild's own process, and its
// signals are theirs.
func TestCargoTakesOurPlace(t *testing.T) {
	t.Parallel()
	need.Cargo(t)
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"Cargo.toml": "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/main.rs": "use std::io::Read;\nfn main() {\n    println!(\"{}\", std::process::id());\n" +
			"    let mut word = String::new();\n    std::io::stdin().read_to_string(&mut word).unwrap();\n" +
			"    if word == \"abort\" { std::process::abort() }\n}\n",
	})
	for _, tt := range []struct {
		name, stdin string
		env         string
		args        []string
		replaced    bool
		signal      syscall.Signal
	}{
		{"run", "", "", []string{"run", "-q"}, true, 0},
		{"an abort is the program's own", "abort", "", []string{"run", "-q"}, true, syscall.SIGABRT},
		{"plain cargo", "", "", []string{"cargo", "run", "-q"}, true, 0},
		{"a result is to be written", "", "", []string{"run", "-q", "--gpu-junit", "checks.xml"}, false, 0},
		{"a step of GitHub Actions", "", "GITHUB_ACTIONS=true", []string{"run", "-q"}, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, err := os.CreateTemp(t.TempDir(), "")
			noError(t, err)
			defer in.Close()
			if _, err := in.WriteString(tt.stdin); err != nil {
				t.Fatal(err)
			}
			if _, err := in.Seek(0, 0); err != nil {
				t.Fatal(err)
			}
			c := exec.Command(binary(t), tt.args...)
			c.Dir, c.Stdin, c.Stderr = dir, in, os.Stderr
			c.Env = append(os.Environ(), "GPUBUILD_CACHE="+filepath.Join(dir, "cache"), "GITHUB_ACTIONS=", "CARGO_NET_OFFLINE=true", tt.env)
			out, _ := c.Output() // how it ended is looked at below
			pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil {
				t.Fatalf("%v: %q", err, out)
			}
			if got := pid == c.Process.Pid; got != tt.replaced {
				t.Errorf("the program is process %d, gpubuild was %d", pid, c.Process.Pid)
			}
			if got := c.ProcessState.Sys().(syscall.WaitStatus).Signal(); tt.signal != 0 && got != tt.signal {
				t.Errorf("ended by %v, want %v", got, tt.signal)
			}
		})
	}
}
