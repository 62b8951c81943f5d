package features

import (
	"slices"
	"strings"

	"gpubuild/features/manifest"
)

// libraries begin the names of a backend's libraries, without what systems put before and behind: as build scripts have them linked, and as
// programs need or open them. NVML and NVTX only watch, and are none; nor are ONNX Runtime's providers, whose names stand in its library for
// the CPU, too (onnxruntime 1.32.0 of PyPI). Source of CUDA's: the toolkit's EULA, Attachment A, and the
// documentation of the libraries that come apart from it.
var libraries = map[string][]string{
	manifest.CUDA: {"cuda", "cudart", "cublas", "cublasLt", "nvblas", "cufft", "cufftw", "curand", "cusparse", "cusolver", "cusolverMg", "npp",
		"nvjpeg", "nvjpeg2k", "nvtiff", "cufile", "cudla", "cupti", "nvrtc", "nvvm", "nvJitLink", "nvfatbin", "cudnn", "nccl", "nvshmem",
		"nvinfer", "nvonnxparser", "cutensor", "cusparseLt", "cudss", "custatevec", "nvcomp", "nvimgcodec", "cvcuda", "cuvs", "cudf", "cugraph",
		"cuml", "nvcuvid", "nvidia-encode", "nvoptix", "torch_cuda", "c10_cuda"},
	manifest.ROCm: {"amdhip", "hip", "rocblas", "rocfft", "rocrand", "rocsparse", "rocsolver", "rocm", "rccl", "MIOpen",
		"hsa-runtime", "torch_hip", "c10_hip"},
	manifest.Vulkan: {"vulkan", "MoltenVK"}, manifest.Metal: {"Metal"}, manifest.OpenCL: {"OpenCL"},
}

// others are further names by which a program shows that it uses a backend: its libraries on Windows whose names do not follow the rule,
// and the functions that every program of it calls: the name of a library may be put together at run time.
var others = map[string][]string{
	manifest.CUDA: {"nvcuda.dll", "nppc64_", "nppial64_", "nppicc64_", "nppidei64_", "nppif64_", "nppig64_", "nppim64_", "nppist64_", "nppisu64_",
		"nppitc64_", "npps64_", "nvJitLink_1", "nvfatbin_1", "nvinfer_1", "nvonnxparser_1", "nvEncodeAPI64", "cuInit", "ncclCommInit"},
	manifest.ROCm:   {"amdhip64", "hipInit"},
	manifest.Vulkan: {"vulkan-1.dll", "vkGetInstanceProcAddr", "d3d12.dll", "dxgi.dll"},
	manifest.Metal:  {"Metal.framework"},
	manifest.OpenCL: {"clGetPlatformIDs"},
}

// Traces are the names in a program's memory that show that it uses a backend; of a bare gpu, any backend.
func Traces(backend string) (all []string) {
	for b, names := range libraries {
		if backend != b && backend != manifest.AnyGPU {
			continue
		}
		for _, name := range names {
			if name == "cuda" { // not libcudacxx, and on Windows it is nvcuda.dll
				all = append(all, "libcuda.so")
				continue
			}
			all = append(all, "lib"+name, name+"64_", name+".dll")
		}
		all = append(all, others[b]...)
	}
	return all
}

// LinksFor reports whether a build script has a library of a backend linked, by what it prints for cargo: dylib=cudart. A bare gpu may mean any.
func LinksFor(libs []string, backend string) bool {
	return slices.ContainsFunc(libs, func(lib string) bool {
		_, name, kind := strings.Cut(lib, "=")
		if !kind {
			name = lib
		}
		for b, begins := range libraries {
			if (b == backend || backend == manifest.AnyGPU) &&
				slices.ContainsFunc(begins, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
				return true
			}
		}
		return false
	})
}
