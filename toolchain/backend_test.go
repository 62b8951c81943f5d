package toolchain_test

import (
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain"
	"gpubuild/toolchain/rocm"
)

// TestBackend tells what is set up on a machine that has CUDA and ROCm: what the crates reach, or what the user asks for where they reach
// both.
func TestBackend(t *testing.T) {
	both := with(kernels, func(n *toolchain.Needs) { n.ROCm, n.Reads = true, []string{"cudaforge", "ROCM_PATH"} })
	only := toolchain.Needs{ROCm: true, Reads: []string{"ROCM_PATH", "HIP_PATH"}}
	for _, tt := range []struct {
		story, ask string
		needs      toolchain.Needs
		env        string
		want       string
	}{
		{"only CUDA is reached", "", kernels, "", "cuda (the features reach crates of CUDA only): toolkit /usr/local/cuda: set " +
			"CUDA_COMPUTE_CAP=75"},
		{"only ROCm is reached", "", only, "", "rocm (the features reach crates of ROCm only): ROCm /srv/rocm: set ROCM_PATH=/srv/rocm; " +
			"set HIP_PATH=/srv/rocm; prepend PATH=/srv/rocm/bin"},
		{"both", "", both, "", "cuda rocm (the features reach crates of both): toolkit /usr/local/cuda: ROCm /srv/rocm: set " +
			"ROCM_PATH=/srv/rocm; prepend PATH=/srv/rocm/bin; set CUDA_COMPUTE_CAP=75"},
		{"both, and the user wants one", "rocm", both, "", "rocm (--gpu-backend): ROCm /srv/rocm: set ROCM_PATH=/srv/rocm; prepend " +
			"PATH=/srv/rocm/bin"},
		{"both, and the user wants the other", "cuda", both, "", "cuda (--gpu-backend): toolkit /usr/local/cuda: set " +
			"CUDA_COMPUTE_CAP=75"},
		{"a backend that nothing uses", "rocm", kernels, "", "--gpu-backend asks for rocm, and no crate of this build uses it"},
		{"the variable's word", "", both, "GPUBUILD_BACKEND=vulkan", `GPUBUILD_BACKEND: "vulkan" is neither cuda nor rocm`},
		{"ROCM_PATH already names it, with a slash", "", only, "ROCM_PATH=/srv/rocm/\nHIP_PATH=/opt/other",
			"rocm (the features reach crates of ROCm only): ROCm /srv/rocm: set HIP_PATH=/srv/rocm; prepend PATH=/srv/rocm/bin"},
		{"no crate of either", "", toolchain.Needs{}, "", " (no crate here uses CUDA or ROCm)"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Must(hosttest.Parse([]byte(usual)))(t)
			for _, v := range strings.Fields(tt.env) {
				name, value, _ := strings.Cut(v, "=")
				h.Env = h.Env.Set(name, value)
			}
			f := gather(h, nil)
			f.ROCm = []rocm.Install{{Root: "/gone", Problem: "it is not there"},
				{Root: "/srv/rocm", Real: "/srv/rocm", Hipcc: "/srv/rocm/bin/hipcc"}}
			w := toolchain.Wish{CUDA: "12.4"}
			w.Backend, w.BackendOrigin = toolchain.BackendWish(tt.ask, "--gpu-backend", h.Env)
			s, err := toolchain.Choose(f, tt.needs, w)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Join(s.Backends, " ") + " (" + s.BackendWhy + ")"
				if s.Toolkit != nil {
					got += ": toolkit " + s.Toolkit.Root
				}
				if s.ROCm != nil {
					got += ": ROCm " + s.ROCm.Root
				}
				if c := changed(toolchain.Environment(h, s, tt.needs)); c != "" {
					got += ": " + c
				}
			}
			hosttest.Equal(t, got, tt.want)
		})
	}

	if _, err := toolchain.Choose(toolchain.Facts{ROCm: []rocm.Install{{Root: "/gone", Problem: "it is not there"}}}, only,
		toolchain.Wish{}); err == nil || !strings.Contains(err.Error(), "there is no ROCm") || !strings.Contains(err.Error(), "/gone") {
		t.Errorf("without ROCm: %v", err)
	}
}

// TestWrongWordsAreUsage: a word that means nothing ends as it does behind the flag; what cannot be had here does not.
func TestWrongWordsAreUsage(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(hosttest.Parse([]byte(usual)))(t)
	for want, w := range map[int][]toolchain.Wish{
		exit.Usage:  {{Backend: "metal", BackendOrigin: "GPUBUILD_BACKEND"}, {Arch: "fast", ArchOrigin: "CUDA_COMPUTE_CAP"}},
		exit.Misfit: {{Backend: "rocm", BackendOrigin: "GPUBUILD_BACKEND"}, {Arch: "20", ArchOrigin: "CUDA_COMPUTE_CAP"}},
	} {
		for _, w := range w {
			if _, err := toolchain.Choose(gather(h, nil), kernels, w); exit.Of(err) != want {
				t.Errorf("%+v: %v", w, err)
			}
		}
	}
}
