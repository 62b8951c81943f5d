package explain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestHeldOut: lines from public threads that were read only after the rules were written. Of the 16, 13 were recognised at once; cudart and cufft
// (libraries that no rule had named) and CMake's wrapped text were not, and were then added.
func TestHeldOut(t *testing.T) {
	for _, tt := range []struct{ thread, text, want string }{
		{"llamafile 56", "building ggml-cuda with nvcc -arch=native...\nnvcc fatal   : Value 'native' is not defined for option 'gpu-architecture'\n/usr/bin/nvcc: returned nonzero exit status", "value-sm-not-defined"},
		{"llamafile 56, second", "nvcc fatal   : Value 'compute_86' is not defined for option 'gpu-architecture'", "value-sm-not-defined"},
		{"spiceai 7280", "2025-09-23T05:22:31.4713801Z nvcc error while executing compiling: \"nvcc\" \"--gpu-architecture=sm_87\" \"-c\"\n2025-09-23T05:22:31.4713847Z \n2025-09-23T05:22:31.4713897Z # stdout\n2025-09-23T05:22:31.4714282Z # stderr\n2025-09-23T05:22:32.1760063Z ##[error]Process completed with exit code 1.", "nvcc-stderr-swallowed"},
		{"kaspa-miner 44", "error: failed to run custom build command for `cust_raw v0.11.3`\n  thread 'main' panicked at 'Could not find a cuda installation', C:\\Users\\x\\.cargo\\find_cuda_helper-0.2.0\\src\\lib.rs:12:13", "find-cuda-helper-fixed-paths"},
		{"cudarc 141", "  = note: LINK : fatal error LNK1181: cannot open input file 'cudnn.lib'\n          \n\nwarning: `test_dfdx` (bin \"test_dfdx\") generated 2 warnings", "lnk1181-cudnn"},
		{"mistral.rs 653", "  = note: LINK : fatal error LNK1181: cannot open input file 'mistralcuda.lib'", "lnk1181-own-kernel-lib"},
		{"mistral.rs 1529", "Unable to dynamically load the \"cuda\" shared library - searched for library names: [\"libcuda.so\", \"libcuda64.so\", \"libcuda64_12.so\"]. Ensure that `LD_LIBRARY_PATH` has the correct path", "dynload-cuda-driver"},
		{"cudarc 286", "thread 'driver::safe::launch::tests::test_par_launch' panicked at src/lib.rs:98:5:\nUnable to dynamically load the \"cuda\" shared library - searched for library names: [\"cuda\", \"nvcuda\"].", "dynload-cuda-driver"},
		{"cudarc 451", "Unable to dynamically load the \"cudart\" shared library - searched for library names: [\"cudart.dll\", \"cudart64.dll\"]", "windows-cuda-dll-not-found"},
		{"koharu 169", "cudarc-0.19.0\\src\\lib.rs:181:5: Unable to dynamically load the \"cufft\" shared library - searched for library names: [\"cufft64.dll\"]", "windows-cuda-dll-not-found"},
		{"candle 2112", "target/debug/myapp: error while loading shared libraries: libnvrtc.so.12: cannot open shared object file: No such file or directory", "cuda-library-not-found"},
		{"candle 2175", "called `Result::unwrap()` on an `Err` value: DlOpen { desc: \"libcuda.so: cannot open shared object file: No such file or directory\" }", "dlopen-libcuda-so-unversioned"},
		{"cudarc 190", "  = note: LINK : warning LNK4098: defaultlib 'LIBCMT' conflicts with use of other libs\n          cuda.lib : error LNK2019: unresolved external symbol __cudaRegisterFatBinary referenced in function", "lnk2019-cudaregisterfatbinary"},
		{"mistral.rs 850", "Error: DriverError(CUDA_ERROR_INVALID_PTX, \"a PTX JIT compilation failed\") when loading utanh_bf16", "invalid-ptx-jit-failed"},
		{"mistral.rs 867", "Error: DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, \"the provided PTX was compiled with an unsupported toolchain.\") when loading dequantize_block_q4_K_f32", "unsupported-ptx-version"},
		{"llama.cpp 22886", "CMake Error at /usr/share/cmake/Modules/CMakeDetermineCompilerId.cmake:934 (message):\n  Compiling the CUDA compiler identification source file\n  \"CMakeCUDACompilerId.cu\" failed.\n\n  Compiler: /usr/local/cuda/bin/nvcc", "cmake-cuda-compiler-id-failed"},
	} {
		hosttest.Equal(t, first(t, tt.text), tt.want, tt.text)
	}
}

// secondRound are lines from public threads that no rule names as its source, read on 2026-11-21 against the rules of that day. missed were not
// recognised then, and rules were added or widened for them afterwards; the others show what the rules do with text that they were not written on.
var secondRound = []struct {
	thread, text, want string
	missed             bool
}{
	{"ComputationalRadiationPhysics/cuda_memtest 26", "/usr/include/crt/host_config.h:121:2: error: #error -- unsupported GNU version! gcc versions later than 6 are not supported!", "gcc-too-new-for-cuda", false},
	{"Ledarium/rusty_pickaxe 6", "warning: /usr/include/crt/host_config.h:139:2: error: #error -- unsupported GNU version! gcc versions later than 10 are not supported! The nvcc flag '-allow-unsupported-compiler' can be used", "gcc-too-new-for-cuda", false},
	{"ninja-build/ninja 2595", "  139 | #error -- unsupported GNU version! gcc versions later than 11 are not supported! The nvcc flag", "gcc-too-new-for-cuda", false},
	{"fireice-uk/xmr-stak 733", "/opt/cuda/include/crt/host_config.h:121:2: error: #error -- unsupported GNU version! gcc versions later than 6 are not supported!", "gcc-too-new-for-cuda", false},
	{"hank-ai/darknet 129, as a mail program wrapped it", " error: #error -- unsupported GNU version! gcc versions later than 12 are\n not supported! The nvcc flag '-allow-unsupported-compiler' can be used to", "gcc-too-new-for-cuda", true},
	{"bheisler/RustaCUDA 15", "  note: /usr/bin/ld: cannot find -lcudart\n          /usr/bin/ld: cannot find -lcublas\n          collect2: error: ld returned 1 exit status", "link-cuda-libraries", false},
	{"chelsea0x3b/cudarc 228", "undefined reference to `cublasHgemmStridedBatched'\n          collect2: error: ld returned 1 exit status", "link-old-cuda-libraries", true},
	{"microsoft/onnxruntime 21825", "2024-08-22 13:01:04.2808367 [E:onnxruntime:Default, provider_bridge_ort.cc:1992 onnxruntime::TryGetProviderInfo_CUDA] D:\\a\\_work\\1\\s\\onnxruntime\\core\\session\\provider_bridge_ort.cc:1637 onnxruntime::ProviderLibrary::Get [ONNXRuntimeError] : 1 : FAIL : LoadLibrary failed with error 126 \"\" when trying to load \"c:\\Simon\\Timpi\\onnxruntime_providers_cuda.dll\"", "ort-provider-dll-126", true},
	{"microsoft/onnxruntime 22930", "[W:onnxruntime:Default, onnxruntime_pybind_state.cc:965 onnxruntime::python::CreateExecutionProviderInstance] Failed to create CUDAExecutionProvider. Require cuDNN 9.* and CUDA 12.*, and the latest MSVC runtime.", "ort-ep-silent-fallback", true},
	{"microsoft/onnxruntime 16931", "2023-07-31 14:22:06.483132863 [W:onnxruntime:Default, onnxruntime_pybind_state.cc:640 CreateExecutionProviderInstance] Failed to create CUDAExecutionProvider. Please reference https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#requirements to ensure all dependencies are met.", "ort-ep-silent-fallback", true},
	{"NVIDIA/TransformerEngine 1018", "/scratch/midway3/tvallabh/tarun_dev/include/cuda_bf16.hpp(541): error: identifier \"NV_PROVIDES_SM_80\" is undefined", "nvrtc-headers-mismatch", true},
	{"NVlabs/tiny-cuda-nn 506", "C:\\Users\\p\\lib\\site-packages\\tinycudann\\rtc\\include\\cuda_fp16.h(129): catastrophic error: cannot open source file \"vector_types.h\"", "nvrtc-headers-mismatch", true},
	{"nanoporetech/dorado 166", "Could not load library libcudnn_cnn_infer.so.8. Error: /usr/local/Cluster-Apps/cuda/8.0/lib64/libnvrtc.so: undefined symbol: nvrtcGetCUBIN", "toolkit-library-symbol-missing", false},
	{"vladmandic/sdnext 539", "Could not load library libcudnn_cnn_infer.so.8. Error: libnvrtc.so: cannot open shared object file: No such file or directory", "cuda-library-not-found", true},
	{"wilicc/gpu-burn 76", "./gpu_burn: error while loading shared libraries: libcublas.so.9.1: cannot open shared object file: No such file or directory", "cuda-library-not-found", false},
	{"ollama/ollama 602", "`/tmp/ollama568860520/11ama.cpp/gguf/build/cuda/bin/ollama-runner: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory`", "cuda-library-not-found", false},
	{"spiceai/spiceai 4471", ">>/home/ubuntu/.spice/bin/spiced: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory", "cuda-library-not-found", false},
	{"daralthus/mitsuba2-docker 2", "`mitsuba: error while loading shared libraries: libcuda.so.1: cannot open shared object file: No such file or directory`", "libcuda-not-found", false},
	{"abetlen/llama-cpp-python 1368", "C:\\Program Files\\Microsoft Visual Studio\\2022\\Community\\MSBuild\\Microsoft\\VC\\v170\\BuildCustomizations\\CUDA 12.2.targets(799,9): error MSB3721: The command \"\"C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.2\\bin\\nvcc.exe\" -gencode=arch=compute_52\" exited with code 1.", "msb3721-nvcc", true},
	{"screenpipe/screenpipe 749", "error: failed to run custom build command for `candle-kernels v0.7.2`\n\nCaused by:\n  process didn't exit successfully: `J:\\ScreenPipe\\target\\release\\build\\candle-kernels-d6f54d410ef1df66\\build-script-build` (exit code: 101)", "gpu-build-script-failed", false},
	{"EricLBuehler/mistral.rs 1056, second case", "called `Result::unwrap()` on an `Err` value: WithBacktrace { inner: Cuda(Cublas(CublasError(CUBLAS_STATUS_ALLOC_FAILED))), backtrace: Backtrace [{ fn: \"candle_core::error::Error::bt\" }] }", "gpu-out-of-memory", true},
	{"NVIDIA/jitify 56", "warning: cuda_fp16.h: File not found", "", false},
	{"huggingface/candle 1597", "called `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_UNKNOWN, \"unknown error\")", "driver-unknown-error", true},
	{"EricLBuehler/mistral.rs 1609", "Could not prepare cache: DriverError(CUDA_ERROR_INVALID_VALUE, \"invalid argument\")", "cuda-status", true},
	{"EricLBuehler/mistral.rs 772", "ValueError: CublasError(CUBLAS_STATUS_INVALID_VALUE)", "cuda-status", true},
	{"EricLBuehler/mistral.rs 650", "Model failed with error: WithBacktrace { inner: Msg(\"key must be a cuda tensor\"), backtrace: Backtrace [] }", "", false},
	{"tazz4843/whisper-rs 132", "CMake Error: The source directory \"/home/k/whisper-rs/target/debug/build/whisper-rs-sys-x/out\" does not appear to contain CMakeLists.txt.", "cmake-source-missing", true},
	{"Rust-GPU/rust-cuda 89", "cc1plus.exe: error: unrecognized command-line option '-wd4141'", "msvc-flags-to-gcc", true},
}

// TestSecondRound: what is not known (no want) must stay unknown: no rule may claim it by a loose word.
func TestSecondRound(t *testing.T) {
	for _, tt := range secondRound {
		hosttest.Equal(t, first(t, tt.text), tt.want, tt.thread)
	}
}

// thirdRound are the 15 of 45 further failures that were set aside before rules were written for the other 30 (every third line of the collection).
// Two leave no text and one is a command line of a good build. Of the 12 others, 5 were recognised at once, none wrongly; those that were missed
// are marked, and rules were added for them afterwards.
var thirdRound = []struct {
	text, want string
	missed     bool
}{
	{"ug-cuda v0.5.0 uses cudarc v0.17.8 which conflicts with a separate dep of cudarc v0.18.1 and doesn't support CUDA 13.1", "two-cudarc-versions", true},
	{"-- Could not find nvcc, please set CUDAToolkit_ROOT.\nCMake Warning at ggml/src/CMakeLists.txt:403 (message):\n  CUDA not found", "cmake-no-cuda-compiler", true},
	{"CUDA\\v12.2\\include\\cuda_fp16.hpp(65): fatal error C1083: Cannot open include file: 'nv/target': No such file or directory", "toolkit-without-cccl", false},
	{"/usr/bin/ld: cannot find -lcuda", "ld-cannot-find-lcuda", false},
	{"The requested API version [23] is not available, only API versions [1, 17] are supported in this build. Current ORT Version is: 1.17.1", "onnxruntime-too-old", true},
	{"CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version", "driver-older-than-runtime", false},
	{"include/cutlass/matrix.h:14028:3: error: ‘struct cutlass::Matrix<Element_, 4, 4>’ has no member named ‘set_slice3x3’; did you mean ‘set_slice_3x3’? [-Wtemplate-body]", "gcc15-template-body", false},
	{"ld.lld: error: undefined symbol: ggml_backend_cuda_reg\n>>> referenced by ggml-backend-reg.cpp", "ggml-backend-not-linked", true},
	{"Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")", "gpu-out-of-memory", false},
	{"xcrun: error: unable to find utility \"metal\", not a developer tool or in PATH", "no-metal-compiler", true},
	{"/usr/include/stdlib.h:32:10: fatal error: 'stddef.h' file not found\npanicked at cuda-bindings/build.rs: Unable to generate bindings: ClangDiagnostic(\"…\")", "libclang-without-headers", true},
	{"/usr/bin/ld: warning: libcuda.so.1, needed by ../../bin/libggml-cuda.so.0.9.4, not found (try using -rpath or -rpath-link)", "libcuda-not-linked", true},
	{"nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)\nnvcc error   : 'cicc' core dumped", "cicc-crashed", true},
}

func TestThirdRound(t *testing.T) {
	for _, tt := range thirdRound {
		hosttest.Equal(t, first(t, tt.text), tt.want, tt.text)
	}
}

// TestQuoted: where no rule knows a failure, its first error is believed if it says itself what is wrong, and lines that say only that a part
// failed are passed over.
func TestQuoted(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"builder for '/nix/store/x.drv' failed with exit code 1\nCMake Error at a.cmake:7 (message):\n  set Odd_DIR\n  first", "these words of the project, or of a file that it includes: set Odd_DIR first"},
		{"error: failed to run custom build command for `odd v1.0.0`\n  thread 'main' panicked at /r/registry/src/index.crates.io-1/odd-1.0.0/build.rs:3:5:\n  no such luck", "The build script of odd stopped with these words: no such luck"},
		{"thread 'main' panicked at 'not today', src/main.rs:3:5", "these words: not today"},
		{"error: could not compile `odd` (lib)\nerror[E0599]: no method named `go` found\n --> src/lib.rs:1:1", "does not compile: no method named `go` found"},
		{"Traceback (most recent call last):\n  File \"a.py\", line 1\nodd.OddError: nothing fits", "these words: odd.OddError: nothing fits"},
		{"error: linking with `cc` failed: exit status: 1", ""}, {"CMake Error at a.cmake:7 (message):", ""}, {"odd: fatal error", ""},
	} {
		a := ask(t, tt.text)
		if a.Known() || a.Quoted() != (tt.want != "") || len(a.Errors) == 0 || !strings.HasSuffix(a.Errors[0].Cause, tt.want) {
			t.Errorf("%s: %+v %+v", tt.text, a.Found, a.Errors)
		}
	}
}

// TestOtherPrograms: errors of programs that have nothing to do with cargo, a toolkit or a GPU, in words that rules know.
func TestOtherPrograms(t *testing.T) {
	for _, text := range []string{
		"error: failed to load model 'models/x.gguf'", "error: could not open file config.yaml", "error: unable to get device properties",
		"error: checksum mismatch for weights.bin", "error: failed to open database: unable to open database file",
		"error: failed to select device 3: only 2 devices", "error: failed to resolve host name db.local",
		"error: failed to read shader file kernel.wgsl", "error: failed to parse config file settings.yaml: unknown key",
		"error: failed to parse shader: unknown type: `f16`", "CUDA error: failed to load the cache",
		"error: protocol version 3: unsupported version of protocol: 2", "error: this action requires feature flag `beta`",
		"note: falls back to CPU when no GPU is found\nerror: the port is taken",
		"cudaGetDeviceCount returned 2", "cuda err: 0", "error: WAYLAND_DISPLAY is set to wayland-1, cannot parse --size",
	} {
		if a := ask(t, text); len(a.Found) > 0 {
			t.Errorf("%s: %v", text, ids(a))
		}
	}
}

// TestWrongAnswers: texts that a rule once explained with another failure's cause.
func TestWrongAnswers(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"error: failed to run custom build command for `candle-kernels v0.9.1`", "gpu-build-script-failed"},
		{"host_config.h(160): fatal error C1189: #error:  -- unsupported Microsoft Visual Studio version! Only the versions between 2017 and 2019 (inclusive) are supported!", "msvc-2022-before-cuda-11-6"},
		{"src/moe/moe_wmma_gguf.cu(259): error: incomplete type \"nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, nv_bfloat16>\" is not allowed", "bf16-wmma-before-ampere"},
		{"Unable to dynamically load the \"cudart\" shared library - searched for library names: [\"cudart64_13.dll\"]", "windows-cuda-dll-not-found"},
		{"Runtime compute cap 75 is not compatible with compile time compute cap 80", "tei-cap-differs"},
		{"Runtime compute cap 120 is not compatible with compile time compute cap 120", "tei-cap-equal-but-refused"},
		{"libnvrtc.so.13: undefined symbol: nvrtcGetNVVM", "toolkit-library-symbol-missing"},
		{"Error: DriverError(303, \"shared object initialization failed\")", "cuda-status"},
		{"app.o: undefined reference to `c10::Error::Error(c10::SourceLocation, std::__cxx11::basic_string<char>)'", "libtorch-symbol-undefined"},
		{"/usr/bin/ld: skipping incompatible /usr/local/cuda/lib64/libcublas.so when searching for -lcublas\n/usr/bin/ld: cannot find -lcublas: No such file or directory", "link-wrong-architecture"},
		{"Unable to find libclang: \"couldn't find any valid shared libraries matching: ['libclang.so', 'libclang-*.so'], set the `LIBCLANG_PATH` environment variable\"", "libclang-missing"},
		{"nvcc fatal   : Value 'sm_30' is not defined for option 'gpu-architecture'", "arch-dropped-by-nvcc"},
		{"nvcc fatal   : Value 'sm_61' is not defined for option 'gpu-architecture'", "value-sm-not-defined"},
		{"/tmp/wrapper.h:1:10: fatal error: 'cuda_runtime.h' file not found", "clang-without-cuda-headers"},
		{"Unable to dynamically load the \"nvrtc\" shared library - searched for library names: [\"nvrtc\", \"nvrtc64_120_0\"]", "dynload-nvrtc"},
		{"INTERNAL: libdevice not found at ./libdevice.10.bc", "libdevice-not-found"},
		{"error while loading shared libraries: libcublasLt.so.12: cannot open shared object file: No such file or directory", "cuda-library-not-found"},
		{"cudarc-0.11.5/src/driver/sys/mod.rs:61:9:\nUnable to find cuda lib under the names [\"cuda\", \"nvcuda\"]", "cudarc-driver-not-opened"}, // cudarc 255
		{"cudarc-0.11.3\\src\\curand\\sys\\mod.rs:51:9:\nUnable to find curand lib under the names [\"curand\"]", "cudarc-library-not-opened"},
		{"llama.cpp/ggml-cuda.cu(626): error: identifier \"__hmax2\" is undefined", "half-intrinsics-missing"}, // abetlen/llama-cpp-python 1081
		{"Error: Failed to clone cutlass repository\n\nCaused by:\n    No such file or directory (os error 2)", "git-missing"},
		{"Error: Failed to clone https://github.com/NVIDIA/cutlass.git\n\nCaused by:\n    timed out", "cuda-crate-clones-cutlass"},
		{"app: symbol lookup error: /opt/app/libfoo.so: undefined symbol: cuGetErrorString", "loaded-library-differs"},
		{"symbol lookup error: /opt/cuda/libcublas.so: undefined symbol: cublasLtFoo, version libcublasLt.so.13", "cuda-libraries-of-two-releases"},
		{"LoadLibraryExW failed for C:\\Windows\\nvcuda.dll: Os { code: 126, kind: Uncategorized }", "shared-library-not-found"},
		{"Build mistral quant lib failed!: CompilationFailed { path: \"kernels/cutlass_moe/a.cu\", message: \"nvcc error\" }", ""},
		{"undefined reference to `engine::load(std::__cxx11::basic_string<char, std::char_traits<char> >)'", "function-not-linked"},
		{"error: couldn't load codegen backend /app/librustc_codegen_cranelift.so: bad", ""},
		{"thread 'main' panicked: ModuleNotFound { name: \"wasm\" } in cuda.rs", ""},
		{"a.hpp(1): error: identifier \"PFN_cuTensorMapEncodeTiled_v12000\" is undefined", ""},
		{"torch_api.cpp(1): fatal error C1083: Cannot open include file: 'torch/csrc/autograd/engine.h': No such file or directory", "header-not-found"},
		{"nvcc fatal   : 'cudafe++' died due to signal 11", "cicc-crashed"},
		{"Unable to find libclang: \"couldn't find any valid shared libraries matching: ['libclang", ""}, // cut before .so or .dll
		{"/usr/lib/gcc-cross/aarch64-linux-gnu/5/../../../../aarch64-linux-gnu/bin/ld: cannot find -lnvrtc", "link-cross-cuda-libraries"},
		{"/usr/bin/x86_64-linux-gnu-ld: cannot find -lnvrtc", "link-cuda-libraries"},
		{"Experimental ZLUDA support enabled\nFailed: CublasError(CUBLAS_STATUS_INTERNAL_ERROR)", "zluda-call-failed"},
		{"ggml_webgpu: Failed to get an adapter: No supported adapters found", "no-gpu-seen"},
		{"load_backend: failed to find ggml_backend_init in ggml-vulkan.dll", "ggml-backend-not-loaded"},
		{"cudaGetDeviceCount returned 35", "driver-older-than-runtime"},
		{"/conda/envs/a/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by a.so)", "glibc-too-old"},
	} {
		hosttest.Equal(t, first(t, tt.text), tt.want, tt.text)
	}
	if a := ask(t, "error: failed to run custom build command for `candle-kernels v0.9.1`"); a.Known() || len(a.Errors) != 1 {
		t.Errorf("that a build script failed is no cause, and the line is shown: %+v", a)
	}
}

// TestEveryErrorIsSeen: what a tool prints when it fails is never "nothing looks like a failure", though no rule knows the cause.
func TestEveryErrorIsSeen(t *testing.T) {
	for _, text := range []string{
		"libdevice not found at ./libdevice.10.bc", "terminate called after throwing an instance of 'std::runtime_error'",
		"The procedure entry point cuFoo could not be located in the dynamic link library nvcuda.dll.",
		"dyld[123]: Library not loaded: @rpath/libfoo.dylib", "a.o:(.bss+0x0): multiple definition of `helper'",
		"foo.obj : error LNK2001: unresolved external symbol bar", "LINK : fatal error LNK1120: 3 unresolved externals",
		"CMake Error at CMakeLists.txt:7 (message):", "CMake Error: The source directory does not exist.", "/lib/libfoo.so: undefined symbol: bar_baz",
		"nvcc fatal   : Stray '\"' character", "ptxas fatal   : Ptx assembly aborted due to errors", "ptxas error   : Some fault",
		"nvlink error   : Size doesn't match for 'x'", "nvlink fatal   : Could not open input file", "nvcc error   : 'cicc' returned 0x2",
		"ld: foo.o: relocation R_X86_64_PC32 out of range", "error while loading shared libraries: libfoo.so.3: cannot open shared object file",
		"Error: DriverError(303, \"shared object initialization failed\")", "CUDA_ERROR_UNKNOWN: unknown error", "cudaErrorUnknown",
		"NVML_ERROR_UNKNOWN", "CUBLAS_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_EXECUTION_FAILED", "CUSOLVER_STATUS_INTERNAL_ERROR",
		"CURAND_STATUS_LAUNCH_FAILURE", "CUSPARSE_STATUS_INTERNAL_ERROR", "CUFFT_EXEC_FAILED", "NVRTC_ERROR_COMPILATION",
		"thread 'main' panicked at src/main.rs:1:1:", "panicked at src\\lib.rs:181:5: Unable to do it", "Error: something went wrong",
		"Segmentation fault (core dumped)", "make[2]: *** [a.dir/build.make:122: a.dir/encoding.cu.o] Error 139", "gmake: *** [all] Error 2",
		"Expected symbol in library: GetProcAddress { source: Os { code: 5 } }", "panicked at\nsrc/lib.rs:1:1:",
		"cuBLAS error 15 at ggml-cuda.cu:7398: the requested functionality is not supported",
		"GGML_ASSERT: ggml-cuda.cu:1257: to_fp32_cuda != nullptr", "ggml.c:1554: GGML_ASSERT(a <= b) failed",
		"ERR: driver shutting down gpu_ctx.cu 134", "Could not load library cufft64_12.dll", "Could not locate cudnn_graph64_9.dll",
		"Finished `dev` profile\n     Running `target/debug/app`\nthe worker died", "the GPU process crashed with ACCESS_VIOLATION (0xC0000005)",
		"what():  vk::Instance::enumeratePhysicalDevices", "Too many bindings", "the buffer size exceeds the device's limit",
		"job 1 ended by SIGABRT",
		"kernel.cu:12:3: note: suggested alternative: 'foo'\n" + strings.Repeat("In file included from a.h:1,\n", 30),
	} {
		if a := ask(t, "   Compiling app v0.1.0\n"+text+"\n"); len(a.Errors) == 0 {
			t.Errorf("not seen: %s", text)
		}
	}
	for _, s := range statuses() {
		if a := ask(t, "call failed with "+s.Name+"\n"); len(a.Errors) != 1 || a.Errors[0].Status == nil {
			t.Errorf("%s is not seen", s.Name)
		}
		if a := ask(t, "Error: call failed with "+s.Name+"\n"); !a.Known() {
			t.Errorf("%s has no rule and no owner", s.Name)
		}
	}
}

// TestNoErrorIsSeen where a line only speaks of one.
func TestNoErrorIsSeen(t *testing.T) {
	for _, text := range []string{
		"  cargo:warning=Compiler family detection failed due to error: ToolFamilyMacroNotFound: Expects macro `__clang__`",
		"12 passed, 0 failed in 3.1 s", "epoch 3: 0 errors", "step 10: 3 packets lost", "All tests passed; none failed",
		"make: [Makefile:3: clean] Error 1 (ignored)", "make: *** [Makefile:3: clean] Error 1 (ignored)",
		"src/gpu.rs:12:    // CUDA_ERROR_OUT_OF_MEMORY is handled by the caller",
		"Finished `dev` profile\n     Running `target/debug/app`\ncould not find a cache, starting afresh\n42", "3 tests ok, none died",
		"   Compiling crash-context v0.6.3\n     Running `rustc --crate-name app -C panic=abort`\n    Finished `release` profile",
		"-- Could NOT find CUDNN (missing: CUDNN_LIBRARY_PATH CUDNN_INCLUDE_PATH)\n-- Configuring done",
		"warning: unused variable: `text`\n  |\n12 |     let text = \"error: cannot find -lcuda\";\n",
	} {
		if a := ask(t, text); len(a.Errors) != 0 || len(a.Found) != 0 {
			t.Errorf("%s: %+v", text, a)
		}
	}
}

// TestUnseen: failures of public threads that no earlier collection has, each with the cause that its thread gives, written down before gpubuild
// saw the text. Some were set aside (held; in unseen.jsonl a random third, in unseen-2.jsonl every third in the order of the sources, in later
// files all) until rules had been written for the others. at_once says what the rules of that day made of it: "right", "wrong" (a cause that is
// not the thread's, or that the text does not show), or nothing; then says the same of the held ones after rules had been written for the others.
// An empty want is a text that no rule may claim to know, or that none knows yet: of the former, "right" is unknown. The one who collected
// and judged unseen-5.jsonl had not read the rules; "wrong" holds three failures there that were not seen as such at all. The same is true
// of the first 53 of unseen-6.jsonl; the other 28 were collected by the same person after the rules had been changed for those. "wrong" holds
// four there that were not seen, and two answers with the right cause whose text or remedy was wrong. Of the 7 in unseen-9.jsonl, which somebody
// collected who had not read the rules, five were not seen; of the 6 in unseen-10.jsonl, which the same person collected afterwards, all.
// From unseen-11.jsonl on the rules were general ones (kind general, and owners), written by the one who collected and judged: for the
// first, those that were written for its other half knew 24 of the 30 rightly and 1 wrongly; what was written for one file and those before
// knew, of the next one at once, 16 of 30 rightly and 2 wrongly (12), 9 of 27 and none (13), 9 of 27 and 1 (14). For unseen-15.jsonl (its 45
// that are not held were the ones to write for) and the later files the searches were fixed before any rule was read; "partly" is the right
// class without the thread's own fix. The last 23 of unseen-18.jsonl are the ones that were not right at once and repaired, of another 117, whose collector had
// not read the rules either: 91 were right, 8 partly, 3 wrong and 15 unknown.
// unseen-19.jsonl was collected from threads that no rule or test named, before the rules were read, and judged by the one who then changed
// the rules for it; unseen-20.jsonl after them. unseen-21.jsonl has the 23 that were not right of 75 whose examiner had not read the rules
// either, and judged: 52 right, 9 partly, 3 wrong, 11 unknown. unseen-22.jsonl was collected and judged by the one who had then repaired the
// rules for it: 11 of 26 right, 4 partly, none wrong. unseen-23.jsonl has the 16 that were not right of 66 whose examiner had not read the
// rules (50 right, 9 partly, 1 wrong, 6 unknown), and three that were right with a fault in their text. unseen-24.jsonl has
// those of 121 logs (97 public failures: 73 right, 14 partly, 5 wrong, 5 unknown) that were not right and repaired; one of them twice. unseen-25.jsonl was
// collected from threads that no rule or test named, as excerpts. unseen-26.jsonl has those of 37 that were not right (21 right, 3 partly, 13
// unknown) and 26 held ones that were searched for after the rules had been changed for these: 7 of 12, then 11 of 14. unseen-27.jsonl has what is left
// of 60 results of such searches after those that some file knows: 7 of 15, then 4 of 11, of which three panics name no cause at all.
// unseen-28.jsonl is half to learn from and half held, by lot, of 62 that one collector, who then wrote the rules for the first half, had read with their causes; unseen-29.jsonl
// was searched for after these, unseen-30.jsonl after those, and so on. In unseen-36.jsonl a few reports are put together again from what their threads say, and
// those that begin with "var" are known failures in another wording, language or version of the tool. unseen-40.jsonl is two rounds: 15 of 24 right, 3 wrong, then 12 of 20 and 2.
// says is a part of the cause or the fix.
func TestUnseen(t *testing.T) {
	for _, round := range []struct {
		file               string
		held, right, wrong int // of the held ones
	}{
		{"unseen.jsonl", 15, 6, 0},
		{"unseen-2.jsonl", 21, 6, 4},
		{"unseen-3.jsonl", 28, 15, 3},
		{"unseen-4.jsonl", 20, 13, 0},
		{"unseen-5.jsonl", 32, 13, 7},
		{"unseen-6.jsonl", 81, 59, 6},
		{"unseen-7.jsonl", 26, 16, 2},
		{"unseen-8.jsonl", 12, 6, 0},
		{"unseen-9.jsonl", 60, 31, 7},
		{"unseen-10.jsonl", 30, 13, 6},
		{"unseen-11.jsonl", 30, 14, 1},
		{"unseen-12.jsonl", 30, 11, 2},
		{"unseen-13.jsonl", 27, 8, 0},
		{"unseen-14.jsonl", 27, 7, 0},
		{"unseen-15.jsonl", 39, 21, 1},
		{"unseen-16.jsonl", 36, 17, 0},
		{"unseen-17.jsonl", 43, 27, 2},
		{"unseen-18.jsonl", 29, 7, 0},
		{"unseen-19.jsonl", 112, 57, 3},
		{"unseen-20.jsonl", 15, 9, 0},
		{"unseen-21.jsonl", 23, 0, 3},
		{"unseen-22.jsonl", 26, 11, 0},
		{"unseen-23.jsonl", 19, 3, 1},
		{"unseen-24.jsonl", 20, 0, 6},
		{"unseen-25.jsonl", 14, 13, 0},
		{"unseen-26.jsonl", 26, 18, 0},
		{"unseen-27.jsonl", 26, 11, 0},
		{"unseen-28.jsonl", 31, 15, 3},
		{"unseen-29.jsonl", 30, 15, 1},
		{"unseen-30.jsonl", 24, 15, 0},
		{"unseen-31.jsonl", 14, 9, 1},
		{"unseen-32.jsonl", 19, 10, 1},
		{"unseen-33.jsonl", 7, 7, 0},
		{"unseen-34.jsonl", 30, 16, 0},
		{"unseen-35.jsonl", 24, 12, 1},
		{"unseen-36.jsonl", 41, 30, 1},
		{"unseen-37.jsonl", 35, 22, 0},
		{"unseen-38.jsonl", 43, 32, 1},
		{"unseen-39.jsonl", 27, 20, 1},
		{"unseen-40.jsonl", 44, 27, 5},
	} {
		t.Run(round.file, func(t *testing.T) {
			data := hosttest.Must(os.ReadFile(filepath.Join("testdata", round.file)))(t)
			held, atOnce := 0, map[string]int{}
			for line := range strings.Lines(string(data)) {
				var f struct {
					Source, Cause, Want, Text, Says string
					Held                            bool
					AtOnce                          string `json:"at_once"`
				}
				if err := json.Unmarshal([]byte(line), &f); err != nil || f.Cause == "" {
					t.Fatalf("%v: %s", err, line)
				}
				if f.Held {
					held++
					atOnce[f.AtOnce]++
				}
				a := ask(t, f.Text)
				first := ""
				if a.Known() {
					first = a.Found[0].ID
					if w := a.Found[0].Words(Facts{}); !strings.Contains(w.Cause+"\n"+w.Fix, f.Says) {
						t.Errorf("%s: %q is not said: %+v", f.Source, f.Says, w)
					}
				}
				if first != f.Want || f.Want == "" && len(a.Errors)+len(a.Found) == 0 {
					t.Errorf("%s: got %q, want %q; %d lines that look like errors", f.Source, first, f.Want, len(a.Errors))
				}
			}
			if held != round.held || atOnce["right"] != round.right || atOnce["wrong"] != round.wrong {
				t.Errorf("%d were held, of which at once: %v", held, atOnce)
			}
		})
	}
}

// TestWarningsOfABuild that went well explain nothing; before an error, behind it, or of a silent CPU, they do.
func TestWarningsOfABuild(t *testing.T) {
	const finished = "    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.31s\n"
	const unused = "warning: unused import: `CUDA_ERROR_OUT_OF_MEMORY`\n --> src/main.rs:3:5\n"
	const probe = "warning: cudarc@0.19.0: nvcc fatal   : Unsupported gpu architecture 'compute_120' (probe, ignored)\n"
	for _, good := range []string{
		unused + finished + "     Running `target/debug/app`\ndevice: Cuda(0)\n",
		" Documenting cudarc v0.19.0\nwarning: unresolved link to `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`\n --> src/lib.rs:12:5\n" + finished,
		"   Compiling cudarc v0.19.0\n" + probe + finished,
		"error: could not compile `app`\n" + finished + probe + finished,
	} {
		if got := ids(ask(t, good)); len(got) != 0 {
			t.Errorf("%v:\n%s", got, good)
		}
	}
	for _, bad := range []string{
		probe, probe + "error: failed to run custom build command for `cudarc v0.19.0`\n" + finished,
		probe + finished + "Error: DriverError(1, \"x\")\n", probe + finished + "the worker died\n", finished + probe,
	} {
		hosttest.Equal(t, first(t, bad), "arch-too-new-for-nvcc", bad)
	}
}

// TestNoSuccessIsClaimed: that a text has no failure is said only where it shows that something went well.
func TestNoSuccessIsClaimed(t *testing.T) {
	for _, tt := range []struct {
		text      string
		succeeded bool
		errors    int
	}{
		{"", true, 0},
		{"    Finished `release` profile\n42\n", true, 0},
		{"batch 64: retrying after CUDA_ERROR_OUT_OF_MEMORY with 32 ... done\n", true, 0},
		{"- `CUDA_ERROR_NO_DEVICE`: no GPU is visible\n", true, 0},
		{"the result is 42\n", false, 0},
		{"    Finished `release` profile\n  encoder: hardware path disabled\n", true, 0},
		{"engine 7\n  encoder: hardware path disabled\n", false, 1},
		// a word that is no summary, or stands above the failure, shows nothing
		{"the token is ok\ntoo many bindings\n", false, 1},
		{"ok, passed the weights to the engine\ncannot bind the texture\n", false, 1},
		{"step 1: ok\ncould not copy the result\n", false, 1},
		{"could not copy the result at first\nstep 2: ok\n", true, 0},
		{"the self test is not ok\n", false, 0},
		{"could not open the pipe\nthe self test is not ok\n", false, 1},
		{"12 tests passed\n", true, 0},
		{"job ended: exit status 0\n", true, 0},
		// what was tried again, and went well
		{"batch 64: CUDA_ERROR_OUT_OF_MEMORY\nretrying with batch 32\nbatch 32 ok\n", true, 0},
		{"CUDA error: out of memory, trying batch size 16\nstep 2\ntraining finished\n", true, 0},
		{"CUDA error: out of memory, trying again\nstep 2\ntraining finished, model saved to model.bin\n", true, 0},
		// what informs only, and prose
		{"2026-01-01T00:00:00Z  INFO hf_hub: src/lib.rs:55: Token file not found \"token\"\n2026-01-01T00:00:00Z  INFO app: 4 workers\n", false, 0},
		{"2026-01-01T00:00:00Z  INFO app: 4 workers\n2026-01-01T00:00:00Z ERROR app: token file not found\n", false, 1},
		{"-- Could NOT find Git (missing: GIT_EXECUTABLE)\n-- Looking for pthread_create in pthreads - not found\n-- cuBLAS found\n", false, 0},
		{"warning: spurious network error (3 tries remaining): [7] could not connect to server\n    Finished `dev` profile\n", true, 0},
		{"Unsupported target with no matching prebuilt SDK\n", false, 1},
		// a server that is ready, and a transcript
		{"2026-01-01T00:00:06Z  INFO core::utils: Could not load token at \"token\", using no token.\n2026-01-01T00:00:11Z  INFO server: listening on http://0.0.0.0:1234.\n", true, 0},
		{"2026-01-01T00:00:06Z  INFO server: listening on http://0.0.0.0:1234.\ncould not bind the texture\n", false, 1},
		{"WARN supervisor: llama-server <chat> exited with status code 1\n", false, 1},
		{"WARN tune: candidate `unit` failed: not enough shared memory, skipped\nepoch 1\nepoch 2\nTraining completed\n", true, 0},
		{"WARN tune: candidate `unit` failed: not enough shared memory, skipped\nepoch 1\n", false, 1},
		{"main: server is listening on http://127.0.0.1:8080 - starting the main loop\n", true, 0},
		{"2026-01-01T00:00:06Z  WARN text_embeddings_router: Could not find a Sentence Transformers config\n2026-01-01T00:00:11Z  INFO text_embeddings_router: Ready\n", true, 0},
		{"2026-01-01T00:00:06Z  WARN router: Could not find a config\n2026-01-01T00:00:11Z  INFO router: not ready\n", false, 1},
		{"INFO router: Ready\ncould not bind the socket\n", false, 1},
		{"whisper_init_state: failed to load Core ML model from 'ggml-base-encoder.mlmodelc'\n[00:00:00.000 --> 00:00:03.000]  hello\n", true, 0},
		{"whisper_init_state: failed to load Core ML model from 'ggml-base-encoder.mlmodelc'\n", false, 1},
	} {
		a := ask(t, tt.text)
		if a.Succeeded != tt.succeeded || len(a.Errors) != tt.errors || a.Known() {
			t.Errorf("%q: succeeded %v, %d lines that look like errors", tt.text, a.Succeeded, len(a.Errors))
		}
	}
}

// TestTestsThatPass: what the tests of a run printed that passed is blamed for nothing; a failed test, and what stands outside, is.
func TestTestsThatPass(t *testing.T) {
	const no = "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
	for _, good := range []string{
		"running 1 test\n" + no + "test a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n",
		"running 1 test\nthread 'a' panicked at src/lib.rs:1:1:\n" + no + "test a - should panic ... ok\n\ntest result: ok. 1 passed; 0 failed\n",
		no + "test result: ok. 1 passed; 0 failed\n", // the beginning is cut off
		"running 1 test\n" + no + "test result: ok. 1 passed; 0 failed\n\nrunning 1 test\n" + no + "test result: ok. 1 passed; 0 failed\n",
		"    Starting 1 test across 1 binary\n" + no + "        PASS [   0.005s] a b\n     Summary [   0.006s] 1 test run: 1 passed, 0 skipped\n",
		"    Starting 2 tests across 1 binary\n" + no + "     Summary [   0.006s] 2 tests run: 2 passed (1 slow), 1 skipped\n",
		"[==========] Running 1 test from 1 test suite.\n" + no + "[       OK ] a.b (0 ms)\n[  PASSED  ] 1 test.\n",
		"Test project /b\n1: " + no + "1/1 Test #1: a ....   Passed    0.00 sec\n\n100% tests passed, 0 tests failed out of 1\n",
		"===== test session starts =====\n" + no + "===== 3 passed, 1 skipped in 0.12s =====\n",
	} {
		a := ask(t, good)
		if len(a.Found)+len(a.Errors) > 0 || !a.Succeeded {
			t.Errorf("%v, %v, succeeded %v:\n%s", ids(a), a.Errors, a.Succeeded, good)
		}
		for _, bad := range []string{good + "Error: " + no, no + "    Finished `test` profile\n" + good, strings.ReplaceAll(good, no, no+"test b ... FAILED\n")} {
			hosttest.Equal(t, first(t, bad), "no-device", bad)
		}
		if a := ask(t, good+"process didn't exit successfully: `app` (signal: 11, SIGSEGV: invalid memory reference)\n"); len(a.Errors) == 0 {
			t.Errorf("a crash behind it is not seen:\n%s", good)
		}
	}
	for _, bad := range []string{
		"    Starting 2 tests across 1 binary\n" + no + "        FAIL [   0.005s] a b\n     Summary [   0.006s] 2 tests run: 1 passed, 1 failed, 0 skipped\n",
		"[==========] Running 2 tests from 1 test suite.\n" + no + "[  FAILED  ] a.b (0 ms)\n[  PASSED  ] 1 test.\n[  FAILED  ] 1 test, listed below:\n",
		"Test project /b\n1: " + no + "1/2 Test #1: a ....***Failed    0.00 sec\n\n50% tests passed, 1 tests failed out of 2\n",
		"===== test session starts =====\n" + no + "===== 1 failed, 3 passed in 0.12s =====\n",
	} {
		hosttest.Equal(t, first(t, bad), "no-device", bad)
	}
}

// TestRetriesThatFail: what was tried again is blamed where the text does not end well.
func TestRetriesThatFail(t *testing.T) {
	for _, end := range []string{
		"", "batch 32: CUDA_ERROR_OUT_OF_MEMORY\n", "batch 32 ok\nError: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")\n",
		"batch 32 is not ok\n", "batch 32 ok\nthe worker died\n",
	} {
		text := "batch 64: CUDA_ERROR_OUT_OF_MEMORY\nretrying with batch 32\n" + end
		hosttest.Equal(t, first(t, text), "gpu-out-of-memory", text)
	}
	for _, good := range []string{"    Finished `dev` profile [unoptimized] target(s) in 0.59s", "test result: ok. 3 passed; 0 failed", "-- Configuring done",
		"[100%] Built target app", "3 passed in 2.1s"} {
		for _, again := range []string{"CUDA error: out of memory, retrying", "CUDA error: out of memory\nwill retry"} {
			hosttest.Equal(t, first(t, good+"\n"+again+"\n"), "gpu-out-of-memory", good+"\n"+again+"\n")
		}
	}
	const elsewhere = "batch 64: CUDA_ERROR_OUT_OF_MEMORY\n1\n2\n3\n4\nretrying the download\nstep ok\n"
	if got := ids(ask(t, elsewhere)); len(got) == 0 {
		t.Error("a retry of something else excuses it")
	}
}

// TestOwnFindingsAreNotExplained by the rules for others.
func TestOwnFindingsAreNotExplained(t *testing.T) {
	const own = "error: `cuda` of app enables nothing: candle-core 0.9.2 is built without CUDA [features.unreached]\n"
	if got := ids(ask(t, own)); len(got) != 1 || got[0] != "gpubuild-finding" {
		t.Error(got)
	}
}

// TestConsequencesYield: a lost device follows from an earlier error, and comes first where nothing earlier is known.
func TestConsequencesYield(t *testing.T) {
	const lost = "Error: WGPU error: Parent device is lost\n"
	const refused = "ERROR wgpu_core: ComputePipeline(Internal(\"The selected version doesn't support Features(COMPUTE_SHADER)\"))\n"
	for text, want := range map[string]string{
		refused + lost: "not-offered-by-device", lost + refused: "vulkan-device-lost",
		"wgpu error: Validation Error\n\nCaused by:\n    In Device::create_buffer\n    Not enough memory left\n" + lost: "gpu-out-of-memory",
	} {
		hosttest.Equal(t, first(t, text), want, text)
	}
}

// TestFixOfTheSystem: the log of a Windows machine gets what helps there; of a rule alone both are said.
func TestFixOfTheSystem(t *testing.T) {
	rs := table(t)
	const text = "Error: NoSuitableAdapterFound\n"
	for log, want := range map[string]bool{text: false, text + "error: process didn't exit successfully: `target\\release\\app.exe`\n": true} {
		fix := ask(t, log).Found[0].Words(Facts{}).Fix
		if strings.Contains(fix, "WARP") != want || strings.Contains(fix, "usermod") == want {
			t.Errorf("%q: %s", log, fix)
		}
	}
	if fix := (Found{Rule: rs.Lookup("wgpu-no-adapter")[0]}).Words(nil).Fix; !strings.Contains(fix, "usermod") || !strings.Contains(fix, "On Windows: ") {
		t.Error(fix)
	}
}

// TestBrokenLines: a message that a terminal or a mail program broke is read as one; two messages are not.
func TestBrokenLines(t *testing.T) {
	for text, want := range map[string]string{
		"./app: error while loading shared libraries: libcudnn.so.9:\ncannot open shared object file: No such file": "cudnn-8-vs-9-soname",
		"libcudnn.so.9 is used.\ncannot open shared object file: No such file":                                      "",
	} {
		hosttest.Equal(t, first(t, text), want, text)
	}
}
