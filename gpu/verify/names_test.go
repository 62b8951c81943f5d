package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKernelNames judges real kernels' names.
func TestKernelNames(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "kernelnames", "names.tsv"))
	if err != nil {
		t.Fatal(err)
	}
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
		if got := isProduct(Demangle(f[1])); got != (f[0] == "product") {
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
		if got := isProduct(Demangle(name)); got != want {
			t.Errorf("%s (%s): %v", name, Demangle(name), got)
		}
	}
}
