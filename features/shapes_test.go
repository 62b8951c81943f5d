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
// root named before a colon.
var shapes = []struct {
	story    string
	dir      string
	args     []string // as cargo gets them
	request  manifest.Request
	work     bool     // the quick look, and then the graph, say that there is GPU work
	reach    string   // CUDA crates that are on
	findings []string // severity id: a piece of the message or fix
	stops    bool
	strict   bool   // stops under Strict
	test     bool   // `cargo test --no-run` instead of build
	looks    string // no fault, and why a hasty reader would call it one
}{
	{
		story:   "the edges are there",
		dir:     "edge-present",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels candle-nn cudarc",
	},
	{
		story:   "cudnn with the edges",
		dir:     "edge-present",
		looks:   "cudnn names candle-core alone",
		args:    f("cudnn"),
		request: ask("cudnn"),
		work:    true,
		reach:   "candle-core candle-kernels candle-nn cudarc",
	},
	{story: "nothing asked, nothing said", dir: "edge-present"},
	{story: "a direct dependency's feature", dir: "edge-present", args: f("candle-core/cuda"), request: ask("candle-core/cuda"), work: true,
		reach: "candle-core candle-kernels cudarc", findings: []string{"warning features.partial: ask for candle-nn/cuda"}, strict: true},
	{story: "cuda = []", dir: "empty", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda", "candle-nn/cuda"]`}},
	{story: "cudnn over cuda = []", dir: "empty", args: f("cudnn"), request: ask("cudnn"), work: true, stops: true, strict: true,
		findings: []string{
			"error features.unreached: cudnn = [\"cuda\", \"candle-core/cudnn\", \"candle-nn/cudnn\"]\ncuda = [\"candle-core/cuda\", \"candle-nn/cuda\"]",
		}},
	{
		story:    "all features",
		dir:      "empty",
		args:     []string{"--all-features"},
		request:  manifest.Request{AllFeatures: true},
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{"error features.unreached: `cuda` and `cudnn` of empty do not enable candle-core 0.11.1, candle-nn 0.11.1"},
	},
	{
		story:    "a weak edge to what nothing turns on",
		dir:      "weak",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{"error features.unreached: ask for inference"},
	},
	{
		story:   "the weak edge's dependency is on",
		dir:     "weak",
		looks:   "a weak edge",
		args:    f("cuda,inference"),
		request: ask("cuda,inference"),
		work:    true,
		reach:   "realizar trueno-gpu",
	},
	{
		story:    "a sibling is left off",
		dir:      "half",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		reach:    "candle-core candle-kernels cudarc",
		findings: []string{`warning features.partial: cuda = ["candle-core/cuda", "candle-nn/cuda"]`},
		strict:   true,
	},
	{
		story:    "cudnn leaves the program's own code off",
		dir:      "cudnn-alone",
		args:     f("cudnn"),
		request:  ask("cudnn"),
		work:     true,
		stops:    true,
		strict:   true,
		reach:    "candle-core candle-kernels cudarc",
		findings: []string{`error features.cudnn-without-cuda: cudnn = ["candle-core/cudnn", "cuda"]`},
	},
	{story: "cudnn in a sibling whose cuda is off", dir: "cudnn-sibling", args: f("cudnn"), request: ask("cudnn"), work: true, strict: true,
		reach: "candle-core candle-kernels cudarc", findings: []string{"warning features.partial: softmax"}},
	{
		story:   "a sibling that only forwards is no fault",
		dir:     "forward-only",
		looks:   "candle-transformers has cuda, and it is off",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
	},
	{
		story:   "a sibling that only refuses a mixture is no fault",
		dir:     "compile-error",
		looks:   "picky tests cuda, and it is off",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
	},
	{story: "the feature gates the program's own code, and candle is off", dir: "own-code", args: f("cuda"), request: ask("cuda"), work: true,
		stops: true, strict: true, findings: []string{"error features.unreached: (although it compiles src/main.rs:1)"}},
	{
		story:    "cuda = [] next to an optional crate",
		dir:      "off-core",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`},
	},
	{
		story:    "cuda = [] next to an optional carrier",
		dir:      "off-cudarc",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{`error features.unreached: cuda = ["dep:cudarc"]`},
	},
	{story: "cuda = [] next to two engines", dir: "off-two", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"] # or: cuda = ["cudarc"]`}},
	{
		story:    "an optional crate that another feature turns on",
		dir:      "off-core",
		args:     f("cuda,infer"),
		request:  ask("cuda,infer"),
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{`error features.unreached: cuda = ["candle-core?/cuda"]`},
	},
	{
		story:   "an optional carrier by the feature that has it",
		dir:     "off-cudarc",
		looks:   "cuda = []",
		args:    f("raw"),
		request: ask("raw"),
		work:    true,
		reach:   "cudarc",
	},
	{
		story:   "an optional carrier by its own name",
		dir:     "off-two",
		looks:   "cuda = []",
		args:    f("cudarc"),
		request: ask("cudarc"),
		work:    true,
		reach:   "cudarc",
	},
	{
		story:   "an optional crate without its CUDA",
		dir:     "off-core",
		looks:   "candle-core is linked without cuda, and nobody asked for it",
		args:    f("infer"),
		request: ask("infer"),
	},
	{story: "nothing asked of two engines", dir: "off-two", looks: "cuda = []"},
	{story: "the feature gates the build script, which compiles kernels", dir: "own-script", looks: "cuda = []", args: f("cuda"),
		request: ask("cuda"), work: true, reach: "own-script"},
	{
		story:   "a carrier through the feature",
		dir:     "carrier",
		looks:   "cudarc has no feature cuda",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "cudarc",
	},
	{
		story:    "glam's cuda is something else",
		dir:      "glam",
		looks:    "the feature reaches no GPU crate",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		findings: []string{"note features.undecided: glam 0.30.0 only"},
	},
	{
		story:   "glam's cuda asked for by name",
		dir:     "glam",
		looks:   "cuda is asked for, and no GPU crate is linked",
		args:    f("glam/cuda"),
		request: ask("glam/cuda"),
	},
	{story: "glam's cuda in the dependency table", dir: "glam-forced", looks: "a feature cuda is on without a flag"},
	{
		story:    "CUDA without any flag",
		dir:      "forced",
		looks:    "no feature of the program",
		work:     true,
		reach:    "candle-core candle-kernels cudarc",
		findings: []string{"note features.forced: forced turns on candle-core/cuda"},
	},
	{
		story:   "another name",
		dir:     "other-name",
		looks:   "there is no feature cuda",
		args:    f("gpu"),
		request: ask("gpu"),
		work:    true,
		reach:   "candle-core candle-kernels candle-nn cudarc",
	},
	{story: "on by default", dir: "default-on", work: true, reach: "candle-core candle-kernels cudarc"},
	{story: "defaults refused", dir: "default-on", args: []string{"--no-default-features"}, request: manifest.Request{NoDefault: true}},
	{
		story:   "renamed",
		dir:     "renamed",
		looks:   "no dependency is called candle-core",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
	},
	{story: "renamed and empty", dir: "renamed-empty", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{`error features.unreached: cuda = ["candle/cuda"]`}},
	{
		story:   "defaults off",
		dir:     "no-defaults",
		looks:   "default-features = false",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
	},
	{story: "on Windows only", dir: "windows-only", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{"error features.unreached: cfg(windows)"}},
	{story: "a dependency's build script has it under another name", dir: "other-gate", looks: "no GPU crate is linked", args: f("cuda"),
		request: ask("cuda"), work: true, findings: []string{"note features.undecided: other-gate-runtime: build.rs"}},
	{story: "the build script takes every feature", dir: "all-features-script", looks: "its name is in no source", args: f("cudaarithm"),
		request: ask("cudaarithm"), work: true, findings: []string{"note features.undecided: the name does not say"}},
	{story: "many features, one cause", dir: "all-features-script", looks: "three features", args: f("cudaarithm,cudafilters,cudaimgproc"),
		request: ask("cudaarithm,cudafilters,cudaimgproc"), work: true,
		findings: []string{"note features.undecided: `cudaarithm` and `cudafilters` and `cudaimgproc`"}},
	{story: "on Windows only, and cuda = []", dir: "windows-empty", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{"error features.unreached: enables nothing: candle-core is a dependency of cfg(windows) only"}},
	{
		story:    "a package in between has no such feature",
		dir:      "wrapped",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{"error features.unreached: cuda = [\"wrap/cuda\"] # wrapped\n[features]\ncuda = [\"candle-core/cuda\"] # wrap"},
	},
	{
		story:   "driver only, with siblings that do not get it",
		dir:     "driver",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "trueno-gpu",
		looks:   "a weak edge to what is off",
	},
	{story: "a weak edge, and code of its own", dir: "weak-gate", args: f("cuda"), request: ask("cuda"), work: true,
		looks: "no GPU crate is linked", findings: []string{"note features.undecided: src/main.rs:2"}},
	{story: "code of its own in an included file, and candle is off", dir: "included", args: f("cuda"), request: ask("cuda"), work: true,
		stops: true, strict: true, findings: []string{"error features.unreached: gen/real.rs:2"}},
	{story: "code of its own in a file elsewhere, and candle is off", dir: "pathed", args: f("cuda"), request: ask("cuda"), work: true,
		stops: true, strict: true, findings: []string{"error features.unreached: other/gpu.rs:1"}},
	{story: "a program that requires the feature, and candle is off", dir: "required", args: f("cuda"), request: ask("cuda"), work: true,
		stops: true, strict: true, findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`}},
	{story: "tests have CUDA by a dev-dependency", dir: "dev-edge", looks: "the edge is that of a dev-dependency", test: true,
		args: f("cuda"), request: manifest.Request{Features: []string{"cuda"}}, work: true,
		reach: "candle-core candle-kernels cudarc"},
	{story: "gpu enables a feature that enables nothing", dir: "own-names", args: f("gpu"), request: ask("gpu"), work: true, stops: true,
		strict: true, findings: []string{`error features.unreached: gpu = ["accel", "candle-core/cuda"]`}},
	{story: "cuda is a GPU of another kind", dir: "other-gpu", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{"error features.unreached: `cuda` of other-gpu does not enable candle-core 0.11.1"}},
	{story: "gpu is a GPU of another kind", dir: "other-gpu", args: f("gpu"), request: ask("gpu"), looks: "candle-core stays without cuda"},
	{story: "CUDA code behind an optional dependency", dir: "behind-optional", args: f("gpu-cuda"), request: ask("gpu-cuda"), work: true,
		stops: true, strict: true,
		findings: []string{"error features.unreached: gpu-cuda = [\"wrap/gpu-cuda\"] # behind-optional"}},
	{story: "what cuda lacks, cuda-static lacks", dir: "second-name", args: f("cuda-static"), request: ask("cuda-static"), work: true,
		stops: true, strict: true,
		findings: []string{"error features.unreached: | cuda = [\"dep:wrap\", \"wrap?/cuda\"] # second-name\n" +
			"[features]\ncuda = [\"candle-core/cuda\"] # wrap |"}},
	{story: "a library that only says whether it is on", dir: "choice", args: f("cuda"), request: ask("cuda"), work: true,
		looks: "cuda = []", findings: []string{"note features.undecided: src/lib.rs"}},
	{story: "gpu by default, next to cuda", dir: "gpu-default", looks: "gpu enables nothing"},
	{story: "no GPU anywhere", dir: "plain", args: f("fast"), request: ask("fast")},
	{
		story:    "a build script's copy, resolver 1",
		dir:      "host-build-1",
		looks:    "cuda = []",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		reach:    "candle-core candle-kernels cudarc",
		findings: []string{"note features.forced: candle-core"},
	},
	{
		story:    "a build script's copy, resolver 2",
		dir:      "host-build-2",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{"error features.unreached: does not enable candle-core 0.11.1"},
	},
	{
		story:    "a proc-macro's copy, resolver 1",
		dir:      "host-macro-1",
		looks:    "cuda = []",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		reach:    "candle-core candle-kernels cudarc",
		findings: []string{"note features.forced: another part of this build enables candle-core"},
	},
	{
		story:    "a proc-macro's copy, resolver 2",
		dir:      "host-macro-2",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{"error features.unreached: does not enable candle-core 0.11.1"},
	},
	{
		story:    "a dev-dependency, resolver 1",
		dir:      "dev-1",
		looks:    "cuda = []",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		reach:    "candle-core candle-kernels cudarc",
		findings: []string{"note features.forced: candle-core"},
	},
	{story: "a dev-dependency, resolver 2", dir: "dev-2", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{"error features.unreached: candle-core"}},
	{
		story:    "a dev-dependency, tests built",
		dir:      "dev-2",
		looks:    "cuda = []",
		args:     f("cuda"),
		request:  manifest.Request{Features: []string{"cuda"}},
		work:     true,
		test:     true,
		reach:    "candle-core candle-kernels cudarc",
		findings: []string{"note features.forced: candle-core"},
	},
	{
		story:    "a whole workspace",
		dir:      "ws-2",
		looks:    "cuda = [] in one of two",
		args:     []string{"--workspace", "--features", "cuda"},
		request:  manifest.Request{Features: []string{"cuda"}, Workspace: true},
		work:     true,
		reach:    "gpu: candle-core candle-kernels cudarc",
		findings: []string{"note features.forced: CUDA is on in other without `cuda`"},
	},
	{
		story:   "the right member",
		dir:     "ws-2",
		args:    []string{"-p", "gpu", "-F", "cuda"},
		request: manifest.Request{Features: []string{"cuda"}, Packages: []string{"gpu"}},
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
	},
	{
		story:    "the wrong member",
		dir:      "ws-3",
		args:     []string{"-p", "other", "-F", "cuda"},
		request:  manifest.Request{Features: []string{"cuda"}, Packages: []string{"other"}},
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`},
	},
	{story: "a member without GPU", dir: "ws-2", args: []string{"-p", "quiet"}, request: manifest.Request{Packages: []string{"quiet"}}},
	{story: "inherited from the workspace", dir: "inherit", work: true, reach: "candle-core candle-kernels cudarc"},
	{
		story:    "a crate in between forwards nothing",
		dir:      "chain",
		args:     []string{"-p", "app", "-F", "cuda"},
		request:  manifest.Request{Features: []string{"cuda"}, Packages: []string{"app"}},
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{`error features.unreached: cuda = ["engine/cuda"]`},
	},
	{
		story:    "a crate in between does not pass it on",
		dir:      "chain-deep",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`},
	},
	{
		story:    "an own crate's code is left off",
		dir:      "chain-own",
		args:     []string{"-p", "app", "-F", "cuda"},
		request:  manifest.Request{Features: []string{"cuda"}, Packages: []string{"app"}},
		work:     true,
		reach:    "candle-core candle-kernels cudarc",
		strict:   true,
		findings: []string{`warning features.partial: cuda = ["candle-core/cuda", "engine/cuda"]`},
	},
	{
		story:   "a sibling that mentions the feature in its documentation",
		dir:     "docs",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
		looks:   "docs-only names cuda, and it is off",
	},
	{
		story:   "a sibling whose other program and tests test the feature",
		dir:     "program-gate",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
		looks:   "other-bin tests cuda, and it is off",
	},
	{
		story:   "a weak edge to what is not wanted",
		dir:     "weak-harmless",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
		looks:   "a weak edge without effect",
	},
	{
		story:   "a crate in between calls it gpu",
		dir:     "other-name-between",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
		looks:   "accel has no feature cuda",
	},
	{
		story:   "cudnn leaves an own cuda off that gates nothing",
		dir:     "cudnn-nothing-own",
		args:    f("cudnn"),
		request: ask("cudnn"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
		looks:   "cudnn without cuda",
	},
	{
		story:   "a build script's crate is left off",
		dir:     "build-gate",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
		looks:   "candle-nn has cuda, gates code by it, and it is off",
	},
	{
		story:   "a sibling whose cuda reads device information",
		dir:     "monitor",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "trueno-gpu",
		looks:   "trueno tests cuda, and it is off",
	},
	{
		story:    "the dependency table does what the empty feature says",
		dir:      "table-and-feature",
		args:     f("cuda"),
		request:  ask("cuda"),
		work:     true,
		reach:    "candle-core candle-kernels cudarc",
		findings: []string{"note features.forced: candle-core"},
		looks:    "cuda = []",
	},
	{
		story:   "one of two engines",
		dir:     "engines",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
		looks:   "the other engine does not get it",
	},
	{story: "an optional leaf of another member", dir: "leaf", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{`error features.unreached: cuda = ["core-lib/cuda"]`}},
	{
		story:    "another name that enables nothing",
		dir:      "gpu-names",
		args:     f("gpu-cuda"),
		request:  ask("gpu-cuda"),
		work:     true,
		stops:    true,
		strict:   true,
		findings: []string{`error features.unreached: gpu-cuda = ["candle-core/cuda"]`},
	},
	{story: "gpu that enables nothing", dir: "gpu-names", args: f("gpu"), request: ask("gpu"), work: true, stops: true, strict: true,
		findings: []string{`error features.unreached: gpu = ["candle-core/cuda"]`}},
	{
		story:   "another name that enables CUDA",
		dir:     "gpu-names",
		looks:   "there is no feature cuda",
		args:    f("whisper-cuda"),
		request: ask("whisper-cuda"),
		work:    true,
		reach:   "candle-core candle-kernels cudarc",
	},
	{story: "the name of another GPU", dir: "gpu-names", looks: "gpu-metal = []", args: f("gpu-metal"), request: ask("gpu-metal"),
		findings: []string{"note features.undecided: enables nothing"}},
	{story: "gpu that means wgpu", dir: "wgpu-gpu", looks: "gpu leaves candle-core off", args: f("gpu"), request: ask("gpu")},
	{
		story:   "tensorrt next to a cuda of its own",
		dir:     "gates-trt",
		looks:   "code for cuda is off",
		args:    f("tensorrt"),
		request: ask("tensorrt"),
		work:    true,
		reach:   "ort",
	},
	{
		story:    "a library outside src",
		dir:      "lib-path",
		args:     f("cudnn"),
		request:  ask("cudnn"),
		work:     true,
		reach:    "candle-core candle-kernels cudarc",
		stops:    true,
		strict:   true,
		findings: []string{"error features.cudnn-without-cuda: lib/device.rs:1"},
	},
	{
		story:   "dep: is an edge",
		dir:     "dep-edge",
		looks:   "the feature names no crate's feature",
		args:    f("cuda"),
		request: ask("cuda"),
		work:    true,
		reach:   "cudarc",
	},
	{story: "a renamed fork", dir: "fork", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{`error features.unreached: cuda = ["candle-core/cuda"]`}},
	{story: "a project without any GPU crate", dir: "no-gpu", args: f("cuda"), request: ask("cuda"), work: true, stops: true, strict: true,
		findings: []string{"error features.unreached: `cuda` of no-gpu enables nothing: nothing that it depends on here is known to use CUDA"}},
	{
		story:    "cudnn leaves only a crate's cuda off",
		dir:      "cudnn-forward",
		args:     f("cudnn"),
		request:  ask("cudnn"),
		work:     true,
		reach:    "candle-core candle-kernels cudarc",
		stops:    true,
		strict:   true,
		findings: []string{`error features.cudnn-without-cuda: cudnn = ["candle-core/cudnn", "cuda"]`},
	},
	{
		story:   "cudnn and cuda together",
		dir:     "cudnn-forward",
		looks:   "cudnn does not enable cuda",
		args:    f("cuda,cudnn"),
		request: ask("cuda,cudnn"),
		work:    true,
		reach:   "candle-core candle-kernels candle-nn cudarc",
	},
	{story: "another engine has a feature of its own", dir: "two-choices", args: f("cohere-cuda"), request: ask("cohere-cuda"), work: true,
		looks: "candle-nn has cuda, and it is off", reach: "ort"},
	{story: "another feature has more of the same", dir: "less-and-more", args: f("core-cuda"), request: ask("core-cuda"), work: true,
		looks: "core-cuda is loose", reach: "candle-core candle-kernels cudarc"},
	{story: "a gpu where the GPU is on anyhow", dir: "umbrella", args: f("gpu"), request: ask("gpu"), looks: "its gpu leads nowhere",
		findings: []string{"note features.forced: umbrella turns on wgpu"}},
	{story: "a common part of two names", dir: "common-part", args: f("cuda-13"), request: ask("cuda-13"), work: true,
		looks: "_cuda is empty", reach: "candle-core candle-kernels cudarc"},
}

func f(feats string) []string { return []string{"--features", feats} }

func ask(feats string) manifest.Request { return manifest.Request{Features: []string{feats}} }

// shapeFiles reads the archive: path below the root → text.
func shapeFiles(t testing.TB) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "workspaces", "shapes.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	name := ""
	for _, line := range strings.SplitAfter(string(data), "\n") {
		if n, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(n, " --\n") {
			name = strings.TrimSuffix(n, " --\n")
			continue
		}
		if name != "" {
			files[name] += line
		}
	}
	return files
}

func graphName(dir string, args []string, test bool) string {
	name := dir
	for _, a := range args {
		name += "_" + strings.NewReplacer("-", "", "/", ".", ",", "+", " ", "").Replace(a)
	}
	if test {
		name += "_test"
	}
	return filepath.Join("testdata", "graphs", name+".json")
}

// TestShapesAreLevel: silence and crying wolf are equally bad, so there are at least as many shapes that only look like a fault as there
// are faults.
func TestShapesAreLevel(t *testing.T) {
	faults, alarms := 0, 0
	for _, s := range shapes {
		fault := s.stops || s.strict
		for _, f := range s.findings {
			fault = fault || !strings.HasPrefix(f, Note+" ")
		}
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

// TestShapesStored judges every shape from stored graphs: no cargo is needed.
func TestShapesStored(t *testing.T) {
	files := map[string]string{}
	for p, text := range shapeFiles(t) {
		files["/w/"+p] = text
	}
	h := hosttest.Memory(files)
	for _, s := range shapes {
		t.Run(s.dir+" "+s.story, func(t *testing.T) {
			data, err := os.ReadFile(graphName(s.dir, s.args, s.test))
			if err != nil {
				t.Fatalf("%v (go test -update makes it where there is a cargo)", err)
			}
			g, err := graph.Parse(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			p, err := manifest.Load(h, "/w/"+s.dir+"/Cargo.toml")
			if err != nil {
				t.Fatal(err)
			}
			checkWork(t, h, p, g, s.request, s.work)
			check(t, h, p, g, s.request, s.reach, s.findings, s.stops, s.strict)
		})
	}
}

// checkWork compares whether there is GPU work. The quick look may say yes wrongly, never no.
func checkWork(t *testing.T, h buildenv.Host, p *manifest.Project, g *graph.Graph, r manifest.Request, want bool) {
	t.Helper()
	a := judgeIn(h, Input{Project: p, Request: r, Graph: g})
	switch quick, why := looks(h, p, r); {
	case a.GPUWork() != want:
		t.Errorf("GPU work: %v, want %v", !want, want)
	case want && !quick:
		t.Errorf("the quick look says no: %s", why)
	}
}

// check judges and compares with what a shape expects.
func check(
	t *testing.T,
	h buildenv.Host,
	p *manifest.Project,
	g *graph.Graph,
	r manifest.Request,
	reach string,
	findings []string,
	stops, strict bool,
) {
	t.Helper()
	a := judgeIn(h, Input{Project: p, Request: r, Graph: g})
	root := ""
	if name, rest, ok := strings.Cut(reach, ": "); ok {
		root, reach = name, rest
	}
	if got := reached(a, root); got != reach {
		t.Errorf("on: %q, want %q", got, reach)
	}
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
	for i, want := range findings {
		head, piece, _ := strings.Cut(want, ": ")
		if i >= len(got) || !strings.HasPrefix(got[i], head+":") || !strings.Contains(got[i], piece) {
			t.Errorf("finding %d: want %s", i, want)
		}
	}
	if len(got) != len(findings) {
		t.Errorf("%d findings, want %d", len(got), len(findings))
	}
	if a.Stops != stops {
		t.Errorf("stops %v, want %v", a.Stops, stops)
	}
	if s := judgeIn(h, Input{Project: p, Request: r, Graph: g, Strict: true}); s.Stops != strict {
		t.Errorf("strict: stops %v, want %v", s.Stops, strict)
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
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for p, text := range shapeFiles(t) {
		full := filepath.Join(root, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes {
		t.Run(s.dir+" "+s.story, func(t *testing.T) {
			dir := filepath.Join(root, s.dir)
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
			data := run(true, append(append(append([]string{}, verb...), "--unit-graph", "-Zunstable-options"), s.args...)...)
			g, err := graph.Parse(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			p, err := manifest.Load(h, filepath.Join(dir, "Cargo.toml"))
			if err != nil {
				t.Fatal(err)
			}
			checkWork(t, h, p, g, s.request, s.work)
			check(t, h, p, g, s.request, s.reach, s.findings, s.stops, s.strict)
			messages := run(false, append(append(append([]string{}, verb...), "--message-format=json", "-q", "-j1"), s.args...)...)
			if want, got := compiled(t, messages), planned(g); want != got {
				t.Errorf("cargo compiled\n%sthe graph has\n%s", want, got)
			}
			if *update {
				store(t, g, root, graphName(s.dir, s.args, s.test))
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
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
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
	data, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), filepath.ToSlash(root)+"/", "/w/")
	text = strings.ReplaceAll(text, `{"pkg_id"`, "\n"+`{"pkg_id"`) + "\n"
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
