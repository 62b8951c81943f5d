package doctor_test

import (
	"errors"
	"strings"
	"testing"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
	"gpubuild/toolchain/rocm"
)

// TestWhatAChecksSays holds what a check says of the machine, and to whom it gives the blame.
func TestWhatAChecksSays(t *testing.T) {
	t.Parallel()
	chosen := cuda.Toolkit{Root: "/a", Version: gpu.Version{Major: 13, Minor: 4}, Origin: "CUDA_HOME"}
	gcc := hostcc.Compiler{Path: "/usr/bin/gcc", Kind: "gcc", Version: "12", Major: 12}
	needs := toolchain.Needs{CUDA: true, NVCC: true}
	for _, tt := range []struct {
		story string
		id    string
		f     doctor.Facts
		want  string // "!" in front: not
		state doctor.State
	}{
		{"a chosen toolkit", "cuda.toolkit", doctor.Facts{Needs: needs, Chosen: toolchain.Set{Toolkit: &chosen}}, "13.4", doctor.OK},
		{"a broken toolkit", "cuda.toolkit", doctor.Facts{Needs: needs, Toolchain: toolchain.Facts{Toolkits: []cuda.Toolkit{{Root: "/b", Problem: "no nvcc"}}}}, "no CUDA toolkit; /b: no nvcc", doctor.Missing},
		{"what was not chosen and is not at fault", "cuda.toolkit", doctor.Facts{Needs: needs, ChooseErr: errors.New("x"), Toolchain: toolchain.Facts{Toolkits: []cuda.Toolkit{chosen}}}, "not chosen (see cuda.set)", doctor.Info},
		{"unknown needs", "cuda.toolkit", doctor.Facts{Stops: &doctor.Stop{}}, "what the build needs is not known", doctor.Info},
		{"no CUDA", "cuda.toolkit", doctor.Facts{}, "no crate of this build uses CUDA", doctor.Info},
		{"a variable that names a compiler that is gone", "host.compiler", doctor.Facts{Needs: needs, Chosen: toolchain.Set{Compiler: &gcc},
			Toolchain: toolchain.Facts{Compilers: []hostcc.Compiler{{Word: "CXX", Path: "/gone", Problem: "it does not exist"}}}}, "CXX=/gone: it does not exist", doctor.Warning},
		{"one that was found and is broken", "host.compiler", doctor.Facts{Needs: needs, Chosen: toolchain.Set{Compiler: &gcc},
			Toolchain: toolchain.Facts{Compilers: []hostcc.Compiler{{Path: "/gone", Problem: "it does not exist"}}}}, "!/gone", doctor.OK},
		{"no compiler is needed", "host.compiler", doctor.Facts{}, "none is needed", doctor.Info},
		{"one for C++ sources alone", "host.compiler", doctor.Facts{Needs: toolchain.Needs{HostCompiler: true}}, "no C++ compiler", doctor.Missing},
		{"the toolkit decides", "host.compiler", doctor.Facts{Needs: needs, Toolchain: toolchain.Facts{Compilers: []hostcc.Compiler{gcc}}}, "the toolkit decides which", doctor.Info},
		{"no cuDNN is needed", "cudnn", doctor.Facts{}, "no crate here needs cuDNN", doctor.Info},
		{"cuDNN to run alone", "cudnn", doctor.Facts{Needs: toolchain.Needs{RunCUDNN: true}}, "none is needed to build", doctor.Info},
		{"a broken cuDNN", "cudnn", doctor.Facts{Needs: toolchain.Needs{CUDNN: true}, Toolchain: toolchain.Facts{CUDNN: []cudnn.Install{{Root: "/d", Version: "9", Problem: "no header"}}}}, "no cuDNN that fits", doctor.Missing},
		{"a usable cuDNN", "cudnn", doctor.Facts{Needs: toolchain.Needs{CUDNN: true}, ChooseErr: errors.New("x"), Toolchain: toolchain.Facts{CUDNN: []cudnn.Install{{Root: "/d", Version: "9"}}}}, "a cuDNN is here; not chosen (see cuda.set)", doctor.Info},
		{"ROCm is here and not used", "rocm", doctor.Facts{Toolchain: toolchain.Facts{ROCm: []rocm.Install{{Root: "/opt/rocm", Version: "6.1"}}}}, "is here and not used", doctor.Info},
		{"another backend was chosen", "rocm", doctor.Facts{Chosen: toolchain.Set{Backends: []string{"cuda"}, BackendWhy: "by --gpu-backend"}, Toolchain: toolchain.Facts{ROCm: []rocm.Install{{Root: "/opt/rocm", Version: "6.1"}}}}, "is here and not used; cuda: by --gpu-backend", doctor.Info},
		{"ROCm is chosen", "rocm", doctor.Facts{Chosen: toolchain.Set{ROCm: &rocm.Install{Root: "/opt/rocm", Version: "6.1", Origin: "ROCM_PATH"}, Backends: []string{"rocm"}, BackendWhy: "a crate asks"}}, "(ROCM_PATH); rocm: a crate asks", doctor.OK},
		{"a broken ROCm", "rocm", doctor.Facts{Needs: toolchain.Needs{ROCm: true, CUDA: true}, Toolchain: toolchain.Facts{ROCm: []rocm.Install{{Root: "/opt/rocm", Problem: "no hipcc"}}}}, "no ROCm, and a crate", doctor.Missing},
		{"no ROCm", "rocm", doctor.Facts{}, "no crate here needs it", doctor.Info},
		{"a driver", "driver", doctor.Facts{Toolchain: toolchain.Facts{Driver: gpu.Driver{Version: "580.1", Origin: "/proc"}}}, "580.1", doctor.OK},
		{"a driver that is older than cudarc's bindings", "driver", doctor.Facts{Toolchain: toolchain.Facts{Driver: gpu.Driver{Version: "570.1"}}, Pinned: []string{"cudarc 0.17.3 is built for CUDA 12.9"}}, "570.1", doctor.Warning},
		{"a driver that does not answer", "driver", doctor.Facts{Notes: []string{"libcuda.so.1: error 999"}}, "is here and does not answer", doctor.Warning},
		{"no driver", "driver", doctor.Facts{Notes: []string{"no NVIDIA driver: x"}}, "no NVIDIA driver; needed to run", doctor.Info},
		{"no driver, for a proof", "driver", doctor.Facts{Prove: true}, "!needed to run", doctor.Missing},
		{"an old driver's GPU", "devices", doctor.Facts{Notes: []string{"GPU 0: too old"}, Toolchain: toolchain.Facts{Devices: []gpu.Device{{Name: "T4"}}}}, "T4", doctor.Warning},
		{"another note", "devices", doctor.Facts{Notes: []string{"other"}, Toolchain: toolchain.Facts{Devices: []gpu.Device{{Name: "T4"}}}}, "T4", doctor.OK},
		{"a compiler for the probe", "probe", doctor.Facts{Compiler: "gcc 12"}, "can be built by gcc 12", doctor.OK},
		{"a release that carries the probe", "probe", doctor.Facts{Carried: true, Prove: true}, "part of this gpubuild", doctor.OK},
		{"no place for the probe", "probe", doctor.Facts{Compiler: "gcc 12", Unkept: doctor.Reason{Why: "x"}}, "no place to build the probe", doctor.Info},
		{"no place for the probe, for a proof", "probe", doctor.Facts{Prove: true, Unkept: doctor.Reason{Why: "x"}}, "no place to build the probe", doctor.Missing},
		{"an older GPU that is unknown", "capability", doctor.Facts{Needs: needs, Chosen: toolchain.Set{Toolkit: &chosen, Capability: gpu.Capability{Major: 9}}, Toolchain: toolchain.Facts{Devices: []gpu.Device{{Name: "x"}}}}, "sm_90", doctor.OK},
		{"the same GPU", "capability", doctor.Facts{Needs: needs, Chosen: toolchain.Set{Toolkit: &chosen, Capability: gpu.Capability{Major: 9}}, Toolchain: toolchain.Facts{Devices: []gpu.Device{{Capability: gpu.Capability{Major: 9}}}}}, "sm_90", doctor.OK},
		{"no architecture", "capability", doctor.Facts{Needs: needs, Chosen: toolchain.Set{Toolkit: &chosen}}, "nothing is compiled for a GPU", doctor.Info},
		{"none was chosen", "capability", doctor.Facts{Needs: needs, ChooseErr: errors.New("x")}, "not chosen", doctor.Info},
		{"an SDK that is not needed", "windows.sdk", doctor.Facts{Toolchain: toolchain.Facts{MSVC: &msvc.Found{}}}, "none is needed", doctor.Info},
		{"no Vulkan device", "vulkan", doctor.Facts{Vulkan: &doctor.Vulkan{Why: "no loader"}}, "no Vulkan device: no loader", doctor.Missing},
		{"a software device", "vulkan", doctor.Facts{Vulkan: &doctor.Vulkan{Devices: []probe.Device{{Name: "llvmpipe", Type: "cpu"}}}}, "only software devices; llvmpipe (software)", doctor.Warning},
		{"a GPU and a software renderer", "vulkan", doctor.Facts{Vulkan: &doctor.Vulkan{Devices: []probe.Device{{Name: "llvmpipe", Type: "cpu"}, {Name: "RTX", Type: "discrete"}}}}, "RTX (discrete)", doctor.OK},
		{"no lock", "project", doctor.Facts{Project: "Cargo.toml", NoLock: true, Assumed: "cuda"}, "checked as with `--features cuda`; it has no Cargo.lock yet", doctor.Info},
	} {
		c := find(t, doctor.Run(tt.f), tt.id)
		want, not := strings.CutPrefix(tt.want, "!")
		if strings.Contains(c.Says, want) == not || c.State != tt.state {
			t.Errorf("%s: %s %q, want %s %q", tt.story, c.State, c.Says, tt.state, tt.want)
		}
	}
}

// TestNVCCOnPath: that plain cargo would use another toolkit is said of the one that is first on PATH, unless it is the chosen one, broken, or NVCC names it.
func TestNVCCOnPath(t *testing.T) {
	t.Parallel()
	path := []cuda.Source{{Kind: cuda.OnPath, Name: "PATH"}}
	for story, tt := range map[string]struct {
		root, problem string
		sources       []cuda.Source
		want          bool
	}{
		"another one":        {"/b", "", path, true},
		"the chosen one":     {"/a", "", path, false},
		"a broken one":       {"/b", "no ptxas", path, false},
		"not on PATH":        {"/b", "", nil, false},
		"NVCC names it, too": {"/b", "", append(path[:1:1], cuda.Source{Kind: cuda.OnPath, Name: "NVCC"}), false},
	} {
		chosen := cuda.Toolkit{Root: "/a", Version: gpu.Version{Major: 13, Minor: 4}, Origin: "CUDA_HOME"}
		other := cuda.Toolkit{Root: tt.root, Version: gpu.Version{Major: 13, Minor: 3}, Problem: tt.problem, Sources: tt.sources}
		c := find(t, doctor.Run(doctor.Facts{Needs: toolchain.Needs{NVCC: true}, Chosen: toolchain.Set{Toolkit: &chosen}, Toolchain: toolchain.Facts{Toolkits: []cuda.Toolkit{other}}}), "cuda.toolkit")
		hosttest.Equal(t, strings.Contains(c.Says, "the nvcc on PATH is of CUDA 13.3"), tt.want, story, c.Says)
	}
}

// TestVerdict: what the machine is ready for, and why it is not.
func TestVerdict(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 91)
	for want, checks := range map[string][]doctor.Check{
		"Ready to build. Ready to prove.":                                                {{ID: "cargo", State: doctor.OK}, {ID: "driver", State: doctor.Warning}},
		"Ready to build. Not ready to prove: no driver.":                                 {{ID: "driver", State: doctor.Info, Absent: true, Says: "no driver; needed"}},
		"Not ready to build: no cargo. Ready to prove what is built.":                    {{ID: "cargo", State: doctor.Missing, Says: "no cargo\nmore"}},
		"Not ready to build: cargo (see above). Not ready to prove what is built: a, b.": {{ID: "cargo", State: doctor.Misfit, Says: long}, {ID: "cupti", State: doctor.Missing, Says: "a"}, {ID: "probe", State: doctor.Misfit, Says: "b"}},
		"Not ready to build: why it is not. Ready to prove what is built.":               {{ID: "cargo", State: doctor.Misfit, Says: "why it is not: " + long}},
		"Ready to build. Not ready to prove: loader.path (see above).":                   {{ID: "loader.path", State: doctor.Misfit, Says: "not found: " + long}},
		"Not ready to build: X=0;1 hides all. Ready to prove what is built.":             {{ID: "cargo", State: doctor.Misfit, Says: "X=0;1 hides all; more"}},
		"Probably ready to build: no lock. Probably ready to prove: no lock.":            {{ID: "project", State: doctor.Info, Unsure: "no lock"}},
		"Not ready to build: no cargo. Probably ready to prove what is built: no lock.":  {{ID: "project", State: doctor.Info, Unsure: "no lock"}, {ID: "cargo", State: doctor.Missing, Says: "no cargo"}},
	} {
		hosttest.Equal(t, doctor.Verdict(checks), want)
	}
}

// TestFindingsOfChecks: what is wrong is an error, a warning is one, and nothing else is a finding.
func TestFindingsOfChecks(t *testing.T) {
	t.Parallel()
	list := doctor.Findings([]doctor.Check{{ID: "a", State: doctor.OK}, {ID: "b", State: doctor.Info}, {ID: "c", State: doctor.Warning}, {ID: "d", State: doctor.Missing},
		{ID: "e", State: doctor.Misfit, Says: "s", Fix: "f", Places: []string{"p", "q"}}})
	if len(list) != 3 || list[0].Severity != finding.Warning || list[1].Severity != finding.Error || list[2] != (finding.Finding{ID: "e", Severity: finding.Error, Message: "s", Fix: "f", Evidence: "p, q"}) {
		t.Errorf("%+v", list)
	}
}

// TestText: by section, with what is needed to act on what is wrong alone.
func TestText(t *testing.T) {
	t.Parallel()
	got := doctor.Text([]doctor.Check{{ID: "driver", State: doctor.OK, Says: "580", Fix: "no"}, {ID: "cargo", State: doctor.Missing, Says: "none\nof it", Places: []string{"/a", "/b"}, Fix: "install it", Breaks: "all"}})
	const want = "Build\n✗ cargo          none\n                 of it\n                 without it: all\n                 looked at: /a; /b\n                 fix: install it\n" +
		"Run\n✓ driver         580\n\nNot ready to build: none. Ready to prove what is built.\n"
	hosttest.Equal(t, got, want)
}
