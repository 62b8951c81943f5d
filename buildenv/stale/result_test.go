package stale_test

import (
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/stale"
	"gpubuild/gpu"
)

// code reads "file kernel: cubin sm_90 13.4.92, ptx compute_90 - 9.4"; - is nothing.
func code(t *testing.T, text string) stale.Code {
	t.Helper()
	head, makes, _ := strings.Cut(text, ": ")
	file, kernel, _ := strings.Cut(head, " ")
	c := stale.Code{File: file, Kernel: kernel, Kernels: 1}
	for _, m := range strings.Split(makes, ", ") {
		w := append(strings.Fields(m), "-", "-", "-")
		one := stale.Make{Kind: w[0]}
		if w[1] != "-" {
			a, err := gpu.ParseArch(w[1])
			if err != nil {
				t.Fatal(err)
			}
			one.Arch = a
		}
		if w[2] != "-" {
			one.NVCC = w[2]
		}
		if w[3] != "-" {
			one.PTX = w[3]
		}
		c.Makes = append(c.Makes, one)
	}
	return c
}

func want(t *testing.T, arch string) stale.Want {
	t.Helper()
	w := stale.Want{NVCC: []string{"13.4.92", "13.4.85"}, PTX: "9.4"}
	if arch != "" {
		a, err := gpu.ParseArch(arch)
		if err != nil {
			t.Fatal(err)
		}
		w.Arch = a
	}
	return w
}

func TestHold(t *testing.T) {
	tests := []struct {
		story string
		code  []string
		arch  string
		wrong []string // by: found
		nvcc  int      // pieces of which the compiler was decided to be the right one
		open  string
		told  string
	}{
		{story: "all as asked", arch: "sm_90", code: []string{"a.o k: cubin sm_90 13.4.92, ptx compute_90 - 9.4", "a.ptx k: ptx-text compute_90 13.4.92 9.4"}, nvcc: 2},
		{story: "cudaforge makes sm_90a of 90", arch: "sm_90", code: []string{"a.o k: cubin sm_90a 13.4.92"}, nvcc: 1},
		{story: "90a was asked, plain 90 is there", arch: "sm_90a", code: []string{"a.o k: cubin sm_90 13.4.92"}, nvcc: 1},
		{story: "the family form", arch: "sm_120", code: []string{"a.o k: cubin sm_120f 13.4.92"}, nvcc: 1},
		{story: "a kernel that its source has for newer GPUs only", arch: "sm_75", code: []string{"a.o k: cubin sm_75 13.4.92, cubin sm_90 13.4.92", "a.o k_bf16: cubin sm_90 13.4.92"}, nvcc: 2},
		{story: "an archive of which one object is old", arch: "sm_90", code: []string{"a.a k: cubin sm_90 13.4.92", "a.a l: cubin sm_80 13.4.92"}, wrong: []string{"arch: sm_80 code from nvcc 13.4.92"}, nvcc: 2},
		{story: "PTX alone is enough", arch: "sm_90", code: []string{"a.o k: ptx compute_90 - 9.4"}, nvcc: 1},
		{story: "a list that holds the asked one", arch: "sm_90", code: []string{"a.o k: cubin sm_80 13.4.92, cubin sm_90 13.4.92, ptx compute_80 - 9.4"}, nvcc: 1},
		{story: "ptxas is of another patch release than nvcc, as pip's wheels may be", arch: "sm_90", code: []string{"a.o k: cubin sm_90 13.4.85"}, nvcc: 1},
		{story: "another nvcc", arch: "sm_90", code: []string{"a.o k: cubin sm_90 13.3.73"}, wrong: []string{"nvcc: sm_90 code from nvcc 13.3.73"},
			told: "kernels holds sm_90 code from nvcc 13.3.73; the build asked for sm_90 from 13.4.92"},
		{story: "another patch release of nvcc", arch: "sm_90", code: []string{"a.o k: cubin sm_90 13.4.91"}, wrong: []string{"nvcc: sm_90 code from nvcc 13.4.91"}},
		{story: "another architecture", arch: "sm_90", code: []string{"a.o k: cubin sm_80 13.4.92"}, wrong: []string{"arch: sm_80 code from nvcc 13.4.92"}, nvcc: 1},
		{story: "machine code is told before PTX", arch: "sm_90", code: []string{"a.o k: ptx compute_80 - 9.4, cubin sm_80 13.4.92"}, wrong: []string{"arch: sm_80 code from nvcc 13.4.92"}, nvcc: 1,
			told: "kernels holds sm_80 code; the build asked for sm_90"},
		{story: "both: nvcc is told", arch: "sm_90", code: []string{"a.ptx k: ptx-text compute_80 13.4.92 9.4", "a.o k: cubin sm_80 13.3.73"},
			wrong: []string{"arch: PTX for compute_80 from nvcc 13.4.92", "nvcc: sm_80 code from nvcc 13.3.73"}, nvcc: 1,
			told: "kernels holds sm_80 code from nvcc 13.3.73; the build asked for sm_90 from 13.4.92"},
		{story: "one old image beside a new one of the same kernel", arch: "sm_90", code: []string{"a.a k: cubin sm_90 13.4.92, cubin sm_90 13.3.73"},
			wrong: []string{"nvcc: sm_90 code from nvcc 13.3.73"}},
		{story: "one old file among new ones", arch: "sm_90", code: []string{"a.o k: cubin sm_90 13.4.92", "b.o l: cubin sm_80 13.4.92"}, wrong: []string{"arch: sm_80 code from nvcc 13.4.92"}, nvcc: 2},
		{story: "a fatbin's PTX is known by its version", arch: "sm_90", code: []string{"a.fatbin k: ptx compute_90 - 9.3"}, wrong: []string{"nvcc: PTX 9.3 for compute_90"},
			told: "kernels holds PTX 9.3 for compute_90; the build asked for sm_90 from nvcc 13.4.92, which writes PTX 9.4"},
		{story: "the signature says more than the PTX version", arch: "sm_90", code: []string{"a.fatbin k: ptx compute_90 - 9.3, cubin sm_90 13.3.73"}, wrong: []string{"nvcc: sm_90 code from nvcc 13.3.73"}},
		{story: "PTX that a person wrote", arch: "sm_90", code: []string{"a.ptx k: ptx-text compute_90 - 7.0"}, open: "a.ptx: ptx-text without a word on which nvcc made it"},
		{story: "an old cubin without a note", arch: "sm_90", code: []string{"a.cubin k: cubin sm_90"}, open: "a.cubin: cubin without a word on which nvcc made it"},
		{story: "an old cubin without a note, for another architecture", arch: "sm_90", code: []string{"a.cubin k: cubin sm_80"}, wrong: []string{"arch: sm_80 code from an unknown compiler"}, open: "without a word"},
		{story: "no word on the architecture", arch: "sm_90", code: []string{"a.cubin k: cubin - 13.4.92"}, nvcc: 1, open: "a.cubin: device code without a word on what it is for"},
		{story: "nobody asked for an architecture", code: []string{"a.o k: cubin sm_80 13.4.92"}, nvcc: 1},
		{story: "intermediate code tells no compiler", arch: "sm_90", code: []string{"a.o k: lto-ir sm_90"}, open: "a.o: lto-ir without a word on which nvcc made it"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			var all []stale.Code
			for _, c := range tt.code {
				all = append(all, code(t, c))
			}
			w := want(t, tt.arch)
			h := stale.Hold(all, w)
			var wrong []string
			for _, m := range h.Mismatches {
				wrong = append(wrong, m.By+": "+m.Found.String())
			}
			if !slices.Equal(wrong, tt.wrong) {
				t.Errorf("got %q, want %q", wrong, tt.wrong)
			}
			if h.NVCC != tt.nvcc {
				t.Errorf("%d pieces are signed rightly, want %d", h.NVCC, tt.nvcc)
			}
			if open := strings.Join(h.Open, "; "); (open == "") != (tt.open == "") || !strings.Contains(open, tt.open) {
				t.Errorf("open: %q, want %q", open, tt.open)
			}
			if told := stale.Told("kernels", h.Mismatches, w); tt.told != "" && told != tt.told {
				t.Errorf("told\n  %s\nwant\n  %s", told, tt.told)
			}
		})
	}
}

func TestHoldWithoutKnowingTheToolkit(t *testing.T) {
	all := []stale.Code{code(t, "a.o k: cubin sm_90 13.3.73"), code(t, "a.o l: ptx compute_90 - 9.9")}
	h := stale.Hold(all, stale.Want{})
	if len(h.Mismatches) > 0 || h.NVCC > 0 || len(h.Open) != 2 {
		t.Errorf("nothing is known of the toolkit, and this was decided: %+v", h)
	}
}

func TestRuns(t *testing.T) {
	for text, runs := range map[string]bool{
		"a.o k: cubin sm_80 13.4.92": true, "a.o k: cubin sm_90a 13.4.92": false, "a.o k: cubin sm_70 13.4.92": false, "a.o k: ptx compute_70 - 9.4": true,
		"a.o k: lto-ir sm_80": false,
	} {
		if got := stale.Runs([]stale.Code{code(t, text)}, gpu.Capability{Major: 8, Minor: 6}); got != runs {
			t.Errorf("%s on 8.6: %v", text, got)
		}
	}
}

// The sum must be the same for the same code anywhere, and another one as soon as anything else is wrong.
func TestSum(t *testing.T) {
	sum := func(texts ...string) string {
		var all []stale.Code
		for _, x := range texts {
			all = append(all, code(t, x))
		}
		return stale.Sum(stale.Hold(all, want(t, "sm_90")).Mismatches)
	}
	one := sum("a.o k: cubin sm_80 13.4.92", "a.o l: cubin sm_80 13.4.92")
	if one != sum("b.o l: cubin sm_80 13.4.92", "b.o k: cubin sm_80 13.4.92") || one != sum("a.o k: cubin sm_80 13.4.92", "a.o l: cubin sm_80 13.4.92", "a.o m: cubin sm_90 13.4.92") {
		t.Error("the same mistakes have two sums")
	}
	for _, other := range []string{sum("a.o k: cubin sm_80 13.4.92"), sum("a.o k: cubin sm_80 13.4.92", "a.o l: cubin sm_75 13.4.92"), sum("a.o k: cubin sm_80 13.3.73", "a.o l: cubin sm_80 13.4.92"), ""} {
		if one == other {
			t.Errorf("other mistakes have the sum %q", other)
		}
	}
}

func TestAdopt(t *testing.T) {
	compiles := []string{"nvcc=13.4.92 /b/bin/nvcc#n", "CUDA headers=13.4 /b/include#h", "host compiler=12.2.0 gcc /usr/bin/gcc#g", "arch=sm_90"}
	kernel := []string{"a.o k: cubin sm_90 13.4.92"}
	const trusted = "the toolkit's headers, the host compiler"
	asksKernels := stale.Asks{Compiles: true, Libraries: true}
	cudarc := stale.Asks{Version: true, Libraries: true}
	tests := []struct {
		story   string
		inputs  []string
		asks    stale.Asks
		code    []string
		traces  stale.Traces
		reasons []string
		open    string
		trusted string
	}{
		{story: "built with what is there now", inputs: compiles, asks: asksKernels, code: kernel, trusted: trusted},
		{story: "an object names the host compiler", inputs: compiles, asks: asksKernels, code: kernel, traces: stale.Traces{Hosts: []string{"gcc 12.2.0"}}, trusted: "the toolkit's headers"},
		{story: "an object names the host compiler less exactly", inputs: compiles, asks: asksKernels, code: kernel, traces: stale.Traces{Hosts: []string{"gcc 12"}}, trusted: "the toolkit's headers"},
		{story: "an object names another host compiler", inputs: compiles, asks: asksKernels, code: kernel, traces: stale.Traces{Hosts: []string{"gcc 11.4.0"}},
			reasons: []string{"host compiler gcc 11.4.0 → gcc 12.2.0: kernels"}, trusted: "the toolkit's headers"},
		{story: "another nvcc", inputs: compiles, asks: asksKernels, code: []string{"a.o k: cubin sm_90 13.3.73"}, reasons: []string{"nvcc 13.3.73 → 13.4.92: kernels"}, trusted: trusted},
		{story: "a fatbin of another nvcc's PTX", inputs: compiles, asks: asksKernels, code: []string{"a.o k: ptx compute_90 - 9.3"}, reasons: []string{"PTX version 9.3 → 9.4: kernels"}, trusted: trusted},
		{story: "another architecture", inputs: compiles, asks: asksKernels, code: []string{"a.o k: cubin sm_80 13.4.92", "b.o l: cubin sm_80 13.4.92"}, reasons: []string{"arch sm_80 → sm_90: kernels"}, trusted: trusted},
		{story: "a static library from outside went in, and nothing tells which", inputs: compiles, asks: asksKernels, code: kernel,
			traces: stale.Traces{Bundled: []string{"staticLibrary libfoo.a"}}, open: "nothing tells which staticLibrary libfoo.a it holds", trusted: trusted},
		{story: "no device code to be seen", inputs: compiles, asks: asksKernels, open: "its output directory holds no device code", trusted: trusted},
		{story: "code that names no compiler", inputs: compiles, asks: asksKernels, code: []string{"a.o k: cubin sm_90"}, open: "a.o: cubin without a word on which nvcc made it", trusted: trusted},
		{story: "cudaforge kept objects for another architecture, and code of them is not seen", inputs: compiles, asks: asksKernels, code: kernel,
			traces: stale.Traces{Archs: []gpu.Arch{{Capability: gpu.Capability{Major: 8}}}}, reasons: []string{"arch sm_80 → sm_90: kernels"}, trusted: trusted},
		{story: "CMake keeps another nvcc", inputs: compiles, asks: asksKernels, code: kernel, traces: stale.Traces{Compilers: []string{"/a/bin/nvcc"}},
			reasons: []string{"nvcc /a/bin/nvcc → /b/bin/nvcc: kernels"}, trusted: trusted},
		{story: "CMake keeps this nvcc", inputs: compiles, asks: asksKernels, code: kernel, traces: stale.Traces{Compilers: []string{"/b/bin/nvcc"}}, trusted: trusted},
		{story: "a variable is set that cargo does not watch", inputs: append([]string{"CUDAFORGE_HOME=/x"}, compiles...), asks: asksKernels, code: kernel,
			open: "nothing tells which CUDAFORGE_HOME it was built with", trusted: trusted},
		{story: "a variable is set that cargo watches", inputs: append([]string{"CUDAFORGE_HOME=/x"}, compiles...), asks: asksKernels, code: kernel,
			traces: stale.Traces{Declared: []string{"CUDAFORGE_HOME"}}, trusted: trusted},
		{story: "a record says that the variable was the same", inputs: append([]string{"CUDAFORGE_HOME=/x"}, compiles...), asks: asksKernels, code: kernel,
			traces: stale.Traces{Was: parse(append([]string{"CUDAFORGE_HOME=/x"}, compiles...))}, trusted: "the host compiler"},
		{story: "a variable was set when it was recorded", inputs: compiles, asks: asksKernels, code: kernel,
			traces: stale.Traces{Was: parse(append([]string{"CUDAFORGE_HOME=/x"}, compiles...))}, open: "CUDAFORGE_HOME was recorded as /x and is nothing now", trusted: "the host compiler"},
		{story: "another host compiler was recorded once", inputs: compiles, asks: asksKernels, code: kernel,
			traces: stale.Traces{Was: parse([]string{"host compiler=11.4.0 gcc /usr/bin/gcc-11#f"})}, open: "the host compiler is another than the one recorded of an earlier run", trusted: "the toolkit's headers"},
		{story: "an input that no trace tells of", inputs: append([]string{"libtorch=2.9 /torch"}, compiles...), asks: asksKernels, code: kernel,
			open: "nothing tells which libtorch it was built with", trusted: trusted},
		{story: "cudarc told this version and these libraries", inputs: []string{"nvcc=13.4", "CUDA libraries=13.4 /b/lib"}, asks: cudarc, traces: stale.Traces{CUDA: "13.4", Libraries: []string{"/b/lib"}}},
		{story: "cudarc only asked for the version", inputs: []string{"nvcc version=13.4 /b/bin/nvcc#r"}, asks: stale.Asks{Version: true}, traces: stale.Traces{CUDA: "13.4"}},
		{story: "cudarc told another version", inputs: []string{"nvcc=13.4", "CUDA libraries=13.4 /b/lib"}, asks: cudarc, traces: stale.Traces{CUDA: "13.3", Libraries: []string{"/b/lib"}},
			reasons: []string{"nvcc 13.3 → 13.4: kernels"}},
		{story: "cudarc links another toolkit's libraries first", inputs: []string{"nvcc=13.4", "CUDA libraries=13.4 /b/lib"}, asks: cudarc,
			traces: stale.Traces{CUDA: "13.4", Libraries: []string{"/a/lib", "/b/lib"}}, reasons: []string{"CUDA libraries /a/lib → /b/lib: kernels"}},
		{story: "cudarc told nothing", inputs: []string{"nvcc=13.4"}, asks: cudarc, open: "its script told no CUDA version; its script named no library directory of a toolkit"},
		{story: "cuDNN as its script told it", inputs: []string{"cuDNN=9.21.1 /c"}, asks: stale.Asks{CUDNN: true}, traces: stale.Traces{CUDNN: "9.21"}},
		{story: "another cuDNN", inputs: []string{"cuDNN=9.21.1 /c"}, asks: stale.Asks{CUDNN: true}, traces: stale.Traces{CUDNN: "9.10"}, reasons: []string{"cuDNN 9.10 → 9.21: kernels"}},
		{story: "no word on cuDNN", inputs: []string{"cuDNN=9.21.1 /c"}, asks: stale.Asks{CUDNN: true}, open: "its script told no cuDNN version"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			for _, c := range tt.code {
				tt.traces.Code = append(tt.traces.Code, code(t, c))
			}
			tt.asks.Want, tt.asks.CUDA, tt.asks.Library, tt.asks.Compiler, tt.asks.CUDNNVersion, tt.asks.Host = want(t, "sm_90"), "13.4", "/b/lib", "/b/bin/nvcc", "9.21", "gcc 12.2.0"
			got := stale.Adopt(stale.Unit{Key: kernels, Package: "kernels", Inputs: parse(tt.inputs)}, tt.asks, tt.traces)
			var reasons []string
			for _, r := range got.Reasons {
				reasons = append(reasons, r.String())
			}
			if !slices.Equal(reasons, tt.reasons) {
				t.Errorf("reasons: got %q, want %q", reasons, tt.reasons)
			}
			if open := strings.Join(got.Open, "; "); open != tt.open {
				t.Errorf("open: got %q, want %q", open, tt.open)
			}
			if got := strings.Join(got.Trusted, ", "); got != tt.trusted {
				t.Errorf("trusted: got %q, want %q", got, tt.trusted)
			}
			if got.Adopted() != (len(tt.reasons) == 0 && tt.open == "") {
				t.Errorf("adopted: %v", got.Adopted())
			}
		})
	}
}
