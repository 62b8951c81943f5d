package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/cli"
)

// hostile are the files of a project that gpubuild and cargo read.
var hostile = map[string]string{
	"Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[features]\ndefault = []\ncuda = [\"gpu\"]\n" +
		"gpu = []\n\n" +
		"[[bin]]\nname = \"app\"\npath = \"src/main.rs\"\n\n[workspace]\nmembers = [\".\"]\n\n" +
		"[workspace.metadata.gpubuild]\nstrict = true\n\n[profile.release]\nopt-level = 1\n",
	"Cargo.lock": "version = 3\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n",
	"gpubuild.toml": "gpu-features = [\"gpu\"]\nstrict = false\n\n[toolchain]\ncuda = \"13.4\"\narch = \"sm_90\"\n\n[prove]\nargs = " +
		"[\"a\"]\n" +
		"kernel = ['^step$']\nexpect-exit = 0\n\n[test]\ngpu = [\"app\"]\n\n[ci]\n" +
		"image = \"rust:1\"\n",
	".cargo/config.toml": "[env]\nCC = { value = \"gcc\", force = false }\n\n[build]\njobs = 1\n\n[alias]\nb = [\"build\"]\n",
}

// fragments are what a mutation puts somewhere: the marks of TOML, and text that readers count, cut or print.
var fragments = []string{"[", "]", "[[", "\"", "'''", "\"\"\"", "=", ".", ",", "{", "}", "#", "\\", "\\u0000", "\r\n", "\r", "\n", "\x00",
	"\xff\xfe", "\ufeff",
	"\u202e", "\x1b[2J", "99999999999999999999", "-1", "1e999", "1979-05-27T07:32:00Z", "true", "../../..", "/", "*", "dep:", "app/cuda",
	"?/", "cuda",
	"[features]\ncuda = [\"cuda\"]\n", "[dependencies]\napp = { path = \".\" }\n", "[patch.crates-io]\n", "workspace = true\n",
	"[matrix]\n", "[[[", strings.Repeat("[", 2000), strings.Repeat("a", 70000)}

// mutate changes a text in one to four places.
func mutate(r *rand.Rand, text string) string {
	data := []byte(text)
	for range 1 + r.IntN(4) {
		at := 0
		if len(data) > 0 {
			at = r.IntN(len(data))
		}
		end := min(len(data), at+1+r.IntN(20))
		switch r.IntN(6) {
		case 0:
			data = slices.Delete(data, at, end)
		case 1:
			data = slices.Insert(data, at, []byte(fragments[r.IntN(len(fragments))])...)
		case 2:
			data = slices.Replace(data, at, end, []byte(fragments[r.IntN(len(fragments))])...)
		case 3:
			data = data[:at]
		case 4:
			lines := bytes.SplitAfter(data, []byte("\n"))
			data = slices.Concat(data, lines[r.IntN(len(lines))])
		case 5:
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
		}
	}
	return string(data)
}

// everyVerb are command lines of every verb that look at a project, and those of cargo that gpubuild judges.
func everyVerb() [][]string {
	own := map[string][]string{
		"scan": {"scan", "Cargo.toml"}, "prove": {"prove", "Cargo.toml"}, "receipt": {"receipt", "verify", "Cargo.toml", "Cargo.toml"},
		"report": {"report", "."}, "audit": {"audit", "Cargo.toml"}, "bundle": {"bundle", "Cargo.toml"}, "exec": {"exec", "--", "true"},
		"toolchain": {"toolchain", "list"}, "explain": {"explain", "gpubuild.toml"}, "init": {"init", "--stdout"},
		"cache":      {"cache", "dir"},
		"completion": {"completion", "bash"}, "man": {"man"}, "ci": {"ci", "init", "github", "--stdout"},
		"doctor": {"doctor"},
		"cargo":  {"cargo", "metadata", "--no-deps", "--offline"}, "version": {"version"},
	}
	var lines [][]string
	for _, name := range cli.VerbNames() {
		line := own[name]
		if line == nil {
			line = []string{name, "--features", "cuda"}
		}
		lines = append(lines, line)
	}
	return append(lines, []string{"features", "--features", "cuda", "--lint"}, []string{"features", "--manifest-only"},
		[]string{"features", "--features", "cuda", "--fix", "--dry-run"},
		[]string{"check", "--features", "cuda"}, []string{"test", "--features", "cuda", "--no-run"}, []string{"tree"}, []string{"b"})
}

// TestMutatedProjects: whatever stands in the files of a project, no verb ends with an internal error, prints what steers a terminal, or
// hangs. GPUBUILD_TEST=random=N says how many projects.
func TestMutatedProjects(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	r, seed := lots(t)
	ran, codes := 0, map[int]int{}
	for n := range need.Count(t, "random", 2) {
		dir := t.TempDir()
		files := maps.Clone(hostile)
		for range 1 + r.IntN(2) {
			name := slices.Sorted(maps.Keys(files))[r.IntN(len(files))]
			files[name] = mutate(r, files[name])
		}
		files["src/main.rs"] = "fn main() {}\n"
		writeFiles(t, dir, files)
		for _, args := range everyVerb() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			c := exec.CommandContext(ctx, binary(t), args...)
			c.Dir, c.Env = dir, append(os.Environ(), "GPUBUILD_CACHE="+filepath.Join(dir, ".cache"), "CARGO_NET_OFFLINE=true",
				"CARGO_TERM_COLOR=never")
			text, err := c.CombinedOutput()
			cancel()
			code := c.ProcessState.ExitCode()
			ran++
			codes[code]++
			story := fmt.Sprintf("seed %d, project %d, %q: %v", seed, n, args, err)
			if code == exit.Internal || code < 0 || bytes.Contains(text, []byte("goroutine ")) {
				t.Errorf("%s\n%q\n%s", story, files, text)
			}
			if args[0] != "b" && args[0] != "tree" && args[0] != "cargo" && args[0] != "check" && args[0] != "test" &&
				bytes.Contains(text, []byte("\x1b")) {
				t.Errorf("%s: it prints an escape character\n%q", story, text)
			}
		}
	}
	t.Logf("%d command lines; exit codes: %v", ran, codes)
}

// TestKilledBuilds: gpubuild is killed at any time of a build; nothing of it is left, and the next run is right. GPUBUILD_TEST=kill=N says
// how often.
func TestKilledBuilds(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	r, seed := lots(t)
	dir := t.TempDir()
	writeFiles(t, dir, sleeping)
	mark := "GPUBUILD_TEST_MARK=" + dir
	build := func() (*exec.Cmd, *lines) {
		out := &lines{}
		c := exec.Command(binary(t), "build", "--features", "cuda")
		c.Dir, c.Stdout, c.Stderr = dir, out, out
		c.Env = append(os.Environ(), mark, "GPUBUILD_CACHE="+filepath.Join(dir, "cache"), "CARGO_NET_OFFLINE=true",
			"CARGO_TERM_COLOR=never")
		return c, out
	}
	first, out := build()
	began := time.Now()
	if err := first.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole, killed := time.Since(began), 0
	for n := range need.Count(t, "kill", 3) {
		if err := os.WriteFile(filepath.Join(dir, "src", "main.rs"), fmt.Appendf(nil, "fn main() { println!(\"%d {}\", cfg!(feature = "+
			"\"cuda\")); }\n", n), 0o644); err != nil {
			t.Fatal(err)
		}
		c, out := build()
		noError(t, c.Start())
		done := make(chan struct{})
		go func() { _ = c.Wait(); close(done) }()
		select {
		case <-time.After(time.Duration(r.Int64N(int64(whole)))):
			killed++
			_ = c.Process.Kill()
		case <-done:
		}
		<-done
		if l := leftAfter(t, mark); len(l) > 0 {
			t.Errorf("seed %d, round %d: left behind: %q\n%s", seed, n, l, out)
		}
		next, text := build()
		if err := next.Run(); err != nil {
			t.Fatalf("seed %d, round %d: the next run: %v\n%s\nthe killed one:\n%s", seed, n, err, text, out)
		}
		got, err := exec.Command(filepath.Join(dir, "target", "debug", "sleeping")).Output()
		if want := fmt.Sprintf("%d true\n", n); err != nil || string(got) != want {
			t.Errorf("seed %d, round %d: the program prints %q, %v; want %q", seed, n, got, err, want)
		}
	}
	t.Logf("%d rounds, seed %d; %d killed in time", need.Count(t, "kill", 3), seed, killed)
	if killed == 0 {
		t.Error("nothing was killed in time: nothing was tested")
	}
}

// TestBuildsAtOnce: builds of one project at once, in one target directory and one cache, all end well. GPUBUILD_TEST=builds=N says how
// many.
func TestBuildsAtOnce(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	dir := t.TempDir()
	writeFiles(t, dir, sleeping)
	var all sync.WaitGroup
	for n := range need.Count(t, "builds", 4) {
		all.Go(func() {
			c := exec.Command(binary(t), "build", "--features", "cuda")
			c.Dir = dir
			c.Env = append(os.Environ(), "GPUBUILD_CACHE="+filepath.Join(dir, "cache"), "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never")
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if text, err := c.CombinedOutput(); err != nil {
				t.Errorf("build %d: %v\n%s", n, err, text)
			}
		})
	}
	all.Wait()
	if got, err := exec.Command(filepath.Join(dir, "target", "debug", "sleeping")).Output(); err != nil || string(got) != "began true\n" {
		t.Errorf("the program: %q, %v", got, err)
	}
}
