//go:build linux

package app_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWordsAreKeptOnlyWhileNothingChanged changes each thing that an answer in words is made of: the kept words, which are marked, are not said again
// after any of them, and what is said is what a gpubuild says that has kept nothing.
func TestWordsAreKeptOnlyWhileNothingChanged(t *testing.T) {
	if _, err := exec.LookPath("cargo"); err != nil {
		t.Skip("cargo is not here")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "ws")
	writeFiles(t, dir, map[string]string{
		"Cargo.toml":                    "[workspace]\nmembers = [\"app\", \"tools\"]\nresolver = \"2\"\n",
		"app/Cargo.toml":                "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n[dependencies]\ntools = { path = \"../tools\" }\n",
		"app/src/main.rs":               "mod deep;\nfn main() {}\n",
		"app/src/deep/mod.rs":           "pub fn a() {}\n",
		"tools/Cargo.toml":              "[package]\nname = \"tools\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ncandle-core = { path = \"../../out/candle-core\" }\n",
		"tools/src/lib.rs":              "",
		"../out/candle-core/Cargo.toml": "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n[workspace]\n[features]\ncuda = []\n",
		"../out/candle-core/src/lib.rs": "",
	})
	lock := exec.Command("cargo", "generate-lockfile", "--offline")
	lock.Dir = dir
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cache := filepath.Join(t.TempDir(), "cache")
	waited := regexp.MustCompile(`(?m)^.*note.*: cargo: .*Blocking waiting for file lock on .*\n`) // another test's cargo is at work
	said := func(cache string, extra []string, args ...string) string {
		t.Helper()
		c := exec.Command(binary(t), append([]string{"features"}, args...)...)
		c.Dir = filepath.Join(dir, "app")
		c.Env = append(append(os.Environ(), "CARGO_NET_OFFLINE=true", "GITHUB_ACTIONS=", "GPUBUILD_CACHE="+cache), extra...)
		out, _ := c.CombinedOutput() // that it ends with 10 is part of what is compared
		return string(waited.ReplaceAll(out, nil)) + c.ProcessState.String()
	}
	const word, mark = "unit graph", "KEPT WORDS"
	files := func() []string {
		list, err := filepath.Glob(filepath.Join(cache, "told", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	put := func(name, text string) func() { return func() { writeFiles(t, dir, map[string]string{name: text}) } }
	cuda := []string{"--features", "cuda"}
	tests := []struct {
		story string
		do    func()
		extra []string
		args  []string
	}{
		{"code that the feature gates", put("app/src/deep/mod.rs", "#[cfg(feature = \"cuda\")]\npub fn a() {}\n"), nil, cuda},
		{"as many bytes within a moment", put("app/src/deep/mod.rs", "#[cfg(feature = \"cudb\")]\npub fn a() {}\n"), nil, cuda},
		{"a new source file", put("app/src/deep/gpu.rs", "#[cfg(feature = \"cuda\")]\npub fn b() {}\n"), nil, cuda},
		{"a source file is gone", func() { _ = os.Remove(filepath.Join(dir, "app/src/deep/gpu.rs")) }, nil, cuda},
		{"a new directory of sources", put("app/src/other/gpu.rs", "#[cfg(feature = \"cuda\")]\npub fn b() {}\n"), nil, cuda},
		{"it is gone", func() { _ = os.RemoveAll(filepath.Join(dir, "app/src/other")) }, nil, cuda},
		{"a build script", put("app/build.rs", "fn main() {}\n"), nil, cuda},
		{"what the build script does", put("app/build.rs", "fn main() { std::env::var_os(\"CARGO_FEATURE_CUDA\"); }\n"), nil, cuda},
		{"a manifest", put("app/Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = [\"fast\"]\nfast = []\n[dependencies]\ntools = { path = \"../tools\" }\n"), nil, cuda},
		{"a manifest outside the workspace", put("../out/candle-core/Cargo.toml", "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n[workspace]\n[features]\ncuda = []\nmore = []\n"), nil, cuda},
		{"a program beside the first", put("app/src/bin/second.rs", "fn main() {}\n"), nil, cuda},
		{"a library beside the program", put("app/src/lib.rs", ""), nil, cuda},
		{"a configuration of ours", put("gpubuild.toml", "strict = true\n"), nil, cuda},
		{"a configuration of cargo's", put(".cargo/config.toml", "[build]\nrustflags = []\n"), nil, cuda},
		{"a variable that a build script reads", func() {}, []string{"CUDARC_CUDA_VERSION=13000"}, cuda},
		{"colours", func() {}, nil, append([]string{"--color", "always"}, cuda...)},
		{"other words", func() {}, nil, []string{"--features", "cuda", "--why", "candle-core"}},
		{"nothing asked", func() {}, nil, nil},
	}
	said(cache, nil, cuda...)
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			// What is kept is marked; where nothing changes, the mark is what is said.
			said(cache, nil, cuda...)
			for _, name := range files() {
				data, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				head, rest, _ := bytes.Cut(bytes.ReplaceAll(data, []byte(word), []byte(mark)), []byte("\n"))
				kept := fmt.Sprintf("%s%x\n%s", head[:bytes.LastIndexByte(head, ' ')+1], crc32.ChecksumIEEE(rest), rest)
				if err := os.WriteFile(name, []byte(kept), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := said(cache, nil, cuda...); !strings.Contains(got, mark) {
				t.Fatalf("nothing changed, and it is not what was kept:\n%s", got)
			}
			tt.do()
			got, want := said(cache, tt.extra, tt.args...), said(filepath.Join(t.TempDir(), "none"), tt.extra, tt.args...)
			if strings.Contains(got, mark) || got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if got := said(cache, tt.extra, tt.args...); got != want {
				t.Errorf("the second time\n%s\nwant\n%s", got, want)
			}
		})
	}
	// A damaged file is as none: one that was cut, and one of the right length with nothing in its last bytes, as after a loss of power.
	for _, damage := range []func([]byte) []byte{
		func(data []byte) []byte { return data[:len(data)-1] },
		func(data []byte) []byte { clear(data[len(data)-20:]); return data },
	} {
		said(cache, nil, cuda...)
		for _, name := range files() {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := said(cache, nil, cuda...), said(filepath.Join(t.TempDir(), "none"), nil, cuda...); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
