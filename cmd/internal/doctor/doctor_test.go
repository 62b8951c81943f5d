package doctor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/loader"
	"gpubuild/toolchain/msvc"
)

func find(t *testing.T, checks []doctor.Check, id string) doctor.Check {
	t.Helper()
	for _, c := range checks {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("no check %s", id)
	return doctor.Check{}
}

// TestOnlyROCm: a project for AMD's GPUs reads nothing of NVIDIA's.
func TestOnlyROCm(t *testing.T) {
	checks := doctor.Run(doctor.Facts{Cargo: "cargo 1.95.0", Project: "Cargo.toml", Needs: toolchain.Needs{ROCm: true}})
	plain := doctor.Run(doctor.Facts{Cargo: "cargo 1.95.0", Project: "Cargo.toml"}) // nor does one without GPU crates
	if text := doctor.Text(append(checks, plain...)); strings.Contains(text, "NVIDIA") || strings.Contains(text, "CUDA") || strings.Contains(text, "Ready to prove") {
		t.Error(text)
	}
}

// TestDriverFix: WSL's driver is that of Windows, and one that is there and does not answer need not be installed.
func TestDriverFix(t *testing.T) {
	for want, f := range map[string]doctor.Facts{
		"install NVIDIA's driver": {}, "driver of Windows": {WSL: true}, "`nvidia-smi` says why": {Notes: []string{"libcuda.so.1: error 999"}},
	} {
		if f.Prove = true; !strings.Contains(find(t, doctor.Run(f), "driver").Fix, want) {
			t.Errorf("%q: %+v", want, find(t, doctor.Run(f), "driver"))
		}
	}
}

// TestCapabilityFix: the fix is a whole command of the build that is checked for.
func TestCapabilityFix(t *testing.T) {
	checks := doctor.Run(doctor.Facts{Command: "gpubuild build --features cuda", ChooseErr: &toolchain.MisfitError{
		What: "x", Fix: "for a GPU of sm_80 or newer: `--gpu-arch=80`", Part: toolchain.PartCapability,
	}})
	if fix := find(t, checks, "capability").Fix; !strings.Contains(fix, "`gpubuild build --features cuda --gpu-arch=80`") {
		t.Error(fix)
	}
}

func windows(t *testing.T, long string) buildenv.Host {
	t.Helper()
	h := hosttest.Must(hosttest.Parse([]byte("os: windows\n-- @registry --\n[HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem]\n" +
		"LongPathsEnabled=" + long + "\n")))(t)
	return h
}

func TestSeverityFollowsTheNeed(t *testing.T) {
	nvcc := toolchain.Needs{CUDA: true, NVCC: true}
	toolkit := cuda.Toolkit{Root: "/usr/local/cuda-13.4", Version: gpu.Version{Major: 13, Minor: 4}, Origin: "CUDA_HOME"}
	compiler := hostcc.Compiler{Path: "/usr/bin/gcc", Kind: "gcc", Version: "12", Major: 12}
	good := doctor.Facts{
		Cargo: "cargo 1.95.0", Cache: "/home/u/.cache/gpubuild", Project: "Cargo.toml", Needs: nvcc, Compiler: "gcc 12",
		CUPTI:     "/x/libcupti.so.13",
		Toolchain: toolchain.Facts{Toolkits: []cuda.Toolkit{toolkit}, Compilers: []hostcc.Compiler{compiler}},
		Chosen:    toolchain.Set{Toolkit: &toolkit, Compiler: &compiler},
	}
	for _, tt := range []struct {
		name   string
		change func(*doctor.Facts)
		id     string
		want   doctor.State
		worst  doctor.State
	}{
		{"all is there for a build", func(*doctor.Facts) {}, "cuda.toolkit", doctor.OK, doctor.OK},
		{"no GPU is no fault for a build", func(*doctor.Facts) {}, "devices", doctor.Info, doctor.OK},
		{"no GPU is one for a proof", func(f *doctor.Facts) { f.Prove = true }, "devices", doctor.Missing, doctor.Missing},
		{"no CUPTI is one for a proof", func(f *doctor.Facts) { f.Prove, f.CUPTI = true, "" }, "cupti", doctor.Missing, doctor.Missing},
		{"no cargo", func(f *doctor.Facts) { f.Cargo, f.NoCargo.Why = "", "not on PATH" }, "cargo", doctor.Missing, doctor.Missing},
		{"a configuration that cargo would read without end", func(f *doctor.Facts) {
			f.Cargo, f.NoCargo.Why, f.Unread = "", "/x/.cargo/config.toml: a device", true
		}, "cargo", doctor.Misfit, doctor.Misfit},
		{"no cargo is no fault for a proof", func(f *doctor.Facts) { f.Prove, f.Cargo = true, "" }, "cargo", doctor.Info, doctor.Missing},
		{"no toolkit", func(f *doctor.Facts) {
			f.Chosen, f.Toolchain.Toolkits, f.ChooseErr = toolchain.Set{}, nil, &toolchain.MissingError{What: "CUDA toolkit", Part: toolchain.PartToolkit}
		}, "cuda.toolkit", doctor.Missing, doctor.Missing},
		{"a driver-only crate needs none", func(f *doctor.Facts) {
			f.Chosen, f.Toolchain.Toolkits, f.Needs = toolchain.Set{}, nil, toolchain.Needs{CUDA: true}
		}, "cuda.toolkit", doctor.Info, doctor.OK},
		{"a feature that enables nothing", func(f *doctor.Facts) {
			f.Chosen, f.Toolchain.Toolkits, f.Needs = toolchain.Set{}, nil, toolchain.Needs{}
			f.Stops = &doctor.Stop{Finding: finding.Finding{ID: "features.unreached", Message: "`cuda` of app enables nothing"}}
		}, "project", doctor.Misfit, doctor.Misfit},
		{"a toolkit and a compiler that do not fit", func(f *doctor.Facts) {
			f.Chosen, f.ChooseErr = toolchain.Set{}, &toolchain.MisfitError{What: "gcc 16 is too new"}
		}, "cuda.set", doctor.Misfit, doctor.Misfit},
		{"an architecture that the toolkit does not compile for", func(f *doctor.Facts) {
			f.Chosen, f.ChooseErr = toolchain.Set{}, &toolchain.MisfitError{What: "sm_35", Part: toolchain.PartCapability}
		}, "capability", doctor.Misfit, doctor.Misfit},
		{"which leaves the toolkit unblamed", func(f *doctor.Facts) {
			f.Chosen, f.ChooseErr = toolchain.Set{}, &toolchain.MisfitError{What: "sm_35", Part: toolchain.PartCapability}
		}, "cuda.toolkit", doctor.Info, doctor.Misfit},
		{"a project without a lock is no fault", func(f *doctor.Facts) { f.NoLock = true }, "project", doctor.Info, doctor.OK},
		{"a stub on the loader's path", func(f *doctor.Facts) { f.Run.Stubs = []string{"/usr/local/cuda/lib64/stubs"} }, "loader.stubs",
			doctor.Misfit, doctor.Misfit},
		{"a doubt of the choice", func(f *doctor.Facts) { f.Chosen.Notes = []string{"the variables differ"} }, "cuda.set", doctor.Warning,
			doctor.Warning},
		{"a GPU that is older than what is built for", func(f *doctor.Facts) {
			f.Chosen.Capability, f.Toolchain.Devices = gpu.Capability{Major: 9},
				[]gpu.Device{{Name: "T4", Capability: gpu.Capability{Major: 7, Minor: 5}}}
		}, "capability", doctor.Misfit, doctor.Misfit},
		{"a newer GPU runs older code's PTX", func(f *doctor.Facts) {
			f.Chosen.Capability, f.Toolchain.Devices = gpu.Capability{Major: 8},
				[]gpu.Device{{Name: "H200", Capability: gpu.Capability{Major: 9}}}
		}, "capability", doctor.OK, doctor.OK},
		{"Rust's GNU target on Windows", func(f *doctor.Facts) { f.Target = "x86_64-pc-windows-gnu" }, "rust.target", doctor.Warning,
			doctor.Warning},
		{"that for a crate without a library to download", func(f *doctor.Facts) {
			f.Target, f.Needs, f.NoArchive = "x86_64-pc-windows-gnu", toolchain.Needs{CUDA: true}, []string{"ort-sys has nothing"}
		}, "rust.target", doctor.Warning, doctor.Warning},
		{"another processor's target", func(f *doctor.Facts) { f.Host.Arch, f.Target = "amd64", "aarch64-unknown-linux-gnu" },
			"rust.target", doctor.Warning, doctor.Warning},
		{"that for crates that load the driver only", func(f *doctor.Facts) {
			f.Host.Arch, f.Target, f.Needs = "amd64", "aarch64-unknown-linux-gnu", toolchain.Needs{CUDA: true}
		}, "rust.target", doctor.OK, doctor.OK},
		{"the same for crates that load the driver only", func(f *doctor.Facts) {
			f.Target, f.Needs = "x86_64-pc-windows-gnu",
				toolchain.Needs{CUDA: true}
		}, "rust.target", doctor.Info, doctor.OK},
		{"headers that are missing", func(f *doctor.Facts) {
			t := toolkit
			t.Missing = []string{"cccl"}
			f.Chosen.Toolkit = &t
		}, "cuda.toolkit", doctor.Warning, doctor.Warning},
		{"Windows without an SDK", func(f *doctor.Facts) { f.Toolchain.MSVC = &msvc.Found{} }, "windows.sdk", doctor.Missing,
			doctor.Missing},
		{"ROCm is needed and not there", func(f *doctor.Facts) { f.Needs.ROCm = true }, "rocm", doctor.Missing, doctor.Missing},
		{"no libclang", func(f *doctor.Facts) {
			f.NoBuildTools = doctor.Reason{Why: "there is no libclang", Fix: "apt install libclang-dev"}
		},
			"build.tools", doctor.Missing, doctor.Missing},
		{"a toolkit that lacks only a cuDNN beside it is not at fault", func(f *doctor.Facts) {
			f.Chosen, f.ChooseErr = toolchain.Set{}, &toolchain.MissingError{What: "cuDNN", Part: toolchain.PartCUDNN}
		}, "cuda.toolkit", doctor.Info, doctor.Missing},
		{"nor is the compiler", func(f *doctor.Facts) {
			f.Chosen, f.ChooseErr = toolchain.Set{}, &toolchain.MissingError{What: "cuDNN", Part: toolchain.PartCUDNN}
		}, "host.compiler", doctor.Info, doctor.Missing},
		{"toolkits that do not fit", func(f *doctor.Facts) {
			f.Chosen, f.ChooseErr = toolchain.Set{}, &toolchain.MisfitError{What: "CUDA 13.4 does not fit", Part: toolchain.PartToolkit}
		}, "cuda.toolkit", doctor.Misfit, doctor.Misfit},
		{"compilers that do not fit", func(f *doctor.Facts) {
			f.Chosen, f.ChooseErr = toolchain.Set{}, &toolchain.MisfitError{What: "no host compiler here fits", Part: toolchain.PartCompiler}
		}, "host.compiler", doctor.Misfit, doctor.Misfit},
		{"no compiler", func(f *doctor.Facts) {
			f.Chosen, f.Toolchain.Compilers, f.ChooseErr = toolchain.Set{}, nil, &toolchain.MissingError{What: "host compiler for nvcc"}
		}, "host.compiler", doctor.Missing, doctor.Missing},
		{"no cuDNN", func(f *doctor.Facts) { f.Needs.CUDNN = true }, "cudnn", doctor.Missing, doctor.Missing},
		{"a cuDNN that was not chosen", func(f *doctor.Facts) {
			f.Needs.CUDNN, f.Toolchain.CUDNN = true, []cudnn.Install{{Root: "/usr", Version: "8.9.7", Origin: "system"}}
			f.Chosen, f.ChooseErr = toolchain.Set{}, &toolchain.MisfitError{What: "x", Part: toolchain.PartCUDNN}
		}, "cudnn", doctor.Misfit, doctor.Misfit},
		{"a project that cargo refuses", func(f *doctor.Facts) {
			f.Project, f.NoProject.Why, f.ProjectBad = "", "error: no such feature",
				true
		}, "project", doctor.Misfit, doctor.Misfit},
		{"a cache that others may write to", func(f *doctor.Facts) { f.NoCache.Why = "cache: /x belongs to user 7" },
			"cache", doctor.Misfit, doctor.Misfit},
		{"a cache that cannot be written to", func(f *doctor.Facts) { f.Unkept.Why = "cache /x cannot be written to: read-only file system" },
			"cache", doctor.Info, doctor.OK},
		{"one part is missing, which weighs more than another that does not fit", func(f *doctor.Facts) {
			f.Needs.ROCm, f.Run.Stubs = true, []string{"/usr/local/cuda/lib64/stubs"}
		}, "loader.stubs", doctor.Misfit, doctor.Missing},
		{"no project", func(f *doctor.Facts) { f.Project = "" }, "project", doctor.Info, doctor.OK},
		{"an error that is not a choice's", func(f *doctor.Facts) { f.ChooseErr = errors.New("odd") }, "cuda.set", doctor.Misfit,
			doctor.Misfit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := good
			tt.change(&f)
			checks := doctor.Run(f)
			if c := find(t, checks, tt.id); c.State != tt.want {
				t.Errorf("%s: got %s (%s), want %s", tt.id, c.State, c.Says, tt.want)
			}
			hosttest.Equal(t, doctor.Worst(checks), tt.worst, "worst")
			seen := map[string]bool{}
			for _, c := range checks {
				if seen[c.ID] || c.Says == "" || c.Mark() == "" {
					t.Errorf("check %q stands twice or says nothing", c.ID)
				}
				seen[c.ID] = true
				if (c.State == doctor.Missing || c.State == doctor.Misfit) && c.Breaks == "" {
					t.Errorf("%s is %s and does not say what breaks", c.ID, c.State)
				}
			}
		})
	}
}

// TestIDs holds the checks' names, by which scripts and bug reports know them, and their order: none is renamed or left out.
func TestIDs(t *testing.T) {
	ids := func(f doctor.Facts) string {
		var out []string
		for _, c := range doctor.Run(f) {
			out = append(out, c.ID)
		}
		return strings.Join(out, " ")
	}
	const all = "cargo rust.target cache project cuda.toolkit host.compiler%s cuda.set capability cudnn " +
		"rocm driver devices cupti probe loader.stubs loader.path%s"
	if got, want := ids(doctor.Facts{}), fmt.Sprintf(all, "", ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	full := doctor.Facts{WSL: true, Host: windows(t, "1"), Toolchain: toolchain.Facts{MSVC: &msvc.Found{}}}
	if got, want := ids(full), fmt.Sprintf(all, " windows.sdk", " wsl"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLoaderPath(t *testing.T) {
	lib := func(name string, kind loader.Kind, why string) doctor.RunLibrary {
		l := loader.Library{Name: name, Kind: kind}
		switch kind {
		case loader.Added:
			l.Path = "/tk/lib64/" + name
		case loader.Missing:
			l.Problem = "not found"
		}
		return doctor.RunLibrary{Crate: "cudarc 0.19.10", Why: why, Found: l}
	}
	for _, tt := range []struct {
		story        string
		libs         []doctor.RunLibrary
		build, prove doctor.State
		says, fix    string
	}{
		{"driver only", nil, doctor.Info, doctor.Info, "no crate here needs", ""},
		{"all on the loader's path", []doctor.RunLibrary{lib("libcublas.so.13", loader.OK, "to start")}, doctor.OK, doctor.OK,
			"a bare start finds libcublas.so.13", ""},
		{"only through gpubuild, and the program cannot start without",
			[]doctor.RunLibrary{lib("libcublas.so.13", loader.Added, "to start")}, doctor.OK, doctor.OK,
			"found only under `gpubuild run`: libcublas.so.13 (/tk/lib64)", ""},
		{"only through gpubuild, opened when it is used",
			[]doctor.RunLibrary{lib("libnvrtc.so.13", loader.Added, "when they are first used")}, doctor.OK, doctor.OK,
			"found only under", ""},
		{"nowhere, behind one that is there", []doctor.RunLibrary{lib("libcublas.so.13", loader.OK, "to start"),
			lib("libcudnn.so.9", loader.Missing, "to start")}, doctor.Warning, doctor.Missing,
			"not found: libcudnn.so.9", "gpubuild toolchain install 13.4 --parts run,cudnn"},
		{"a stub", []doctor.RunLibrary{lib("libcublas.so.13", loader.Stub, "to start")}, doctor.Warning, doctor.Missing, "not found",
			"gpubuild toolchain install 13.4 --parts run"},
	} {
		for prove, want := range map[bool]doctor.State{false: tt.build, true: tt.prove} {
			f := doctor.Facts{Prove: prove, Run: doctor.RunTime{Libraries: tt.libs, Dirs: []string{"/tk/lib64"}}, Cache: "/c",
				Host:   buildenv.Host{OS: buildenv.Linux},
				Chosen: toolchain.Set{Toolkit: &cuda.Toolkit{Root: "/c/toolkits/cuda-13.4", Version: gpu.Version{Major: 13, Minor: 4}}}}
			c := find(t, doctor.Run(f), "loader.path")
			if c.State != want || !strings.Contains(c.Says, tt.says) || !strings.Contains(c.Fix, tt.fix) {
				t.Errorf("%s, prove %v: %s %s | %s, want %s", tt.story, prove, c.State, c.Says, c.Fix, want)
			}
			if c.State != doctor.OK && len(tt.libs) > 0 && (c.Breaks == "" || len(c.Places) == 0) {
				t.Errorf("%s: %+v", tt.story, c)
			}
		}
	}
	f := doctor.Facts{Prove: true, Run: doctor.RunTime{Libraries: []doctor.RunLibrary{lib("libcublas", loader.Missing, "to start")}},
		ChooseErr: &toolchain.MissingError{What: "CUDA toolkit", Part: toolchain.PartToolkit}}
	if c := find(t, doctor.Run(f), "loader.path"); c.State != doctor.Info || !strings.Contains(c.Says, "see cuda.toolkit") {
		t.Errorf("without a toolkit: %+v", c)
	}
	f.ChooseErr, f.Prove = nil, false // crates that build without one, as burn's do, and load NVRTC when they run
	if c := find(t, doctor.Run(f), "loader.path"); c.State != doctor.Warning || c.Fix != "gpubuild toolchain install --parts run" {
		t.Errorf("a build that needs no toolkit: %+v", c)
	}
	w := doctor.Facts{Run: doctor.RunTime{Libraries: []doctor.RunLibrary{lib("libcudnn", loader.Missing, "when they are first used")}},
		Host:   buildenv.Host{OS: buildenv.Windows},
		Chosen: toolchain.Set{Toolkit: &cuda.Toolkit{Root: `C:\cuda`, Version: gpu.Version{Major: 13, Minor: 4}}}}
	if c := find(t, doctor.Run(w), "loader.path"); c.Fix != "gpubuild toolchain install 13.4 --parts run,cudnn" {
		t.Errorf("cuDNN on Windows: %+v", c)
	}
	f.Run.Libraries = append(f.Run.Libraries, lib("libnccl", loader.Missing, "when they are first used")) // docs.nvidia.com/deeplearning/nccl
	if c := find(t, doctor.Run(f), "loader.path"); !strings.HasSuffix(c.Fix, "--parts run; from NVIDIA's package repository: apt install libnccl2") {
		t.Errorf("NCCL: %+v", c)
	}
}
