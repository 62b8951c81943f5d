//go:build linux

package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnswersAreKeptOnlyWhileNothingChanged changes each input of cargo's answer in turn: cargo is asked again after every one of them, and not when
// nothing changed.
func TestAnswersAreKeptOnlyWhileNothingChanged(t *testing.T) {
	real, err := exec.LookPath("cargo")
	if err != nil {
		t.Skip("cargo is not here")
	}
	counting := filepath.Join(t.TempDir(), "counting-cargo")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, counting); err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	dir := filepath.Join(top, "ws")
	writeFiles(t, dir, map[string]string{
		"Cargo.toml":                   "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"2\"\n",
		"crates/app/Cargo.toml":        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = [\"engine/cuda\"]\nextra = []\n[dependencies]\nengine = { path = \"../../../outside/engine\" }\n",
		"crates/app/src/main.rs":       "fn main() {}\n",
		"../outside/engine/Cargo.toml": "[package]\nname = \"engine\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n[features]\ncuda = []\n",
		"../outside/engine/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn gpu() {}\n",
	})
	log := filepath.Join(t.TempDir(), "count")
	env := append(os.Environ(), "CARGO="+counting, "REAL_CARGO="+real, "COUNT="+log, "GPUBUILD_CACHE="+filepath.Join(t.TempDir(), "cache"), "CARGO_NET_OFFLINE=true")
	asked := func(extra []string, args ...string) int {
		t.Helper()
		before, _ := os.ReadFile(log)
		c := exec.Command(binary(t), append([]string{"features", "--features", "cuda"}, args...)...)
		c.Dir, c.Env = dir, append(env, extra...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		after, _ := os.ReadFile(log)
		return strings.Count(string(after), "asked") - strings.Count(string(before), "asked")
	}
	lock := exec.Command(real, "generate-lockfile", "--offline")
	lock.Dir = dir
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := asked(nil); n != 1 {
		t.Fatalf("the first time: asked %d times", n)
	}
	if n := asked(nil); n != 0 {
		t.Fatalf("nothing changed: asked %d times", n)
	}
	edit := func(name, old, text string) func() {
		return func() {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(data), old, text, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	add := func(name, text string) func() {
		return func() { writeFiles(t, dir, map[string]string{name: text}) }
	}
	changes := []struct {
		name  string
		do    func()
		extra []string
		args  []string
	}{
		{"a member's manifest", edit("crates/app/Cargo.toml", "extra = []", "extra = [\"cuda\"]"), nil, nil},
		{"a manifest outside the workspace", edit("../outside/engine/Cargo.toml", "cuda = []", "cuda = []\nmore = []"), nil, nil},
		{"the root manifest", edit("Cargo.toml", "resolver = \"2\"", "resolver = \"3\""), nil, nil},
		{"the lock file", edit("Cargo.lock", "# This", "#  This"), nil, nil},
		{"a new binary", add("crates/app/src/bin/tool.rs", "fn main() {}\n"), nil, nil},
		{"a new binary in a directory", add("crates/app/src/bin/deep/main.rs", "fn main() {}\n"), nil, nil},
		{"a new example", add("crates/app/examples/e.rs", "fn main() {}\n"), nil, nil},
		{"a build script where there was none", add("crates/app/build.rs", "fn main() {}\n"), nil, nil},
		{"a library beside the binary", add("crates/app/src/lib.rs", ""), nil, nil},
		{"a configuration file", add(".cargo/config.toml", "[build]\nrustflags = []\n"), nil, nil},
		{"a configuration file of a directory above", add("../.cargo/config.toml", "[build]\njobs = 1\n"), nil, nil},
		{"a variable that cargo reads", func() {}, []string{"RUSTFLAGS=--cfg=x"}, nil},
		{"a configuration variable", func() {}, []string{"CARGO_BUILD_TARGET_DIR=" + filepath.Join(top, "other")}, nil},
		{"another flag", func() {}, nil, []string{"--release"}},
		{"other features", func() {}, nil, []string{"--features", "extra"}},
	}
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			c.do()
			if n := asked(c.extra, c.args...); n != 1 {
				t.Errorf("asked %d times, want 1", n)
			}
			if n := asked(c.extra, c.args...); n != 0 {
				t.Errorf("and again without a change: asked %d times", n)
			}
		})
	}
}
