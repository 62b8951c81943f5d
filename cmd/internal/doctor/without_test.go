package doctor

import (
	"strings"
	"testing"

	"gpubuild/toolchain"
)

// TestWithoutAToolkit: what is needed and hangs on a toolkit that is not there is not called unneeded.
func TestWithoutAToolkit(t *testing.T) {
	for _, tt := range []struct {
		story      string
		needs      toolchain.Needs
		capability string
	}{
		{"kernels are compiled", toolchain.Needs{NVCC: true, Libraries: true}, "see cuda.toolkit"},
		{"a library is linked", toolchain.Needs{Libraries: true}, "nothing is compiled"},
		{"nothing of a toolkit is needed", toolchain.Needs{}, "nothing is compiled"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			f := Facts{Needs: tt.needs, ChooseErr: &toolchain.MissingError{What: "CUDA toolkit", Part: toolchain.PartToolkit}}
			if got := checkCapability(f); got.State != Info || !strings.Contains(got.Says, tt.capability) {
				t.Errorf("capability: %+v", got)
			}
		})
	}
}
