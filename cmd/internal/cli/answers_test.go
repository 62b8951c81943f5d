//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestAnswersAreKeptOnlyWhileNothingChanged changes each input of cargo's answer in turn: cargo is asked again after every one of them, and
// not when nothing changed.
func TestAnswersAreKeptOnlyWhileNothingChanged(t *testing.T) {
	t.Parallel()
	real := need.Tool(t, "cargo")
	counting := filepath.Join(t.TempDir(), "counting-cargo")
	self, err := os.Executable()
	noError(t, err)
	noError(t, os.Symlink(self, counting))
	top := t.TempDir()
	dir := filepath.Join(top, "ws")
	writeFiles(t, dir, map[string]string{
		"Cargo.toml":           "[workspace]\nmembers = [\"crates/*\", \"tools/*/*\"]\nresolver = \"2\"\n",
		"tools/a/a/Cargo.toml": "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n",
		"tools/a/a/lib.rs":     "",
		"crates/app/Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = " +
			"[\"engine/cuda\"]\nextra = []\n[dependencies]\nengine = { path = \"../../../outside/engine\" }\n",
		"crates/app/src/main.rs": "fn main() {}\n",
		"../outside/engine/Cargo.toml": "[package]\nname = \"engine\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n" +
			"[features]\ncuda = []\n",
		"../outside/engine/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn gpu() {}\n",
	})
	log := filepath.Join(t.TempDir(), "count")
	// A rustup home and a rustc of the test's own, which hand on to the real ones: an update in place must be seen.
	rustc := need.Tool(t, "rustc")
	realHome := rustupHome()
	tools := filepath.Join(top, "tools")
	sysroot, err := exec.Command(rustc, "--print", "sysroot").Output()
	noError(t, err)
	toolchain := filepath.Base(strings.TrimSpace(string(sysroot)))
	forward := "#!/bin/sh\nRUSTUP_TOOLCHAIN=" + toolchain + " RUSTUP_HOME=" + realHome + " CARGO_HOME=" + cargoHome() + " exec " + rustc +
		" \"$@\"\n"
	writeFiles(t, tools, map[string]string{"bin/rustc": forward, "later/rustc": forward, "rustup/toolchains/stable-x/bin/rustc": "old",
		"rustup/toolchains/stable-x/bin/cargo": "old", "home/config.toml": ""})
	path := filepath.Join(tools, "first") + string(os.PathListSeparator) + filepath.Join(tools, "bin") + string(os.PathListSeparator) +
		os.Getenv("PATH")
	env := append(os.Environ(), "PATH="+path, "CARGO_HOME="+filepath.Join(tools, "home"), "RUSTUP_HOME="+filepath.Join(tools, "rustup"),
		"REAL_RUSTUP_HOME="+realHome, "REAL_TOOLCHAIN="+toolchain, "CARGO="+counting, "REAL_CARGO="+real, "COUNT="+log, "GPUBUILD_CACHE="+
			filepath.Join(t.TempDir(), "cache"), "CARGO_NET_OFFLINE=true")
	stale := false // the lock file does not fit the members any more: cargo is asked, and refuses
	asked := func(extra []string, args ...string) int {
		t.Helper()
		before, _ := os.ReadFile(log)
		c := exec.Command(binary(t), append([]string{"features", "--features", "cuda"}, args...)...)
		c.Dir, c.Env = dir, append(env, extra...)
		if out, err := c.CombinedOutput(); err != nil && !stale {
			t.Fatalf("%v\n%s", err, out)
		}
		after, _ := os.ReadFile(log)
		return strings.Count(string(after), "asked") - strings.Count(string(before), "asked")
	}
	relock := func() {
		t.Helper()
		lock := exec.Command(real, "generate-lockfile", "--offline")
		lock.Dir, lock.Env = dir, append(os.Environ(), "RUSTUP_TOOLCHAIN="+toolchain)
		succeeds(t, lock)
	}
	relock()
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
			noError(t, err)
			noError(t, os.WriteFile(path, []byte(strings.Replace(string(data), old, text, 1)), 0o644))
		}
	}
	add := func(name, text string) func() { return func() { writeFiles(t, dir, map[string]string{name: text}) } }
	tool := func(name, text string) func() { return func() { writeFiles(t, tools, map[string]string{name: text}) } }
	member := func(at string) func() {
		return func() {
			writeFiles(t, dir, map[string]string{at + "/Cargo.toml": "[package]\nname = \"" + filepath.Base(at) +
				"\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", at + "/src/lib.rs": ""})
		}
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
		{"a configuration file of the old name", add("../.cargo/config", ""), nil, nil},
		{"the configuration file of CARGO_HOME", tool("home/config.toml", "[build]\njobs = 1\n"), nil, nil},
		{"a member that a glob finds", member("crates/more"), nil, nil},
		{"a member of a deeper glob", member("tools/a/b"), nil, nil},
		{"a member of a new group of a deeper glob", member("tools/c/d"), nil, nil},
		{"a member's manifest is gone", func() {
			noError(t, os.RemoveAll(filepath.Join(dir, "tools", "c")))
		}, nil, nil},
		{"a manifest in a directory above, where cargo may find another workspace", add("../Cargo.toml", "[workspace]\n"), nil, nil},
		{"a toolchain file", add("rust-toolchain.toml", "[toolchain]\nprofile = \"minimal\"\n"), nil, nil},
		{"a toolchain file of a directory above", add("../rust-toolchain", "[toolchain]\n"), nil, nil},
		{"rustup's default", tool("rustup/settings.toml", "version = \"12\"\n"), nil, nil},
		{"another toolchain", tool("rustup/toolchains/nightly-x/bin/rustc", "new"), nil, nil},
		{"a toolchain updated in place", tool("rustup/toolchains/stable-x/bin/rustc", "newer"), nil, nil},
		{"a cargo updated in place", tool("rustup/toolchains/stable-x/bin/cargo", "newer"), nil, nil},
		{"rustc itself", tool("bin/rustc", forward+"# newer\n"), nil, nil},
		{"another rustc earlier on the same PATH", tool("first/rustc", forward), nil, nil},
		{"RUSTC", func() {}, []string{"RUSTC=" + filepath.Join(tools, "later", "rustc")}, nil},
		{"CARGO_ENCODED_RUSTFLAGS", func() {}, []string{"CARGO_ENCODED_RUSTFLAGS=--cfg=y"}, nil},
		{"a resolver by variable", func() {}, []string{"CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS=allow"}, nil},
		{"a --config of the command line", func() {}, nil, []string{"--config", "build.jobs=1"}},
		{"a variable that cargo reads", func() {}, []string{"RUSTFLAGS=--cfg=x"}, nil},
		{"a configuration variable", func() {}, []string{"CARGO_BUILD_TARGET_DIR=" + filepath.Join(top, "other")}, nil},
		{"another flag", func() {}, nil, []string{"--release"}},
		{"other features", func() {}, nil, []string{"--features", "extra"}},
	}
	for i, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			c.do()
			// which cargo writes again
			stale = strings.Contains(c.name, "member ") || strings.HasSuffix(c.name, "gone") || c.name == "the lock file"
			want := 1
			if strings.HasPrefix(c.name, "a member that") || strings.HasPrefix(c.name, "a member of") {
				want = 2 // with --locked first, which cargo refuses: Cargo.lock does not have the new member
			}
			if n := asked(c.extra, c.args...); n != want {
				t.Errorf("asked %d times, want %d", n, want)
			}
			if stale {
				stale = false
				relock()
				asked(c.extra, c.args...)
			}
			if i%4 != 0 && !need.Has("long") {
				return
			}
			if n := asked(c.extra, c.args...); n != 0 {
				t.Errorf("and again without a change: asked %d times", n)
			}
		})
	}
}
