package fresh

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
)

// tree makes files below a new directory; a name that ends in a slash is a directory.
func tree(t *testing.T, files map[string]string) (*State, string) {
	t.Helper()
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := &session.Machine{Host: h, CacheDir: filepath.Join(dir, ".cache"), Shell: &console.Shell{Out: io.Discard, Err: io.Discard}, Began: time.Now()}
	return newState(&Build{Machine: m, Reach: &features.Answer{}}), dir
}

func TestBelow(t *testing.T) {
	s, dir := tree(t, map[string]string{
		"a.ptx": "x", "b.cubin": "x", "c.o": "x", "deep/er/libk.a": "x", "no-ending": "x", "k.obj": "x",
		"empty.ptx": "", "gen.rs": "x", "flags.make": "x", "ptx.cu": "x",
		"libcublas_static.a": "x", "libcudnn_ops.so.9": "x", "cublas.lib": "x",
		".cudaforge_cache.json": "{}", "build/CMakeCache.txt": "x", "cache.json": "x",
		"build/CMakeFiles/3.25.1/CompilerIdCUDA/a.out": "x", "build/CMakeFiles/3.25.1/CMakeDetermineCompilerABI_CUDA.bin": "x", "build/CMakeFiles/CMakeScratch/x.o": "x",
		"build/CMakeFiles/k.dir/k.cu.o": "x", "src/.git/objects/aa": "x",
	})
	code, notes, _, err := below(s.host, dir)
	if err != nil {
		t.Fatal(err)
	}
	rel := func(list []string) (out []string) {
		for _, p := range list {
			r, err := filepath.Rel(dir, p)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, filepath.ToSlash(r))
		}
		slices.Sort(out)
		return out
	}
	if got, want := rel(code), []string{"a.ptx", "b.cubin", "build/CMakeFiles/k.dir/k.cu.o", "c.o", "deep/er/libk.a", "empty.ptx", "k.obj", "no-ending"}; !slices.Equal(got, want) {
		t.Errorf("code: got %q, want %q", got, want)
	}
	if got, want := rel(notes), []string{".cudaforge_cache.json", "build/CMakeCache.txt"}; !slices.Equal(got, want) {
		t.Errorf("notes: got %q, want %q", got, want)
	}
	if code, notes, _, err := below(s.host, filepath.Join(dir, "none")); err != nil || len(code)+len(notes) > 0 {
		t.Errorf("a directory that is not there: %v %v %v", code, notes, err)
	}
}

func TestGrouped(t *testing.T) {
	arch := func(s string) gpu.Arch {
		a, err := gpu.ParseArch(s)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	cubin := func(sm string, kernels ...string) fatbin.Image {
		return fatbin.Image{Kind: fatbin.Cubin, Arch: arch(sm), Toolkit: "13.4.92", Kernels: kernels}
	}
	says := func(list []stale.Code) string {
		var out []string
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s+%d%v", c.Kernel, c.Kernels-1, c.Makes))
		}
		return strings.Join(out, "; ")
	}
	tests := []struct {
		story  string
		images []fatbin.Image
		want   string
	}{
		{"many kernels of one make are one line", []fatbin.Image{cubin("sm_90", "c", "b"), cubin("sm_90", "a")}, "a+2[sm_90 code from nvcc 13.4.92]"},
		{"order and repetition mean nothing", []fatbin.Image{cubin("sm_90", "a"), cubin("sm_80", "a", "b"), cubin("sm_90", "b", "a")},
			"a+1[sm_80 code from nvcc 13.4.92 sm_90 code from nvcc 13.4.92]"},
		{"one kernel has less", []fatbin.Image{cubin("sm_90", "a", "b"), cubin("sm_80", "a")},
			"a+0[sm_80 code from nvcc 13.4.92 sm_90 code from nvcc 13.4.92]; b+0[sm_90 code from nvcc 13.4.92]"},
		{"an empty image beside kernels says nothing", []fatbin.Image{cubin("sm_90", "a"), cubin("sm_52")}, "a+0[sm_90 code from nvcc 13.4.92]"},
		{"an empty image alone", []fatbin.Image{cubin("sm_52")}, "+0[sm_52 code from nvcc 13.4.92]"},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		if got := says(grouped("f", tt.images)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.story, got, tt.want)
		}
	}
}

func TestAgree(t *testing.T) {
	m := func(kind, sm, nvcc, ptx string) stale.Make {
		a, err := gpu.ParseArch(sm)
		if err != nil {
			t.Fatal(err)
		}
		return stale.Make{Kind: kind, Arch: a, NVCC: nvcc, PTX: ptx}
	}
	was, is := m(fatbin.Cubin, "sm_90", "13.3.73", ""), m(fatbin.Cubin, "sm_90", "13.4.92", "")
	oldPTX, newPTX := m(fatbin.PTX, "compute_90", "", "9.3"), m(fatbin.PTX, "compute_90", "", "9.4")
	tests := []struct {
		story       string
		held, built []stale.Make
		want        bool
	}{
		{"the same", []stale.Make{is}, []stale.Make{is}, true},
		{"the form with a suffix", []stale.Make{m(fatbin.Cubin, "sm_90a", "13.4.92", "")}, []stale.Make{is}, true},
		{"an older one", []stale.Make{was}, []stale.Make{is}, false},
		{"an older one beside the new one", []stale.Make{was, is}, []stale.Make{is}, true},
		{"another architecture", []stale.Make{m(fatbin.Cubin, "sm_80", "13.4.92", "")}, []stale.Make{is}, false},
		{"an unsigned one cannot vouch for a signed one", []stale.Make{was, oldPTX}, []stale.Make{is, newPTX}, false},
		{"PTX alone, of another version", []stale.Make{oldPTX}, []stale.Make{newPTX}, false},
		{"nothing that could be compared", []stale.Make{oldPTX}, []stale.Make{is}, true},
		{"intermediate code", []stale.Make{was}, []stale.Make{m(fatbin.LTO, "sm_90", "", "")}, true},
	}
	for _, tt := range tests {
		if got := agree(tt.held, tt.built); got != tt.want {
			t.Errorf("%s: %v", tt.story, got)
		}
	}
}

func TestSourceName(t *testing.T) {
	for mangled, want := range map[string]string{
		"matmul": "matmul", "_Z6matmulPKfS0_Pfi": "matmul", "_Z5scaleIfEvPT_i": "scale", "_ZN3cub16_V_300403_SM_9006detail4scan16DeviceScanKernelINS2_26policyEEEvv": "DeviceScanKernel",
		"_ZN2ns3addEi": "add", "_ZL6staticPf": "static", "_Z9999short": "", "_Z": "",
	} {
		if got := sourceName(mangled); got != want {
			t.Errorf("%s: got %q, want %q", mangled, got, want)
		}
	}
}

func TestWhatCudarcTold(t *testing.T) {
	tests := []struct {
		cfgs        []string
		cuda, cudnn string
	}{
		{[]string{`feature="cuda-13040"`, `feature="cudnn-09021"`}, "13.4", "9.21"},
		{[]string{"other", `feature="cuda-12090"`}, "12.9", ""},
		{[]string{`feature="cuda-11000"`, `feature="cudnn-09100"`}, "11.0", "9.100"},
		{[]string{`feature="cuda"`, `feature="nccl-02030"`, `feature="cuda-1304"`}, "", ""},
	}
	for _, tt := range tests {
		if c, d := scriptCUDA(tt.cfgs), scriptCUDNN(tt.cfgs); c != tt.cuda || d != tt.cudnn {
			t.Errorf("%q: CUDA %q, cuDNN %q", tt.cfgs, c, d)
		}
	}
}

func TestWhatAScriptToldInVariables(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"13.4": {"MISTRALRS_BUILD_CUDA_VERSION": "13.4", "MISTRALRS_BUILD_CUDA_VERSION_CODE": "13040", "OTHER": "12.9"},
		"12.9": {"BUILD_CUDA_VERSION": "12.9.86"},
		"":     {"A_BUILD_CUDA_VERSION": "12.9", "B_BUILD_CUDA_VERSION": "13.4", "CUDA_VERSION": "13.0", "CUDA_MAJOR_VERSION": "13"},
	} {
		if got := scriptEnvCUDA(env); got != want {
			t.Errorf("%v: CUDA %q, want %q", env, got, want)
		}
	}
	s, dir := tree(t, map[string]string{"k-1/out/x": "", "k-1/output": "cargo:rustc-env=MISTRALRS_BUILD_CUDA_VERSION=13.3\n"})
	traces, err := s.traces(filepath.Join(dir, "k-1", "out"), false)
	if err != nil || traces.CUDA != "13.3" {
		t.Errorf("traces: CUDA %q, %v", traces.CUDA, err)
	}
}

func TestTracesOfBuildTools(t *testing.T) {
	s, dir := tree(t, map[string]string{
		"new/bin/nvcc": "the compiler", "copy/bin/nvcc": "the compiler", "old/bin/nvcc": "an older one",
		"out/a-1.o": "x", "out/b-2.o": "x",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	s.b.Tools.Set = toolchain.Set{Toolkit: &cuda.Toolkit{NVCC: at("new/bin/nvcc")}}
	text := "//x\nCMAKE_CUDA_COMPILER:FILEPATH=" + at("copy/bin/nvcc") + "\r\nCMAKE_CUDA_COMPILER_AR:FILEPATH=/usr/bin/ar\nCUDAToolkit_NVCC_EXECUTABLE:FILEPATH=" + at("old/bin/nvcc") + "\n"
	if got, want := s.cmakeCompilers(text), []string{at("new/bin/nvcc"), at("old/bin/nvcc")}; !slices.Equal(got, want) {
		t.Errorf("CMake keeps %q, want %q", got, want)
	}
	if got := s.cmakeCompilers("CMAKE_CUDA_COMPILER:FILEPATH=NOTFOUND\nCUDAToolkit_NVCC_EXECUTABLE:FILEPATH=/x/CUDAToolkit_NVCC_EXECUTABLE-NOTFOUND\n"); len(got) > 0 {
		t.Errorf("CMake found none, and here is %q", got)
	}
	kept := `{"entries":{"a":{"object_path":"/elsewhere/out/a-1.o","gpu_arch":"sm_90a"},"b":{"object_path":"b-2.o","gpu_arch":"sm_90a"},"gone":{"object_path":"c-3.o","gpu_arch":"sm_80"}}}`
	if got := fmt.Sprint(s.cudaforgeArchs([]byte(kept), at("out"))); got != "[sm_90a]" {
		t.Errorf("cudaforge keeps %s", got)
	}
	if got := s.cudaforgeArchs([]byte("{"), at("out")); got != nil {
		t.Errorf("a damaged cache says %v", got)
	}
}

// What is kept of a directory must not outlive what lies in it.
func TestHoldsIsReadAgain(t *testing.T) {
	const ptx = "." + "version 9.4\n." + "target sm_90\n." + "address_size 64\n.visible ." + "entry %s()\n{\n ret;\n}\n"
	s, dir := tree(t, map[string]string{"out/k.ptx": fmt.Sprintf(ptx, "one"), "out/sub/note.txt": ""})
	out := filepath.Join(dir, "out")
	read := func() string {
		t.Helper()
		s.held = map[string]holding{} // as the next run of gpubuild has it
		held, err := s.holds(out)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range held.Code {
			names = append(names, c.Kernel)
		}
		return strings.Join(names, " ")
	}
	if got := read() + read(); got != "oneone" {
		t.Error(got)
	}
	if err := cache.WriteFile(filepath.Join(out, "k.ptx"), []byte(fmt.Sprintf(ptx, "two")), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "two" {
		t.Errorf("the file holds two, and %s was told", got)
	}
	if err := os.WriteFile(filepath.Join(out, "sub", "l.ptx"), []byte(fmt.Sprintf(ptx, "three")), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "two three" {
		t.Errorf("after a file came: %s", got)
	}
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "" {
		t.Errorf("kept of a directory that is gone: %s", got)
	}
}
