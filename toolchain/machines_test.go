package toolchain_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

var update = flag.Bool("update", false, "rewrite testdata/golden")

// machine loads a stored machine and gathers what the rooms find on it.
func machine(t *testing.T, name string) (buildenv.Host, toolchain.Facts) {
	t.Helper()
	h, run := hosttest.LoadCommands(t, name)
	return h, gather(h, run)
}

func gather(h buildenv.Host, run interface {
	Run(context.Context, buildenv.Cmd) (buildenv.Result, error)
}) toolchain.Facts {
	f := toolchain.Facts{Toolkits: cuda.Find(h, nil), LibCUDA: toolchain.DriverLibrary(h), Places: cuda.UsualPlaces(h), GXX: h.InstallCommand(buildenv.GXX)}
	var roots []string
	for _, t := range f.Toolkits {
		if t.Problem == "" {
			roots = append(roots, t.Root)
		}
	}
	f.CUDNN = cudnn.Find(h, roots)
	f.Compilers = hostcc.Find(context.Background(), h, run)
	return f
}

// candle is what candle with cuda and cudnn asks for, by cudarc 0.19.10.
var candle = toolchain.Needs{NVCC: true, Libraries: true, CUDNN: true, EmbedsPTX: true, CUDA: true,
	CudarcMax: gpu.Version{Major: 13, Minor: 4}}

// kernels is what one own kernel beside a dynamically loading cudarc asks for.
var kernels = toolchain.Needs{NVCC: true, EmbedsPTX: true, CUDA: true}

// TestMachines tells of every stored machine what is chosen on it and why, and what a build's environment becomes.
func TestMachines(t *testing.T) {
	for _, tt := range []struct {
		host  string
		needs toolchain.Needs
	}{
		{"linux-usual", kernels},
		{"linux-two-toolkits", kernels},
		{"linux-admin-link", kernels},
		{"linux-dangling-link", kernels},
		{"linux-libraries", kernels},
		{"linux-nix-split", kernels},
		{"linux-nix-list", kernels},
		{"linux-variables-disagree", kernels},
		{"linux-removed-toolkit", kernels},
		{"linux-container-stubs", with(candle, func(n *toolchain.Needs) { n.CUDNN = false })},
		{"linux-debian", kernels},
		{"linux-conda", candle},
		{"linux-pip13", candle},
		{"linux-arch", kernels},
		{"linux-gcc-too-new", kernels},
		{"linux-no-cxx", kernels},
		{"wsl2-driver-only", kernels},
		{"linux-edited-header", kernels},
		{"linux-incomplete", kernels},
		{"linux-cudnn-two-majors", candle},
		{"linux-cudnn-deb", candle},
		{"linux-cudnn-lib-alone", candle},
		{"linux-hpc-sdk", with(candle, func(n *toolchain.Needs) { n.CUDNN = false })},
		{"linux-unreadable", kernels},
		{"linux-odd-paths", kernels},
		{"linux-bare", kernels},
		{"linux-pip12", kernels},
		{"linux-spack", kernels},
		{"linux-nix", kernels},
		{"linux-two-nvcc", kernels},
		{"linux-toolset-and-rocm", kernels},
		{"linux-arm64", candle},
		{"linux-jetson", candle},
	} {
		t.Run(tt.host, func(t *testing.T) {
			h, f := machine(t, tt.host)
			golden(t, tt.host, story(h, f, tt.needs))
		})
	}
}

func with(n toolchain.Needs, change func(*toolchain.Needs)) toolchain.Needs {
	change(&n)
	return n
}

// reads is what crates that compile kernels need, and read of the environment.
func reads(names ...string) toolchain.Needs {
	return with(kernels, func(n *toolchain.Needs) { n.Reads = names })
}

// story words a choice and its environment.
func story(h buildenv.Host, f toolchain.Facts, n toolchain.Needs) string {
	var b strings.Builder
	s, err := toolchain.Choose(f, n, toolchain.Wish{})
	if err != nil {
		fmt.Fprintln(&b, "error:", err)
		if hint, ok := err.(interface{ Hint() string }); ok {
			fmt.Fprintln(&b, "hint:", hint.Hint())
		}
		return b.String()
	}
	if t := s.Toolkit; t != nil {
		fmt.Fprintf(&b, "toolkit: %s, from %s\n  nvcc %s\n  include %s\n  lib %s\n  stubs %s\n  cupti %s\n  version from %s\n  missing "+
			"%v\n  gcc up to %d, clang up to %d\n",
			t.Named(), t.Origin, t.NVCC, t.Include, t.Lib, t.Stubs, t.CUPTI, t.Read, t.Missing, t.Bounds.GCCMax, t.Bounds.ClangMax)
	}
	if c := s.Compiler; c != nil {
		fmt.Fprintf(&b, "compiler: %s, from %s\n", c.Named(), c.Origin)
	}
	if c := s.CUDNN; c != nil {
		fmt.Fprintf(&b, "with %s for CUDA %d, from %s\n", c, c.CUDAMajor, c.Origin)
	}
	fmt.Fprintf(&b, "arch: %s, %s\n", s.Capability, s.CapabilityOrigin)
	for _, note := range s.Notes {
		fmt.Fprintln(&b, "note:", note)
	}
	for _, l := range s.Losers {
		fmt.Fprintln(&b, "lost:", l)
	}
	for _, c := range toolchain.Environment(h, s, n).Changes {
		fmt.Fprintf(&b, "%s %s=%s # %s\n", c.Op, c.Name, c.Value, c.Reason)
	}
	return b.String()
}

// golden compares text with testdata/golden/NAME.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		hosttest.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		hosttest.OK(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := hosttest.Must(os.ReadFile(path))(t)
	hosttest.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got)
}
