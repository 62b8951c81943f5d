package features

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/catalog"
	"gpubuild/features/source"
	"gpubuild/gpu"
)

// TestPartsLeftOff: where CUDA is on and cuDNN was asked for, the crate that has cuDNN off is named; without CUDA that is said first. So is
// NCCL, where the feature enables nothing.
func TestPartsLeftOff(t *testing.T) {
	const off = "`cudnn` of app does not enable `cudnn` of candle-core 0.11.1"
	const noNCCL = "`nccl` of app does not enable `nccl` of candle-core 0.11.1"
	for _, tt := range []struct{ ask, enables, on, want string }{
		{"cudnn", `"cuda"`, "cuda", off},
		{"cudnn", `"cuda"`, "cuda,cudnn", ""},
		{"cudnn", `"cuda"`, "", "`cudnn`"},
		{"nccl", "", "cuda", noNCCL},
		{"nccl", "", "cuda,nccl", ""},
		{"nccl", `"cuda"`, "cuda", ""},
		{"nccl", "", "", "`nccl` and `cuda` of app do not enable"},
		{"flash-attn", "", "cuda", ""}, // candle-core has none
	} {
		h, in := build{files: appOf + "[features]\ncuda = [\"candle-core/cuda\"]\n" + tt.ask + " = [" + tt.enables + "]\n[dependencies]\n" +
			"candle-core = \"0.11\"" + strings.Replace(core, "[features]", "[features]\nnccl = []", 1),
			units: "app " + tt.ask + ",cuda -> candle-core@0.11.1\ncandle-core@0.11.1 " + tt.on, ask: "cuda," + tt.ask}.input(t)
		a := judgeIn(h, in)
		if found := len(a.Findings) > 0 && strings.Contains(a.Findings[0].Message, tt.want); found != (tt.want != "") || tt.on == "cuda" && a.Stops {
			t.Errorf("%+v: %+v", tt, a.Findings)
		}
		if empty := slices.Contains(a.Roots[0].Ineffective, tt.ask); empty != (tt.enables == "" || tt.on == "") {
			t.Errorf("%+v: without effect: %q", tt, a.Roots[0].Ineffective)
		}
	}
}

// TestLibtorch: tch has no feature for CUDA, so the libtorch that torch-sys will find is looked for in its order.
func TestLibtorch(t *testing.T) {
	t.Parallel()
	const download, cpu, system = "download-libtorch", "\n=== /t/lib/libtorch_cpu.so\nx", "\n=== /usr/lib/libtorch.so\nx"
	for _, tt := range []struct{ story, files, env, feats, want string }{
		{"nothing named", "", "", "", "note by-file:  ~ no libtorch is named"},
		{"downloaded without a word", "", "", download, "error by-file-cpu: TORCH_CUDA_VERSION=cu128 ~ the libtorch for the CPU is downloaded"},
		{"downloaded for CUDA", "", "TORCH_CUDA_VERSION=cu128", download, "note by-file:  ~ for cu128 is downloaded"},
		{"a libtorch with CUDA", cpu + "\n=== /t/lib/libtorch_cuda.so\nx", "LIBTORCH=/t", "",
			"note by-file:  ~ /t/lib holds a libtorch with CUDA"},
		{"a libtorch without CUDA", cpu, "LIBTORCH=/t", download,
			"error by-file-cpu: LIBTORCH=a libtorch built for CUDA ~ holds a libtorch without CUDA"},
		{"LIBTORCH_LIB goes before LIBTORCH", cpu + "\n=== /u/lib/libtorch_cuda.so\nx", "LIBTORCH=/t LIBTORCH_LIB=/u", "",
			"note by-file:  ~ /u/lib holds a libtorch with CUDA"},
		{"the system's", system, "", download, "error by-file-cpu: LIBTORCH=a libtorch built for CUDA ~ /usr/lib holds a libtorch without CUDA"},
		{"an empty directory says nothing", "", "LIBTORCH=/t", "", "note by-file:  ~ holds no libtorch"},
		{"PyTorch decides", cpu, "LIBTORCH_USE_PYTORCH=1 LIBTORCH=/t", "", "note by-file:  ~ python3"},
		{"cargo's configuration names it", "\n=== .cargo/config.toml\n[env]\nTORCH_CUDA_VERSION = \"cu128\"", "", download,
			"note by-file:  ~ [env]"},
		{"cargo's configuration names another one than the system's", system + "\n=== .cargo/config.toml\n[env]\nLIBTORCH = \"/t\"", "", download,
			"note by-file:  ~ [env]"},
		{"documentation only", "", "", "doc-only", "note by-file:  ~ no libtorch is linked"},
	} {
		b := build{story: tt.story, files: appOf + "[features]\ncuda = []\n[dependencies]\ntch = \"0.26\"\n" + tt.files,
			env: strings.Fields(tt.env), on: "-",
			units: "app cuda -> tch@0.26.0 torch-sys@0.26.0\ntch@0.26.0\ntorch-sys@0.26.0 " + tt.feats, ask: "cuda", want: []string{tt.want}}
		if a := b.check(t); a.Stops != strings.HasPrefix(tt.want, Error) {
			t.Errorf("%s: stops %v", tt.story, a.Stops)
		}
		b.lint, b.want = true, []string{"note by-file:  ~ libtorch_cuda.so (torch_cuda.dll)"} // the manifests do not say which
		b.check(t)
		b.lint, b.units, b.ask, b.want = false, strings.Replace(b.units, "app cuda", "app", 1), "", nil // nothing is asked
		b.check(t)
	}
}

// TestLoads: up to rc.12 an ort with load-dynamic uses CUDA if the library that it opens has it, and its feature decides in later ones.
func TestLoads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ version, feats, sys, want string }{
		{"rc.4", "load-dynamic", "load-dynamic", "note by-file:  ~ ORT_DYLIB_PATH"},
		{"rc.12", "load-dynamic", "disable-linking", "note by-file:  ~ ORT_DYLIB_PATH"},
		{"rc.12", "", "", `error unreached: cuda = ["ort/cuda"]`},
		{"rc.15", "load-dynamic", "disable-linking", `error unreached: cuda = ["ort/cuda"]`},
	} {
		build{story: tt.version + " " + tt.feats, on: "-", ask: "cuda", want: []string{tt.want},
			files: appOf + "[features]\ncuda = []\n[dependencies]\nort = \"2\"\n=== ort@2.0.0-" + tt.version +
				"\n[features]\ncuda = [\"ort-sys/cuda\"]\n[dependencies]\nort-sys = \"2\"\n=== ort-sys@2.0.0-" + tt.version + "\n[features]\ncuda = []",
			units: strings.ReplaceAll("app cuda -> ort@V\nort@V "+tt.feats+" -> ort-sys@V\nort-sys@V "+tt.sys, "V", "2.0.0-"+tt.version)}.check(t)
	}
}

// TestEndsNowhere: where the shortest way to a crate ends, and the edge to another crate turns it on, too, no maintainer is asked for anything.
func TestEndsNowhere(t *testing.T) {
	t.Parallel()
	h, in := build{files: appOf + "[features]\ncuda = []\n[dependencies]\nslow = \"1\"\ncandle-nn = \"0.11\"" + core +
		"\n=== candle-nn@0.11.1\n[features]\ncuda = [\"mid/cuda\"]\n[dependencies]\nmid = \"1\"\n=== mid@1.0.0\n[features]\n" +
		"cuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.11\"\n=== slow@1.0.0\n[dependencies]\ncandle-core = \"0.11\"",
		units: "app cuda -> slow@1.0.0 candle-nn@0.11.1\nslow@1.0.0 -> candle-core@0.11.1\ncandle-nn@0.11.1 -> mid@1.0.0\n" +
			"mid@1.0.0 -> candle-core@0.11.1\ncandle-core@0.11.1", ask: "cuda"}.input(t)
	if f := judgeIn(h, in).Findings[0]; strings.Contains(f.Message, "ends in") || f.Fix != `cuda = ["candle-nn/cuda"]` {
		t.Errorf("%s: %s", f.Message, f.Fix)
	}
}

// mistralrs-quant 0.8.1 carries cudarc's old list of versions and stops with a newer nvcc, whatever CUDARC_CUDA_VERSION says.
func TestNewestCUDAThatScriptsKnow(t *testing.T) {
	list := "fn main() {\n    match v {\n        \"13.2\" => (13, 2),\n        \"12.10\" => (12, 10),\n        \"9.9\" => (9, 9),\n        v => panic!(\"Unsupported cuda toolkit version: `{v}`. Please raise a github issue.\"),\n    }\n}\n"
	hosttest.Equal(t, source.NewestKnown(list), (gpu.Version{Major: 13, Minor: 2}), "newest")
	if got := source.NewestKnown(strings.ReplaceAll(list, "Unsupported", "Odd")); !got.IsZero() {
		t.Errorf("a list that stops nothing: %s", got)
	}
	a := build{story: "mistralrs", files: appOf + "[features]\ncuda = [\"mistralrs-quant/cuda\"]\n[dependencies]\nmistralrs-quant = \"0.8\"\n" +
		"=== mistralrs-quant@0.8.1\n[features]\ncuda = []\n=== mistralrs-quant@0.8.1/build.rs\n" + list, on: "mistralrs-quant", ask: "cuda",
		env:   []string{"CUDARC_CUDA_VERSION=13040"},
		units: "app cuda -> mistralrs-quant@0.8.1\nmistralrs-quant@0.8.1 cuda -> mistralrs-quant@0.8.1:run\nmistralrs-quant@0.8.1:run cuda"}.check(t)
	if a.CudarcMax != (gpu.Version{Major: 13, Minor: 2}) || a.MaxBy != "mistralrs-quant 0.8.1" {
		t.Errorf("at most %s by %q", a.CudarcMax, a.MaxBy)
	}
}

func needs(a *Reach, what string) bool {
	return slices.ContainsFunc(a.Needs.Because, func(r NeedReason) bool { return r.Need == what })
}

// Other GPUs are named for what they are, and ask for what they need.
func TestOtherBackends(t *testing.T) {
	judge := func(crate, feats string) *Reach {
		h, in := build{files: appOf + "[dependencies]", units: "app -> " + crate + "\n" + crate + " " + feats}.input(t)
		return judgeIn(h, in)
	}
	for _, tt := range []struct {
		feats, backends string
		on              bool
		needs           string
	}{
		{"", "cuda", false, "CMake a C++ compiler libclang"},
		{"vulkan", "vulkan", true, "CMake a C++ compiler libclang Vulkan SDK"},
		{"hipblas", "rocm", true, "CMake a C++ compiler libclang ROCm"},
		{"cuda", "cuda", true, "cuda CMake a C++ compiler libclang"},
		{"cuda,vulkan", "cuda,vulkan", true, "cuda CMake a C++ compiler libclang Vulkan SDK"},
	} {
		a := judge("whisper-rs-sys@0.15.0", tt.feats)
		var got []string
		for _, n := range a.Needs.Because {
			got = append(got, n.Need)
		}
		if c := a.Roots[0].Crates[1]; c.Backend != tt.backends || c.On != tt.on || strings.Join(got, " ") != tt.needs {
			t.Errorf("%s: %+v needs %q", tt.feats, c, got)
		}
	}
	for feats, want := range map[string]bool{"": false, "download-binaries": true, "download-binaries,disable-linking": false} {
		if a := judge("ort-sys@2.0.0-rc.15", feats); needs(a, "network") != want {
			t.Errorf("ort-sys with %q: network %v", feats, !want)
		}
	}
	for feats, want := range map[string]string{
		"cuda":              "cublas_v2.h libcublas libcublasLt_static.a libcublas_static.a libculibos.a",
		"cuda,dynamic-link": "cublas_v2.h libcublas", "vulkan": "",
	} {
		a := judge("llama-cpp-sys-2@0.1.161", feats)
		hosttest.Equal(t, strings.Join(slices.Sorted(slices.Values(a.Needs.Files)), " "), want, "llama-cpp-sys-2 with", feats, "files")
	}
	archive := func(name, version, feats string) *catalog.Archive {
		return catalog.Default().Crate(name).Archive(version, strings.Split(feats, ","))
	}
	if archive("sherpa-rs-sys", "0.6.8", "cuda,download-binaries") == nil || archive("sherpa-rs-sys", "0.6.8", "cuda") != nil {
		t.Error("sherpa-rs-sys downloads libraries for the CPU whether cuda is on or not")
	}
	for version, want := range map[string]string{"rc.9": "", "rc.10": "12 [x86_64-unknown-linux-gnu x86_64-pc-windows-msvc]",
		"rc.12": "12 [x86_64-unknown-linux-gnu x86_64-pc-windows-msvc]", "rc.15": "13 [x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-pc-windows-msvc]"} {
		a, got := judge("ort-sys@2.0.0-"+version, "cuda,download-binaries"), ""
		if d := archive("ort-sys", "2.0.0-"+version, "cuda,download-binaries"); d != nil {
			got = fmt.Sprint(d.CUDA, d.Targets)
		}
		hosttest.Equal(t, got, want, version)
		at := slices.IndexFunc(a.Needs.Run, func(r NeedReason) bool { return r.Need == "libcudart" })
		hosttest.Equal(t, fmt.Sprint(a.Needs.Run[at].Major), cmp.Or(strings.Fields(want + " 0")[0], "0"), version)
		for _, none := range []string{"cuda", "download-binaries", "cuda,download-binaries,disable-linking"} {
			hosttest.Equal(t, archive("ort-sys", "2.0.0-"+version, none) == nil, true, version, none)
		}
	}
	if !judge("ort-sys@2.0.0-rc.15", "tensorrt").Roots[0].Reached {
		t.Error("tensorrt takes ONNX Runtime's CUDA archive")
	}
}

// TestCatalogSources: whatever is claimed of a crate is claimed of a version, and says where it was read.
func TestCatalogSources(t *testing.T) {
	known := strings.Fields("nvcc host_cxx cuda_headers_or_libs cudnn_headers_or_libs cmake libclang capnp libtorch rocm network " +
		"gpu_visible_or_env nothing_but_rust cxx vulkan_sdk")
	for _, k := range catalog.Default().Crates {
		if len(k.Sources) == 0 || k.SeenVersion == "" {
			t.Errorf("%s: no source or no version", k.Name)
		}
		all := append(slices.Clone(k.BuildNeeds), k.AlwaysNeeds...)
		for _, l := range k.FeatureNeeds {
			all = append(all, l...)
		}
		for _, n := range all {
			if !slices.Contains(known, n) {
				t.Errorf("%s: needs %s, which nobody reads", k.Name, n)
			}
		}
	}
}
