//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"gpubuild/buildenv/hosttest/need"
)

const reachWorkspace = `
-- Cargo.toml --
[workspace]
members = ["app", "other"]
exclude = ["stub", "elsewhere"]
resolver = "2"
[profile.fast]
inherits = "release"
[profile.fast.package.candle-core]
opt-level = 1
-- app/Cargo.toml --
[package]
name = "app"
version = "0.1.0"
edition = "2021"
[features]
cuda = ["candle-core/cuda"]
quiet = []
[dependencies]
candle-core = { path = "../stub/candle-core" }
[target.'cfg(windows)'.dependencies]
candle-core = { path = "../stub/candle-core", features = ["windows"] }
-- app/src/main.rs --
fn main() {}
-- other/Cargo.toml --
[package]
name = "other"
version = "0.1.0"
edition = "2021"
[features]
cuda = ["candle-core/cudnn"]
[dependencies]
candle-core = { path = "../stub/candle-core" }
[build-dependencies]
candle-core = { path = "../stub/candle-core", features = ["host"] }
-- other/build.rs --
fn main() {}
-- other/src/lib.rs --
-- other/examples/show.rs --
fn main() {}
-- stub/candle-core/Cargo.toml --
[package]
name = "candle-core"
version = "0.11.1"
edition = "2021"
[features]
cuda = []
cudnn = ["cuda"]
windows = []
host = []
patched = []
-- stub/candle-core/src/lib.rs --
-- elsewhere/Cargo.toml --
[package]
name = "elsewhere"
version = "0.1.0"
edition = "2021"
[workspace]
[features]
cuda = ["candle-core/cuda"]
[dependencies]
candle-core = { path = "../stub/candle-core" }
-- elsewhere/src/main.rs --
fn main() {}
-- conf/patch.toml --
[build]
target-dir = "from-config"
-- .cargo/config.toml --
[alias]
gb = "build --features cuda -p other"
`

var rustcLine = regexp.MustCompile("(?m)^ +Running `.*--crate-name candle_core .*`$")

// userPATH is PATH before cargoItself: with rustup's proxies where the user has them.
var userPATH = os.Getenv("PATH")

// TestReachIsWhatRustcGot holds the features that `gpubuild features` says of candle-core against the --cfg that rustc really receives in a
// build with the same words.
func TestReachIsWhatRustcGot(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	need.Asked(t, "long")
	root, cache := t.TempDir(), t.TempDir()
	for _, f := range txtar.Parse([]byte(reachWorkspace)).Files {
		full := filepath.Join(root, f.Name)
		noError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		noError(t, os.WriteFile(full, f.Data, 0o644))
	}
	run := func(dir string, program string, words ...string) (stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		path := os.Getenv("PATH")
		if strings.Contains(strings.Join(words, " "), "+") { // rustup's proxies know +toolchain
			program, words, path = "env", append([]string{program}, words...), userPATH
		}
		c := exec.Command(program, words...)
		c.Dir, c.Stdout, c.Stderr = filepath.Join(root, dir), &out, &errs
		c.Env = append(os.Environ(), "GPUBUILD_CACHE="+cache, "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "CARGO_INCREMENTAL=0", "PATH="+path)
		if err := c.Run(); err != nil && errs.Len() > 0 && !strings.Contains(errs.String(), "[features.") {
			t.Fatalf("%s %v: %v\n%s", program, words, err, errs.String())
		}
		return out.String(), errs.String()
	}
	version, _ := run("", "rustc", "-vV")
	host := regexp.MustCompile(`(?m)^host: (\S+)$`).FindStringSubmatch(version)[1]
	run("", "cargo", "generate-lockfile")
	run("elsewhere", "cargo", "generate-lockfile")
	tests := []struct{ dir, words, want string }{
		{"", "-p app --features cuda", "cuda"},
		{"", "-p app", ""},
		{"", "-p other -F cuda", "cuda cudnn"},
		{"", "--workspace --features cuda", "cuda cudnn"},
		{"", "--workspace --exclude other --features cuda", "cuda"},
		{"", "-p ap* --features app/cuda", "cuda"},
		{"app", "--all-features", "cuda"},
		{"", "-p app --features cuda --release", "cuda"},
		{"", "-p app --features cuda --profile fast", "cuda"},
		{"", "-p app --features candle-core/cudnn", "cuda cudnn"},
		{"", "--manifest-path elsewhere/Cargo.toml --features cuda", "cuda"},
		{"", "-p app --features cuda --config conf/patch.toml", "cuda"},
		{"", "-p app --features cuda --config build.target='" + host + "'", "cuda"},
		{"", "-p app --features cuda --target " + host, "cuda"},
		{"", "-p other --example show --features cuda", "cuda cudnn"},
		{"", "+stable -p app --features cuda", "cuda"},
		{"", "-p app --features quiet --no-default-features", ""},
	}
	// says is what gpubuild says of candle-core's features, each set of them once.
	says := func(dir string, words ...string) map[string]bool {
		t.Helper()
		said, _ := run(dir, binary(t), append(append([]string{"features"}, words...), "--json")...)
		var answer struct {
			Roots []struct {
				Crates []struct {
					Name     string
					Features []string
				}
			}
		}
		if err := json.Unmarshal([]byte(said), &answer); err != nil {
			t.Fatalf("%s: %v\n%s", words, err, said)
		}
		out := map[string]bool{}
		for _, r := range answer.Roots {
			for _, c := range r.Crates {
				if c.Name == "candle-core" {
					out[strings.Join(c.Features, " ")] = true
				}
			}
		}
		return out
	}
	for i, tt := range tests {
		words := strings.Fields(strings.ReplaceAll(tt.words, "'", `"`))
		toolchain := []string{}
		if strings.HasPrefix(words[0], "+") {
			toolchain, words = words[:1:1], words[1:]
			if have, err := exec.Command("rustup", "toolchain", "list").Output(); err != nil ||
				!strings.HasPrefix(string(have), toolchain[0][1:]+"-") && !strings.Contains(string(have), "\n"+toolchain[0][1:]+"-") {
				t.Logf("%s: no such toolchain of rustup's here", tt.words)
				continue
			}
		}
		ours := says(tt.dir, append(toolchain, words...)...)
		target := filepath.Join(root, "target", string(rune('a'+i)))
		_, verbose := run(tt.dir, "cargo", append(append(toolchain, "build", "-v", "--target-dir", target), words...)...)
		theirs := map[string]bool{}
		for _, line := range rustcLine.FindAllString(verbose, -1) {
			var feats []string
			for _, m := range regexp.MustCompile(`--cfg 'feature="([^"]*)"'`).FindAllStringSubmatch(line, -1) {
				feats = append(feats, m[1])
			}
			sort.Strings(feats)
			if !strings.Contains(strings.Join(feats, " "), "host") { // the build script's own copy
				theirs[strings.Join(feats, " ")] = true
			}
		}
		if len(theirs) != 1 || !theirs[tt.want] || len(ours) != 1 || !ours[tt.want] {
			t.Errorf("%s: rustc received %v, gpubuild says %v, want %q", tt.words, theirs, ours, tt.want)
		}
	}
	// several targets have units of their own, with their own tables; cargo resolves the features of both together
	if got := says("", "-p", "app", "--features", "cuda", "--target", host, "--target", "x86_64-pc-windows-msvc"); len(got) != 1 ||
		!got["cuda windows"] {
		t.Errorf("two targets: %v", got)
	}
	if got := says("", "-p", "app", "--features", "cuda", "--target", "x86_64-pc-windows-msvc"); len(got) != 1 || !got["cuda windows"] {
		t.Errorf("another target: %v", got)
	}
}
