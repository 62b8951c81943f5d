package tools

import (
	"strings"
	"testing"

	"gpubuild/features/catalog"
	"gpubuild/gpu"
)

// TestPinnedCudarcAndDriver: bindings for a newer CUDA than the driver's are warned of; those that fit, and an unknown driver, are not.
func TestPinnedCudarcAndDriver(t *testing.T) {
	t.Parallel()
	pinned := func(feature string) catalog.Cudarc {
		c := catalog.CudarcOf([]string{"driver", feature})
		c.Version = "0.19.10"
		return c
	}
	driver := gpu.Version{Major: 12, Minor: 8}
	for _, tt := range []struct {
		story   string
		driver  gpu.Version
		feature string
		want    string
	}{
		{"newer than the driver", driver, "cuda-13000", "use cudarc's feature cuda-12080"},
		{"a newer minor version", driver, "cuda-12090", "supports CUDA 12.8"},
		{"the same", driver, "cuda-12080", ""},
		{"older", driver, "cuda-12040", ""},
		{"no version", driver, "cuda-version-from-build-system", ""},
		{"no driver", gpu.Version{}, "cuda-13000", ""},
	} {
		got := strings.Join(newerThanDriver(tt.driver, []catalog.Cudarc{pinned(tt.feature)}), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.story, got, tt.want)
		}
	}
}
