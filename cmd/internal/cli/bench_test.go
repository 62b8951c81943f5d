//go:build linux

package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
)

// A benchmark here times two whole processes in turn and reports the medians and the median of their ratios, so that a machine that
// is busy for a while does not favour one of them. Each builds into a directory of its own that GPUBUILD_TEST=bench=DIR keeps between runs.

// inTurn runs two commands in turn and reports them as "a-ms", "b-ms", "a/b" and "a-b-ms", the median of the differences.
func inTurn(b *testing.B, dir string, envA, envB []string, a, c []string) {
	b.Helper()
	inTurnAfter(b, func() {}, dir, envA, envB, a, c)
}

// inTurnAfter is inTurn with something that is done before each a, and not timed. "a/b-cpu" is the ratio of the processor time that the two
// and all that they start take, which a busy machine changes less.
func inTurnAfter(b *testing.B, before func(), dir string, envA, envB []string, a, c []string) {
	b.Helper()
	run := func(env, words []string) (wall, cpu time.Duration) {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		began := time.Now()
		succeeds(b, cmd)
		return time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	run(envA, a)
	run(envB, c)
	run(envA, a)
	var as, cs, ratios, differences, works []float64
	b.ResetTimer()
	for range b.N {
		before()
		x, workX := run(envA, a)
		y, workY := run(envB, c)
		works = append(works, float64(workX)/float64(workY))
		as, cs, ratios = append(as, float64(x.Microseconds())/1000), append(cs, float64(y.Microseconds())/1000),
			append(ratios, float64(x)/float64(y))
		differences = append(differences, float64((x-y).Microseconds())/1000)
	}
	median := func(v []float64) float64 { sort.Float64s(v); return v[len(v)/2] }
	b.ReportMetric(median(as), "a-ms")
	b.ReportMetric(median(cs), "b-ms")
	b.ReportMetric(median(ratios), "a/b")
	b.ReportMetric(median(works), "a/b-cpu")
	b.ReportMetric(median(differences), "a-b-ms")
	b.ReportMetric(0, "ns/op")
}

// benchDir is where a sample is built for a benchmark; the candle one takes minutes the first time.
func benchDir(b *testing.B, name string) string {
	root := need.Given("bench")
	if root == "" {
		if name != "matmul" {
			need.Value(b, "bench")
		}
		root = b.TempDir()
	}
	return filepath.Join(root, name)
}

// BenchmarkNoop: (a) gpubuild against (b) cargo build in the same environment, both with nothing to do.
func BenchmarkNoop(b *testing.B) {
	for _, name := range []string{"matmul", "candle-matmul"} {
		b.Run(name, func(b *testing.B) {
			toolkit := need.Toolkit(b)
			sample, err := filepath.Abs(filepath.Join(repository, "testdata", name))
			noError(b, err)
			target := "CARGO_TARGET_DIR=" + benchDir(b, name)
			flags := []string{"--features", "cuda", "--gpu-toolkit", toolkit, "--gpu-arch", "sm_90"}
			ours := append([]string{binary(b), "build"}, flags...)
			// cargo gets, by `gpubuild exec`, the environment that the build had; the price of exec itself is not counted because the
			// environment is asked for once.
			show := exec.Command(binary(b), "env", "--shell", "json", "--features", "cuda", "--toolkit", toolkit, "--arch", "sm_90")
			show.Dir, show.Env = sample, append(os.Environ(), target)
			build := exec.Command(ours[0], ours[1:]...)
			build.Dir, build.Env = sample, append(os.Environ(), target)
			succeeds(b, build)
			out, err := show.Output()
			noError(b, err)
			inTurn(b, sample, []string{target}, append(envOf(b, out), target), ours, []string{"cargo", "build", "--features", "cuda"})
		})
	}
}

// BenchmarkStale: (a) `gpubuild stale` against (b) `gpubuild env`, in a target directory with nothing to do. Both ask cargo, judge and
// choose the tools, so that the difference is what the check itself costs: reading the record, looking at every input's file, and
// comparing.
func BenchmarkStale(b *testing.B) {
	for _, name := range []string{"matmul", "candle-matmul"} {
		b.Run(name, func(b *testing.B) {
			toolkit := need.Toolkit(b)
			sample, err := filepath.Abs(filepath.Join(repository, "testdata", name))
			noError(b, err)
			target := []string{"CARGO_TARGET_DIR=" + benchDir(b, name), "CARGO_NET_OFFLINE=true"}
			build := exec.Command(binary(b), "build", "--features", "cuda", "--gpu-toolkit", toolkit, "--gpu-arch", "sm_90")
			build.Dir, build.Env = sample, append(os.Environ(), target...)
			succeeds(b, build)
			flags := []string{"--features", "cuda", "--toolkit", toolkit, "--arch", "sm_90"}
			inTurn(b, sample, target, target, append([]string{binary(b), "stale"}, flags...), append([]string{binary(b), "env"},
				flags...))
		})
	}
}

// BenchmarkRebuild reports what a change costs against building the whole tree again: the seconds of processor time of all processes, which
// a busy machine changes little, and how many packages cargo compiled. Candle takes minutes for each of the three builds: use -benchtime
// 1x.
func BenchmarkRebuild(b *testing.B) {
	for _, name := range []string{"matmul", "candle-matmul"} {
		b.Run(name, func(b *testing.B) {
			roots := need.Toolkits(b, 2)
			sample, err := filepath.Abs(filepath.Join(repository, "testdata", name))
			noError(b, err)
			target := benchDir(b, name) + "-rebuild"
			build := func(root, arch string) (seconds float64, packages int) {
				c := exec.Command(binary(b), "build", "--features", "cuda", "--gpu-toolkit", root, "--gpu-arch", arch)
				c.Dir, c.Env = sample, append(os.Environ(), "CARGO_TARGET_DIR="+target, "CARGO_TERM_COLOR=never")
				out, err := c.CombinedOutput()
				if err != nil {
					b.Fatalf("%v: %v\n%s", c.Args, err, out)
				}
				return (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds(), len(compiling.FindAll(out, -1))
			}
			for range b.N {
				noError(b, os.RemoveAll(target))
				whole, all := build(roots[0], "sm_90")
				capability, c := build(roots[0], "sm_80")
				tools, n := build(roots[1], "sm_80")
				b.ReportMetric(whole, "whole-s")
				b.ReportMetric(float64(all), "whole-packages")
				b.ReportMetric(capability/whole, "capability/whole")
				b.ReportMetric(float64(c), "capability-packages")
				b.ReportMetric(tools/whole, "toolkit/whole")
				b.ReportMetric(float64(n), "toolkit-packages")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// envOf reads the delta that `gpubuild env --shell json` prints and makes it entries for a process.
func envOf(b *testing.B, data []byte) []string {
	var d buildenv.Delta
	noError(b, json.Unmarshal(data, &d))
	h, err := local.Host()
	noError(b, err)
	env := h.Apply(h.Env, d)
	var out []string
	for _, c := range d.Changes {
		out = append(out, c.Name+"="+env.Get(c.Name))
	}
	return out
}

// BenchmarkReach: (a) the whole reach check against (b) cargo tree, when something changed (a cache that is new each time) and when nothing
// did, and against the bare question after the unit graph.
func BenchmarkReach(b *testing.B) {
	sample, err := filepath.Abs(filepath.Join(repository, "testdata", "entrenar"))
	noError(b, err)
	need.Crates(b, sample)
	tree := []string{"cargo", "tree", "-e", "normal,no-proc-macro", "-f", "{p} {f}", "--features", "cuda", "--locked"}
	ours := []string{binary(b), "features", "--features", "cuda"}
	b.Run("unchanged", func(b *testing.B) {
		inTurn(b, sample, []string{"GPUBUILD_CACHE=" + b.TempDir()}, nil, ours, tree)
	})
	b.Run("asked-anew", func(b *testing.B) {
		cache := b.TempDir()
		inTurnAfter(b, func() { forget(b, cache) }, sample, []string{"GPUBUILD_CACHE=" + cache}, nil, ours, tree)
	})
	b.Run("asked-anew-to-unit-graph", func(b *testing.B) {
		private, cache := b.TempDir(), b.TempDir()
		graph := []string{"cargo", "build", "--unit-graph", "-Zunstable-options", "--features", "cuda", "--locked"}
		inTurnAfter(b, func() { forget(b, cache) }, sample, []string{"GPUBUILD_CACHE=" + cache},
			[]string{"RUSTC_BOOTSTRAP=1", "CARGO_TARGET_DIR=" + private, "CARGO_BUILD_BUILD_DIR=" + private}, ours, graph)
	})
}

// largeWorkspace is a workspace of 600 members and one stub of a GPU crate, of which each member or, with few, each fiftieth has a feature
// cuda that is passed on everywhere.
func largeWorkspace(b *testing.B, few bool) string {
	b.Helper()
	dir := b.TempDir()
	put := func(name, text string) { writeFiles(b, dir, map[string]string{name: text}) }
	put("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"2\"\n")
	put("crates/candle-core/Cargo.toml", "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n\n[features]\n"+
		"cuda = []\n")
	put("crates/candle-core/src/lib.rs", "#[cfg(feature = \"cuda\")]\npub fn device() {}\n")
	gpu := func(i int) bool { return !few || i%50 == 0 }
	for i := range 600 {
		edges, deps := []string{}, ""
		if gpu(i) {
			edges, deps = append(edges, `"candle-core/cuda"`), "candle-core = { path = \"../candle-core\" }\n"
		}
		for _, back := range []int{1, 7, 50} {
			if d := i - back; d >= 0 {
				deps += fmt.Sprintf("p%d = { path = \"../p%d\" }\n", d, d)
				if gpu(d) && gpu(i) {
					edges = append(edges, fmt.Sprintf(`"p%d/cuda"`, d))
				}
			}
		}
		cuda := ""
		if gpu(i) {
			cuda = "cuda = [" + strings.Join(edges, ", ") + "]\n"
		}
		put(fmt.Sprintf("crates/p%d/Cargo.toml", i), fmt.Sprintf("[package]\nname = \"p%d\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n"+
			"[features]\nfast = []\n%s\n[dependencies]\n%s", i, cuda, deps))
		put(fmt.Sprintf("crates/p%d/src/lib.rs", i), "")
	}
	c := exec.Command("cargo", "generate-lockfile", "--offline", "-q")
	c.Dir = dir
	succeeds(b, c)
	return dir
}

// BenchmarkLarge: the reach check and the hook on a workspace of 600 members, against (b) the bare question after the unit graph, cargo
// tree and, where it is on PATH, zepter. few: each fiftieth member has the feature.
func BenchmarkLarge(b *testing.B) {
	for _, shape := range []string{"few", "all"} {
		dir := largeWorkspace(b, shape == "few")
		chosen := []string{"-p", "p550", "--features", "cuda"}
		ours := append([]string{binary(b), "features"}, chosen...)
		cache := b.TempDir()
		private := b.TempDir()
		graph := append([]string{"cargo", "build", "--unit-graph", "-Zunstable-options", "--locked"}, chosen...)
		tree := append([]string{"cargo", "tree", "-e", "normal,no-proc-macro", "-f", "{p} {f}", "--locked"}, chosen...)
		env := []string{"GPUBUILD_CACHE=" + cache, "CARGO_NET_OFFLINE=true"}
		b.Run(shape+"/asked-anew-to-unit-graph", func(b *testing.B) {
			inTurnAfter(b, func() { forget(b, cache) }, dir, env, []string{"RUSTC_BOOTSTRAP=1", "CARGO_NET_OFFLINE=true",
				"CARGO_TARGET_DIR=" + private, "CARGO_BUILD_BUILD_DIR=" + private}, ours, graph)
		})
		b.Run(shape+"/unchanged-to-tree", func(b *testing.B) { inTurn(b, dir, env, env, ours, tree) })
	}
}

// forget takes cargo's kept answers away, so that it is asked again; what is known of files by their content stays.
func forget(b *testing.B, cache string) {
	b.Helper()
	graphs, err := filepath.Glob(filepath.Join(cache, "memo", "graph-*"))
	for _, g := range graphs {
		err = errors.Join(err, os.RemoveAll(g))
	}
	noError(b, err)
}
