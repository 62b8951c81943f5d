//go:build linux

package cli_test

import "testing"

// TestAnotherToolkitForADrivenCudarc: a cudarc that opens its libraries when it runs and is told a version takes nothing from a toolkit, and its
// script declares CUDA_HOME all the same. A script outside of the catalog that may compile kernels may read it, and is given it: cargo builds
// cudarc again with each toolkit, and the result is right.
func TestAnotherToolkitForADrivenCudarc(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	b.gpubuild(b.first, "sm_90")
	b.rebuilt("another toolkit", b.gpubuild(b.other, "sm_90"), "cudarc", "matmul")
	b.holds("another toolkit", b.other, "sm_90")
	b.rebuilt("and back", b.gpubuild(b.first, "sm_90"), "cudarc", "matmul")
	b.holds("and back", b.first, "sm_90")
}
