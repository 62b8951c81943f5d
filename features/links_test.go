package features

import (
	"slices"
	"strings"
	"testing"
)

// TestLinksFor: whether what a build script has linked is a library of a backend.
func TestLinksFor(t *testing.T) {
	for lib, want := range map[string]bool{"cuda": true, "dylib=cudart": true, "static=cudart_static": true, "framework=Metal": false, "z": false,
		"nvidia-ml": false, "static=kern": false, "nppc": true, "dylib=nvinfer_plugin": true, "curl": false} {
		if LinksFor([]string{lib}, "cuda") != want {
			t.Errorf("%s: %v", lib, !want)
		}
	}
	if !LinksFor([]string{"framework=Metal"}, "gpu") || LinksFor([]string{"cuda"}, "rocm") || LinksFor([]string{"static=rocksdb"}, "gpu") {
		t.Error("a bare gpu may mean any, and rocm no other")
	}
}

func traces(backend string, off bool) []string { all, _, _ := Traces(backend, off); return all }

// TestTraces: the names of real libraries, on both systems, and of others that look alike.
func TestTraces(t *testing.T) {
	for backend, names := range map[string]string{
		"cuda": `libcuda.so.1 libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libnvblas.so.13 libcufft.so.12 libcufftw.so.12 libcurand.so.10
			libcusparse.so.12 libcusparseLt.so.0 libcusolver.so.12 libcusolverMg.so.12 libnppc.so.13 libnppial.so.13 libnpps.so.13
			libnvjpeg.so.13 libcufile.so.0 libcupti.so.13 libnvrtc.so.13 libnvJitLink.so.13 libcudnn.so.9 libcudnn_graph.so.9 libnccl.so.2
			libnvinfer.so.10 libnvinfer_plugin.so.10 libcutensor.so.2 libtorch_cuda.so libggml-cuda.so nvcuda.dll cudart64_13.dll cublasLt64_13.dll
			cufft64_12.dll curand64_10.dll cusparse64_12.dll cusolver64_12.dll nppc64_13.dll nppial64_13.dll nvjpeg64_13.dll
			nvrtc64_130_0.dll nvJitLink_130_0.dll cudnn64_9.dll nvinfer_10.dll cutensor.dll torch_cuda.dll`,
		"rocm":   "libamdhip64.so.7 amdhip64_7.dll libhipblas.so.3 librocblas.so.5 libMIOpen.so.1",
		"vulkan": "libvulkan.so.1 vulkan-1.dll libggml-vulkan.so", "level-zero": "libze_loader.so.1", "opencl": "libOpenCL.so.1 OpenCL.dll", "metal": "Metal.framework", "directml": "DirectML.dll",
		"": `libnvidia-ml.so.1 nvml.dll libnvToolsExt.so.1 libcurl.so.4 libcups.so.2 librocksdb.so.9 libcudacxx libc.so.6 gpu64_1.dll
			libonnxruntime_providers_cuda.so onnxruntime_providers_cuda.dll libonnxruntime_providers_tensorrt.so
			libonnxruntime_providers_rocm.so onnxruntime_providers_migraphx.dll`,
	} {
		for name := range strings.FieldsSeq(names) { // with a crate that is off
			shows := func(b string) bool {
				return slices.ContainsFunc(traces(b, true), func(trace string) bool { return strings.Contains(name, trace) })
			}
			if backend != "" && !shows(backend) || shows("gpu") != (backend != "") || backend == "cuda" && shows("rocm") {
				t.Errorf("%s: %s", backend, name)
			}
		}
	}
	if name := "onnxruntime_providers_cuda.dll"; !slices.Contains(traces("cuda", false), name) || slices.Contains(traces("rocm", false), name) {
		t.Error("a program of its own that names ONNX Runtime's provider")
	}
}
