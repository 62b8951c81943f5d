package explain

import "testing"

// TestHeldOut: lines from public threads that were read only after the rules were written. Of the 16, 13 were recognised at once; cudart and cufft
// (libraries that no rule had named) and CMake's wrapped text were not, and were then added.
func TestHeldOut(t *testing.T) {
	rs := table(t)
	for _, tt := range []struct{ thread, text, want string }{
		{"llamafile 56", "building ggml-cuda with nvcc -arch=native...\nnvcc fatal   : Value 'native' is not defined for option 'gpu-architecture'\n/usr/bin/nvcc: returned nonzero exit status", "value-sm-not-defined"},
		{"llamafile 56, second", "nvcc fatal   : Value 'compute_86' is not defined for option 'gpu-architecture'", "value-sm-not-defined"},
		{"spiceai 7280", "2025-09-23T05:22:31.4713801Z nvcc error while executing compiling: \"nvcc\" \"--gpu-architecture=sm_87\" \"-c\"\n2025-09-23T05:22:31.4713847Z \n2025-09-23T05:22:31.4713897Z # stdout\n2025-09-23T05:22:31.4714282Z # stderr\n2025-09-23T05:22:32.1760063Z ##[error]Process completed with exit code 1.", "nvcc-stderr-swallowed"},
		{"kaspa-miner 44", "error: failed to run custom build command for `cust_raw v0.11.3`\n  thread 'main' panicked at 'Could not find a cuda installation', C:\\Users\\x\\.cargo\\find_cuda_helper-0.2.0\\src\\lib.rs:12:13", "find-cuda-helper-fixed-paths"},
		{"cudarc 141", "  = note: LINK : fatal error LNK1181: cannot open input file 'cudnn.lib'\n          \n\nwarning: `test_dfdx` (bin \"test_dfdx\") generated 2 warnings", "lnk1181-cudnn"},
		{"mistral.rs 653", "  = note: LINK : fatal error LNK1181: cannot open input file 'mistralcuda.lib'", "lnk1181-own-kernel-lib"},
		{"mistral.rs 1529", "Unable to dynamically load the \"cuda\" shared library - searched for library names: [\"libcuda.so\", \"libcuda64.so\", \"libcuda64_12.so\"]. Ensure that `LD_LIBRARY_PATH` has the correct path", "dynload-cuda-driver"},
		{"cudarc 286", "thread 'driver::safe::launch::tests::test_par_launch' panicked at src/lib.rs:98:5:\nUnable to dynamically load the \"cuda\" shared library - searched for library names: [\"cuda\", \"nvcuda\"].", "dynload-cuda-driver"},
		{"cudarc 451", "Unable to dynamically load the \"cudart\" shared library - searched for library names: [\"cudart.dll\", \"cudart64.dll\"]", "dynload-cublas-runtime-image"},
		{"koharu 169", "cudarc-0.19.0\\src\\lib.rs:181:5: Unable to dynamically load the \"cufft\" shared library - searched for library names: [\"cufft64.dll\"]", "dynload-cublas-runtime-image"},
		{"candle 2112", "target/debug/myapp: error while loading shared libraries: libnvrtc.so.12: cannot open shared object file: No such file or directory", "libnvrtc-not-on-loader-path"},
		{"candle 2175", "called `Result::unwrap()` on an `Err` value: DlOpen { desc: \"libcuda.so: cannot open shared object file: No such file or directory\" }", "dlopen-libcuda-so-unversioned"},
		{"cudarc 190", "  = note: LINK : warning LNK4098: defaultlib 'LIBCMT' conflicts with use of other libs\n          cuda.lib : error LNK2019: unresolved external symbol __cudaRegisterFatBinary referenced in function", "lnk2019-cudaregisterfatbinary"},
		{"mistral.rs 850", "Error: DriverError(CUDA_ERROR_INVALID_PTX, \"a PTX JIT compilation failed\") when loading utanh_bf16", "invalid-ptx-jit-failed"},
		{"mistral.rs 867", "Error: DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, \"the provided PTX was compiled with an unsupported toolchain.\") when loading dequantize_block_q4_K_f32", "unsupported-ptx-version"},
		{"llama.cpp 22886", "CMake Error at /usr/share/cmake/Modules/CMakeDetermineCompilerId.cmake:934 (message):\n  Compiling the CUDA compiler identification source file\n  \"CMakeCUDACompilerId.cu\" failed.\n\n  Compiler: /usr/local/cuda/bin/nvcc", "cmake-cuda-compiler-id-failed"},
	} {
		if got := ids(ask(t, rs, tt.text)); len(got) == 0 || got[0] != tt.want {
			t.Errorf("%s: got %v, want %s", tt.thread, got, tt.want)
		}
	}
}
