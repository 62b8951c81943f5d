package toolchain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

func version(s string) gpu.Version {
	v, _ := gpu.ParseVersion(s)
	return v
}

func capability(s string) gpu.Capability {
	c, _ := gpu.ParseCapability(s)
	return c
}

// kit is a complete toolkit at /cuda-VERSION that takes gcc up to 13.
func kit(v string, lo, hi string, sources ...cuda.Source) cuda.Toolkit {
	root := "/cuda-" + v
	if len(sources) == 0 {
		sources = []cuda.Source{{Kind: cuda.Usual, Name: "a usual place"}}
	}
	return cuda.Toolkit{Root: root, Real: root, NVCC: root + "/bin/nvcc", Version: version(v), Lib: root + "/lib64", Stubs: root +
		"/lib64/stubs",
		Bounds:  cuda.Bounds{GCCMax: 13, GCC: cuda.Quote{Text: "#if __GNUC__ > 13", Line: 7}, File: root + "/include/crt/host_config.h"},
		MinArch: gpu.Arch{Capability: capability(lo)}, MaxArch: gpu.Arch{Capability: capability(hi)}, Sources: sources,
		Origin: sources[0].Name}
}

func gcc(major int, path string, isDefault bool) hostcc.Compiler {
	return hostcc.Compiler{Path: path, CXX: strings.Replace(path, "gcc", "g++", 1), Real: path, Kind: hostcc.GCC, Version: "0",
		Major: major, Origin: "PATH", Default: isDefault}
}

func devices(caps ...string) (out []gpu.Device) {
	for i, c := range caps {
		out = append(out, gpu.Device{Index: i, Name: "GPU " + c, Capability: capability(c)})
	}
	return out
}

// three is a machine with three toolkits and a gcc that fits.
func three() toolchain.Facts {
	return toolchain.Facts{
		Toolkits:  []cuda.Toolkit{kit("13.5", "75", "121"), kit("13.2", "75", "121"), kit("12.6", "50", "90")},
		Compilers: []hostcc.Compiler{gcc(12, "/usr/bin/gcc", true)},
	}
}

func TestChoose(t *testing.T) {
	floors := []toolchain.Floor{
		{Crate: "candle-kernels 0.11.0", Arch: capability("80"), Since: version("13.2"), Why: "it defines __hmax_nan"},
		{Crate: "old", Arch: capability("90"), Until: version("12.4"), Why: "not with these toolkits"},
	}
	floored, sm80 := with(kernels, func(n *toolchain.Needs) { n.Floors = floors }), toolchain.Wish{Arch: "80"}
	pinned := func(v string) toolchain.Needs {
		return with(kernels, func(n *toolchain.Needs) { n.Pin, n.Libraries = version(v), true })
	}
	newest := func(f *toolchain.Facts) { f.Toolkits = f.Toolkits[:1] }
	doubt := func(f *toolchain.Facts) { f.Toolkits[0].Missing = []string{cuda.PartCCCL} }
	driver := func(v string) func(*toolchain.Facts) {
		return func(f *toolchain.Facts) { f.Driver = gpu.Driver{Version: "595.1", CUDA: version(v)} }
	}
	by := func(v string, kind cuda.Kind, name string) cuda.Toolkit {
		if v == "12.6" {
			return kit(v, "50", "90", cuda.Source{Kind: kind, Name: name})
		}
		return kit(v, "75", "121", cuda.Source{Kind: kind, Name: name})
	}
	for _, tt := range []struct {
		story string
		facts func(*toolchain.Facts)
		needs toolchain.Needs
		wish  toolchain.Wish
		want  string // root, arch and its origin; or the error's first line and its hint
	}{
		{"the newest that fits", nil, kernels, toolchain.Wish{}, "/cuda-13.5 7.5 the lowest that CUDA 13.5 compiles for, because no GPU " +
			"is visible and no architecture was given"},
		{"cudarc does not know the newest", nil, with(kernels, func(n *toolchain.Needs) { n.CudarcMax = version("13.4") }),
			toolchain.Wish{Arch: "89", ArchOrigin: "--gpu-arch"}, "/cuda-13.2 8.9 --gpu-arch"},
		{"a pin makes cudarc's limit void", nil, with(kernels, func(n *toolchain.Needs) {
			n.CudarcMax, n.Pin = version("13.4"),
				version("13.0")
		}), toolchain.Wish{Arch: "sm_90a", ArchOrigin: "x"}, "/cuda-13.5 9.0 x"},
		{"a pin and linked libraries of another major", newest, pinned("12.3"), toolchain.Wish{},
			"CUDA 13.5 in /cuda-13.5 does not fit: a feature fixes cudarc's bindings to CUDA 12.3, and the libraries of CUDA 13.5 do " +
				"not have all of them | use a toolkit of CUDA 12 from 12.3 on, or cudarc's feature cuda-13050 in place of cuda-12030"},
		{"a pin that is newer than a toolkit of its major", nil, pinned("13.3"), toolchain.Wish{CUDA: "13.2", Arch: "80"},
			"CUDA 13.2 in /cuda-13.2 does not fit: a feature fixes cudarc's bindings to CUDA 13.3, and the libraries of CUDA 13.2 do " +
				"not have all of them | use a toolkit of CUDA 13 from 13.3 on, or cudarc's feature cuda-13020 in place of cuda-13030"},
		{"libraries and C++ sources without a kernel need a host compiler", func(f *toolchain.Facts) {
			f.Toolkits, f.Compilers[0].Problem = f.Toolkits[:1], "it does not start"
		}, toolchain.Needs{CUDA: true, Libraries: true, HostCompiler: true}, toolchain.Wish{},
			"there is no host compiler for nvcc | install g++"},
		{"a major that may have come since", nil, kernels, toolchain.Wish{CUDA: "14.0"}, "there is no CUDA toolkit 14.0 | " +
			"use one of those listed above, or: `gpubuild toolchain install 13.5` installs the newest that is known; " +
			"`gpubuild toolchain list --available` lists what there is now"},
		{"a major that cannot have", nil, kernels, toolchain.Wish{CUDA: "15.0"}, "there is no CUDA toolkit 15.0 | use one of those " +
			"listed above: no CUDA 15.0 can be installed; `gpubuild toolchain list --available` lists what can"},
		{"PTX of the next minor release is too new, too", driver("13.4"), kernels, sm80, "/cuda-13.2 8.0 "},
		{"PTX must not be newer than the driver", driver("13.2"), kernels, toolchain.Wish{Arch: "8.0", ArchOrigin: "x"}, "/cuda-13.2 8.0 x"},
		{"a driver of the last major: the older toolkit runs here", driver("12.8"), toolchain.Needs{NVCC: true}, sm80, "/cuda-12.6 8.0 "},
		{"an old GPU needs an old toolkit", func(f *toolchain.Facts) { f.Devices = devices("8.9", "6.1") }, kernels, toolchain.Wish{},
			"/cuda-12.6 6.1 the lowest of 2 GPUs, GPU 6.1"},
		{"a GPU newer than one toolkit", func(f *toolchain.Facts) { f.Toolkits = f.Toolkits[2:]; f.Devices = devices("12.0") }, kernels,
			toolchain.Wish{}, "CUDA 12.6 compiles for sm_90 and older, not for sm_120 | use a newer toolkit " +
				"(`gpubuild --gpu-toolkit=fetch …` fetches one without admin rights), or `--gpu-arch=90`, whose PTX a newer GPU takes"},
		{"too old a GPU for any of them", func(f *toolchain.Facts) { f.Toolkits = f.Toolkits[:2] }, kernels,
			toolchain.Wish{Arch: "61", ArchOrigin: "CUDA_COMPUTE_CAP"},
			"none of 2 CUDA toolkits fits; closest is CUDA 13.5 in /cuda-13.5: CUDA 13.5 compiles for sm_75 and newer, not for sm_61 | " +
				"for a GPU of sm_75 or newer: `--gpu-arch=75`; for sm_61 CUDA 12.9 is the newest (`gpubuild toolchain install 12.9`)"},
		{"what the directory was built for stays when no GPU is visible", nil, kernels, toolchain.Wish{Previous: []gpu.Arch{{Capability: capability("8.6")}}},
			"/cuda-13.5 8.6 what this target directory was built for"},
		{"the crates' floor is above the toolkit's", nil, floored, toolchain.Wish{},
			"/cuda-13.5 8.0 the lowest that candle-kernels 0.11.0 compiles for with CUDA 13.5, because no GPU is visible and no " +
				"architecture was given"},
		{"an arch below the crates' floor, and a toolkit without that floor", nil, floored,
			toolchain.Wish{Arch: "75", ArchOrigin: "--gpu-arch"}, "/cuda-12.6 7.5 --gpu-arch"},
		{"an arch below the crates' floor", newest, floored, toolchain.Wish{Arch: "75", ArchOrigin: "--gpu-arch"},
			"candle-kernels 0.11.0 does not compile for sm_75 with CUDA 13.5: it defines " +
				"__hmax_nan; --gpu-arch asks for it | for a GPU of sm_80 or newer: `--gpu-arch=80`; or use a toolkit older than CUDA 13.2, or another version " +
				"of candle-kernels 0.11.0"},
		{"a version that is asked for", nil, kernels, toolchain.Wish{CUDA: "12.6", Arch: "80"}, "/cuda-12.6 8.0 "},
		{"a major that is asked for", nil, kernels, toolchain.Wish{CUDA: "12", Arch: "80"}, "/cuda-12.6 8.0 "},
		{"a root that is asked for, with a slash", nil, kernels, toolchain.Wish{CUDA: "/cuda-13.2/", Arch: "80"}, "/cuda-13.2 8.0 "},
		{"a release that is asked for", func(f *toolchain.Facts) {
			f.Toolkits[0].Label, f.Toolkits[1].Label = "13.5.0", "13.2.1"
		}, kernels, toolchain.Wish{CUDA: "13.2.1", Arch: "80"}, "/cuda-13.2 8.0 "},
		{"of a major that is asked for, the one without a doubt", doubt, kernels, toolchain.Wish{CUDA: "13", Arch: "80"}, "/cuda-13.2 8.0 "},
		{"a variable's, with its doubt", func(f *toolchain.Facts) {
			f.Toolkits[0].Missing = []string{cuda.PartCCCL}
			f.Toolkits[0].Sources = []cuda.Source{{Kind: cuda.Variable, Name: "CUDA_HOME"}}
		}, kernels, sm80, "/cuda-13.5 8.0 "},
		{"a version of three numbers is none that a toolkit has", nil, kernels, toolchain.Wish{CUDA: "13.2.1"}, "there is no CUDA toolkit " +
			"13.2.1 | use one of those listed above, or: gpubuild toolchain install 13.2.1"},
		{"one that is asked for is taken with its doubt", doubt, kernels, toolchain.Wish{CUDA: "13.5", Arch: "80"}, "/cuda-13.5 8.0 "},
		{"where all have a doubt the first stays", func(f *toolchain.Facts) {
			for i := range f.Toolkits {
				f.Toolkits[i].Missing = []string{cuda.PartCCCL}
			}
		}, kernels, sm80, "/cuda-13.5 8.0 "},
		{"a doubt gives way to a toolkit without one", doubt, kernels, sm80, "/cuda-13.2 8.0 "},
		{"a doubt about the one that a variable names does not", func(f *toolchain.Facts) {
			f.Toolkits[0] = by("13.5", cuda.Variable, "CUDA_HOME")
			f.Toolkits[0].Missing = []string{cuda.PartCCCL}
		}, kernels, sm80, "/cuda-13.5 8.0 "},
		{"a part that only kernels need is no doubt where nvcc is only asked for its version", doubt, toolchain.Needs{NVCCVersion: true}, sm80, "/cuda-13.5 8.0 "},
		{"a variable names nothing", func(f *toolchain.Facts) {
			f.Toolkits = []cuda.Toolkit{{Root: "/nonexistent", Origin: "NVCC, PATH", Problem: "it does not exist"}}
		}, kernels, toolchain.Wish{}, "there is no CUDA toolkit | `gpubuild --gpu-toolkit=fetch …` " +
			"fetches one without admin rights into your cache; or let NVCC lead to a toolkit"},
		{"an [env] table names nothing", func(f *toolchain.Facts) {
			f.Toolkits = []cuda.Toolkit{{Root: "/nonexistent", Origin: "CUDA_HOME", Problem: "it does not exist"}}
		}, kernels, toolchain.Wish{EnvFiles: map[string]string{"CUDA_HOME": ".cargo/config.toml"}},
			"there is no CUDA toolkit | `gpubuild --gpu-toolkit=fetch …` fetches one without admin rights into your cache; " +
				"or let CUDA_HOME in the [env] table of .cargo/config.toml lead to a toolkit"},
		{"a version that is not there", nil, kernels, toolchain.Wish{CUDA: "11.8"}, "there is no CUDA toolkit 11.8 | use one of those " +
			"listed above, or: gpubuild toolchain install 11.8"},
		{"what is asked for is never replaced", nil, with(kernels, func(n *toolchain.Needs) { n.CudarcMax = version("13.4") }),
			toolchain.Wish{CUDA: "13.5"},
			"CUDA 13.5 in /cuda-13.5 does not fit: CUDA 13.5 is newer than the locked cudarc knows (13.4) | " +
				"gpubuild toolchain install 13.4"},
		{"nor is one advised that the driver excludes", func(f *toolchain.Facts) { f.Driver.Version, f.Driver.CUDA = "580.65.06", version("13.0") },
			with(kernels, func(n *toolchain.Needs) { n.CudarcMax, n.EmbedsPTX = version("13.4"), true }), toolchain.Wish{CUDA: "13.5"},
			"CUDA 13.5 in /cuda-13.5 does not fit: CUDA 13.5 is newer than the locked cudarc knows (13.4) | gpubuild toolchain install 13.0"},
		{"and what is here comes first", func(f *toolchain.Facts) { f.Driver.Version, f.Driver.CUDA = "595.45.04", version("13.2") },
			with(kernels, func(n *toolchain.Needs) { n.CudarcMax, n.EmbedsPTX = version("13.4"), true }), toolchain.Wish{CUDA: "13.5"},
			"CUDA 13.5 in /cuda-13.5 does not fit: CUDA 13.5 is newer than the locked cudarc knows (13.4) | `--gpu-toolkit=13.2`"},
		{"no sense in the arch", nil, kernels, toolchain.Wish{Arch: "fast", ArchOrigin: "GPUBUILD_ARCH"},
			`GPUBUILD_ARCH: "fast" is not an architecture such as sm_89 or compute_89 | give a compute capability such as 89 or 8.9`},
		{"crates that need a driver only", func(f *toolchain.Facts) { *f = toolchain.Facts{} }, toolchain.Needs{CUDA: true},
			toolchain.Wish{}, "none unknown "},
		{"nvcc is only asked for its version: parts and compilers do not matter", func(f *toolchain.Facts) {
			f.Toolkits, f.Compilers = f.Toolkits[2:], nil
			f.Toolkits[0].Missing = []string{cuda.PartCRT, cuda.PartNVVM}
		}, toolchain.Needs{NVCCVersion: true}, toolchain.Wish{}, "/cuda-12.6 unknown "},
		{"no host compiler at all", func(f *toolchain.Facts) { f.Compilers = nil; f.Toolkits = f.Toolkits[:1] }, kernels, toolchain.Wish{},
			"there is no host compiler for nvcc | install g++"},
		{"the compiler that is asked for does not fit", func(f *toolchain.Facts) {
			f.Toolkits = f.Toolkits[:1]
			f.Compilers = append(f.Compilers, gcc(15, "/usr/bin/gcc-15", false))
		}, kernels, toolchain.Wish{CCBin: "/usr/bin/g++-15"}, "no host compiler here fits CUDA 13.5 in /cuda-13.5 | " +
			"install g++-13 or an older one, which CUDA 13.5 takes; " +
			"gpubuild then uses it by itself"},
		{"what the directory was built for is too old for the only toolkit, and the GPU is another one now", func(f *toolchain.Facts) {
			f.Toolkits, f.Devices = f.Toolkits[:1], devices("8.9")
		}, kernels, toolchain.Wish{Previous: []gpu.Arch{{Capability: capability("61")}}}, "CUDA 13.5 compiles for sm_75 and " +
			"newer, not for sm_61 | for a GPU of sm_75 or newer: `--gpu-arch=75`; for sm_61 CUDA 12.9 is the newest (`gpubuild " +
			"toolchain install 12.9`)"},
		{"no cuDNN", newest,
			with(candle, func(n *toolchain.Needs) { n.CudarcMax = gpu.Version{} }), toolchain.Wish{}, "there is no cuDNN | install " +
				"cuDNN for CUDA 13 (NVIDIA's repository for Debian, Ubuntu: cudnn9-cuda-13; `gpubuild toolchain install 13.5 --parts cudnn` needs no admin " +
				"rights) and point CUDNN_LIB at its root"},
		{"headers of cuDNN without a library", func(f *toolchain.Facts) {
			f.Toolkits = f.Toolkits[2:]
			f.CUDNN = []cudnn.Install{{Root: "/usr", Real: "/usr", Include: "/usr/include", Version: "9.10.2", CUDAMajor: 12,
				Problem: "its headers are there, its libraries are not"}}
		}, candle, toolchain.Wish{}, "there is no cuDNN | install cuDNN for CUDA 12 (NVIDIA's repository for Debian, Ubuntu: cudnn9-cuda-12; `gpubuild " +
			"toolchain install 12.6 --parts cudnn` needs no admin rights) and point CUDNN_LIB at its root"},
		{"cuDNN decides on the toolkit", func(f *toolchain.Facts) {
			f.CUDNN = []cudnn.Install{{Root: "/cudnn", Real: "/cudnn", Version: "9.10.2", CUDAMajor: 12, Link: true, Lib: "/cudnn/lib"}}
		}, candle, sm80, "/cuda-12.6 8.0 "},
		{"cuDNN without the link that a linker needs", func(f *toolchain.Facts) {
			f.Toolkits = f.Toolkits[2:]
			f.CUDNN = []cudnn.Install{{Root: "/cudnn", Real: "/cudnn", Version: "9.10.2", Major: 9, CUDAMajor: 12, Lib: "/cudnn/lib"}}
		}, candle, toolchain.Wish{}, "CUDA 12.6 in /cuda-12.6 does not fit: there is no cuDNN for CUDA 12 | make the name by which a " +
			"linker finds it: ln -s libcudnn.so.9 /cudnn/lib/libcudnn.so"},
		{"the variables agree, and an older one is theirs", func(f *toolchain.Facts) {
			f.Toolkits[2] = kit("12.6", "50", "90", cuda.Source{Kind: cuda.Variable, Name: "CUDA_HOME"},
				cuda.Source{Kind: cuda.Variable, Name: "CUDA_PATH"})
		}, kernels, sm80, "/cuda-12.6 8.0 "},
		{"a variable comes before nvcc on PATH", func(f *toolchain.Facts) {
			f.Toolkits[0] = by("13.5", cuda.OnPath, "PATH")
			f.Toolkits[2] = by("12.6", cuda.Variable, "CUDA_HOME")
		}, kernels, sm80, "/cuda-12.6 8.0 "},
		{"but not variables that disagree", func(f *toolchain.Facts) {
			f.Toolkits[0] = by("13.5", cuda.OnPath, "PATH")
			f.Toolkits[1] = by("13.2", cuda.Variable, "CUDA_PATH")
			f.Toolkits[2] = by("12.6", cuda.Variable, "CUDA_HOME")
		}, kernels, sm80, "/cuda-13.5 8.0 "},
		{"the active environment comes before nvcc on PATH", func(f *toolchain.Facts) {
			f.Toolkits[0] = by("13.5", cuda.OnPath, "PATH")
			f.Toolkits[2] = by("12.6", cuda.Environment, "CONDA_PREFIX")
		}, kernels, sm80, "/cuda-12.6 8.0 "},
		{"of variables that disagree the newest, before usual places", func(f *toolchain.Facts) {
			f.Toolkits = []cuda.Toolkit{kit("13.5", "75", "121"), by("12.6", cuda.Variable, "CUDA_PATH"),
				by("13.2", cuda.Variable, "CUDA_HOME")}
		}, kernels, sm80, "/cuda-13.2 8.0 "},
		{"an architecture that does not exist", newest, kernels, toolchain.Wish{Arch: "200"},
			"CUDA 13.5 compiles for sm_121 and older, and sm_200 is no architecture that gpubuild knows;  asks for it | " +
				"correct it; the newest that this toolkit compiles for is `--gpu-arch=121`"},
		{"one between two that exist", newest, kernels, toolchain.Wish{Arch: "81"},
			"CUDA 13.5 compiles for sm_121 and older, and sm_81 is no architecture that gpubuild knows;  asks for it | " +
				"correct it; the newest that this toolkit compiles for is `--gpu-arch=121`"},
		{"one that has another name since CUDA 13", newest, kernels, toolchain.Wish{Arch: "101"},
			"CUDA 13.5 does not compile for sm_101, whose name is sm_110 since CUDA 13.0;  asks for it | " +
				"`--gpu-arch=110`, or CUDA 12.9 (`gpubuild toolchain install 12.9`)"},
		{"one that came after newer ones", func(f *toolchain.Facts) { f.Toolkits = []cuda.Toolkit{kit("12.8", "50", "120")} }, kernels,
			toolchain.Wish{Arch: "103"}, "CUDA 12.8 does not compile for sm_103: CUDA 12.9 is the first that does;  asks for it | " +
				"`gpubuild toolchain install 12.9`"},
		{"the newest that a toolkit compiles for", nil, kernels, toolchain.Wish{CUDA: "12.6", Arch: "90"}, "/cuda-12.6 9.0 "},
		{"the lowest that the crates compile for", nil, floored, sm80, "/cuda-13.5 8.0 "},
		{"the crates' floor is the toolkit's", nil, with(kernels, func(n *toolchain.Needs) {
			n.Floors = []toolchain.Floor{{Crate: "k", Arch: capability("75"), Why: "x"}}
		}), toolchain.Wish{}, "/cuda-13.5 7.5 the lowest that CUDA 13.5 compiles for, because no GPU is visible and no architecture was given"},
		{"an arch below the floor of both", newest, with(kernels, func(n *toolchain.Needs) {
			n.Floors = []toolchain.Floor{{Crate: "k", Arch: capability("75"), Why: "x"}}
		}), toolchain.Wish{Arch: "70"}, "CUDA 13.5 compiles for sm_75 and newer, not for sm_70;  asks for it | for a GPU of sm_75 or newer: `--gpu-arch=75`; " +
			"for sm_70 CUDA 12.9 is the newest (`gpubuild toolchain install 12.9`)"},
		{"a toolkit that ends at the usual lowest", func(f *toolchain.Facts) { f.Toolkits = []cuda.Toolkit{kit("12.6", "50", "75")} }, kernels, toolchain.Wish{},
			"/cuda-12.6 7.5 the lowest that CUDA 13 compiles for (CUDA 12.6 goes down to sm_50), because no GPU is visible and no architecture was given"},
		{"one GPU", func(f *toolchain.Facts) { f.Devices = devices("8.9") }, kernels, toolchain.Wish{}, "/cuda-13.5 8.9 the GPU, GPU 8.9"},
		{"a GPU of which nothing is known", func(f *toolchain.Facts) { f.Devices = []gpu.Device{{Name: "x"}, devices("8.9")[0]} }, kernels, toolchain.Wish{},
			"/cuda-13.5 8.9 the lowest of 2 GPUs, GPU 8.9"},
		{"a pin of the toolkit's own version", nil, pinned("13.2"), toolchain.Wish{CUDA: "13.2", Arch: "80"}, "/cuda-13.2 8.0 "},
		{"cudarc knows just this one", nil, with(kernels, func(n *toolchain.Needs) { n.CudarcMax = version("13.5") }), sm80, "/cuda-13.5 8.0 "},
		{"nothing to link with", func(f *toolchain.Facts) { f.Toolkits = f.Toolkits[:1]; f.Toolkits[0].Lib = "" }, toolchain.Needs{Libraries: true}, toolchain.Wish{},
			"CUDA 13.5 in /cuda-13.5 does not fit: it has no libraries to link | install NVIDIA's cuda-libraries-dev, or: `gpubuild --gpu-toolkit=fetch …` fetches one without admin rights"},
		{"no libcuda.so to link with gives way", func(f *toolchain.Facts) { f.Toolkits[0].Stubs = "" }, toolchain.Needs{Libraries: true}, sm80, "/cuda-13.2 8.0 "},
		{"nor is cuBLAS there, which is linked", func(f *toolchain.Facts) { f.Toolkits[1].Links = []string{"libcublas"} },
			toolchain.Needs{Libraries: true, Links: []string{"libcublas"}}, sm80, "/cuda-13.2 8.0 "},
		{"nothing to link with on Windows", func(f *toolchain.Facts) {
			f.Toolkits, f.MSVC = f.Toolkits[:1], &msvc.Found{}
			f.Toolkits[0].Lib = ""
		}, toolchain.Needs{Libraries: true}, toolchain.Wish{}, "CUDA 13.5 in /cuda-13.5 does not fit: it has no libraries to link | run NVIDIA's installer again, " +
			"and let it install cudart and cuBLAS (Custom), or: `gpubuild --gpu-toolkit=fetch …` fetches one without admin rights"},
		{"unless the driver's is there", func(f *toolchain.Facts) { f.Toolkits[0].Stubs, f.LibCUDA = "", "/usr/lib/libcuda.so" }, toolchain.Needs{Libraries: true}, sm80, "/cuda-13.5 8.0 "},
		{"a wish that is none", nil, kernels, toolchain.Wish{CUDA: "newest"}, "there is no CUDA toolkit newest | use one of those listed above, or: `gpubuild --gpu-toolkit=fetch …` fetches one without admin rights"},
		{"the newest release, which is not here", func(f *toolchain.Facts) { f.Toolkits = f.Toolkits[1:] }, kernels, toolchain.Wish{CUDA: "13.5"}, "there is no CUDA toolkit 13.5 | use one of those listed above, or: gpubuild toolchain install 13.5"},
		{"one that was never published", nil, kernels, toolchain.Wish{CUDA: "12.7"}, "there is no CUDA toolkit 12.7 | use one of those listed above: no CUDA 12.7 can be installed; `gpubuild toolchain list --available` lists what can"},
		{"a major that is not here", func(f *toolchain.Facts) { f.Toolkits = f.Toolkits[:2] }, kernels, toolchain.Wish{CUDA: "12"}, "there is no CUDA toolkit 12 | use one of those listed above, or: gpubuild toolchain install 12"},
		{"a toolkit of Windows in another spelling", func(f *toolchain.Facts) {
			f.Toolkits[1].Root, f.Toolkits[1].Real = `C:\CUDA\v13.2`, `D:\real`
		}, kernels, toolchain.Wish{CUDA: `c:/cuda/V13.2\`, Arch: "80"}, `C:\CUDA\v13.2 8.0 `},
		{"by what it is a link to", func(f *toolchain.Facts) {
			f.Toolkits[1].Root, f.Toolkits[1].Real = `C:\CUDA\v13.2`, `D:\real`
		}, kernels, toolchain.Wish{CUDA: `D:\real`, Arch: "80"}, `C:\CUDA\v13.2 8.0 `},
		{"nvcc on PATH comes before usual places", func(f *toolchain.Facts) {
			f.Toolkits[1] = by("13.2", cuda.OnPath, "PATH")
		}, kernels, sm80, "/cuda-13.2 8.0 "},
	} {
		t.Run(tt.story, func(t *testing.T) {
			f := three()
			if tt.facts != nil {
				tt.facts(&f)
			}
			s, err := toolchain.Choose(f, tt.needs, tt.wish)
			hosttest.Equal(t, told(s, err), tt.want)
		})
	}
}

// TestCUDNN: which of several a toolkit of CUDA 12.6 takes.
func TestCUDNN(t *testing.T) {
	t.Parallel()
	install := func(root, real, inside string, major int) cudnn.Install {
		return cudnn.Install{Root: root, Real: real, InToolkit: inside, Version: "9.10.2", CUDAMajor: major, Link: true, Lib: root + "/lib"}
	}
	named := install("/named", "/named", "", 12)
	named.Named = true
	for _, tt := range []struct {
		story string
		list  []cudnn.Install
		want  string
	}{
		{"the user's before the toolkit's own", []cudnn.Install{install("/cuda-12.6", "/cuda-12.6", "/cuda-12.6", 12), named}, "/named"},
		{"the toolkit's own", []cudnn.Install{install("/usr", "/usr", "", 12), install("/cuda-12.6", "/x", "/cuda-12.6", 12)}, "/cuda-12.6"},
		{"the toolkit's own by another name", []cudnn.Install{install("/usr", "/usr", "", 12), install("/cuda", "/cuda-12.6", "/cuda", 12)}, "/cuda"},
		{"one in the toolkit of another major", []cudnn.Install{install("/cuda-13.2", "/cuda-13.2", "/cuda-13.2", 0), install("/usr", "/usr", "", 0)},
			"/usr"},
		{"one there that says that it is for this major", []cudnn.Install{install("/cuda-13.2", "/cuda-13.2", "/cuda-13.2", 12)}, "/cuda-13.2"},
	} {
		f := three()
		f.CUDNN = tt.list
		s, err := toolchain.Choose(f, candle, toolchain.Wish{CUDA: "12.6", Arch: "80"})
		if err != nil || s.CUDNN == nil || s.CUDNN.Root != tt.want {
			t.Errorf("%s: %+v, %v; want %s", tt.story, s.CUDNN, err, tt.want)
		}
	}
}

// TestPassedCXX: a CXX that nvcc does not take is refused where the cc crate passes it to nvcc, and nowhere else.
func TestPassedCXX(t *testing.T) {
	t.Parallel()
	byCC := toolchain.Needs{NVCC: true, Reads: []string{"cc"}}
	for _, tt := range []struct {
		story string
		major int // of CXX
		word  string
		needs toolchain.Needs
		wish  toolchain.Wish
		want  string
	}{
		{"too new", 14, "CXX", byCC, toolchain.Wish{}, "the cc crate passes CXX to nvcc: /opt/g++-14: it is gcc 14, and CUDA 13.5 takes gcc up to 13"},
		{"whatever is asked for besides", 14, "CXX", byCC, toolchain.Wish{CCBin: "/usr/bin/gcc"}, "the cc crate passes CXX to nvcc"},
		{"one that fits", 11, "CXX", byCC, toolchain.Wish{}, ""},
		{"c++ gives way to the chosen one", 14, "", byCC, toolchain.Wish{}, "set NVCC_CCBIN=/usr/bin/g++ the cc crate passes c++ to nvcc: /opt/g++-14: it is gcc 14, and CUDA 13.5 takes gcc up to 13"},
		{"a c++ that fits stays", 11, "", byCC, toolchain.Wish{}, ""},
		{"CC is not passed", 14, "CC", byCC, toolchain.Wish{}, ""},
		{"no cc crate", 14, "CXX", toolchain.Needs{NVCC: true, Reads: []string{"cudaforge"}}, toolchain.Wish{}, ""},
		{"unknown crates", 14, "CXX", toolchain.Needs{NVCC: true}, toolchain.Wish{}, ""},
		{"nvcc does not check", 14, "CXX", byCC, toolchain.Wish{Unchecked: "NVCC_APPEND_FLAGS"}, ""},
	} {
		f := three()
		cxx := gcc(tt.major, fmt.Sprintf("/opt/gcc-%d", tt.major), false)
		f.Compilers[0].Word, cxx.Word, cxx.Origin, cxx.CCrate = hostcc.Asked, tt.word, tt.word, tt.word == ""
		f.Compilers = append(f.Compilers, cxx)
		s, err := toolchain.Choose(f, tt.needs, tt.wish)
		if tt.word == "" {
			f.Compilers[0].Default = true
			got := ""
			for _, c := range toolchain.Environment(buildenv.Host{OS: buildenv.Linux}, s, tt.needs).Changes {
				if c.Name == "NVCC_CCBIN" {
					got = string(c.Op) + " " + c.Name + "=" + c.Value + " " + c.Reason
				}
			}
			if err != nil || (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) || len(s.Notes) != min(len(got), 1) {
				t.Errorf("%s: %q, %v", tt.story, got, err)
			}
			continue
		}
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(exit.Hint(err), "unset CXX, or name a compiler that nvcc takes: CXX=/usr/bin/g++")) {
			t.Errorf("%s: %v\n%s", tt.story, err, exit.Hint(err))
		}
	}
}

// TestCompilerOrder: which of several compilers a toolkit gets, and what is said of a variable's that is not taken.
func TestCompilerOrder(t *testing.T) {
	t.Parallel()
	of := func(path, word string, major int, change func(*hostcc.Compiler)) hostcc.Compiler {
		c := gcc(major, path, false)
		if c.Word = word; change != nil {
			change(&c)
		}
		return c
	}
	isDefault := func(c *hostcc.Compiler) { c.Default = true }
	debians := func(c *hostcc.Compiler) { c.NVCCDir = "/usr/lib/nvidia-cuda-toolkit/bin" }
	clang := func(c *hostcc.Compiler) { c.Kind = hostcc.Clang }
	for _, tt := range []struct {
		story string
		list  []hostcc.Compiler
		wish  toolchain.Wish
		kit   func(*cuda.Toolkit)
		want  string // the compiler, or the hint
		note  string // "-": none
	}{
		{"what is asked for", []hostcc.Compiler{of("/a", "NVCC_CCBIN", 12, nil), of("/b", hostcc.Asked, 11, nil)}, toolchain.Wish{CCBin: "/b"}, nil, "/b", "NVCC_CCBIN is /a, which is not used: not the one asked for: /b"},
		{"nvcc's own flags", []hostcc.Compiler{of("/a", "NVCC_CCBIN", 12, nil), of("/b", "NVCC_APPEND_FLAGS", 11, nil)}, toolchain.Wish{}, nil, "/b", "-"},
		{"a variable of nvcc's", []hostcc.Compiler{of("/a", "", 12, isDefault), of("/b", "NVCC_CCBIN", 11, nil)}, toolchain.Wish{}, nil, "/b", "-"},
		{"the first of two", []hostcc.Compiler{of("/a", "HOST_COMPILER", 12, nil), of("/b", "CUDAHOSTCXX", 11, nil)}, toolchain.Wish{}, nil, "/b", "-"},
		{"Debian's own for its own nvcc", []hostcc.Compiler{of("/a", "", 12, isDefault), of("/b", "", 11, debians)}, toolchain.Wish{}, func(k *cuda.Toolkit) { k.Packaged = cuda.Debian }, "/b", "-"},
		{"and for no other", []hostcc.Compiler{of("/b", "", 13, debians), of("/a", "", 12, nil)}, toolchain.Wish{}, nil, "/a", "-"},
		{"unless a variable names it", []hostcc.Compiler{of("/b", "CXX", 13, debians), of("/a", "", 12, nil)}, toolchain.Wish{}, nil, "/b", "-"},
		{"any other for Debian's nvcc", []hostcc.Compiler{of("/b", "", 12, nil), of("/a", "", 11, isDefault)}, toolchain.Wish{}, func(k *cuda.Toolkit) { k.Packaged = cuda.Debian }, "/a", "-"},
		{"the default before one of C++ sources", []hostcc.Compiler{of("/a", "CXX", 12, nil), of("/b", "", 11, isDefault)}, toolchain.Wish{}, nil, "/b", "-"},
		{"one of C++ sources before any other", []hostcc.Compiler{of("/a", "", 12, nil), of("/b", "CXX", 11, nil)}, toolchain.Wish{}, nil, "/b", "-"},
		{"gcc before clang", []hostcc.Compiler{of("/a", "", 15, clang), of("/b", "", 11, nil)}, toolchain.Wish{}, nil, "/b", "-"},
		{"the newest that fits", []hostcc.Compiler{of("/a", "", 14, nil), of("/b", "", 12, nil), of("/c", "", 13, nil)}, toolchain.Wish{}, nil, "/c", "-"},
		{"a variable of nvcc's that does not fit", []hostcc.Compiler{of("/a", "NVCC_CCBIN", 14, nil), of("/b", "", 12, nil)}, toolchain.Wish{}, nil, "/b", "NVCC_CCBIN is /a, which is not used: it is gcc 14"},
		{"one of C++ sources that does not fit", []hostcc.Compiler{of("/a", "CXX", 14, nil), of("/b", "CC", 14, nil), of("/c", "", 12, nil)}, toolchain.Wish{}, nil, "/c", "-"},
		{"nvcc's check is off", []hostcc.Compiler{of("/a", "", 14, isDefault)}, toolchain.Wish{Unchecked: "NVCC_APPEND_FLAGS"}, nil, "/a", "NVCC_APPEND_FLAGS switches nvcc's check off"},
		{"nvcc's check is off and would pass", []hostcc.Compiler{of("/a", "", 12, isDefault)}, toolchain.Wish{Unchecked: "NVCC_APPEND_FLAGS"}, nil, "/a", "-"},
		{"a standard library that is too new", []hostcc.Compiler{of("/a", "", 12, func(c *hostcc.Compiler) { c.MinCUDA = version("13.6") })}, toolchain.Wish{}, nil, "!install g++-13 or an older one", ""},
		{"one that is just right", []hostcc.Compiler{of("/a", "", 12, func(c *hostcc.Compiler) { c.MinCUDA = version("13.5") })}, toolchain.Wish{}, nil, "/a", "-"},
		{"the C++ half is missing", []hostcc.Compiler{of("/a", "", 12, func(c *hostcc.Compiler) { c.CXX, c.Problem = "", "there is no g++" }), of("/c", "", 15, nil)}, toolchain.Wish{}, nil, "!install g++-12, the C++ half of /a", ""},
		{"that of one that does not fit", []hostcc.Compiler{of("/a", "", 14, func(c *hostcc.Compiler) { c.CXX, c.Problem = "", "there is no g++" }), of("/c", "", 15, nil)}, toolchain.Wish{}, nil, "!install g++-13 or an older one", ""},
		{"that of clang", []hostcc.Compiler{of("/a", "", 12, func(c *hostcc.Compiler) { c.Kind, c.CXX, c.Problem = hostcc.Clang, "", "there is no clang++" }), of("/c", "", 15, nil)}, toolchain.Wish{}, nil, "!install g++-13 or an older one", ""},
	} {
		f := three()
		f.Toolkits, f.Compilers = f.Toolkits[:1], tt.list
		if tt.kit != nil {
			tt.kit(&f.Toolkits[0])
		}
		tt.wish.Arch = "80"
		s, err := toolchain.Choose(f, kernels, tt.wish)
		got := "!" + exit.Hint(err)
		if s.Compiler != nil {
			got = s.Compiler.Path
		}
		notes := strings.Join(s.Notes, "; ")
		if !strings.HasPrefix(got, tt.want) || tt.note == "-" && notes != "" || tt.note != "-" && !strings.Contains(notes, tt.note) {
			t.Errorf("%s: %s, %v, notes %q; want %s, %q", tt.story, got, err, notes, tt.want, tt.note)
		}
	}
}

// TestNotesOfVariables: a variable that leads to no toolkit, or to another one than is used, is said.
func TestNotesOfVariables(t *testing.T) {
	t.Parallel()
	variable := func(names ...string) (out []cuda.Source) {
		for _, n := range names {
			out = append(out, cuda.Source{Kind: cuda.Variable, Name: n})
		}
		return out
	}
	nvcc := []cuda.Source{{Kind: cuda.OnPath, Name: "NVCC"}}
	broken := func(root, problem string, sources []cuda.Source) cuda.Toolkit {
		return cuda.Toolkit{Root: root, Real: root, Sources: sources, Problem: problem}
	}
	for _, tt := range []struct {
		story string
		list  []cuda.Toolkit
		wish  toolchain.Wish
		want  string // of the notes; "": none
	}{
		{"none", nil, toolchain.Wish{}, ""},
		{"a variable that agrees", []cuda.Toolkit{kit("13.2", "75", "121", variable("CUDA_HOME")...)}, toolchain.Wish{}, ""},
		{"two that differ", []cuda.Toolkit{kit("13.2", "75", "121", variable("CUDA_HOME")...), kit("12.6", "50", "90", variable("CUDA_PATH")...)}, toolchain.Wish{},
			"the variables name different toolkits: CUDA_HOME = /cuda-13.2; CUDA_PATH = /cuda-12.6"},
		{"one that leads nowhere", []cuda.Toolkit{kit("13.2", "75", "121"), broken("/gone", "it does not exist", variable("CUDA_HOME", "CUDA_PATH"))}, toolchain.Wish{}, "CUDA_HOME, CUDA_PATH is /gone: it does not exist"},
		{"the administrators' link", []cuda.Toolkit{kit("13.2", "75", "121"), broken(cuda.AdminLink, "it is broken", []cuda.Source{{Kind: cuda.Given, Name: "x"}})}, toolchain.Wish{}, cuda.AdminLink + " is not used: it is broken"},
		{"an nvcc that does not start", []cuda.Toolkit{kit("13.2", "75", "121"), broken("/b", toolchain.NVCCFails+"x", []cuda.Source{{Kind: cuda.Usual, Name: "x"}})}, toolchain.Wish{}, "/b is not used: " + toolchain.NVCCFails + "x"},
		{"a usual place without a toolkit", []cuda.Toolkit{kit("13.2", "75", "121"), broken("/b", "x", []cuda.Source{{Kind: cuda.Usual, Name: "x"}})}, toolchain.Wish{}, ""},
		{"NVCC that names no program", []cuda.Toolkit{kit("13.2", "75", "121"), broken("/b", "it is a directory", nvcc)}, toolchain.Wish{}, "NVCC is /b: it is a directory"},
		{"NVCC of another toolkit", []cuda.Toolkit{kit("13.2", "75", "121", variable("CUDA_HOME")...), kit("12.6", "50", "90", nvcc...)}, toolchain.Wish{}, "NVCC names /cuda-12.6/bin/nvcc, which is not used: /cuda-13.2 is (CUDA_HOME)"},
		{"against which a flag was given", []cuda.Toolkit{kit("13.2", "75", "121"), kit("12.6", "50", "90", nvcc...)}, toolchain.Wish{CUDA: "13.2"}, ""},
		{"a launcher in NVCC", []cuda.Toolkit{kit("13.2", "75", "121", variable("CUDA_HOME")...), {Root: "/l", Real: "/l", NVCC: "/l/nvcc", Sources: nvcc, Problem: "it only calls another nvcc"}}, toolchain.Wish{}, ""},
		{"a variable that a flag overrules", []cuda.Toolkit{kit("13.2", "75", "121"), kit("12.6", "50", "90", variable("CUDA_HOME")...)}, toolchain.Wish{CUDA: "13.2", CUDAOrigin: "--toolkit"},
			"CUDA_HOME names /cuda-12.6, which is not the one asked for (--toolkit); /cuda-13.2 is used"},
		{"a variable's that does not fit", []cuda.Toolkit{kit("13.2", "75", "121"), kit("12.6", "50", "70", variable("CUDA_HOME")...)}, toolchain.Wish{}, "CUDA_HOME names /cuda-12.6, which does not fit: CUDA 12.6 compiles for sm_70 and older, not for sm_80; /cuda-13.2 is used"},
		{"both, by the same major", []cuda.Toolkit{kit("13.2", "75", "121"), kit("13.0", "75", "75", variable("CUDA_HOME")...)}, toolchain.Wish{CUDA: "13"}, "CUDA_HOME names /cuda-13.0, which does not fit: CUDA 13.0 compiles for sm_75 and older, not for sm_80; /cuda-13.2 is used"},
	} {
		f := three()
		if tt.list != nil {
			f.Toolkits = tt.list
		}
		tt.wish.Arch = "80"
		s, err := toolchain.Choose(f, kernels, tt.wish)
		if got := strings.Join(s.Notes, "; "); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.story, got, err, tt.want)
		}
	}
}

// TestLosers: each toolkit and cuDNN that was not taken has its reason.
func TestLosers(t *testing.T) {
	t.Parallel()
	f := three()
	f.Toolkits[0].Missing = []string{cuda.PartCCCL}
	install := func(root string, change func(*cudnn.Install)) cudnn.Install {
		i := cudnn.Install{Root: root, Real: root, Version: "9.10.2", CUDAMajor: 13, Link: true, Lib: root + "/lib"}
		change(&i)
		return i
	}
	f.CUDNN = []cudnn.Install{install("/broken", func(i *cudnn.Install) { i.Problem = "it has no header" }), install("/new", func(i *cudnn.Install) { i.MinSM = capability("90") }),
		install("/just", func(i *cudnn.Install) { i.MinSM = capability("80") }), install("/second", func(i *cudnn.Install) { i.Version = "9.1.0" })}
	s, err := toolchain.Choose(f, candle, toolchain.Wish{Arch: "80"})
	other, _ := toolchain.Choose(f, kernels, toolchain.Wish{Arch: "80"})
	why := map[string]string{}
	for _, l := range append(s.Losers, other.Losers...) {
		why[l.Where] = l.Why
	}
	if err != nil || s.CUDNN == nil || s.CUDNN.Root != "/just" {
		t.Errorf("%+v, %v", s.CUDNN, err)
	}
	for where, want := range map[string]string{"/cuda-13.5": "nv/target (CCCL) is missing", "/cuda-12.6": "/cuda-13.2 (a usual place) comes first", "/broken": "it has no header",
		"/new": "cuDNN 9.10.2 runs on compute capability 9.0 and newer, not on 8.0", "/second": "not needed: /just comes first"} {
		if !strings.Contains(why[where], want) {
			t.Errorf("%s: %q, want %q", where, why[where], want)
		}
	}
}

func told(s toolchain.Set, err error) string {
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		var hint interface{ Hint() string }
		if errors.As(err, &hint) {
			line += " | " + hint.Hint()
		}
		return line
	}
	root := "none"
	if s.Toolkit != nil {
		root = s.Toolkit.Root
	}
	return root + " " + s.Capability.String() + " " + s.CapabilityOrigin
}

// TestCapabilityUnset: a directory that was built without CUDA_COMPUTE_CAP stays so, but not against an architecture that is asked for.
func TestCapabilityUnset(t *testing.T) {
	t.Parallel()
	before := toolchain.Wish{Previous: []gpu.Arch{{Capability: capability("80")}}, PreviousUnset: true}
	asked := before
	asked.Arch = "80"
	for _, tt := range []struct {
		story string
		wish  toolchain.Wish
		want  bool
	}{{"as before", before, true}, {"asked for", asked, false}, {"never built", toolchain.Wish{PreviousUnset: true}, false}} {
		if s, err := toolchain.Choose(three(), kernels, tt.wish); err != nil || s.CapabilityUnset != tt.want {
			t.Errorf("%s: unset is %v (%v), want %v", tt.story, s.CapabilityUnset, err, tt.want)
		}
	}
}

// TestErrorsNameEveryone holds that an error lists each candidate with its reason, and that missing and not fitting are two types.
func TestErrorsNameEveryone(t *testing.T) {
	f := three()
	f.Compilers = []hostcc.Compiler{gcc(15, "/usr/bin/gcc", true)}
	_, err := toolchain.Choose(f, kernels, toolchain.Wish{})
	var misfit *toolchain.MisfitError
	if !errors.As(err, &misfit) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"/cuda-13.5", "/cuda-13.2", "/cuda-12.6", "`#if __GNUC__ > 13` in " +
		"/cuda-12.6/include/crt/host_config.h, line 7"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %s", want, err)
		}
	}
	_, err = toolchain.Choose(toolchain.Facts{Places: []string{"/usr/local/cuda"}}, kernels, toolchain.Wish{})
	var missing *toolchain.MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "/usr/local/cuda") {
		t.Errorf("got %v", err)
	}
}

// TestUncheckedIsLoud holds that a check which the user switched off lets the compiler through with a note, and never silently.
func TestUncheckedIsLoud(t *testing.T) {
	env := buildenv.NewEnv(buildenv.Linux, []string{"NVCC_APPEND_FLAGS=-O2 --allow-unsupported-compiler"})
	f := three()
	f.Compilers = []hostcc.Compiler{gcc(15, "/usr/bin/gcc", true)}
	s, err := toolchain.Choose(f, kernels, toolchain.Wish{Unchecked: toolchain.Unchecked(env)})
	if err != nil || s.Compiler == nil || !strings.Contains(strings.Join(s.Notes, "\n"), "NVCC_APPEND_FLAGS switches nvcc's check off") {
		t.Errorf("got %v, notes %v", err, s.Notes)
	}
	hosttest.Equal(t, toolchain.Unchecked(buildenv.NewEnv(buildenv.Linux, []string{"NVCC_APPEND_FLAGS=-Xptxas -v"})), "")
}

func TestArchWish(t *testing.T) {
	env := buildenv.NewEnv(buildenv.Linux, []string{"CUDA_COMPUTE_CAP=86", "GPUBUILD_ARCH=89"})
	for _, tt := range []struct {
		flag string
		env  buildenv.Env
		want string
	}{
		{"90", env, "90 --arch"},
		{"", env, "89 GPUBUILD_ARCH"},
		{"", env.Unset("GPUBUILD_ARCH"), "86 CUDA_COMPUTE_CAP"},
		{"", buildenv.Env{}, "75 gpubuild.toml"},
	} {
		a, o := toolchain.ArchWish(tt.flag, "--arch", tt.env, "75", "gpubuild.toml")
		hosttest.Equal(t, a+" "+o, tt.want)
	}
}

// TestFloorAboveTheToolkits: the lowest architecture that is suggested is one that the crates compile for, too.
func TestFloorAboveTheToolkits(t *testing.T) {
	n := toolchain.Needs{CUDA: true, NVCC: true, Floors: []toolchain.Floor{
		{Crate: "candle-kernels", Arch: gpu.Capability{Major: 8}, Why: "bf16"},
	}}
	_, err := toolchain.Choose(toolchain.Facts{Toolkits: []cuda.Toolkit{kit("13.4", "7.5", "12.1")}}, n, toolchain.Wish{Arch: "35"})
	if hint := exit.Hint(err); !strings.Contains(hint, "--gpu-arch=80") || strings.Contains(hint, "75") {
		t.Error(hint)
	}
}

// TestFirstIsComplete: the toolkit that builds try first is one that can build, where nobody names another.
func TestFirstIsComplete(t *testing.T) {
	v := gpu.Version{Major: 13, Minor: 4}
	found := []cuda.Toolkit{
		{Root: "/part", Version: v, Missing: []string{cuda.PartNVVM}, Sources: []cuda.Source{{Kind: cuda.OnPath, Name: "PATH"}}},
		{Root: "/whole", Version: v, Sources: []cuda.Source{{Kind: cuda.Usual, Name: "a usual place"}}},
	}
	if got, err := toolchain.First(found, ""); err != nil || got.Root != "/whole" {
		t.Errorf("%s, %v", got.Root, err)
	}
	if got, err := toolchain.First(found[1:], ""); err != nil || got.Root != "/whole" {
		t.Errorf("alone: %s, %v", got.Root, err)
	}
	if got, err := toolchain.First(found[:1], ""); err == nil {
		t.Errorf("%s, of which a part is missing", got.Root)
	}
	if got, err := toolchain.First(found[:1], "/part"); err != nil || got.Root != "/part" {
		t.Errorf("asked for: %s, %v", got.Root, err)
	}
}

// TestHintOfTheRoot: a variable that names a toolkit's bin, or the nvcc in it, should name its root; NVCC names a program.
func TestHintOfTheRoot(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ origin, root, want string }{
		{"CUDA_HOME", "/t/bin", "`export CUDA_HOME=/t`, the toolkit's root; or "},
		{"CUDA_HOME", "/t/bin/nvcc", "`export CUDA_HOME=/t`, the toolkit's root; or "},
		{"CUDA_PATH", `C:\t\bin\nvcc.exe`, "`$env:CUDA_PATH = 'C:\\t'` (cmd: `set CUDA_PATH=C:\\t`), the toolkit's root; or "},
		{"CUDA_HOME", "/t", ""},
		{"NVCC", "/t/bin/nvcc", ""},
		{"a usual place", "/t/bin", ""},
	} {
		broken := cuda.Toolkit{Root: tt.root, Origin: tt.origin, Problem: "it does not exist"}
		f := toolchain.Facts{Toolkits: []cuda.Toolkit{broken}}
		if strings.HasPrefix(tt.root, "C:") {
			f.MSVC = &msvc.Found{}
		}
		_, err := toolchain.Choose(f, kernels, toolchain.Wish{})
		hint := exit.Hint(err)
		if got, _, ok := strings.Cut(hint, "`gpubuild "); !ok || tt.want != "" && got != tt.want || tt.want == "" && strings.Contains(hint, "root;") {
			t.Errorf("%s=%s: %q", tt.origin, tt.root, hint)
		}
	}
}
