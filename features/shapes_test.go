package features

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

var update = flag.Bool("update", false, "rewrite stored files from what cargo answers now")

// shapes are the workspaces of testdata/workspaces/shapes.txtar and what must be said of them. Reach is that of the first root, or of the
// root named before a colon. A build stops at an error, and under Strict at a warning, too.
type shape struct {
	story    string
	dir      string
	args     string   // as cargo gets them; a word without a dash: features
	test     bool     // `cargo test --no-run` instead of build
	work     bool     // the quick look, and then the graph, say that there is GPU work
	looks    string   // no fault, and why a hasty reader would call it one
	reach    string   // CUDA crates that are on
	findings []string // severity id: a piece of the message or fix
}

const candle = "candle-core candle-kernels cudarc"

var shapes = []shape{
	{story: "the edges are there", dir: "edge-present", args: "cuda", work: true, reach: "candle-core candle-kernels candle-nn cudarc"},
	{story: "cudnn with the edges", dir: "edge-present", args: "cudnn", work: true, looks: "cudnn names candle-core alone",
		reach: "candle-core candle-kernels candle-nn cudarc"},
	{story: "nothing asked, nothing said", dir: "edge-present"},
	{story: "a direct dependency's feature", dir: "edge-present", args: "candle-core/cuda", work: true, reach: candle,
		findings: []string{"warning features.partial: ask for candle-nn/cuda"}},
	{story: "cuda = []", dir: "empty", args: "cuda", work: true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda", "candle-nn/cuda"]`}},
	{story: "cudnn over cuda = []", dir: "empty", args: "cudnn", work: true,
		findings: []string{"error features.unreached: cudnn = [\"cuda\", \"candle-core/cudnn\", \"candle-nn/cudnn\"]\ncuda = [\"candle-core/cuda\", \"candle-nn/cuda\"]"}},
	{story: "all features", dir: "empty", args: "--all-features", work: true,
		findings: []string{"error features.unreached: `cuda` and `cudnn` of empty do not enable candle-core 0.11.1, candle-nn 0.11.1"}},
	{story: "a weak edge to what nothing turns on", dir: "weak", args: "cuda", work: true,
		findings: []string{"note features.undecided: ask for inference"}},
	{story: "the weak edge's dependency is on", dir: "weak", args: "cuda,inference", work: true, looks: "a weak edge",
		reach: "realizar trueno-gpu"},
	{story: "a sibling is left off", dir: "half", args: "cuda", work: true, reach: candle,
		findings: []string{`warning features.partial: cuda = ["candle-core/cuda", "candle-nn/cuda"]`}},
	{story: "cudnn leaves candle-nn without CUDA", dir: "cudnn-alone", args: "cudnn", work: true, reach: candle,
		findings: []string{`warning features.partial: cudnn = ["candle-core/cudnn", "cuda"]`}},
	{story: "cudnn in a sibling whose cuda is off", dir: "cudnn-sibling", args: "cudnn", work: true, reach: candle,
		findings: []string{"warning features.partial: softmax"}},
	{story: "a sibling that only forwards is no fault", dir: "forward-only", args: "cuda", work: true,
		looks: "candle-transformers has cuda, and it is off", reach: candle},
	{story: "a sibling that only refuses a mixture is no fault", dir: "compile-error", args: "cuda", work: true,
		looks: "picky tests cuda, and it is off", reach: candle},
	{story: "the feature gates the program's own code, and candle is off", dir: "own-code", args: "cuda", work: true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`}},
	{story: "cuda = [] next to an optional crate", dir: "off-core", args: "cuda", work: true,
		findings: []string{`note features.undecided: cuda = ["candle-core?/cuda"] # or: cuda = ["infer", "candle-core/cuda"]`}},
	{story: "cuda = [] next to an optional carrier", dir: "off-cudarc", args: "cuda", work: true,
		findings: []string{`note features.undecided: cuda = ["dep:cudarc"]`}},
	{story: "cuda = [] next to two engines", dir: "off-two", args: "cuda", work: true,
		findings: []string{`note features.undecided: cuda = ["candle-core/cuda"] # or: cuda = ["cudarc"]`}},
	{story: "an optional crate that another feature turns on", dir: "off-core", args: "cuda,infer", work: true,
		findings: []string{`error features.unreached: cuda = ["candle-core?/cuda"]`}},
	{story: "an optional carrier by the feature that has it", dir: "off-cudarc", args: "raw", work: true, looks: "cuda = []",
		reach: "cudarc"},
	{story: "an optional carrier by its own name", dir: "off-two", args: "cudarc", work: true, looks: "cuda = []", reach: "cudarc"},
	{story: "an optional crate without its CUDA", dir: "off-core", args: "infer",
		looks: "candle-core is linked without cuda, and nobody asked for it"},
	{story: "nothing asked of two engines", dir: "off-two", looks: "cuda = []"},
	{story: "the feature gates the build script, which compiles kernels", dir: "own-script", args: "cuda", work: true,
		looks: "cuda = []", findings: []string{"note features.undecided: known after the build |"}},
	{story: "a binding through the feature", dir: "carrier", args: "cuda", work: true, looks: "cudarc has no feature cuda",
		reach: "cudarc", findings: []string{"note features.undecided: known after the build |"}},
	{story: "glam's cuda is something else", dir: "glam", args: "cuda", work: true, looks: "the feature reaches no GPU crate",
		findings: []string{"note features.undecided: known after the build"}},
	{story: "glam's cuda asked for by name", dir: "glam", args: "glam/cuda", looks: "cuda is asked for, and no GPU crate is linked"},
	{story: "glam's cuda in the dependency table", dir: "glam-forced", looks: "a feature cuda is on without a flag"},
	{story: "CUDA without any flag", dir: "forced", work: true, looks: "no feature of the program", reach: candle},
	{story: "another name", dir: "other-name", args: "gpu", work: true, looks: "there is no feature cuda",
		reach: "candle-core candle-kernels candle-nn cudarc"},
	{story: "on by default", dir: "default-on", work: true, reach: candle},
	{story: "defaults refused", dir: "default-on", args: "--no-default-features"},
	{story: "renamed", dir: "renamed", args: "cuda", work: true, looks: "no dependency is called candle-core", reach: candle},
	{story: "renamed and empty", dir: "renamed-empty", args: "cuda", work: true,
		findings: []string{`error features.unreached: cuda = ["candle/cuda"]`}},
	{story: "defaults off", dir: "no-defaults", args: "cuda", work: true, looks: "default-features = false", reach: candle},
	{story: "on Windows only", dir: "windows-only", args: "cuda", work: true,
		findings: []string{"note features.undecided: cfg(windows)"}},
	{story: "a dependency's build script has it under another name", dir: "other-gate", args: "cuda", work: true,
		looks: "no GPU crate is linked", findings: []string{"note features.undecided: known after the build"}},
	{story: "the build script takes every feature", dir: "all-features-script", args: "cudaarithm", work: true,
		looks: "its name is in no source", findings: []string{"note features.undecided: the name does not say"}},
	{story: "many features, one cause", dir: "all-features-script", args: "cudaarithm,cudafilters,cudaimgproc", work: true,
		looks: "three features", findings: []string{"note features.undecided: `cudaarithm` and `cudafilters` and `cudaimgproc`"}},
	{story: "on Windows only, and cuda = []", dir: "windows-empty", args: "cuda", work: true,
		findings: []string{"note features.undecided: (candle-core is a dependency of cfg(windows) only)"}},
	{story: "a package in between has no such feature", dir: "wrapped", args: "cuda", work: true,
		findings: []string{"error features.unreached: cuda = [\"wrap/cuda\"] # wrapped\n[features]\ncuda = [\"candle-core/cuda\"] # wrap"}},
	{story: "driver only, with siblings that do not get it", dir: "driver", args: "cuda", work: true,
		looks: "a weak edge to what is off", reach: "trueno-gpu"},
	{story: "a weak edge, and code of its own", dir: "weak-gate", args: "cuda", work: true, looks: "no GPU crate is linked",
		findings: []string{"note features.undecided: ask for ml"}},
	{story: "code of its own in an included file, and candle is off", dir: "included", args: "cuda", work: true,
		findings: []string{"error features.unreached: does not enable candle-core"}},
	{story: "code of its own in a file elsewhere, and candle is off", dir: "pathed", args: "cuda", work: true,
		findings: []string{"error features.unreached: does not enable candle-core"}},
	{story: "a program that requires the feature, and candle is off", dir: "required", args: "cuda", work: true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`}},
	{story: "tests have CUDA by a dev-dependency", dir: "dev-edge", args: "cuda", test: true, work: true,
		looks: "the edge is that of a dev-dependency", reach: candle},
	{story: "gpu enables a feature that enables nothing", dir: "own-names", args: "gpu", work: true,
		findings: []string{`error features.unreached: gpu = ["accel", "candle-core/cuda"]`}},
	{story: "cuda is a GPU of another kind", dir: "other-gpu", args: "cuda", work: true,
		findings: []string{"error features.unreached: `cuda` of other-gpu does not enable candle-core 0.11.1"}},
	{story: "gpu is a GPU of another kind", dir: "other-gpu", args: "gpu", looks: "candle-core stays without cuda"},
	{story: "CUDA code behind an optional dependency", dir: "behind-optional", args: "gpu-cuda", work: true,
		findings: []string{"note features.undecided: gpu-cuda = [\"wrap/gpu-cuda\"] # behind-optional"}},
	{story: "what cuda lacks, cuda-static lacks", dir: "second-name", args: "cuda-static", work: true,
		looks: "candle-core is off", findings: []string{"note features.undecided: `cuda` and `cuda-static` of second-name: known"}},
	{story: "a library that only says whether it is on", dir: "choice", args: "cuda", work: true, looks: "cuda = []",
		findings: []string{"note features.undecided: known after the build"}},
	{story: "gpu by default, next to cuda", dir: "gpu-default", looks: "gpu enables nothing"},
	{story: "no GPU anywhere", dir: "plain", args: "fast"},
	{story: "a build script's copy, resolver 1", dir: "host-build-1", args: "cuda", work: true, reach: candle,
		findings: []string{"warning features.borrowed: dependencies of tests or build scripts"}},
	{story: "a build script's copy, resolver 2", dir: "host-build-2", args: "cuda", work: true,
		findings: []string{"error features.unreached: does not enable candle-core 0.11.1"}},
	{story: "a proc-macro's copy, resolver 1", dir: "host-macro-1", args: "cuda", work: true, reach: candle,
		findings: []string{"warning features.borrowed: dependencies of tests or build scripts"}},
	{story: "a proc-macro's copy, resolver 2", dir: "host-macro-2", args: "cuda", work: true,
		findings: []string{"error features.unreached: does not enable candle-core 0.11.1"}},
	{story: "a dev-dependency, resolver 1", dir: "dev-1", args: "cuda", work: true, reach: candle,
		findings: []string{"warning features.borrowed: dependencies of tests or build scripts"}},
	{story: "a dev-dependency, resolver 2", dir: "dev-2", args: "cuda", work: true,
		findings: []string{"error features.unreached: candle-core"}},
	{story: "a dev-dependency, tests built", dir: "dev-2", args: "cuda", test: true, work: true, reach: candle,
		findings: []string{"warning features.borrowed: on here only because of its dev-dependencies"}},
	{story: "a whole workspace", dir: "ws-2", args: "--workspace --features cuda", work: true,
		reach:    "gpu: candle-core candle-kernels cudarc",
		findings: []string{"warning features.borrowed: `cuda` of other does not enable candle-core 0.11.1, on here only because gpu is built at the same time"}},
	{story: "the right member", dir: "ws-2", args: "-p gpu -F cuda", work: true, reach: candle},
	{story: "the wrong member", dir: "ws-3", args: "-p other -F cuda", work: true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`}},
	{story: "a member without GPU", dir: "ws-2", args: "-p quiet"},
	{story: "inherited from the workspace", dir: "inherit", work: true, reach: candle},
	{story: "a crate in between forwards nothing", dir: "chain", args: "-p app -F cuda", work: true,
		findings: []string{`error features.unreached: cuda = ["engine/cuda"]`}},
	{story: "a crate in between does not pass it on", dir: "chain-deep", args: "cuda", work: true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`}},
	{story: "what an own crate's feature does is its own affair", dir: "chain-own", args: "-p app -F cuda", work: true, reach: candle,
		looks: "engine has cuda, and it is off"},
	{story: "a sibling that mentions the feature in its documentation", dir: "docs", args: "cuda", work: true,
		looks: "docs-only names cuda, and it is off", reach: candle},
	{story: "a sibling whose other program and tests test the feature", dir: "program-gate", args: "cuda", work: true,
		looks: "other-bin tests cuda, and it is off", reach: candle},
	{story: "a weak edge to what is not wanted", dir: "weak-harmless", args: "cuda", work: true, looks: "a weak edge without effect",
		reach: candle},
	{story: "a crate in between calls it gpu", dir: "other-name-between", args: "cuda", work: true, looks: "accel has no feature cuda",
		reach: candle},
	{story: "cudnn leaves an own cuda off that gates nothing", dir: "cudnn-nothing-own", args: "cudnn", work: true,
		looks: "cudnn without cuda", reach: candle},
	{story: "a build script's crate is left off", dir: "build-gate", args: "cuda", work: true,
		looks: "candle-nn has cuda, gates code by it, and it is off", reach: candle},
	{story: "a sibling whose cuda reads device information", dir: "monitor", args: "cuda", work: true,
		looks: "trueno tests cuda, and it is off", reach: "trueno-gpu"},
	{story: "the dependency table does what the empty feature says", dir: "table-and-feature", args: "cuda", work: true,
		looks: "cuda = []", reach: candle},
	{story: "one of two engines", dir: "engines", args: "cuda", work: true, looks: "the other engine does not get it", reach: candle},
	{story: "an optional leaf of another member", dir: "leaf", args: "cuda", work: true,
		findings: []string{`note features.undecided: cuda = ["core-lib/cuda"]`}},
	{story: "another name that enables nothing", dir: "gpu-names", args: "gpu-cuda", work: true,
		findings: []string{`error features.unreached: gpu-cuda = ["candle-core/cuda"]`}},
	{story: "gpu that enables nothing", dir: "gpu-names", args: "gpu", work: true,
		findings: []string{`error features.unreached: gpu = ["candle-core/cuda"]`}},
	{story: "another name that enables CUDA", dir: "gpu-names", args: "whisper-cuda", work: true, looks: "there is no feature cuda",
		reach: candle},
	{story: "the name of another GPU", dir: "gpu-names", args: "gpu-metal", work: true, looks: "gpu-metal = []",
		findings: []string{"note features.undecided: counts on Apple's systems only"}},
	{story: "gpu that means wgpu", dir: "wgpu-gpu", args: "gpu", work: true, looks: "gpu leaves candle-core off",
		findings: []string{"note features.undecided: known after the build"}},
	{story: "tensorrt next to a cuda of its own", dir: "gates-trt", args: "tensorrt", work: true, looks: "code for cuda is off",
		reach: "ort"},
	{story: "cudnn leaves the program's own cuda off", dir: "lib-path", args: "cudnn", work: true, reach: candle,
		looks: "lib/device.rs tests cuda"},
	{story: "dep: is an edge", dir: "dep-edge", args: "cuda", work: true, looks: "the feature names no crate's feature",
		reach: "cudarc", findings: []string{"note features.undecided: known after the build"}},
	{story: "a renamed fork", dir: "fork", args: "cuda", work: true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`}},
	{story: "a project without any GPU crate", dir: "no-gpu", args: "cuda", work: true,
		findings: []string{"note features.undecided: `cuda` of no-gpu: known after the build |"}},
	{story: "cudnn leaves only a crate's cuda off", dir: "cudnn-forward", args: "cudnn", work: true, reach: candle,
		findings: []string{`warning features.partial: cudnn = ["candle-core/cudnn", "cuda"]`}},
	{story: "cudnn and cuda together", dir: "cudnn-forward", args: "cuda,cudnn", work: true, looks: "cudnn does not enable cuda",
		reach: "candle-core candle-kernels candle-nn cudarc"},
	{story: "another engine has a feature of its own", dir: "two-choices", args: "cohere-cuda", work: true,
		looks: "candle-nn has cuda, and it is off", reach: "ort"},
	{story: "another feature has more of the same", dir: "less-and-more", args: "core-cuda", work: true, looks: "core-cuda is loose",
		reach: candle},
	{story: "a gpu where the GPU is on anyhow", dir: "umbrella", args: "gpu", work: true, looks: "its gpu leads nowhere",
		findings: []string{"note features.undecided: known after the build |"}},
	{story: "a common part of two names", dir: "common-part", args: "cuda-13", work: true, looks: "_cuda is empty", reach: candle},
}

// line is what cargo gets, and request what that asks for.
func (s shape) line() (words []string, request manifest.Request) {
	if words = strings.Fields(s.args); len(words) == 1 && words[0][0] != '-' {
		words = []string{"--features", words[0]}
	}
	for i, w := range words {
		switch w {
		case "--features", "-F":
			request.Features = []string{words[i+1]}
		case "-p":
			request.Packages = []string{words[i+1]}
		case "--workspace":
			request.Workspace = true
		case "--all-features":
			request.AllFeatures = true
		case "--no-default-features":
			request.NoDefault = true
		}
	}
	return words, request
}

func ask(feats string) manifest.Request { return manifest.Request{Features: []string{feats}} }

func shapeArchive(t testing.TB) *txtar.Archive {
	return hosttest.Must(txtar.ParseFile(filepath.Join("..", "testdata", "workspaces", "shapes.txtar")))(t)
}

func (s shape) graph() string {
	name := s.dir
	words, _ := s.line()
	for _, a := range words {
		name += "_" + strings.NewReplacer("-", "", "/", ".", ",", "+", " ", "").Replace(a)
	}
	if s.test {
		name += "_test"
	}
	return filepath.Join("testdata", "graphs", name+".json")
}

// TestShapesAreLevel: silence and crying wolf are equally bad, so there are at least as many shapes that only look like a fault as there
// are faults.
func TestShapesAreLevel(t *testing.T) {
	faults, alarms := 0, 0
	for _, s := range shapes {
		fault := s.found(Error) || s.found(Warning)
		switch {
		case fault && s.looks != "":
			t.Errorf("%s: a fault, and none: %s", s.story, s.looks)
		case fault:
			faults++
		case s.looks != "":
			alarms++
		}
	}
	t.Logf("%d faults, %d that only look like one, %d others", faults, alarms, len(shapes)-faults-alarms)
	if alarms < faults {
		t.Errorf("%d faults and only %d false alarms: add what looks like a fault and is none", faults, alarms)
	}
}

// found reports whether a finding of a severity is expected.
func (s shape) found(severity string) bool {
	return slices.ContainsFunc(s.findings, func(f string) bool { return strings.HasPrefix(f, severity+" ") })
}

// load reads the stored graph and the manifests of a shape.
func (s shape) load(t *testing.T, h buildenv.Host) (*manifest.Project, *graph.Graph) {
	t.Helper()
	data, err := os.ReadFile(s.graph())
	if err != nil {
		t.Fatalf("%v (go test -update makes it where there is a cargo)", err)
	}
	g := hosttest.Must(graph.Parse(bytes.NewReader(data)))(t)
	p := hosttest.Must(manifest.Load(h, "/w/"+s.dir+"/Cargo.toml"))(t)
	return p, g
}

// TestShapesStored judges every shape from stored graphs, which needs no cargo, and asks nothing of the file system once it has gathered.
func TestShapesStored(t *testing.T) {
	files := map[string]string{}
	for _, f := range shapeArchive(t).Files {
		files["/w/"+f.Name] = string(f.Data)
	}
	h, asked := hosttest.Memory(files), 0
	h.Files = counted{h.Files, &asked}
	for _, s := range shapes {
		t.Run(s.dir+" "+s.story, func(t *testing.T) {
			p, g := s.load(t, h)
			s.check(t, h, p, g)
			_, request := s.line()
			asked = 0
			facts := Gather(h, Input{Project: p, Request: request, Graph: g})
			before := asked
			if Judge(&facts); asked > before {
				t.Errorf("of %d questions to the file system %d are the judge's", asked, asked-before)
			}
		})
	}
}

// check judges and compares with what a shape expects. The quick look may say wrongly that there is GPU work, never that there is none.
func (s shape) check(t *testing.T, h buildenv.Host, p *manifest.Project, g *graph.Graph) {
	t.Helper()
	_, r := s.line()
	a := judgeIn(h, Input{Project: p, Request: r, Graph: g})
	if quick, why := looks(h, p, r); a.GPUWork() != s.work || s.work && !quick {
		t.Errorf("GPU work: %v, want %v; the quick look: %v, %s", a.GPUWork(), s.work, quick, why)
	}
	root, reach, named := strings.Cut(s.reach, ": ")
	if !named {
		root, reach = "", s.reach
	}
	hosttest.Equal(t, reached(a, root), reach)
	var got []string
	for _, f := range a.Findings {
		fix := f.Fix
		if len(f.Ask) > 0 {
			fix = "ask for " + strings.Join(f.Ask, ",")
		}
		got = append(got, fmt.Sprintf("%s %s: %s | %s | %s", f.Severity, f.ID, f.Message, fix, f.Evidence))
		if listed := finding.RuleOf(f.ID).Severity; f.Severity != listed { // docs/findings.md is made of that table
			t.Errorf("%s is a %s, and listed as %s", f.ID, f.Severity, listed)
		}
		if f.Path == "" || f.Line == 0 {
			if f.ID != IDPartial || f.Fix != "" {
				t.Errorf("no place: %+v", f)
			}
		}
	}
	for i, want := range s.findings {
		head, piece, _ := strings.Cut(want, ": ")
		if i >= len(got) || !strings.HasPrefix(got[i], head+":") || !strings.Contains(got[i], piece) {
			t.Errorf("finding %d: want %s", i, want)
		}
	}
	strict := judgeIn(h, Input{Project: p, Request: r, Graph: g, Strict: true})
	if len(got) != len(s.findings) || a.Stops != s.found(Error) || strict.Stops != (s.found(Error) || s.found(Warning)) {
		t.Errorf("%d findings, want %d; stops %v, strict %v", len(got), len(s.findings), a.Stops, strict.Stops)
	}
	if t.Failed() {
		t.Logf("findings:\n%s", strings.Join(got, "\n"))
	}
}

// reached lists the CUDA crates that are on in a root, the first one when no name is given.
func reached(a *Reach, root string) string {
	for _, r := range a.Roots {
		if root != "" && r.Package != root {
			continue
		}
		var on []string
		for _, c := range r.Crates {
			if c.On && c.Backend == "cuda" {
				on = append(on, c.Name)
			}
		}
		sort.Strings(on)
		return strings.Join(on, " ")
	}
	return "no such root"
}

// TestShapesCargo asks the real cargo about every shape, holds the graph against what it then compiles, and the tree against the graph.
func TestShapesCargo(t *testing.T) {
	cargo := need.Tool(t, "cargo")
	need.Asked(t, "long")
	root := hosttest.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	hosttest.OK(t, txtar.Write(shapeArchive(t), root))
	h := hosttest.Must(local.Host())(t)
	for _, s := range shapes {
		t.Run(s.dir+" "+s.story, func(t *testing.T) {
			dir := filepath.Join(root, s.dir)
			words, _ := s.line()
			run := func(bootstrap bool, args ...string) []byte {
				t.Helper()
				c := exec.Command(cargo, args...)
				c.Dir = dir
				c.Env = append(
					os.Environ(),
					"CARGO_TARGET_DIR="+filepath.Join(root, "target"),
					"CARGO_BUILD_BUILD_DIR="+filepath.Join(root, "target"),
					"CARGO_NET_OFFLINE=true",
					"CARGO_INCREMENTAL=0",
				)
				if bootstrap {
					c.Env = append(
						c.Env,
						"RUSTC_BOOTSTRAP=1",
						"CARGO_TARGET_DIR="+filepath.Join(root, "graph"),
						"CARGO_BUILD_BUILD_DIR="+filepath.Join(root, "graph"),
					)
				}
				var stderr bytes.Buffer
				c.Stderr = &stderr
				out, err := c.Output()
				if err != nil {
					t.Fatalf("cargo %v: %v\n%s", args, err, stderr.String())
				}
				return out
			}
			verb := []string{"build"}
			if s.test {
				verb = []string{"test", "--no-run"}
			}
			data := run(true, append(append(append([]string{}, verb...), "--unit-graph", "-Zunstable-options"), words...)...)
			g := hosttest.Must(graph.Parse(bytes.NewReader(data)))(t)
			p := hosttest.Must(manifest.Load(h, filepath.Join(dir, "Cargo.toml")))(t)
			s.check(t, h, p, g)
			messages := run(false, append(append(append([]string{}, verb...), "--message-format=json", "-q", "-j1"), words...)...)
			if want, got := compiled(t, messages), planned(g); want != got {
				t.Errorf("cargo compiled\n%sthe graph has\n%s", want, got)
			}
			if *update {
				store(t, g, root, s.graph())
			}
		})
	}
}

// compiled lists what cargo's messages say it compiled: package, target, features.
func compiled(t *testing.T, messages []byte) string {
	var lines []string
	dec := json.NewDecoder(bytes.NewReader(messages))
	for dec.More() {
		var m struct {
			Reason    string       `json:"reason"`
			PackageID string       `json:"package_id"`
			Target    graph.Target `json:"target"`
			Features  []string     `json:"features"`
		}
		hosttest.OK(t, dec.Decode(&m))
		if m.Reason == "compiler-artifact" {
			lines = append(lines, unitLine(m.PackageID, m.Target, m.Features))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}

func planned(g *graph.Graph) string {
	var lines []string
	for _, u := range g.Units {
		if u.Mode != "run-custom-build" {
			lines = append(lines, unitLine(u.PkgID, u.Target, u.Features))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}

func unitLine(id string, t graph.Target, features []string) string {
	return fmt.Sprintf("  %s %s %v %v\n", manifest.ParsePkgID(id).Name, t.Name, t.Kind, slices.Sorted(slices.Values(features)))
}

// store writes a graph with the paths of this machine taken out.
func store(t *testing.T, g *graph.Graph, root, name string) {
	t.Helper()
	data := hosttest.Must(json.Marshal(g))(t)
	text := strings.ReplaceAll(string(data), filepath.ToSlash(root)+"/", "/w/")
	text = strings.ReplaceAll(text, `{"pkg_id"`, "\n"+`{"pkg_id"`) + "\n"
	hosttest.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	hosttest.OK(t, os.WriteFile(name, []byte(text), 0o644))
}
