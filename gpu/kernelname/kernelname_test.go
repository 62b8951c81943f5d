package kernelname

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestKernelNames judges real kernels' names.
func TestKernelNames(t *testing.T) {
	data := hosttest.Must(os.ReadFile(filepath.Join("..", "..", "testdata", "kernelnames", "names.tsv")))(t)
	count := map[string]int{}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[0] != "product" && f[0] != "other" || f[1] == "" || f[2] == "" {
			t.Fatalf("line %d: %q", i+1, line)
		}
		if count[f[1]]++; count[f[1]] > 1 {
			t.Errorf("line %d: %s stands there twice", i+1, f[1])
		}
		if got := IsProduct(Demangle(f[1])); got != (f[0] == "product") {
			t.Errorf("line %d: %.200s (%s) is said to be a product: %v", i+1, f[1], Demangle(f[1]), got)
		}
	}
	if len(count) < 500 {
		t.Errorf("only %d names", len(count))
	}
}

// TestNamesThatTheTableWasNotMadeFor: none of these stands in names.tsv.
func TestNamesThatTheTableWasNotMadeFor(t *testing.T) {
	for name, want := range map[string]bool{
		"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN": true, "void marlin::Marlin<256, 1, 8, 8, 4, 8>(int4 const*, int)": true, "fused_moe_kernel_gptq_awq": true,
		"mul_mat_vec_f": true, "void gemv::kernel<float, 128>(float*)": true, "batched_gemm_kernel1x1": true, "bmm_kernel_bf16": true, "ampere_sgemm_32x128_tn": true,
		"triton_tem_fused_addmm_relu_3": true, "hgemm_mma_stages": true, "mulMatrices": true,
		"moe_align_block_size_kernel": false, "topk_gating_softmax": false, "marlin_repack_kernel": false, "awq_marlin_repack": false, "gemm_bias_init": false,
		"transpose_mul_mat": false, "reduce_after_gemm": false, "elementwise_mul_kernel": false, "matrix_fill": false, "mm_to_sparse_metadata": false,
		"flash_fwd_splitkv_mla_kernel": false, "scaled_dot_product": false, "rms_norm": false, "convert_fp32_to_bf16": false, "init_matrix": false, "commit": false,
		"implicit_gemm_conv": false, "comm_allreduce": false, "matrix_add": false, "multiply_scalar": false, "emma": false,
	} {
		if got := IsProduct(Demangle(name)); got != want {
			t.Errorf("%s (%s): %v", name, Demangle(name), got)
		}
	}
}

func TestPlain(t *testing.T) {
	for name, want := range map[string]string{
		"matmul":                        "matmul",
		"_Z6matmulPKfS0_Pfj":            "matmul",
		"_ZL6matmulPKf":                 "matmul",
		"_Z11DaxpyKernelidPdS_":         "DaxpyKernel",
		"_ZN2my4deep4stepEv":            "my::deep::step",
		"_ZN7cutlass6KernelI4gemmEEvT_": "cutlass::Kernel<gemm>",
		"_ZN7cutlass6KernelILi4EEEvv":   "cutlass::Kernel",
		"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEvi": "at::native::vectorized_elementwise_kernel",
		"_ZN12_GLOBAL__N_14stepEv":            "{unnamed}::step",
		"_ZN1aIN1b1cENS0_1dEE1eEv":            "a::e",
		"_ZNSt3fooEv":                         "std::foo",
		"_Z":                                  "_Z",
		"_ZN4mine6matmul17h0123456789abcdefE": "mine::matmul",
		"void gemv2T_kernel_val<int, int, float, float>(cublasGemvParams<int>)":             "gemv2T_kernel_val",
		"void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(P)":               "cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>",
		"std::enable_if<!(false), void>::type internal::gemvx::kernel<int, 7>(T)":           "internal::gemvx::kernel",
		"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<A<3> >(A<3>, B)": "at::native::{unnamed}::multi_tensor_apply_kernel",
		"_Z99short": "_Z99short",
		"_RC0":      "_RC0",
		"_ZN3abc":   "_ZN3abc",
		"_ZN1aI":    "_ZN1aI",
		"_Zplii":    "operator+",
	} {
		hosttest.Equal(t, Demangle(name), want, name)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("_ZN7cutlass6KernelILi4EEEvv")
	f.Add("_ZN1aIL1bE3EE1cEv")
	f.Add(" ")
	f.Fuzz(func(t *testing.T, name string) {
		if got := Demangle(name); got == "" && name != "" {
			t.Errorf("%q has no name", name)
		}
	})
}

// TestAmbiguous: a name that counts by a word of another meaning alone, or that goes on with a word of unknown meaning.
func TestAmbiguous(t *testing.T) {
	for name, want := range map[string]string{"tile_mm": "mm", "mmul_f32": "mmul", "mm_gemm": "", "sgemm_mm": "", "fill": "",
		"gemm_timer": "timer", "moe_gemm_router": "router", "matmul_warm": "warm", "gemm_log": "log", "matmul_len": "len", "bmm_timer": "timer", "wmma_router": "router", "fused_gemm_bias_gelu_backward_dbias": "bias",
		"ampere_sgemm_128x64_tn": "", "cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>": "", "gemv2T_kernel_val": "", "mul_mat_vec_q4_0_q8_1_cuda1": "",
		"matmul_f32_kernel": "", "mmvq_gguf_q8_0_f16_plain_cuda2": "", "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal>": "", "nvjet_hsh_128x64_64x8_1x2_h_bz_TNT": "", "matmul": ""} {
		hosttest.Equal(t, Ambiguous(name), want, name)
	}
}
