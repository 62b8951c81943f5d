package toolchain_test

import (
	"strings"
	"testing"

	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/hostcc"
)

// TestPlannedMachines: a machine that is not here is held against the same checks as one that is.
func TestPlannedMachines(t *testing.T) {
	v := func(s string) gpu.Version { v, _ := gpu.ParseVersion(s); return v }
	c := func(s string) gpu.Capability { c, _ := gpu.ParseCapability(s); return c }
	gcc := func(majors ...int) (out []hostcc.Compiler) {
		for _, m := range majors {
			out = append(out, hostcc.Compiler{Path: "gcc of ubuntu", Kind: hostcc.GCC, Major: m})
		}
		return out
	}
	msvc := func(major int, min string) []hostcc.Compiler {
		return []hostcc.Compiler{{Path: "cl of windows", Kind: hostcc.MSVC, Major: major, MinCUDA: v(min), MinCUDAText: "STL1002"}}
	}
	all := toolchain.Needs{NVCC: true, HostCompiler: true, Libraries: true, EmbedsPTX: true}
	tests := []struct {
		name  string
		p     toolchain.Planned
		needs func(*toolchain.Needs)
		says  string // empty: it can work
	}{
		{"fits", toolchain.Planned{CUDA: v("13.4"), Arch: c("90"), Compilers: gcc(12, 13, 14)}, nil, ""},
		{"13.x has no sm_70", toolchain.Planned{CUDA: v("13.3"), Arch: c("70")}, nil, "compiles for sm_75 and newer, not for sm_70"},
		{"12.4 has no sm_120", toolchain.Planned{CUDA: v("12.4"), Arch: c("120")}, nil, "compiles for sm_90 and older"},
		{"the oldest gcc that is there fits", toolchain.Planned{CUDA: v("12.3"), Arch: c("90"), Compilers: gcc(14, 12)}, nil, ""},
		{"no gcc fits", toolchain.Planned{CUDA: v("12.3"), Arch: c("90"), Compilers: gcc(13, 14)}, nil,
			"CUDA 12.3 takes gcc up to 12 only, by the published table"},
		{"compilers are not known", toolchain.Planned{CUDA: v("11.8"), Arch: c("80")}, nil, ""},
		{"MSVC too new for nvcc", toolchain.Planned{CUDA: v("13.1"), Arch: c("90"), Compilers: msvc(1951, "13.0")}, nil,
			"its _MSC_VER is 1951"},
		{"MSVC's library wants a newer CUDA", toolchain.Planned{CUDA: v("13.1"), Arch: c("90"), Compilers: msvc(1944, "13.2")}, nil,
			"takes CUDA 13.2 and newer"},
		{"cudarc knows less", toolchain.Planned{CUDA: v("13.4"), Arch: c("90")}, func(n *toolchain.Needs) { n.CudarcMax = v("13.2") },
			"newer than the locked cudarc knows (13.2)"},
		{"cudarc is pinned", toolchain.Planned{CUDA: v("12.4"), Arch: c("90")}, func(n *toolchain.Needs) { n.Pin = v("13.0") },
			"fixes cudarc's bindings to CUDA 13.0"},
		{"PTX newer than the driver", toolchain.Planned{CUDA: v("13.4"), Arch: c("90"),
			Driver: gpu.Driver{Version: "580", CUDA: v("13.0")}}, nil, "accepts only up to CUDA 13.0"},
		{"cuDNN below its floor", toolchain.Planned{CUDA: v("12.8"), Arch: c("70"), CUDNN: "9.21.1"},
			func(n *toolchain.Needs) { n.CUDNN = true }, "cuDNN"},
		{"cuDNN fits", toolchain.Planned{CUDA: v("12.8"), Arch: c("90"), CUDNN: "9.21.1"}, func(n *toolchain.Needs) { n.CUDNN = true }, ""},
		{"a release of the future", toolchain.Planned{CUDA: v("14.9")}, nil, "no release that gpubuild knows"},
		{"a driver is all that is needed", toolchain.Planned{CUDA: v("13.4"), Arch: c("70")},
			func(n *toolchain.Needs) { *n = toolchain.Needs{CUDA: true} }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := all
			if tt.needs != nil {
				tt.needs(&n)
			}
			why, err := tt.p.Judge(n)
			if err != nil {
				t.Fatal(err)
			}
			if (why == "") != (tt.says == "") || !strings.Contains(why, tt.says) {
				t.Errorf("got %q, want %q", why, tt.says)
			}
		})
	}
}
