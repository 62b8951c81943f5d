package doctor

import (
	"slices"
	"testing"
)

func TestOtherMajors(t *testing.T) {
	for _, tt := range []struct {
		name    string
		has     []string
		without []string
	}{
		{"libcublas.so.13", []string{"libcublas.so.12", "libcublas.so.11"}, []string{"libcublas.so.13", "libcublas.so.120"}},
		{"cublas64_13.dll", []string{"cublas64_12.dll", "cublas64_11.dll"}, []string{"cublas64_13.dll", "cublas64_130.dll"}},
		{"cudart64_12.dll", []string{"cudart64_13.dll", "cudart64_110.dll"}, []string{"cudart64_120.dll"}},
		{"nvrtc64_130_0.dll", []string{"nvrtc64_120_0.dll", "nvrtc64_112_0.dll"}, []string{"nvrtc64_130_0.dll", "nvrtc64_13_0.dll"}},
		{"cudnn64_9.dll", []string{"cudnn64_8.dll"}, []string{"cudnn64_9.dll"}},
	} {
		got := otherMajors(tt.name)
		for _, want := range tt.has {
			if !slices.Contains(got, want) {
				t.Errorf("%s: no %s in %v", tt.name, want, got)
			}
		}
		for _, not := range tt.without {
			if slices.Contains(got, not) {
				t.Errorf("%s: %s is no other major", tt.name, not)
			}
		}
	}
	if got := otherMajors("kernel32.dll"); got != nil {
		t.Errorf("a name without a number: %v", got)
	}
}
