package toolchain_test

import (
	"testing"

	"gpubuild/buildenv"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/hostcc"
)

func TestSteers(t *testing.T) {
	for _, tt := range []struct {
		os, name string
		want     bool
	}{
		{"windows", "nvcc_ccbin", true}, {"linux", "nvcc_ccbin", false}, {"linux", "NVCC_CCBIN", true}, {"windows", "Include", true},
		{"linux", "CUDNN_LIB", true},
		{"windows", "Path", false}, {"linux", "RUST_LOG", false}, {"linux", "CARGO_HOME", false}, {"linux", "LD_PRELOAD", false},
	} {
		if got := toolchain.SelectsToolchain(buildenv.Host{OS: tt.os}, tt.name); got != tt.want {
			t.Errorf("%s on %s: %v", tt.name, tt.os, got)
		}
	}
	s := toolchain.Set{Toolkit: &cuda.Toolkit{NVCC: "/cuda/bin/nvcc"}, Compiler: &hostcc.Compiler{CXX: "/usr/bin/g++"}}
	for name, want := range map[string]string{"NVCC_CCBIN": "/usr/bin/g++", "CUDACXX": "/cuda/bin/nvcc", "NVCC_APPEND_FLAGS": ""} {
		if got := toolchain.InPlace(s, name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := toolchain.InPlace(toolchain.Set{}, "NVCC"); got != "" {
		t.Errorf("without a toolkit: %s", got)
	}
}
