package toolchain

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

// Steers says whether a variable decides which tools a build takes: those that name a toolkit, a cuDNN or a compiler, and those of a
// developer prompt. Where cargo's configuration gives one to build scripts, it counts like the user's own. PATH is none of them: cargo
// itself does not look there.
func Steers(h buildenv.Host, name string) bool {
	all := slices.Concat(cuda.RootVariables(), cudnn.Variables(), hostcc.Words(), hostcc.FlagVariables(), []string{
		"NVCC", "CUDACXX", "CUDA_COMPUTE_CAP", "CUDAFORGE_THREADS", "CMAKE_GENERATOR",
		"LIBRARY_PATH", "INCLUDE", "LIB",
		toolsVersion, "VCToolsInstallDir", "VCINSTALLDIR", "VSINSTALLDIR", "VisualStudioVersion",
		"VSCMD_VER", "VSCMD_ARG_TGT_ARCH", "VSCMD_ARG_HOST_ARCH", "WindowsSdkDir", "WindowsSDKVersion",
	})
	return slices.ContainsFunc(all, func(v string) bool { return v == name || h.OS == buildenv.Windows && strings.EqualFold(v, name) })
}

// InPlace is the value of a variable that must not be set, for one who cannot unset it.
func InPlace(s Set, name string) string {
	switch name {
	case "NVCC_CCBIN", "CUDAHOSTCXX", "HOST_COMPILER":
		if s.Compiler != nil {
			return s.Compiler.CXX
		}
	case "NVCC", "CUDACXX":
		if s.Toolkit != nil {
			return s.Toolkit.NVCC
		}
	}
	return ""
}
