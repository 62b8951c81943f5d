//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// realGraphs are programs that use a GPU crate of crates.io as its users do, and the ways in which they are built. What must be said of
// each is in expected.txt next to its manifest: read it as the user of that crate would. `go test -run RealGraphs -update` writes it
// again.
var realGraphs = []struct {
	dir   string
	asked []string
}{
	{"candle-transformers", []string{"", "cuda", "cudnn", "cuda,cudnn", "flash-attn", "candle-core/cuda", "candle-transformers/cudnn"}},
	{"mistralrs-core", []string{"", "cuda", "cudnn", "cuda,cudnn", "flash-attn"}},
	{"burn", []string{"", "cuda", "wgpu", "cuda,wgpu", "rocm"}},
	{"ort", []string{"", "cuda", "tensorrt", "cuda,load-dynamic"}},
	{"tch", []string{"", "cuda", "download", "cuda,download"}},
	{"llama-cpp-2", []string{"", "cuda", "cuda-no-vmm", "vulkan"}},
	{"whisper-rs", []string{"", "cuda", "hipblas", "vulkan"}},
	{"two-candles", []string{"", "cuda", "moshi-cuda", "cuda,moshi-cuda"}},
	{"entrenar", []string{"", "cuda", "entrenar/gpu", "entrenar/cuda,entrenar/realizar"}},
}

// told is what `gpubuild features --json` says that matters here.
type told struct {
	Via   string `json:"via"`
	Roots []struct {
		Package string   `json:"package"`
		Asked   []string `json:"asked"`
		Reached bool     `json:"reached"`
		Crates  []struct {
			Name     string   `json:"name"`
			Version  string   `json:"version"`
			Backend  string   `json:"backend"`
			On       bool     `json:"on"`
			Features []string `json:"features"`
			Steps    []struct {
				Text string `json:"text"`
			} `json:"steps"`
		} `json:"crates"`
	} `json:"roots"`
	Needs struct {
		Because []struct{ Need, Crate string } `json:"because"`
		Run     []struct{ Need, Crate string } `json:"run"`
	} `json:"needs"`
	Max      json.RawMessage                               `json:"cudarc_max"`
	MaxBy    string                                        `json:"max_by"`
	Findings []struct{ ID, Severity, Message, Fix string } `json:"findings"`
}

// TestRealGraphs holds what we say of real graphs against cargo's two answers, each read here anew, and against what was reviewed.
func TestRealGraphs(t *testing.T) {
	t.Parallel()
	cargo := need.Tool(t, "cargo")
	if !need.Has("network") {
		need.Asked(t, "crates")
	}
	for _, g := range realGraphs {
		t.Run(g.dir, func(t *testing.T) {
			sample, err := filepath.Abs(filepath.Join(repository, "testdata", "graphs", g.dir))
			if err != nil {
				t.Fatal(err)
			}
			manifest := sample
			if g.dir == "entrenar" { // the program of the other tests
				manifest = filepath.Join(filepath.Dir(filepath.Dir(sample)), "entrenar")
			}
			if need.Has("network") {
				if out, err := exec.Command(cargo, "fetch", "--locked", "--manifest-path",
					filepath.Join(manifest, "Cargo.toml")).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			} else {
				need.Crates(t, manifest)
			}
			private := t.TempDir()
			env := append(os.Environ(), "CARGO_NET_OFFLINE=true", "GPUBUILD_CACHE="+filepath.Join(private, "cache"))
			run := func(extra []string, words ...string) ([]byte, int) {
				t.Helper()
				c := exec.Command(words[0], words[1:]...)
				c.Dir, c.Env = manifest, append(slices.Clone(env), extra...)
				var out, said bytes.Buffer
				c.Stdout, c.Stderr = &out, &said
				if err := c.Run(); err != nil && out.Len() == 0 {
					t.Fatalf("%v: %v\n%s", words, err, said.String())
				}
				return out.Bytes(), c.ProcessState.ExitCode()
			}
			asked := g.asked
			if !*update && !need.Full(t) { // the first feature, and the last one or several together; cargo's two answers to all of them in the full count
				asked = []string{g.asked[1], g.asked[len(g.asked)-1]}
			}
			var all strings.Builder
			for _, asked := range asked {
				var args []string
				if asked != "" {
					args = []string{"--features", asked}
				}
				data, code := run(nil, append([]string{binary(t), "features", "--json"}, args...)...)
				var said told
				if err := json.Unmarshal(data, &said); err != nil {
					t.Fatalf("%v\n%s", err, data)
				}
				fmt.Fprintf(&all, "== %s\n%s\n", strings.Join(args, " "), summary(said, code))
				tree, _ := run(nil, append([]string{cargo, "tree", "--locked", "--prefix", "none", "-e", "normal,no-proc-macro", "-f",
					"{p}|{f}"}, args...)...)
				compareWith(t, "cargo tree with "+asked, said, fromTree(string(tree)))
				graph, _ := run([]string{"RUSTC_BOOTSTRAP=1", "CARGO_TARGET_DIR=" + private, "CARGO_BUILD_BUILD_DIR=" + private},
					append([]string{cargo, "build", "--locked", "--unit-graph", "-Zunstable-options"}, args...)...)
				compareWith(t, "the unit graph with "+asked, said, fromUnits(t, graph))
			}
			expected := filepath.Join(sample, "expected.txt")
			if *update {
				if err := os.MkdirAll(sample, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(expected, []byte(all.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(expected)
			if err != nil {
				t.Fatal(err)
			}
			if want := only(string(want), asked); all.String() != want {
				t.Errorf("%s differs (-update writes it anew; read what changed):\n%s", expected, lineDiff(want, all.String()))
			}
		})
	}
}

// only takes from what was reviewed what is said of these features.
func only(reviewed string, asked []string) (out string) {
	for _, part := range strings.SplitAfter(strings.TrimPrefix(reviewed, "== "), "\n== ") {
		features, _, _ := strings.Cut(part, "\n")
		if slices.Contains(asked, strings.TrimPrefix(features, "--features ")) {
			out += "== " + strings.TrimSuffix(part, "== ")
		}
	}
	return out
}

// summary is what a reviewer reads: no path, no line number.
func summary(s told, code int) string {
	var b strings.Builder
	for _, r := range s.Roots {
		fmt.Fprintf(&b, "%s asked [%s] reached %v\n", r.Package, strings.Join(r.Asked, " "), r.Reached)
		for _, c := range r.Crates {
			fmt.Fprintf(&b, "  %-4s %s %s: %s: %s\n", map[bool]string{true: "on", false: "off"}[c.On], c.Name, c.Version, strings.ReplaceAll(c.Backend, ",", "+"),
				strings.Join(c.Features, " "))
			for i, s := range c.Steps {
				fmt.Fprintf(&b, "%s%s", map[bool]string{true: "       by ", false: " → "}[i == 0], s.Text)
			}
			if len(c.Steps) > 0 {
				b.WriteString("\n")
			}
		}
	}
	for _, n := range s.Needs.Because {
		fmt.Fprintf(&b, "build %s: %s\n", n.Need, n.Crate)
	}
	for _, n := range s.Needs.Run {
		fmt.Fprintf(&b, "run   %s: %s\n", n.Need, n.Crate)
	}
	if s.MaxBy != "" {
		fmt.Fprintf(&b, "CUDA  at most %s: %s\n", strings.Trim(string(s.Max), `"`), s.MaxBy)
	}
	for _, f := range s.Findings {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Severity, f.ID, f.Message)
		if f.Fix != "" {
			fmt.Fprintf(&b, "  hint: %s\n", f.Fix)
		}
	}
	fmt.Fprintf(&b, "exit %d\n", code)
	return b.String()
}

// fromTree reads `cargo tree -f '{p}|{f}'`: for each package and version the features of each of its nodes. It shares no code with
// graph.ParseTree.
func fromTree(text string) map[string][]string {
	out := map[string][]string{}
	for _, line := range strings.Split(text, "\n") {
		name, feats, ok := strings.Cut(strings.TrimSuffix(line, " (*)"), "|")
		words := strings.Fields(name)
		if !ok || len(words) < 2 || slices.Contains(words, "(proc-macro)") {
			continue
		}
		addNode(out, words[0]+" "+strings.TrimPrefix(words[1], "v"), strings.Split(feats, ","))
	}
	return out
}

func addNode(out map[string][]string, key string, feats []string) {
	feats = slices.DeleteFunc(slices.Clone(feats), func(f string) bool { return f == "" })
	slices.Sort(feats)
	if one := strings.Join(feats, " "); !slices.Contains(out[key], one) {
		out[key] = append(out[key], one)
		slices.Sort(out[key])
	}
}

// fromUnits reads a unit graph: what is linked into the roots, build scripts and proc-macros not entered.
func fromUnits(t *testing.T, data []byte) map[string][]string {
	t.Helper()
	var g struct {
		Units []struct {
			PkgID  string `json:"pkg_id"`
			Mode   string `json:"mode"`
			Target struct {
				Kind []string `json:"kind"`
			} `json:"target"`
			Features     []string `json:"features"`
			Dependencies []struct {
				Index int `json:"index"`
			} `json:"dependencies"`
		} `json:"units"`
		Roots []int `json:"roots"`
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	out, seen := map[string][]string{}, map[int]bool{}
	var enter func(int)
	enter = func(i int) {
		u := g.Units[i]
		if seen[i] || u.Mode == "run-custom-build" || slices.Contains(u.Target.Kind, "custom-build") ||
			slices.Contains(u.Target.Kind, "proc-macro") {
			return
		}
		seen[i] = true
		addNode(out, packageOf(u.PkgID), u.Features)
		for _, d := range u.Dependencies {
			enter(d.Index)
		}
	}
	for _, r := range g.Roots {
		enter(r)
	}
	return out
}

// packageOf reads a package id specification: …#name@version, or …/name#version.
func packageOf(id string) string {
	place, name, _ := strings.Cut(id, "#")
	if n, v, ok := strings.Cut(name, "@"); ok {
		return n + " " + v
	}
	place, _, _ = strings.Cut(place, "?")
	return place[strings.LastIndex(place, "/")+1:] + " " + name
}

// compareWith wants each crate that we list with the features that cargo gives it, and no package with cuda or cudnn left out of our list.
func compareWith(t *testing.T, what string, s told, cargo map[string][]string) {
	t.Helper()
	ours := map[string][]string{}
	for _, r := range s.Roots {
		for _, c := range r.Crates {
			addNode(ours, c.Name+" "+c.Version, c.Features)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if !slices.Equal(ours[key], cargo[key]) {
			t.Errorf("%s: %s has [%s], we say [%s]", what, key, strings.Join(cargo[key], " | "), strings.Join(ours[key], " | "))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cargo)) {
		for _, feats := range cargo[key] {
			words := strings.Fields(feats)
			if len(ours[key]) == 0 && (slices.Contains(words, "cuda") || slices.Contains(words, "cudnn") ||
				slices.Contains(words, "_cuda")) {
				t.Errorf("%s: %s has %s, and is not among what we list", what, key, feats)
			}
		}
	}
}

// lineDiff shows the lines that only one of two texts has.
func lineDiff(want, got string) string {
	count := map[string]int{}
	for _, l := range strings.Split(want, "\n") {
		count[l]--
	}
	for _, l := range strings.Split(got, "\n") {
		count[l]++
	}
	var out []string
	for _, l := range slices.Sorted(maps.Keys(count)) {
		switch {
		case count[l] < 0:
			out = append(out, "- "+l)
		case count[l] > 0:
			out = append(out, "+ "+l)
		}
	}
	return strings.Join(out, "\n")
}
