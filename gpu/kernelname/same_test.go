package kernelname

import (
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestSame: names as nvcc 13.5 wrote them, of two builds and of two files.
func TestSame(t *testing.T) {
	for _, tt := range []struct{ name, same, full string }{
		{"matmul", "matmul", "matmul"},
		{"_Z5scaleIfEvPT_i", "_Z5scaleIfEvPT_i", "scale<float>(float*, int)"},
		{"_Z7local_kPf", "_Z7local_kPf", "local_k(float*)"},
		{"__nv_static_23__c6eba12f_4_k_cu_matmul__Z7local_kPf", "_Z7local_kPf", "local_k(float*)"},
		{"_ZN34_GLOBAL__N__c6eba12f_4_k_cu_matmul4anonEPf", "(anonymous namespace)::anon(float*)", "(anonymous namespace)::anon(float*)"},
		{"_ZN34_GLOBAL__N__84ad3a9a_4_s_cu_matmul24anonEPf", "_ZN34_GLOBAL__N__84ad3a9a_4_s_cu_matmul24anonEPf",
			"_ZN34_GLOBAL__N__84ad3a9a_4_s_cu_matmul24anonEPf"}, // no name of a compiler's
		{"__nv_static_23__c6eba12f_4_k_cu_matmul__ZN34_GLOBAL__N__c6eba12f_4_k_cu_matmul4anonEPf", "(anonymous namespace)::anon(float*)",
			"(anonymous namespace)::anon(float*)"},
	} {
		hosttest.Equal(t, Same(tt.name), tt.same, tt.name)
		hosttest.Equal(t, Full(tt.name), tt.full, tt.name)
	}
}
