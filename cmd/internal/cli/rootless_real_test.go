//go:build linux

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnotherToolkitLeavesADrivenCudarcAlone: a cudarc that opens its libraries when it runs and is told a version takes nothing from a
// toolkit. Its script declares CUDA_HOME all the same; where nobody else reads the variable it is not set, and cargo has no reason to make
// cudarc anew.
func TestAnotherToolkitLeavesADrivenCudarcAlone(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	script := filepath.Join(b.dir, "build.rs")
	text, err := os.ReadFile(script)
	noError(t, err)
	// The sample's own script reads CUDA_HOME and CUDA_PATH; this one asks PATH alone, as cudaforge does.
	asksPath := strings.NewReplacer(`"CUDA_HOME", "CUDA_PATH", `, "", `for origin in ["CUDA_HOME", "CUDA_PATH"] {`,
		`for origin in [] as [&'static str; 0] {`).Replace(string(text))
	if strings.Contains(asksPath, `"CUDA_HOME"`) {
		t.Fatal("the sample's script has changed; change this test, too")
	}
	noError(t, os.WriteFile(script, []byte(asksPath), 0o644))
	b.gpubuild(b.first, "sm_90")
	b.rebuilt("another toolkit", b.gpubuild(b.other, "sm_90"), "matmul")
	b.holds("another toolkit", b.other, "sm_90")
	b.rebuilt("and back", b.gpubuild(b.first, "sm_90"), "matmul")
	b.holds("and back", b.first, "sm_90")
}
