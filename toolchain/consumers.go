package toolchain

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

// consumer is a build tool that many crates share, and how it finds CUDA. Read
// in the sources of the versions named, CMake in its documentation.
type consumer struct {
	name     string
	roots    []string // variables that name the toolkit's root, in its order
	defaults []string // roots that it tries when none of them is set
	always   bool     // it tries the defaults even when one is set
	reads    []string // everything else that it reads
}

// PassesCXX is the consumer that hands the compiler which CXX names to nvcc as -ccbin=, before NVCC_CCBIN.
const PassesCXX = "cc"

// consumers lists the known ones. The order of variables and defaults is theirs.
func consumers() []consumer {
	usual := []string{"/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda"}
	return []consumer{
		{ // 0.19.10 build.rs: link directories of every root that is set; version by `nvcc --version` from PATH; CUDNN_LIB counts as a root
			name:     "cudarc",
			roots:    []string{"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"},
			defaults: append([]string{"/usr"}, usual...),
			reads:    []string{"PATH", "CUDNN_LIB", "CUDNN_PATH"},
		},
		// 0.1.6 toolkit.rs, compute_cap.rs, parallel.rs, builder.rs: NVCC, else
		// PATH; the root is nvcc's. CUDA_HOME counts only without both
		{
			name:  "cudaforge",
			reads: []string{"PATH", "NVCC", "NVCC_CCBIN", "CUDA_COMPUTE_CAP"},
		},
		{ // 0.1.6 lib.rs: nvcc from PATH, headers from the first root that has include/cuda.h, defaults included
			name:     "bindgen_cuda",
			roots:    []string{"CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"},
			defaults: append([]string{"/usr"}, usual...),
			always:   true,
			reads:    []string{"PATH", "NVCC_CCBIN", "CUDA_COMPUTE_CAP"},
		},
		{ // 0.11.3, by find_cuda_helper 0.2.0 lib.rs: the root of headers and libnvvm; CUDA_LIBRARY_PATH lists where else to link from
			name:     "cust_raw",
			roots:    []string{"CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"},
			defaults: usual[:2],
			always:   true,
			reads:    []string{"CUDA_LIBRARY_PATH"},
		},
		{ // NVlabs/cutile-rs cuda-bindings/build.rs, cutile-compiler; cuda-oxide's reads CUDA_HOME, too
			name:     "cuda-bindings",
			roots:    []string{"CUDA_TOOLKIT_PATH", "CUDA_HOME"},
			defaults: usual[:1],
		},
		{name: PassesCXX, reads: []string{"NVCC"}}, // 1.0 to 1.11 lib.rs: Build::cuda without ccbin(false)
		{ // FindCUDAToolkit; CUDAHOSTCXX and CUDACXX belong to its CUDA language
			name:     "cmake",
			roots:    []string{"CUDAToolkit_ROOT", "CUDA_PATH"},
			defaults: usual[:1],
			reads:    []string{"PATH", "CUDACXX", "CUDAHOSTCXX"},
		},
	}
}

// readers returns the consumers that a project has, and the variables that its own scripts read. Nothing said means cudarc, cudaforge and
// bindgen_cuda, and a build script that may read any of the usual variables.
func readers(reads []string) (known []consumer, names []string) {
	if len(reads) == 0 {
		reads = []string{"cudarc", "cudaforge", "bindgen_cuda"}
	}
	all := consumers()
	for _, r := range reads {
		if i := slices.IndexFunc(all, func(c consumer) bool { return c.name == r }); i >= 0 {
			known = append(known, all[i])
			names = append(names, all[i].reads...)
			continue
		}
		names = append(names, r)
	}
	return known, names
}

// SelectsToolchain reports whether a variable decides which tools a build takes: those that name a toolkit, a cuDNN or a compiler, and
// those of a developer prompt. Where cargo's configuration gives one to build scripts, it counts like the user's own. PATH is none of
// them: cargo itself does not look there.
func SelectsToolchain(h buildenv.Host, name string) bool {
	all := slices.Concat(cuda.RootVariables(), cudnn.Variables(), hostcc.Words(), hostcc.FlagVariables(), []string{
		"NVCC", "CUDACXX", "CUDA_COMPUTE_CAP", "CMAKE_GENERATOR",
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
