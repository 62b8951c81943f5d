package runs_test

import (
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/runs"
)

// TestTaken: crates leave kernels out for older architectures, so which kernels a program holds depends on the GPU.
func TestTaken(t *testing.T) {
	image := func(group int64, kind, arch string, kernels ...string) fatbin.Image {
		return fatbin.Image{Fatbin: group, Offset: group + 64, Kind: kind, Arch: hosttest.Must(gpu.ParseArch(arch))(t), PTXVersion: "9.4",
			Toolkit: "13.4", Kernels: kernels}
	}
	report := &fatbin.Report{Images: []fatbin.Image{
		image(100, fatbin.Cubin, "sm_75", "a", "old"), image(100, fatbin.Cubin, "sm_90", "a", "bf16"), image(100, fatbin.PTX, "compute_90", "a", "bf16", "ptx"),
		image(900, fatbin.Cubin, "sm_90", "a", "b"), image(900, fatbin.Cubin, "sm_120", "c"),
	}}
	for sm, want := range map[string]string{
		"sm_75":  "a old",      // no image of the second fatbin fits
		"sm_90":  "a a b bf16", // machine code is taken before PTX
		"sm_100": "a bf16 ptx", // PTX, whose version a driver of today may lack
		"sm_120": "a bf16 c ptx",
		"sm_70":  "",
	} {
		got := runs.Taken(report, hosttest.Must(gpu.ParseArch(sm))(t).Capability)
		slices.Sort(got)
		hosttest.Equal(t, strings.Join(got, " "), want, sm)
	}
}
