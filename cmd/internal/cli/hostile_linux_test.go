package cli_test

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/rogpeppe/go-internal/txtar"

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
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // two are not enough while 64 builds run
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

// TestKilledBuilds: gpubuild is killed at any time of a build, a proof, a clean or an installation; nothing of it is left, the same command
// then ends as it did before, and what it made is what it made before. GPUBUILD_TEST=kill=N says how often.
func TestKilledBuilds(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo", "cc")
	r, seed := lots(t)
	dir := t.TempDir()
	writeFiles(t, dir, sleeping)
	mark := "GPUBUILD_TEST_MARK=" + dir
	start := func(words ...string) (*exec.Cmd, *lines) {
		out := &lines{}
		c := exec.Command(binary(t), words...)
		c.Dir, c.Stdout, c.Stderr = dir, out, out
		c.Env = append(os.Environ(), mark, "GPUBUILD_CACHE="+filepath.Join(dir, "cache"), "CARGO_NET_OFFLINE=true",
			"CARGO_TERM_COLOR=never")
		return c, out
	}
	commands := [][]string{{"build", "--features", "cuda"}, {"prove", "target/debug/sleeping"}, {"clean"}}
	if need.Has("xz") {
		archive, err := txtar.ParseFile(filepath.Join(repository, "testdata", "script", "linkstubs.txtar"))
		noError(t, err)
		shop := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "shop.sh" })
		c := exec.Command("sh", "-c", string(archive.Files[shop].Data))
		c.Dir = dir
		succeeds(t, c)
		commands = append(commands, []string{"toolchain", "install", "12.8", "--redist", "shop"})
	}
	// made is what a command leaves for others: the probe that proves, a toolkit.
	made := map[string]string{"prove": filepath.Join(dir, "cache", "probe"), "toolchain": filepath.Join(dir, "cache", "toolkits")}
	whole, ended, left := map[string]time.Duration{}, map[string]int{}, map[string]map[string]string{}
	forget := func(words []string) {
		noError(t, errors.Join(os.RemoveAll(made[words[0]]), os.RemoveAll(filepath.Join(dir, "cache", "wheels"))))
	}
	files := func(words []string) map[string]string {
		if made[words[0]] == "" {
			return nil
		}
		all := content(t, made[words[0]])
		maps.DeleteFunc(all, func(name, _ string) bool { // a killed compilation of the probe stays for an hour
			return strings.HasSuffix(name, "lock") || strings.HasSuffix(name, ".holder") || strings.Contains(name, "/.build-")
		})
		return all
	}
	for _, words := range commands {
		c, out := start(words...)
		began := time.Now()
		err := c.Run()
		whole[words[0]], ended[words[0]], left[words[0]] = time.Since(began), c.ProcessState.ExitCode(), files(words)
		if err != nil && words[0] != "prove" { // which ends with 21 where there is no GPU
			t.Fatalf("%v\n%s", err, out)
		}
		if words[0] == "clean" {
			build, out := start(commands[0]...)
			if err := build.Run(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	killed := map[string]int{}
	rounds := need.Count(t, "kill", 4)
	for n := 0; n < rounds || len(killed) == 0 && n < 10*rounds; n++ { // those that end before their time are no kills
		if err := os.WriteFile(filepath.Join(dir, "src", "main.rs"), fmt.Appendf(nil, "fn main() { println!(\"%d {}\", cfg!(feature = "+
			"\"cuda\")); if std::env::args().count() > 9 { println!(\"libcuda.so.1\"); } }\n", n), 0o644); err != nil {
			t.Fatal(err)
		}
		words := commands[n%len(commands)]
		forget(words)
		c, out := start(words...)
		noError(t, c.Start())
		done := make(chan struct{})
		go func() { _ = c.Wait(); close(done) }()
		select {
		case <-time.After(time.Duration(r.Int64N(int64(whole[words[0]])))):
			killed[words[0]]++
			_ = c.Process.Kill()
		case <-done:
		}
		<-done
		story := fmt.Sprintf("seed %d, round %d, %q", seed, n, words)
		if l := leftAfter(t, mark); len(l) > 0 {
			t.Errorf("%s: left behind: %q\n%s", story, l, out)
		}
		same, text := start(words...)
		if _ = same.Run(); same.ProcessState.ExitCode() != ended[words[0]] { // as before
			t.Fatalf("%s: the same again ended with %v, before with %d\n%s\nthe killed one:\n%s", story, same.ProcessState, ended[words[0]],
				text, out)
		}
		if now := files(words); !maps.Equal(now, left[words[0]]) {
			t.Errorf("%s: it left %q, before %q\n%s", story, now, left[words[0]], text)
		}
		next, text := start(commands[0]...)
		began := time.Now()
		if err := next.Run(); err != nil {
			t.Fatalf("%s: the next build: %v\n%s\nthe killed one:\n%s", story, err, text, out)
		}
		if words[0] == "prove" { // this one compiled the program alone, as each that is to be killed; the first compiled the build script, too
			whole["build"] = time.Since(began)
		}
		got, err := exec.Command(filepath.Join(dir, "target", "debug", "sleeping")).Output()
		if want := fmt.Sprintf("%d true\n", n); err != nil || string(got) != want {
			t.Errorf("%s: the program prints %q, %v; want %q", story, got, err, want)
		}
	}
	t.Logf("%d rounds, seed %d; killed in time: %v", rounds, seed, killed)
	for _, words := range commands {
		if len(killed) == 0 || rounds >= 10*len(commands) && killed[words[0]] == 0 {
			t.Errorf("no %s was killed in time: that was not tested", words[0])
		}
	}
}

// TestBuildsAtOnce: builds of one project at once, in one target directory and one cache, all end well; half of them with another toolkit,
// and others ask meanwhile. GPUBUILD_TEST=builds=N says how many.
func TestBuildsAtOnce(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.target = filepath.Join(s.dir, "target")
	var all sync.WaitGroup
	for n := range need.Count(t, "builds", 6) {
		words := [][]string{
			{"build", "--features", "cuda", "--gpu-toolkit=" + s.a, "--gpu-arch", "sm_90"},
			{"build", "--features", "cuda", "--gpu-toolkit=" + s.b, "--gpu-arch", "sm_75"},
			{"stale", "--features", "cuda", "--toolkit=" + s.a, "--arch=sm_90"},
			{"features", "--features", "cuda"},
		}[[]int{0, 1, 0, 1, 2, 3}[n%6]]
		all.Go(func() {
			c := s.command(nil, append([]string{binary(t)}, words...)...)
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := c.CombinedOutput()
			if code := c.ProcessState.ExitCode(); err != nil && (words[0] != "stale" || code != exit.Stale) {
				t.Errorf("%d, %q: %v\n%s", n, words, err, out)
			}
		})
	}
	all.Wait()
	for _, tt := range []struct{ toolkit, version, arch string }{{s.a, first, "sm_90"}, {s.b, second, "sm_75"}} {
		s.build(tt.toolkit, tt.arch)
		s.holds("afterwards", "app/target/debug/app", tt.version, tt.arch)
	}
}
