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
		open  bool
		line  string
	}{
		{
			story: "all as asked",
			arch:  "sm_90",
			code:  []string{"a.o k: cubin sm_90 13.4.92, ptx compute_90 - 9.4", "a.ptx k: ptx-text compute_90 13.4.92 9.4"},
		},
		{story: "cudaforge makes sm_90a of 90", arch: "sm_90", code: []string{"a.o k: cubin sm_90a 13.4.92"}},
		{story: "90a was asked, plain 90 is there", arch: "sm_90a", code: []string{"a.o k: cubin sm_90 13.4.92"}},
		{story: "the family form", arch: "sm_120", code: []string{"a.o k: cubin sm_120f 13.4.92"}},
		{
			story: "a kernel that its source has for newer GPUs only",
			arch:  "sm_75",
			code:  []string{"a.o k: cubin sm_75 13.4.92, cubin sm_90 13.4.92", "a.o k_bf16: cubin sm_90 13.4.92"},
		},
		{
			story: "an archive of which one object is old",
			arch:  "sm_90",
			code:  []string{"a.a k: cubin sm_90 13.4.92", "a.a l: cubin sm_80 13.4.92"},
			wrong: []string{"arch: sm_80 code from nvcc 13.4.92"},
		},
		{story: "PTX alone is enough", arch: "sm_90", code: []string{"a.o k: ptx compute_90 - 9.4"}},
		{
			story: "a list that holds the asked one",
			arch:  "sm_90",
			code:  []string{"a.o k: cubin sm_80 13.4.92, cubin sm_90 13.4.92, ptx compute_80 - 9.4"},
		},
		{
			story: "ptxas is of another patch release than nvcc, as pip's wheels may be",
			arch:  "sm_90",
			code:  []string{"a.o k: cubin sm_90 13.4.85"},
		},
		{
			story: "another nvcc",
			arch:  "sm_90",
			code:  []string{"a.o k: cubin sm_90 13.3.73"},
			wrong: []string{"nvcc: sm_90 code from nvcc 13.3.73"},
			line:  "kernels holds sm_90 code from nvcc 13.3.73; the build asked for sm_90 from 13.4.92",
		},
		{
			story: "another patch release of nvcc",
			arch:  "sm_90",
			code:  []string{"a.o k: cubin sm_90 13.4.91"},
			wrong: []string{"nvcc: sm_90 code from nvcc 13.4.91"},
		},
		{
			story: "another architecture",
			arch:  "sm_90",
			code:  []string{"a.o k: cubin sm_80 13.4.92"},
			wrong: []string{"arch: sm_80 code from nvcc 13.4.92"},
		},
		{
			story: "machine code is named before PTX",
			arch:  "sm_90",
			code:  []string{"a.o k: ptx compute_80 - 9.4, cubin sm_80 13.4.92"},
			wrong: []string{"arch: sm_80 code from nvcc 13.4.92"},
			line:  "kernels holds sm_80 code; the build asked for sm_90",
		},
		{
			story: "both: nvcc is named",
			arch:  "sm_90",
			code:  []string{"a.ptx k: ptx-text compute_80 13.4.92 9.4", "a.o k: cubin sm_80 13.3.73"},
			wrong: []string{"arch: PTX for compute_80 from nvcc 13.4.92", "nvcc: sm_80 code from nvcc 13.3.73"},
			line:  "kernels holds sm_80 code from nvcc 13.3.73; the build asked for sm_90 from 13.4.92",
		},
		{
			story: "one old and one new image of the same kernel",
			arch:  "sm_90",
			code:  []string{"a.a k: cubin sm_90 13.4.92, cubin sm_90 13.3.73"},
			wrong: []string{"nvcc: sm_90 code from nvcc 13.3.73"},
		},
		{
			story: "one old file among new ones",
			arch:  "sm_90",
			code:  []string{"a.o k: cubin sm_90 13.4.92", "b.o l: cubin sm_80 13.4.92"},
			wrong: []string{"arch: sm_80 code from nvcc 13.4.92"},
		},
		{
			story: "a fatbin's PTX is known by its version",
			arch:  "sm_90",
			code:  []string{"a.fatbin k: ptx compute_90 - 9.3"},
			wrong: []string{"nvcc: PTX 9.3 for compute_90"},
			line:  "kernels holds PTX 9.3 for compute_90; the build asked for sm_90 from nvcc 13.4.92, which writes PTX 9.4",
		},
		{
			story: "the signature says more than the PTX version",
			arch:  "sm_90",
			code:  []string{"a.fatbin k: ptx compute_90 - 9.3, cubin sm_90 13.3.73"},
			wrong: []string{"nvcc: sm_90 code from nvcc 13.3.73"},
		},
		{
			story: "PTX that a person wrote",
			arch:  "sm_90",
			code:  []string{"a.ptx k: ptx-text compute_90 - 7.0"},
			open:  true,
		},
		{
			story: "an old cubin without a note",
			arch:  "sm_90",
			code:  []string{"a.cubin k: cubin sm_90"},
			open:  true,
		},
		{
			story: "an old cubin without a note, for another architecture",
			arch:  "sm_90",
			code:  []string{"a.cubin k: cubin sm_80"},
			wrong: []string{"arch: sm_80 code from an unknown compiler"},
			open:  true,
		},
		{
			story: "no word on the architecture",
			arch:  "sm_90",
			code:  []string{"a.cubin k: cubin - 13.4.92"},
			open:  true,
		},
		{story: "nobody asked for an architecture", code: []string{"a.o k: cubin sm_80 13.4.92"}},
		{
			story: "intermediate code names no compiler",
			arch:  "sm_90",
			code:  []string{"a.o k: lto-ir sm_90"},
			open:  true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			var all []stale.Code
			for _, c := range tt.code {
				all = append(all, code(t, c))
			}
			w := want(t, tt.arch)
			list, open := stale.Hold(all, w)
			var wrong []string
			for _, m := range list {
				wrong = append(wrong, m.By+": "+m.Found.String())
			}
			if !slices.Equal(wrong, tt.wrong) {
				t.Errorf("got %q, want %q", wrong, tt.wrong)
			}
			if (open > 0) != tt.open {
				t.Errorf("open: %d, want %t", open, tt.open)
			}
			if line := stale.Describe("kernels", list, w); tt.line != "" && line != tt.line {
				t.Errorf("got\n  %s\nwant\n  %s", line, tt.line)
			}
		})
	}
}

func TestHoldWithoutKnowingTheToolkit(t *testing.T) {
	all := []stale.Code{code(t, "a.o k: cubin sm_90 13.3.73"), code(t, "a.o l: ptx compute_90 - 9.9")}
	if wrong, open := stale.Hold(all, stale.Want{}); len(wrong) > 0 || open != 2 {
		t.Errorf("nothing is known of the toolkit, and this was decided: %+v", wrong)
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
