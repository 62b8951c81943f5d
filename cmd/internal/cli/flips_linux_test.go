package cli_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/hosttest/clitest"
)

// cached is a project whose commands fill the cache: a build script that asks for nvcc, and a GPU feature.
var cached = map[string]string{
	"Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\nbuild = \"build.rs\"\n[features]\ncuda = []\n",
	"Cargo.lock": "version = 3\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n",
	"build.rs":   "fn main() { let _ = std::process::Command::new(\"nvcc\").args([\"--version\", \"kernel.cu\"]).status(); }\n",
	"kernel.cu":  "__global__ void k() {}\n",
	// The name of the driver's library is what a program with a GPU feature is expected to hold.
	"src/main.rs": "fn main() { if cfg!(feature = \"cuda\") { println!(\"cuda\"); if std::env::args().count() > 9 { println!(\"libcuda.so.1\") } } }\n",
}

// when is what differs between two equal answers: the time, and how long it took.
var when = regexp.MustCompile(`"(at|seconds)": .*`)

// damage changes a file in one of the ways in which disks, kills and people do.
func damage(t *testing.T, r *rand.Rand, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	noError(t, err)
	how := []string{"a bit is flipped", "cut", "emptied", "zeros", "longer", "other text"}[r.IntN(6)]
	switch {
	case how == "emptied" || len(data) == 0:
		data = nil
	case how == "cut":
		data = data[:r.IntN(len(data))]
	case how == "zeros":
		clear(data)
	case how == "longer":
		data = append(data, data...)
	case how == "other text":
		data = []byte("{\"a\": [1, 2\n")
	default:
		data[r.IntN(len(data))] ^= 1 << r.IntN(8)
	}
	info, err := os.Stat(file)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err == nil && r.IntN(2) == 0 {
		err = os.Chtimes(file, info.ModTime(), info.ModTime())
	}
	noError(t, err)
	return how
}

// TestDamagedCache: whatever happens to a file of the cache, the next commands answer as with an empty one. GPUBUILD_TEST=random=N says how
// many files are damaged.
func TestDamagedCache(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	r, seed := lots(t)
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	writeFiles(t, dir, cached)
	withProbe(t, cache)
	env := append(os.Environ(), "GPUBUILD_CACHE="+cache, "CUDA_HOME="+standinToolkit(t, t.TempDir(), "13.0.88"), "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never",
		"CARGO_TERM_QUIET=true")
	commands := [][]string{{"features", "--features", "cuda", "--json"}, {"env", "--features", "cuda"}, {"stale", "--features", "cuda"},
		{"build", "--features", "cuda"}, {"prove", "target/debug/app"}, {"scan", "target/debug/app", "--json"},
		{"toolchain", "list", "--json"}}
	answer := func(args []string) (string, string) {
		var errs strings.Builder
		c := exec.Command(binary(t), args...)
		c.Dir, c.Env, c.Stderr = dir, env, &errs
		out, _ := c.Output() // its code is part of the answer
		out = when.ReplaceAll(out, nil)
		return fmt.Sprintf("%d\n%s", c.ProcessState.ExitCode(), out), errs.String()
	}
	want := make([]string, len(commands))
	for range 2 { // the second time everything is built and cached
		for i, args := range commands {
			want[i], _ = answer(args)
		}
	}
	parts := map[string]int{}
	for n := range need.Count(t, "random", 5) {
		var files []string
		err := filepath.WalkDir(cache, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		})
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		slices.Sort(files)
		file := files[r.IntN(len(files))]
		rel, _ := filepath.Rel(cache, file)
		how := damage(t, r, file)
		part, _, _ := strings.Cut(rel, "/")
		parts[part]++
		for _, i := range r.Perm(len(commands))[:3] {
			if got, errs := answer(commands[i]); got != want[i] {
				t.Errorf("seed %d, round %d: %s: %s: %q answers\n%s\nwant\n%s\n%s", seed, n, rel, how, commands[i], got, want[i], errs)
			}
		}
	}
	t.Logf("seed %d; damaged: %v", seed, parts)
}

// TestReadOnlyCache: with a cache that cannot be written to, what looks at a project answers as with another, and leaves nothing in TMPDIR.
func TestReadOnlyCache(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	disk := t.TempDir()
	if err := syscall.Mount("gpubuild-test", disk, "tmpfs", syscall.MS_RDONLY, "size=64k,mode=700"); err != nil {
		need.Missing(t, "mount", "%v", err)
	}
	defer func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) }()
	dir, toolkit := t.TempDir(), standinToolkit(t, t.TempDir(), "13.0.88")
	writeFiles(t, dir, cached)
	looks := func(cache string, args []string) (string, error) {
		tmp := t.TempDir()
		c := exec.Command(binary(t), args...)
		c.Dir, c.Env = dir, append(os.Environ(), "GPUBUILD_CACHE="+cache, "CUDA_HOME="+toolkit, "TMPDIR="+tmp, "CARGO_NET_OFFLINE=true")
		out, err := c.CombinedOutput()
		if left, _ := os.ReadDir(tmp); len(left) > 0 {
			t.Errorf("%q leaves %v in TMPDIR", args, left)
		}
		return string(out), err
	}
	for n, args := range [][]string{{"features", "--features", "cuda"}, {"env", "--features", "cuda"}, {"stale", "--features", "cuda"},
		{"explain", "LNK1181"}, {"scan", "Cargo.toml"}, {"toolchain", "list"}} {
		var want string
		for _, cache := range []string{filepath.Join(t.TempDir(), "cache"), filepath.Join(disk, []string{"", "cache"}[n%2])} { // it is there, or not
			out, err := looks(cache, args)
			waited := strings.ReplaceAll(out, "note: cargo: Blocking waiting for file lock on package cache\n", "") // another test
			if got := fmt.Sprintf("%v\n%s", err, waited); want == "" {
				want = got
			} else if got != want {
				t.Errorf("%q with %s:\n%s\nwant\n%s", args, cache, got, want)
			}
		}
	}
	full := t.TempDir()
	if err := syscall.Mount("gpubuild-test", full, "tmpfs", 0, "size=16k,mode=700"); err != nil {
		need.Missing(t, "mount", "%v", err)
	}
	defer func() { _ = syscall.Unmount(full, syscall.MNT_DETACH) }()
	if os.WriteFile(filepath.Join(full, "filler"), make([]byte, 32<<10), 0o600) == nil {
		t.Fatal("the disk is not full")
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"check", "--features", "cuda"}, "no kernel is cached"},
		{[]string{"check", "--features", "cuda", "--gpu-toolkit=none"}, "a stand-in of release"},
		{[]string{"run", "--features", "cuda"}, "cuda\n Not proven: no GPU here\n"},
		{[]string{"exec", "--", "cargo", "run", "--features", "cuda"}, "cuda\n Not proven: no GPU here\n"},
	} {
		for _, cache := range []string{disk, full} {
			if out, err := looks(cache, tt.args); err != nil || !strings.Contains(out, tt.want) {
				t.Errorf("%q with %s: %v\n%s", tt.args, cache, err, out)
			}
		}
	}
}

// TestCacheCleanFollowsNoLink: what a link in the cache leads to stays, also where a whole part of the cache is one.
func TestCacheCleanFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir, elsewhere := filepath.Join(t.TempDir(), "cache"), t.TempDir()
	writeFiles(t, elsewhere, map[string]string{"mine/file": "mine"})
	run := func(args ...string) {
		c := exec.Command(binary(t), args...)
		c.Env = append(os.Environ(), "GPUBUILD_CACHE="+dir)
		succeeds(t, c)
	}
	run("cache") // finds it empty: it is gpubuild's
	writeFiles(t, dir, map[string]string{"kernels/files/a": "a", "views/v/bin/nvcc": "nvcc"})
	for _, link := range []string{"views/v/include", "kernels/files/b", "memo"} {
		noError(t, os.Symlink(filepath.Join(elsewhere, "mine"), filepath.Join(dir, link)))
	}
	for _, args := range [][]string{{"cache", "clean", "--kernels"}, {"cache", "clean"}} {
		run(args...)
		if !exists(filepath.Join(elsewhere, "mine", "file")) {
			t.Fatalf("%q removed what a link leads to", args)
		}
		if exists(filepath.Join(dir, "kernels")) || exists(filepath.Join(dir, "views")) == (len(args) == 2) {
			t.Errorf("%q: kernels are left, or another part is not as it should be", args)
		}
	}
}

// withProbe puts the compiled probe into a cache that a test is about to use, for whom its compilation is not the matter.
func withProbe(t testing.TB, cache string) {
	t.Helper()
	if !need.Has("cc") {
		return // nothing compiles it later either
	}
	built, err := clitest.Probe(repository)
	if err == nil {
		err = os.CopyFS(cache, os.DirFS(built))
	}
	noError(t, err)
}
