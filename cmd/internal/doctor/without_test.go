package doctor

import (
	"strings"
	"testing"

	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
)

// TestWithoutAToolkit: what is needed and hangs on a toolkit that is not there is not called unneeded.
func TestWithoutAToolkit(t *testing.T) {
	for _, tt := range []struct {
		story               string
		needs               toolchain.Needs
		headers, capability string
	}{
		{"kernels are compiled", toolchain.Needs{NVCC: true, Libraries: true}, "needs a toolkit first",
			"needs a toolkit first"},
		{"a library is linked", toolchain.Needs{Libraries: true}, "needs a toolkit first", "nothing is compiled"},
		{"nothing of a toolkit is needed", toolchain.Needs{}, "no headers are needed", "nothing is compiled"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			f := Facts{Needs: tt.needs}
			if got := checkHeaders(f); got.State != Info || !strings.Contains(got.Says, tt.headers) {
				t.Errorf("headers: %+v", got)
			}
			f.Toolchain.Toolkits = []cuda.Toolkit{{Root: "/cuda"}} // which is there, and cannot be used without a compiler
			if got := checkHeaders(f); strings.Contains(got.Says, "toolkit first") {
				t.Errorf("headers with a toolkit: %+v", got)
			}
			f.Toolchain.Toolkits = nil
			if got := checkCapability(f); got.State != Info || !strings.Contains(got.Says, tt.capability) {
				t.Errorf("capability: %+v", got)
			}
		})
	}
}
