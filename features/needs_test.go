package features

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
)

const registryRoot = "/home/u/.cargo/registry/src/registry.example-1/"

// judgeStored judges a stored graph of a real project on a machine that holds just these files.
func judgeStored(t *testing.T, stored, path string, files map[string]string, env []string, r manifest.Request) *Reach {
	t.Helper()
	data := hosttest.Must(os.ReadFile("testdata/graphs/" + stored))(t)
	g := hosttest.Must(graph.Parse(bytes.NewReader(data)))(t)
	h := hosttest.Memory(files)
	h.Env = buildenv.NewEnv(buildenv.Linux, env)
	p := hosttest.Must(manifest.Load(h, path))(t)
	return judgeIn(h, Input{Project: p, Request: r, Graph: g})
}

func unitNames(a *Reach) string {
	var out []string
	for _, u := range a.Units {
		out = append(out, u.Name)
	}
	return strings.Join(out, " ")
}

const cudarcManifest = "[package]\nname = \"cudarc\"\nversion = \"0.19.10\"\n[features]\ncuda-11040 = []\ncuda-13020 = []\n" +
	"cuda-13040 = []\ndriver = []"

func TestNeedsOfCandle(t *testing.T) {
	files := map[string]string{
		"/w/candle-matmul/Cargo.toml": pkg("candle-matmul", `[features]
cuda = ["candle-core/cuda", "candle-nn/cuda"]
cudnn = ["cuda", "candle-core/cudnn", "candle-nn/cudnn"]
[dependencies]
candle-core = "=0.11.1"
candle-nn = "=0.11.1"`),
		registryRoot + "cudarc-0.19.10/Cargo.toml":     cudarcManifest,
		registryRoot + "candle-core-0.11.1/Cargo.toml": "[package]\nname = \"candle-core\"\n[features]\ncuda = [\"cudarc\", \"dep:candle-kernels\"]\ncudnn = [\"cuda\", \"cudarc/cudnn\"]\n[dependencies]\ncudarc = { version = \"1\", optional = true }\ncandle-kernels = { version = \"1\", optional = true }\n",
	}
	a := judgeStored(t, "real_candle-matmul_cudnn.json", "/w/candle-matmul/Cargo.toml", files, nil, ask("cudnn"))
	n := a.Needs
	if !n.CUDA || !n.NVCC || !n.HostCXX || !n.CUDALibs || !n.CUDNN || !needs(a, "a compute capability") || !n.EmbedsPTX ||
		n.NVCCVersion || needs(a, "CMake") {
		t.Errorf("%+v", n)
	}
	if a.Stops || len(a.Findings) != 0 {
		t.Errorf("findings %+v", a.Findings)
	}
	hosttest.Equal(t, unitNames(a), "candle-kernels cudarc", "units")
	kernels, cudarc := a.Units[0], a.Units[1]
	if want := (Inputs{NVCC: true, Host: true, Arch: true, Root: true, Env: []string{"CUDA_COMPUTE_CAP", "CUDA_HOME", "NVCC", "NVCC_CCBIN"}}); !reflect.DeepEqual(
		kernels.Inputs,
		want,
	) {
		t.Errorf("candle-kernels depends on %+v", kernels.Inputs)
	}
	if cudarc.Dir != registryRoot+"cudarc-0.19.10" || !cudarc.Inputs.NVCC || cudarc.Inputs.Host || cudarc.Inputs.Arch ||
		!cudarc.Inputs.Root ||
		!cudarc.Inputs.CUDNN {
		t.Errorf("cudarc: %+v", cudarc)
	}
	if !cudarc.Inputs.Version || a.Cudarc[0].Rootless {
		t.Errorf("cudarc only asks nvcc for its version, and links from the root: %+v, %+v", cudarc.Inputs, a.Cudarc)
	}
	if a.CudarcMax != (gpu.Version{Major: 13, Minor: 4}) || !a.Pin.IsZero() {
		t.Errorf("cudarc knows up to %s, pinned to %s", a.CudarcMax, a.Pin)
	}
	var ways []string
	for _, c := range a.Roots[0].Crates {
		ways = append(ways, way(c))
	}
	for _, w := range []string{"candle-matmul/cuda → candle-core/cuda → candle-kernels", "candle-matmul/cuda → candle-core/cuda"} {
		if !slices.Contains(ways, w) {
			t.Errorf("no %s in %q", w, ways)
		}
	}
	pinned := []string{"CUDARC_CUDA_VERSION=13020"}
	set := judgeStored(t, "real_candle-matmul_cudnn.json", "/w/candle-matmul/Cargo.toml", files, pinned, ask("cudnn"))
	if !set.CudarcMax.IsZero() || set.Units[1].Inputs.NVCC {
		t.Errorf("set by a variable, cudarc asks no nvcc: %+v", set.Cudarc)
	}
}

func TestNeedsOfOwnScript(t *testing.T) {
	files := map[string]string{
		"/w/matmul/Cargo.toml": pkg(
			"matmul",
			"[features]\ncuda = [\"dep:cudarc\"]\n[dependencies]\ncudarc = { version = \"1\", optional = true }\n",
		),
		"/w/matmul/build.rs":                       "// runs nvcc\nfn main() {\n    if std::env::var_os(\"CARGO_FEATURE_CUDA\").is_none() { return; }\n    let nvcc = std::env::var(\"NVCC\").unwrap_or(\"nvcc\".into());\n    run(nvcc, \"-ptx\", std::env::var(\"CUDA_COMPUTE_CAP\"));\n}\n",
		registryRoot + "cudarc-0.19.10/Cargo.toml": cudarcManifest,
	}
	a := judgeStored(t, "real_matmul_cuda.json", "/w/matmul/Cargo.toml", files, nil, ask("cuda"))
	n := a.Needs
	if !n.CUDA || n.NVCC || n.HostCXX || n.CUDALibs || n.Perhaps != "matmul" {
		t.Errorf("what an own script compiles is known after the build: %+v", n)
	}
	hosttest.Equal(t, unitNames(a), "matmul", "units", "cudarc with dynamic-loading and a version set depends on nothing here")
	if len(a.Findings) != 1 || a.Findings[0].ID != IDUndecided || !a.CudarcMax.IsZero() || !a.Pin.IsZero() {
		t.Errorf("%+v, %s, %s: a cudarc that opens its libraries and was set a version limits no toolkit", a.Findings, a.CudarcMax, a.Pin)
	}
	if c := a.Cudarc[0]; c.Pin != (gpu.Version{Major: 11, Minor: 4}) || c.Asks || c.Linking != "dynamic-loading" || !c.Rootless {
		t.Errorf("%+v", c)
	}
	for _, r := range a.Roots {
		if !r.Reached || len(r.Crates) != 2 {
			t.Errorf("%+v", r)
		}
	}
}

// TestRootless: which cudarc takes nothing from a toolkit's root; each of its build scripts' ways to the variables turns it off (0.19.10
// build.rs).
func TestRootless(t *testing.T) {
	for features, want := range map[string]bool{
		"driver dynamic-loading cuda-13040":                               true,
		"driver fallback-dynamic-loading cuda-12080 cudnn-09021":          true,
		"driver cuda-13040":                                               false, // a version in which that is the default is not one that was read
		"driver dynamic-linking cuda-13040 fallback-dynamic-loading":      false,
		"driver static-linking cuda-13040":                                false,
		"driver dynamic-loading cuda-version-from-build-system":           false,
		"dynamic-loading cuda-13040 nccl-version-from-build-system":       false,
		"dynamic-loading cuda-13040 cudnn-version-from-build-system":      false,
		"dynamic-loading cuda-13040 cutensor-version-from-build-system":   false,
		"dynamic-loading cuda-13040 cuda-version-from-build-system nvrtc": false,
	} {
		hosttest.Equal(t, catalog.CudarcOf(strings.Fields(features)).Rootless, want, features)
	}
}

// TestCMakeInputs: what CMake reads by itself counts for whoever runs it, and patterns stay patterns.
func TestCMakeInputs(t *testing.T) {
	c := catalog.Default()
	var s scriptFacts
	s.take(c.Crate("llama-cpp-sys-2"), "x")
	for _, want := range []string{"CUDACXX", "CUDAHOSTCXX", "CUDAARCHS", "CMAKE_*", "GGML_*", "LLAMA_STATIC_CRT"} {
		if !slices.Contains(s.env, want) {
			t.Errorf("llama-cpp-sys-2 reads no %s: %q", want, s.env)
		}
	}
	if env := c.Crate("cudarc").Env(); slices.Contains(env, "CONDA_PREFIX") || !slices.Contains(env, "CUDARC_CUDA_VERSION") {
		t.Errorf("cudarc reads %q", env)
	}
	if h := c.Crate("cudarc").Script.Headers; len(h) != 3 || h[0].File != "nccl.h" || len(h[0].Vars) != 4 || len(h[0].Dirs) != 4 {
		t.Errorf("cudarc looks for %+v", h)
	}
}

// entrenar 0.7.13's own `cuda`: a driver-only crate gets it, the siblings do not.
func TestEntrenar(t *testing.T) {
	files := map[string]string{
		"/w/entrenar/Cargo.toml": `[package]
name = "entrenar"
version = "0.7.13"
edition = "2021"
[features]
default = ["tui"]
tui = []
gpu = ["trueno/gpu", "tokio"]
cuda = ["trueno-gpu/cuda", "tokio", "realizar?/cuda"]
[dependencies]
trueno = "0.17"
trueno-gpu = { version = "0.4", optional = true }
realizar = { version = "0.8", optional = true }
aprender = "0.27"
tokio = { version = "1", optional = true }`,
		"/w/entrenar/src/lib.rs":                       "pub mod matmul;\n",
		"/w/entrenar/src/matmul.rs":                    "#[cfg(all(feature = \"realizar\", feature = \"cuda\"))]\nfn fast() {}\n",
		registryRoot + "trueno-0.17.5/Cargo.toml":      "[package]\nname = \"trueno\"\n[features]\ncuda = []\ngpu = []\n",
		registryRoot + "trueno-0.17.5/src/lib.rs":      "#[cfg(feature = \"cuda\")]\nmod monitor;\n",
		registryRoot + "aprender-0.27.8/Cargo.toml":    "[package]\nname = \"aprender\"\n[features]\ncuda = [\"trueno/cuda-monitor\"]\n",
		registryRoot + "trueno-gpu-0.4.36/Cargo.toml":  "[package]\nname = \"trueno-gpu\"\n[features]\ncuda = []\n",
		registryRoot + "aprender-0.27.8/src/lib.rs":    "",
		registryRoot + "trueno-gpu-0.4.36/src/lib.rs":  "",
		registryRoot + "trueno-quant-0.1.0/src/lib.rs": "",
		registryRoot + "trueno-quant-0.1.0/Cargo.toml": "[package]\nname = \"trueno-quant\"\n",
		registryRoot + "trueno-0.14.6/Cargo.toml":      "[package]\nname = \"trueno\"\n[features]\ncuda = []\n",
	}
	a := judgeStored(t, "entrenar.json", "/w/entrenar/Cargo.toml", files, nil, ask("cuda"))
	if a.Stops || !a.Needs.CUDA || a.Needs.NVCC || len(a.Units) != 0 {
		t.Errorf("stops %v, needs %+v, units %s", a.Stops, a.Needs, unitNames(a))
	}
	on := map[string]bool{}
	for _, c := range a.Roots[0].Crates {
		on[c.Name] = c.On
	}
	if want := map[string]bool{"entrenar": true, "trueno-gpu": true, "trueno": false, "aprender": false}; !reflect.DeepEqual(on, want) {
		t.Errorf("crates %v", on)
	}
	for _, c := range a.Roots[0].Crates {
		if c.Name == "trueno-gpu" && way(c) != "entrenar/cuda → trueno-gpu/cuda" {
			t.Errorf("way %s", way(c))
		}
	}
}

// TestUnknown: without a unit graph nothing is judged, the reason is said, and what the build needs is what manifests show.
func TestUnknown(t *testing.T) {
	h := hosttest.Memory(map[string]string{"/w/a/Cargo.toml": pkg("a", "[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.9\"\n")})
	p := hosttest.Must(manifest.Load(h, "/w/a/Cargo.toml"))(t)
	a := judgeIn(h, Input{Project: p, Request: ask("cuda"), Unknown: "an old cargo"})
	if a.Unknown != "an old cargo" || len(a.Roots)+len(a.Units) > 0 || !a.Needs.CUDA || a.Stops {
		t.Errorf("%+v", a)
	}
	if len(a.Findings) != 1 || a.Findings[0].ID != IDUnknown || !strings.Contains(a.Findings[0].Message, "an old cargo") {
		t.Errorf("%+v", a.Findings)
	}
	if a := judgeIn(h, Input{Project: p}); len(a.Findings) != 1 || a.Findings[0].ID != IDUnknown {
		t.Errorf("judged without any answer of cargo's: %+v", a.Findings)
	}
}

// TestFloors: a floor holds for sources whose text shows it.
func TestFloors(t *testing.T) {
	c := catalog.Default()
	const shim = "__device__ __forceinline__ __half __hmax_nan(__half a, __half b) {\n"
	for _, tt := range []struct{ story, file, text, want string }{
		{"candle 0.11.0", "src/compatibility.cuh", "#if __CUDA_ARCH__ < 800\n" + shim, "8.0 since 12.2 until unknown"},
		{"candle 0.11.1", "src/compatibility.cuh", "#if CANDLE_CUDA_VERSION < 12020 && __CUDA_ARCH__ < 800\n" + shim, ""},
		{"candle 0.9.1", "src/compatibility.cuh", "#if (__CUDACC_VER_MAJOR__ < 12 || __CUDACC_VER_MINOR__ < 2) && __CUDA_ARCH__ < 800\n" + shim,
			"8.0 since 13.0 until 13.1"},
		{"candle 0.9.2", "build.rs", `"src/moe/moe_wmma.cu"`, "8.0 since unknown until unknown"},
		{"candle 0.10.2", "build.rs", `"src/moe/moe_wmma.cu" "-DNO_BF16_KERNEL"`, ""},
	} {
		got := ""
		for _, f := range c.Crate("candle-kernels").Floors {
			if f.File == tt.file && f.AppliesTo(tt.text) {
				got += fmt.Sprintf("%s since %s until %s", f.Arch, f.Since, f.Until)
			}
		}
		hosttest.Equal(t, got, tt.want, tt.story, "floor")
	}
}

// way is how a request turned a crate on.
func way(c CrateState) string {
	var out []string
	for _, s := range c.Steps {
		out = append(out, s.Text)
	}
	return strings.Join(out, " → ")
}

// TestArchives: where a crate downloads a library and there is none with CUDA for the target, the build computes on the CPU, whatever its
// features say, unless the user names a library or another GPU may be meant.
func TestArchives(t *testing.T) {
	t.Parallel()
	const linux, arm, mac = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"
	const cpu = "error by-file-cpu: ORT_LIB_LOCATION names a library of your own ~ the library that ort-sys downloads does; " +
		"ort-sys 2.0.0-rc.11 has nothing to download with CUDA for "
	for _, tt := range []struct{ story, host, target, env, feats, always, want string }{
		{"there is one", linux, "", "", "", "", ""},
		{"there is one for the target", arm, linux, "", "", "", ""},
		{"nobody knows the target", "", "", "", "", "", ""},
		{"none for this machine", arm, "", "", "", "", cpu + arm},
		{"none for the target", linux, "x86_64-pc-windows-gnu", "", "", "", cpu + "x86_64-pc-windows-gnu"},
		{"the user's library", arm, "", "ORT_LIB_LOCATION=/opt/ort", "", "", ""},
		{"a library of the system's", arm, "", "", ",pkg-config", "", ""},
		{"CoreML is on, too", mac, "", "", ",coreml", "", "warning no-archive: *"},
		{"nobody asks for CUDA", mac, "", "", "", "yes", "warning no-archive: *"},
		{"rc.10 asks pkg-config of this machine first", arm, "", "", ",rc.10", "", "warning no-archive: *"},
		{"and not for another one", linux, arm, "", ",rc.10", "", "error by-file-cpu: *"},
	} {
		feats, ten := strings.CutSuffix(tt.feats, ",rc.10")
		b := build{story: tt.story, env: strings.Fields(tt.env), host: tt.host, target: tt.target, ask: "cuda", on: "-",
			files: appOf + "[features]\ncuda = [\"ort/cuda\"]\n[dependencies]\nort = \"2.0.0-rc.11\"",
			units: "app cuda -> ort@2.0.0-rc.11 ort-sys@2.0.0-rc.11\nort@2.0.0-rc.11 cuda" + feats +
				" -> ort-sys@2.0.0-rc.11\nort-sys@2.0.0-rc.11 cuda,download-binaries" + feats}
		if ten {
			b.files, b.units = strings.ReplaceAll(b.files, "rc.11", "rc.10"), strings.ReplaceAll(b.units, "rc.11", "rc.10")
		}
		if tt.always != "" {
			b.ask, b.units = "", strings.Replace(b.units, "app cuda", "app", 1)
		}
		if tt.want != "" {
			b.want = []string{tt.want}
		}
		stops := strings.HasPrefix(tt.want, "error")
		if a := b.check(t); a.Stops != stops || a.Roots[0].Reached != (!stops && tt.always == "") || strings.HasPrefix(tt.want, "warning") != (len(a.NoArchive) > 0) {
			t.Errorf("%s: stops %v, reached %v, %q", tt.story, a.Stops, a.Roots[0].Reached, a.NoArchive)
		}
	}
	for env, want := range map[string]string{"": "error by-file-cpu: SHERPA_ONNX_LIB_DIR names*", "SHERPA_ONNX_LIB_DIR=/s": "note by-file: "} {
		build{story: "sherpa-onnx " + env, env: strings.Fields(env), host: linux, ask: "cuda", on: "-", want: []string{want},
			files: appOf + "[features]\ncuda = []\n[dependencies]\nsherpa-onnx-sys = \"2\"",
			units: "app cuda -> sherpa-onnx-sys@2.0.1\nsherpa-onnx-sys@2.0.1"}.check(t)
	}
}
