package catalog

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestCudarcFeatures: what the features of a cudarc mean (0.19.10 build.rs and Cargo.toml).
func TestCudarcFeatures(t *testing.T) {
	t.Parallel()
	for feature, want := range map[string]string{"cuda-13040": "13.4", "cuda-12080": "12.8", "cuda-11040": "11.4", "cuda-1304": "", "cuda-130400": "", "cuda-abcde": "", "cuda": "", "cudnn-13040": "", "13040": ""} {
		got := ""
		if v, ok := CudarcVersion(feature); ok {
			got = v.String()
		}
		hosttest.Equal(t, got, want, feature)
	}
	for _, tt := range []struct{ features, pin, rest string }{
		{"", "unknown", "dynamic-loading [] asks=false latest=false: when they are first used"},
		{"cuda-12080,driver", "12.8", "dynamic-loading [cuda-12080] asks=false latest=false: when they are first used"},
		{"cuda-12080,cuda-13040,cuda-11040", "13.4", "dynamic-loading [cuda-12080 cuda-13040 cuda-11040] asks=false latest=false: when they are first used"},
		{"cuda-version-from-build-system", "unknown", "dynamic-loading [] asks=true latest=false: when they are first used"},
		{"cuda-version-from-build-system,cuda-12080", "12.8", "dynamic-loading [cuda-12080] asks=false latest=false: when they are first used"},
		{"cuda-version-from-build-system,fallback-latest", "unknown", "dynamic-loading [] asks=true latest=true: when they are first used"},
		{"dynamic-linking", "unknown", "dynamic-linking [] asks=false latest=false: to start"},
		{"static-linking", "unknown", "static-linking [] asks=false latest=false: built in, but for the driver"},
	} {
		c := CudarcOf(strings.Split(tt.features, ","))
		if got := fmt.Sprintf("%s %v asks=%v latest=%v: %s", c.Linking, c.Pins, c.Asks, c.Latest, c.How()); got != tt.rest || c.Pin.String() != tt.pin {
			t.Errorf("%s: %s pin %s", tt.features, got, c.Pin)
		}
	}
}

// TestCrates: what a catalog says of crates with features.
func TestCrates(t *testing.T) {
	t.Parallel()
	c := hosttest.Must(parseCatalog(`schema = 1
[[crate]]
name = "gated"
backend = "cuda"
role = "gated"
forked = true
cuda_features = ["cuda", "_cuda"]
backends = { metal = "metal", accel = "metal", vk = "vulkan" }
build_needs = ["nvcc"]
always_needs = ["cmake"]
feature_needs = { cuda = ["cmake", "libclang"], net = ["network"] }
idle_with = ["docs"]
run_needs = ["libcudart"]
run_libraries = [["cudnn*", "libcudnn"], ["nccl", "libnccl"]]
[crate.build_script]
env_declared_rerun = ["B", "A"]
env_read_not_declared = ["A", "C"]
[[crate]]
name = "carrier"
backend = "cuda"
role = "carrier"
[[crate]]
name = "other"
backend = "wgpu"
role = "carrier"
[[crate]]
name = "monitor"
backend = "none"
role = "monitor"
cuda_features = ["cuda"]
[[crate]]
name = "file"
backend = "libtorch"
role = "file"
[[crate]]
name = "helper"
backend = "cuda"
role = "helper"
build_needs = ["nvcc"]
[[crate]]
name = "plain-helper"
backend = "none"
role = "helper"
[[crate]]
name = "friend"
backend = "none"
role = "false-friend"
cuda_features = ["cuda"]
`))(t)
	for _, tt := range []struct{ name, features, want string }{
		{"gated", "", "cuda brings off [] needs [cmake] opens [libcudart]"}, {"gated", "cuda", "cuda brings on [] needs [cmake libclang] opens [libcudart]"}, {"gated", "x,_cuda", "cuda brings on [] needs [cmake] opens [libcudart]"},
		{"gated", "vk,metal,accel", "cuda brings off [metal vulkan] needs [cmake] opens [libcudart]"}, {"gated", "net", "cuda brings off [] needs [cmake network] opens [libcudart]"},
		{"gated", "cuda,docs", "cuda brings on [] needs [] opens []"}, {"gated", "cudnn-9,nccl", "cuda brings off [] needs [cmake] opens [libcudart libcudnn libnccl]"}, {"gated", "nccl-2", "cuda brings off [] needs [cmake] opens [libcudart]"},
		{"gated-fork", "cuda", "cuda brings on [] needs [cmake libclang] opens [libcudart]"}, {"gatedfork", "", "none"}, {"carrier-fork", "", "none"},
		{"carrier", "", "cuda brings on [] needs [] opens []"}, {"other", "", "on [] needs [] opens []"}, {"monitor", "cuda", "on [] needs [] opens []"}, {"monitor", "", "off [] needs [] opens []"},
		{"file", "", "brings off [] needs [] opens []"}, {"helper", "", "brings off [] needs [] opens []"}, {"plain-helper", "", "off [] needs [] opens []"}, {"friend", "cuda", "off [] needs [] opens []"},
	} {
		k, got := c.Crate(tt.name), "none"
		if k != nil {
			feats := strings.FieldsFunc(tt.features, func(c rune) bool { return c == ',' })
			got = map[bool]string{true: "cuda "}[k.CUDA()] + map[bool]string{true: "brings "}[k.BringsCUDA()] + map[bool]string{true: "on", false: "off"}[k.On(feats)] +
				fmt.Sprintf(" %v needs %v opens %v", k.Other(feats), k.Also(feats), k.Opens(feats))
		}
		hosttest.Equal(t, got, tt.want, tt.name, tt.features)
	}
	if env := c.Crate("gated").Env(); fmt.Sprint(env) != "[A B C]" || c.Crate("carrier").Env() != nil {
		t.Errorf("variables: %v", env)
	}
	more := c.With(Crate{Name: "mine", Backend: "cuda", Role: Carrier})
	if !more.Crate("mine").CUDA() || c.Crate("mine") != nil || more.Crate("gated") == nil {
		t.Error("With adds to a copy")
	}
	if _, err := parseCatalog("schema = [\n"); err == nil {
		t.Error("no TOML went unnoticed")
	}
	for _, tt := range []struct {
		f    Floor
		text string
		want bool
	}{{Floor{}, "", true}, {Floor{File: "a", Has: "x"}, "", false}, {Floor{File: "a", Has: "x"}, "x", true}, {Floor{File: "a", Has: "x"}, "y", false}, {Floor{File: "a", Has: "x", Lacks: "y"}, "x", true}, {Floor{File: "a", Has: "x", Lacks: "y"}, "xy", false}} {
		hosttest.Equal(t, tt.f.AppliesTo(tt.text), tt.want, tt.f, tt.text)
	}
}

// TestNVIDIAsOwnRust: what the crates of NVIDIA/cuda-rust are.
func TestNVIDIAsOwnRust(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"cuda-bindings":  "binding needs [cuda_headers_or_libs libclang] files [cuda.h curand.h] reads [CUDA_HOME CUDA_TOOLKIT_PATH CUDA_TOOLKIT_TARGET_DIR CUTILE_SETUP_DIAGNOSTICS]",
		"cuda-core":      "binding needs [] files [] reads []",
		"cuda-async":     "binding needs [] files [] reads []",
		"cuda-device":    "carrier needs [] files [] reads [CUDA_OXIDE_DEVICE_ARCH CUDA_OXIDE_TARGET]",
		"cuda-host":      "carrier needs [] files [] reads []",
		"libnvvm-sys":    "binding needs [] files [] reads []",
		"nvjitlink-sys":  "binding needs [] files [] reads []",
		"cutile":         "carrier needs [] files [tileiras] reads []",
		"cutile-kernels": "carrier needs [] files [] reads []",
	} {
		c := Default().Crate(name)
		if c == nil || !c.CUDA() {
			t.Errorf("%s is no CUDA crate of the catalog", name)
			continue
		}
		files := []string{}
		for _, f := range c.Files {
			files = append(files, f.Names...)
		}
		hosttest.Equal(t, fmt.Sprintf("%s needs %v files %v reads %v", c.Role, c.BuildNeeds, files, c.Env()), want, name)
	}
}

func TestCatalog(t *testing.T) {
	c := Default()
	for i := range c.Crates {
		e := &c.Crates[i]
		hosttest.Equal(t, c.Crate(e.Name), e, e.Name, "stands twice")
		if len(e.Sources) == 0 || e.Backend == "" || strings.ContainsAny(e.Name, " ()") {
			t.Errorf("%s: %+v", e.Name, e)
		}
		switch e.Role {
		case Carrier, Binding, Gated, Monitor, ByFile, Helper, FalseFriend:
		default:
			t.Errorf("%s: role %q", e.Name, e.Role)
		}
		if e.Role == Gated && len(e.CUDAFeatures) == 0 {
			t.Errorf("%s is gated by nothing", e.Name)
		}
		if l := e.Loads; e.Role == ByFile && e.Notes == "" || l != nil && (l.Notes == "" || len(l.Features) == 0 || len(l.Versions) == 0 || len(l.Sources) == 0) {
			t.Errorf("%s: what decides is not said: %+v", e.Name, l)
		}
		for _, a := range e.Archives {
			if len(a.Versions) == 0 || (a.Feature == "") != (e.Role == ByFile) || a.Else == "" || a.Instead == "" && len(a.Unless) == 0 || len(a.Sources) == 0 {
				t.Errorf("%s: archive %+v", e.Name, a)
			}
		}
		for _, f := range e.Floors {
			if f.Arch.IsZero() || f.Why == "" || len(f.Sources) == 0 || (f.File == "") != (f.Has == "") {
				t.Errorf("%s: floor %+v", e.Name, f)
			}
			f.AppliesTo("x") // panics where a pattern is none
		}
		for _, name := range e.Env() {
			if !regexp.MustCompile(`^[A-Z][A-Z0-9_]*\*?$`).MatchString(name) || name == "PATH" || name == "OUT_DIR" || strings.HasPrefix(name, "CARGO_") {
				t.Errorf("%s: %q is no variable that is recorded", e.Name, name)
			}
		}
		for f := range e.Lost {
			if _, ok := e.Features[f]; !ok {
				t.Errorf("%s loses something without %s, which it has not", e.Name, f)
			}
		}
	}
	if got := c.Crate("candle-kernels").Env(); !reflect.DeepEqual(got, []string{"CUDA_COMPUTE_CAP", "CUDA_HOME", "NVCC", "NVCC_CCBIN"}) {
		t.Errorf("variables of candle-kernels: %v", got)
	}
	if c.Crate("serde") != nil || c.Crate("serde").CUDA() {
		t.Error("a crate that nobody listed")
	}
	if _, err := parseCatalog("schema = 1\nunknown = 2\n"); err == nil {
		t.Error("an unknown key went unnoticed")
	}
}
