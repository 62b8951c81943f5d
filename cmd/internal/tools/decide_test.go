package tools

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/rocm"
)

// TestNeedsOf: each thing that the crates ask for is asked of the toolchain, and nothing else.
func TestNeedsOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from features.Needs
		want toolchain.Needs
	}{
		{features.Needs{NVCC: true}, toolchain.Needs{NVCC: true}}, {features.Needs{NVCCVersion: true}, toolchain.Needs{NVCCVersion: true}},
		{features.Needs{HostCXX: true}, toolchain.Needs{HostCompiler: true}}, {features.Needs{CUDALibs: true}, toolchain.Needs{Libraries: true}},
		{features.Needs{CUDNN: true}, toolchain.Needs{CUDNN: true}}, {features.Needs{EmbedsPTX: true}, toolchain.Needs{EmbedsPTX: true}},
		{features.Needs{CUDA: true}, toolchain.Needs{CUDA: true}}, {features.Needs{ROCm: true}, toolchain.Needs{ROCm: true}},
		{features.Needs{Run: []features.NeedReason{{Need: "libcublas", Why: "to start"}, {Need: "libnccl", Why: "to start"}, {Need: "libcufft", Why: "when they are first used"}}},
			toolchain.Needs{Links: []string{"libcublas"}}},
		{features.Needs{Because: []features.NeedReason{{Need: "nvcc", Crate: "k", Why: "kernels"}, {Need: "x", Crate: "y"}}},
			toolchain.Needs{Because: []string{"nvcc: k (kernels)", "x: y"}}},
	} {
		if got := NeedsOf(&features.Reach{Needs: tt.from}); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
			t.Errorf("%+v: %+v", tt.from, got)
		}
	}
	got := NeedsOf(&features.Reach{CudarcMax: gpu.Version{Major: 12}, MaxBy: "cudarc 0.16.1", Pin: gpu.Version{Major: 13}})
	if got.MaxBy != "cudarc" || got.CudarcMax.Major != 12 || got.Pin.Major != 13 {
		t.Errorf("%+v", got)
	}
}

// TestReaders: who reads the variables that we may set, by cargo's graph and by the texts of build scripts; nil: not known.
func TestReaders(t *testing.T) {
	t.Parallel()
	of := func(names ...string) session.Graph {
		g := &graph.Graph{}
		for _, name := range names {
			g.Units = append(g.Units, graph.Unit{PkgID: "registry+https://host.example/index#" + name + "@1.0.0"})
		}
		return session.Graph{Units: g}
	}
	env := []features.ScriptUnit{{Inputs: features.Inputs{Env: []string{"CUDA_HOME"}}}}
	for _, tt := range []struct {
		story string
		g     session.Graph
		reach features.Reach
		want  string
	}{
		{"no graph", session.Graph{}, features.Reach{Units: env}, "nil"},
		{"nobody", of("serde"), features.Reach{}, ""},
		{"a script", of("serde"), features.Reach{Units: env}, "CUDA_HOME"},
		{"helpers", of("cmake", "bindgen_cuda", "cudaforge", "cuda-bindings"), features.Reach{}, "bindgen_cuda cmake cuda-bindings cudaforge"},
		{"another name of one", of("find_cuda_helper"), features.Reach{}, "cust_raw"},
		{"cudarc, of which nothing is known", of("cudarc"), features.Reach{}, "cudarc"},
		{"one that takes nothing of a root", of("cudarc"), features.Reach{Cudarc: []catalog.Cudarc{{Rootless: true}}}, ""},
		{"one that passes CXX to nvcc", of("cc"), features.Reach{Units: []features.ScriptUnit{{Inputs: features.Inputs{PassesCXX: true}}}}, "cc"},
		{"two, of which one takes something", of("cudarc"), features.Reach{Cudarc: []catalog.Cudarc{{Rootless: true}, {}}}, "cudarc"},
	} {
		got := Readers(tt.g, &tt.reach)
		if text := strings.Join(got, " "); (got == nil) != (tt.want == "nil") || got != nil && text != tt.want {
			t.Errorf("%s: %q, want %q", tt.story, got, tt.want)
		}
	}
}

// TestCommands: a hint repeats the flags of `stale` for the two commands that remove what it found.
func TestCommands(t *testing.T) {
	t.Parallel()
	line := func(words string) cargo.Line {
		l, _ := hosttest.Must2(cargo.Split(strings.Fields(words), nil))(t)
		return l
	}
	hosttest.Equal(t, (Options{}).Commands("", line("build")), "", "without flags")
	o := Options{Toolkit: "13.4", Arch: "90", CCBin: "gcc-12", Backend: "cuda", TrustProject: true}
	const want = "; with the same flags:\n      gpubuild build --features cuda --gpu-toolkit=13.4 --gpu-arch=90 --gpu-ccbin=gcc-12 --gpu-backend=cuda --gpu-trust-project\n" +
		"      gpubuild stale --clean --features cuda --toolkit=13.4 --arch=90 --ccbin=gcc-12 --backend=cuda --trust-project"
	hosttest.Equal(t, o.Commands("", line("build --features cuda")), want)
}

// TestCompilesIn: nvcc runs where cargo runs the scripts that call it.
func TestCompilesIn(t *testing.T) {
	t.Parallel()
	unit := func(dir string, nvcc bool) features.ScriptUnit {
		return features.ScriptUnit{Dir: dir, Inputs: features.Inputs{NVCC: nvcc}}
	}
	got := compilesIn("/w", &features.Reach{Units: []features.ScriptUnit{unit("/a", true), unit("/b", false), unit("/a", true), unit("", true), unit("/w", true)}})
	if !slices.Equal(got, []string{"/w", "/a"}) {
		t.Errorf("%q", got)
	}
}

// TestAnnounce: what was chosen is said in a line or two, as far as the build needs it.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	toolkit := &cuda.Toolkit{Root: "/cuda", Version: gpu.Version{Major: 13, Minor: 4}, Origin: "CUDA_HOME"}
	for _, tt := range []struct {
		story string
		t     Tools
		want  string
	}{
		{"nothing", Tools{}, ""},
		{"the driver alone", Tools{Needs: toolchain.Needs{CUDA: true}}, "no toolkit: the GPU crates"},
		{"an architecture", Tools{Needs: toolchain.Needs{NVCC: true}, Set: toolchain.Set{Toolkit: toolkit, Capability: gpu.Capability{Major: 9}, Suffix: "a", CapabilityOrigin: "GPU 0"}}, "Targeting sm_90a (GPU 0)"},
		{"a toolkit", Tools{Needs: toolchain.Needs{CUDA: true}, Set: toolchain.Set{Toolkit: toolkit}}, "Locating CUDA 13.4 in /cuda (CUDA_HOME)"},
		{"a toolkit, of which the driver alone is no matter", Tools{Needs: toolchain.Needs{CUDA: true}, Set: toolchain.Set{Toolkit: toolkit}}, "!no toolkit"},
		{"ROCm", Tools{Needs: toolchain.Needs{CUDA: true}, Set: toolchain.Set{ROCm: &rocm.Install{Root: "/opt/rocm", Version: "6.1", Origin: "ROCM_PATH"}}}, "Locating ROCm 6.1 in /opt/rocm (ROCM_PATH)"},
		{"ROCm in place of a driver", Tools{Needs: toolchain.Needs{CUDA: true}, Set: toolchain.Set{ROCm: &rocm.Install{Root: "/opt/rocm"}}}, "!no toolkit"},
		{"another processor, and nothing that is linked", Tools{Needs: toolchain.Needs{CUDA: true}, Line: cargo.Line{Target: []string{"aarch64-unknown-linux-gnu"}}}, "!rustc builds for"},
		{"a note", Tools{Set: toolchain.Set{Toolkit: toolkit, Notes: []string{"a note"}}}, "warning: a note"},
		{"another processor", Tools{Needs: toolchain.Needs{NVCC: true}, Line: cargo.Line{Target: []string{"aarch64-unknown-linux-gnu"}}}, "rustc builds for aarch64-unknown-linux-gnu"},
	} {
		var said bytes.Buffer
		h := hosttest.Memory(nil)
		h.Arch = "amd64"
		tt.t.announce(&console.Shell{Out: &said, Err: &said}, h)
		want, not := strings.CutPrefix(tt.want, "!")
		if got := said.String(); strings.Contains(got, want) == not || tt.want == "" && got != "" {
			t.Errorf("%s: %q", tt.story, got)
		}
	}
	var said bytes.Buffer
	Tools{Set: toolchain.Set{Toolkit: toolkit, Capability: gpu.Capability{Major: 9}}}.announce(&console.Shell{Out: &said, Err: &said}, hosttest.Memory(nil))
	if strings.Contains(said.String(), "Targeting") {
		t.Error("nobody compiles kernels, and an architecture is said")
	}
}

// TestUserFile: without a file of the user's nothing is set; one that GPUBUILD_CONFIG names must be there.
func TestUserFile(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{"": "", "GPUBUILD_CONFIG=/x/mine.toml\n": "/x/mine.toml: GPUBUILD_CONFIG names this file, and it does not exist",
		"GPUBUILD_CONFIG=/x/here.toml\n": ""} {
		h, err := hosttest.Parse([]byte("os: linux\nhome: /home/u\ncwd: /w\n-- @env --\n" + env + "-- /x/here.toml --\ncuda = \"13.4\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		u, err := User(h)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) || (u.CUDA == "13.4") != strings.Contains(env, "here") {
			t.Errorf("%q: %+v, %v", env, u, err)
		}
	}
}
