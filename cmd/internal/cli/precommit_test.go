//go:build linux

package cli_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// hookUser is a repository that uses our hooks: a program and two stubs of GPU crates. %s is what its `cuda` turns on.
func hookUser(edges string) map[string]string {
	return map[string]string{
		"Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[features]\ncuda = [" +
			edges + "] # as it was\n\n[dependencies]\ncandle-core = { path = \"stub/candle-core\" }\ncandle-nn = { path = " +
			"\"stub/candle-nn\" }\n\n[workspace]\n",
		"src/main.rs": "fn main() {}\n",
		".gitignore":  "target/\n",
		"stub/candle-core/Cargo.toml": "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n\n[features]\n" +
			"cuda = []\n",
		"stub/candle-core/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn device() {}\n",
		"stub/candle-nn/Cargo.toml": "[package]\nname = \"candle-nn\"\nversion = \"0.11.1\"\nedition = \"2021\"\n\n[features]\ncuda = " +
			"[\"candle-core/cuda\"]\n\n[dependencies]\ncandle-core = { path = \"../candle-core\" }\n",
		"stub/candle-nn/src/lib.rs": "#[cfg(feature = \"cuda\")]\npub fn softmax() {}\n",
	}
}

// TestPreCommit has the real pre-commit clone this repository as a hook repository, build gpubuild with `language: golang`, and run each
// hook.
func TestPreCommit(t *testing.T) {
	t.Parallel()
	need.Asked(t, "precommit", "git", "cargo")
	need.Asked(t, "long")
	top := t.TempDir()
	env := append(os.Environ(), "HOME="+filepath.Join(top, "home"), "PRE_COMMIT_HOME="+filepath.Join(top, "pre-commit"), "GPUBUILD_CACHE="+
		filepath.Join(top, "cache"), "CARGO_NET_OFFLINE=true",
		"CARGO_HOME="+cargoHome(), "RUSTUP_HOME="+rustupHome(), "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"),
		"GOPROXY=off", "GOFLAGS=-buildvcs=false", "NO_COLOR=1",
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@localhost", "GIT_COMMITTER_NAME=t",
		"GIT_COMMITTER_EMAIL=t@localhost",
		"PATH="+filepath.Dir(binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	run := func(t *testing.T, dir string, want int, words ...string) string {
		t.Helper()
		c := exec.Command(words[0], words[1:]...)
		c.Dir, c.Env = dir, env
		out, err := c.CombinedOutput()
		if c.ProcessState == nil || c.ProcessState.ExitCode() != want {
			t.Fatalf("%v in %s: %v, want %d\n%s", words, dir, err, want, out)
		}
		return string(out)
	}
	git := func(t *testing.T, dir string, args ...string) string {
		t.Helper()
		return run(t, dir, 0, append([]string{"git"}, args...)...)
	}

	hooks := filepath.Join(top, "hooks")
	files := git(t, repository, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	for _, name := range strings.Split(strings.TrimSuffix(files, "\x00"), "\x00") {
		copyFile(t, filepath.Join(repository, name), filepath.Join(hooks, name))
	}
	git(t, hooks, "init", "-q")
	git(t, hooks, "add", "-A")
	git(t, hooks, "commit", "-q", "-m", "as it is now")
	git(t, hooks, "tag", "v0.0.1")
	config := func(ids ...string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "repos:\n- repo: %s\n  rev: v0.0.1\n  hooks:\n", hooks)
		for _, id := range ids {
			fmt.Fprintf(&b, "  - id: %s\n", id)
			if strings.HasPrefix(id, "gpubuild-build") {
				b.WriteString("    args: [--features, cuda]\n")
			}
		}
		return b.String()
	}
	user := func(t *testing.T, name, edges string, ids ...string) string {
		t.Helper()
		dir := filepath.Join(top, name)
		writeFiles(t, dir, hookUser(edges))
		writeFiles(t, dir, map[string]string{".pre-commit-config.yaml": config(ids...)})
		run(t, dir, 0, "cargo", "generate-lockfile", "-q")
		git(t, dir, "init", "-q", "-b", "main")
		git(t, dir, "add", "-A")
		return dir
	}
	const whole = `"candle-core/cuda", "candle-nn/cuda"`
	want := func(t *testing.T, out string, pieces ...string) {
		t.Helper()
		for _, p := range pieces {
			if !strings.Contains(out, p) {
				t.Errorf("no %q in\n%s", p, out)
			}
		}
	}

	for _, twin := range []string{"", "-system"} {
		check, fix := "gpubuild-features"+twin, "gpubuild-features-fix"+twin
		if twin == "" || need.Full(t) { // of the twin the others run each hook
			t.Run("pass"+twin, func(t *testing.T) {
				dir := user(t, "pass"+twin, whole, check, fix)
				began := time.Now()
				want(t, run(t, dir, 0, "pre-commit", "run", "--all-files"), "Passed")
				first := time.Since(began)
				began = time.Now()
				run(t, dir, 0, "pre-commit", "run", "--all-files", check)
				t.Logf("%s: the first run %s (pre-commit builds the hook's environment), then %s for %s alone", check,
					first.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), check)
			})
			t.Run("fail"+twin, func(t *testing.T) {
				dir := user(t, "fail"+twin, "", check)
				want(t, run(t, dir, 1, "pre-commit", "run", "--all-files"), "Failed", "hook id: "+check, "exit code: 10", "[features.",
					`cuda = ["candle-core/cuda", "candle-nn/cuda"]`)
				// A commit is refused, and one that touches no manifest is not looked at.
				run(t, dir, 0, "pre-commit", "install")
				run(t, dir, 1, "git", "commit", "-q", "-m", "refused")
				git(t, dir, "commit", "-q", "-m", "in spite of it", "--no-verify")
				writeFiles(t, dir, map[string]string{"README.md": "words\n"})
				git(t, dir, "add", "README.md")
				want(t, run(t, dir, 0, "git", "commit", "-m", "words"), "no files to check")
			})
		}
		t.Run("fix, then fail once"+twin, func(t *testing.T) {
			dir := user(t, "fix"+twin, "", fix, check)
			out := run(t, dir, 1, "pre-commit", "run", "--all-files")
			want(t, out, "files were modified by this hook", "Updated Cargo.toml")
			if strings.Contains(out, "hook id: "+check+"\n") {
				t.Errorf("the check that runs after the fix fails:\n%s", out)
			}
			data, err := os.ReadFile(filepath.Join(dir, "Cargo.toml"))
			noError(t, err)
			if asked := hookUser(whole)["Cargo.toml"]; string(data) != asked {
				t.Errorf("the manifest is\n%s\nwant\n%s", data, asked)
			}
			git(t, dir, "add", "-A")
			want(t, run(t, dir, 0, "pre-commit", "run", "--all-files"), "Passed")
			if left := git(t, dir, "status", "--porcelain", "--untracked-files=all"); strings.Contains(left, "??") {
				t.Errorf("files were left behind:\n%s", left)
			}
		})
		t.Run("before a push"+twin, func(t *testing.T) {
			remote := filepath.Join(top, "remote"+twin+".git")
			git(t, top, "init", "-q", "--bare", remote)
			build := "gpubuild-build" + twin
			dir := user(t, "push"+twin, "", build)
			run(t, dir, 0, "pre-commit", "install", "--hook-type", "pre-push", "--hook-type", "pre-commit")
			if out := run(t, dir, 0, "git", "commit", "-m", "a commit is not built for"); strings.Contains(out, "build for the GPU") {
				t.Errorf("the hook ran at a commit:\n%s", out) // its stages are pre-push and manual
			}
			git(t, dir, "remote", "add", "origin", remote)
			want(t, run(t, dir, 1, "git", "push", "origin", "main"), "hook id: "+build, "exit code: 10", "features.unreached")
			writeFiles(t, dir, hookUser(whole))
			git(t, dir, "commit", "-qam", "with the edges")
			want(t, run(t, dir, 0, "git", "push", "origin", "main"), "Passed", "Finished", "main -> main")
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	fi, err := os.Lstat(from)
	if err != nil {
		return // deleted and not committed yet
	}
	noError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	in, err := os.Open(from)
	noError(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, fi.Mode().Perm())
	noError(t, err)
	if _, err = io.Copy(out, in); err == nil {
		err = out.Close()
	}
	noError(t, err)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	c := exec.Command("go", "env", name)
	c.Env = append(os.Environ(), "GOFLAGS=") // with -json among them it would answer so
	out, err := c.Output()
	noError(t, err)
	return strings.TrimSpace(string(out))
}

func cargoHome() string  { return homeOf("CARGO_HOME", ".cargo") }
func rustupHome() string { return homeOf("RUSTUP_HOME", ".rustup") }

func homeOf(name, below string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, below)
}
