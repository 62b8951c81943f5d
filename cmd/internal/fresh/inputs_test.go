package fresh

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

// bench is a machine with a toolkit of small files and a build that has chosen it.
type bench struct {
	t   testing.TB
	top string
	s   *State
}

const oneNVCC = "…Cuda compilation tools, release 13.4, V13.4.92…"

func newBench(t testing.TB) *bench {
	t.Helper()
	host := hosttest.Must(local.Host())(t)
	b := &bench{t: t, top: hosttest.PlainDir(t)}
	root := filepath.Join(b.top, "cuda")
	for name, text := range map[string]string{
		"bin/nvcc": oneNVCC, "bin/ptxas": "ptxas", "bin/cudafe++": "cudafe", "bin/fatbinary": "fatbinary", "bin/nvlink": "nvlink", "nvvm/bin/cicc": "cicc",
		"nvvm/libdevice/libdevice.10.bc": "bc", "include/crt/host_config.h": "host", "include/crt/mma.hpp": "mma", "include/cuda.h": "cuda",
		"include/cuda_fp16.hpp": "fp16", "include/curand_kernel.h": "curand", "include/cooperative_groups/details/helpers.h": "groups", "lib64/libcudart.so.13": "so", "lib64/libcudart_static.a": "static", "../package/build.rs": "", "../gcc/gcc": "gcc", "../bin/c++": "c++",
	} {
		b.write(filepath.Join(root, name), text)
	}
	host.Env = buildenv.NewEnv(host.OS, []string{"PATH=" + filepath.Join(b.top, "bin")})
	m := &session.Machine{
		Host:     host,
		CacheDir: filepath.Join(b.top, "cache"),
		Shell:    &console.Shell{Out: io.Discard, Err: os.Stderr},
		Began:    time.Now(),
	}
	places := cargo.Places{TargetDirectory: filepath.Join(b.top, "target"), BuildDirectory: filepath.Join(b.top, "target")}
	b.s = find(Build{Machine: m, Tools: tools.Tools{Env: host.Env}, Project: &manifest.Project{RootManifest: "Cargo.toml"},
		Graph: session.Graph{Places: places}, Reach: &features.Reach{}})
	gcc := filepath.Join(b.top, "gcc", "gcc")
	b.s.b.Tools.Set = toolchain.Set{
		Compiler:   &hostcc.Compiler{Kind: "gcc", Version: "12", Path: gcc, Real: gcc, CXX: gcc},
		Capability: gpu.Capability{Major: 9},
	}
	b.root(root)
	return b
}

// root makes a tree the chosen toolkit.
func (b *bench) root(root string) {
	b.s.b.Tools.Set.Toolkit = &cuda.Toolkit{
		Root:    root,
		Real:    root,
		NVCC:    filepath.Join(root, "bin", "nvcc"),
		Include: filepath.Join(root, "include"),
		Lib:     filepath.Join(root, "lib64"),
		Version: gpu.Version{Major: 13, Minor: 4},
	}
}

func (b *bench) write(path, text string) {
	b.t.Helper()
	hosttest.OK(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	hosttest.OK(b.t, os.WriteFile(path, []byte(text), 0o755))
}

func (b *bench) file(name string) string { return filepath.Join(b.top, "cuda", name) }

func (b *bench) setenv(name, value string) {
	b.s.b.Tools.Env = b.s.b.Tools.Env.Set(name, value)
}

// look is what is recorded now, and how many files were read for it.
func (b *bench) look(in features.Inputs) ([]stale.Input, int) {
	hashes := inputs.NewHashes(b.s.b.Machine)
	list := inputs.Now(b.s.b.Machine.Host, b.s.b.Tools, inputs.Unit{ScriptUnit: features.ScriptUnit{Inputs: in, Dir: filepath.Join(b.top, "package")}}, hashes)
	return list, hashes.Read
}

// TestMoreSourcesThanAreLookedAt: that not all of a package's files are watched is said once, not kept silent.
func TestMoreSourcesThanAreLookedAt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var said bytes.Buffer
	b.s.b.Machine.Shell.Err = &said
	hashes := inputs.NewHashes(b.s.b.Machine)
	host := b.s.b.Machine.Host
	host.Files = crowded{host.Files, filepath.Join(b.top, "package")}
	b.s.b.Machine.Host = host
	look := func() {
		unit := inputs.Unit{ScriptUnit: features.ScriptUnit{Inputs: features.Inputs{NVCC: true, Arch: true}, Dir: filepath.Join(b.top, "package")}}
		inputs.Now(host, b.s.b.Tools, unit, hashes)
	}
	look()
	look()
	if n := strings.Count(said.String(), "package holds too many files, or some that cannot be read: a change of some of them is not noticed"); n != 1 {
		t.Errorf("said %d times, want once: %q", n, said.String())
	}
	b.s.read.hashes = hashes
	if err := b.s.Incomplete(); exit.Of(err) != exit.Config {
		t.Errorf("`stale` would say that all is up to date: %v", err)
	}
	b.s.packages, b.s.b.Options.NoClean = nil, true
	if _, err := b.s.Clean(t.Context()); exit.Of(err) != exit.Config {
		t.Errorf("--gpu-no-clean would say that nothing is stale: %v", err)
	}
}

// TestFileOfTerabytes: a file with a hole of terabytes, which an archive can bring in a kilobyte, is not read.
func TestFileOfTerabytes(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(b.top, "data")
	hosttest.OK(t, os.WriteFile(file, nil, 0o600))
	if os.Truncate(file, 1<<43) != nil {
		return // a file system without holes
	}
	hashes := inputs.NewHashes(b.s.b.Machine)
	if sums := hashes.Each(file); hashes.Read != 0 || !strings.HasPrefix(sums[0], "large ") {
		t.Errorf("%q, %d files read", sums, hashes.Read)
	}
}

// crowded is a machine with a directory that holds one file a great many times.
type crowded struct {
	buildenv.Files
	dir string
}

func (c crowded) ReadDir(path string) ([]fs.DirEntry, error) {
	list, err := c.Files.ReadDir(path)
	if path == c.dir {
		list = slices.Repeat(list, buildenv.MostEntries+1)
	}
	return list, err
}

// TestLinked: a static library that a script links goes into its crate with its content; a directory that it names must be there when the program is
// linked; what lies in cargo's own directories is the script's own product.
func TestLinked(t *testing.T) {
	b := newBench(t)
	lib, own := b.file("lib64"), filepath.Join(b.top, "target", "debug", "build", "k-1", "out")
	b.write(filepath.Join(own, "libkernels.a"), "kernels")
	b.write(filepath.Join(b.top, "gone", "x"), "")
	b.write(filepath.Join(b.top, "torch", "lib", "x"), "")
	b.write(filepath.Join(b.top, "torch", "build-version"), "2.13.0+cpu")
	m := cargo.Message{
		OutDir: own,
		LinkedPaths: []string{
			"native=" + own,
			"native=" + lib,
			lib,
			"native=" + filepath.Join(b.top, "gone"),
			"native=" + filepath.Join(b.top, "torch", "lib"),
			"native=/not/there",
			"framework=relative",
		},
		LinkedLibs: []string{
			"static=kernels",
			"static:+whole-archive,-bundle=cudart_static:renamed",
			"dylib=cudart",
			"cuda",
			"static=nowhere",
		},
	}
	o := outDir{dir: own, ran: time.Now().Add(time.Minute).UnixNano()}
	reasons := func() string {
		t.Helper()
		b.s.read = newReader(b.s.b) // as the next run of gpubuild has it
		list := b.s.differences(o)
		var out []string
		for _, r := range list {
			out = append(out, strings.ReplaceAll(r.String(), b.top, "T"))
		}
		return strings.Join(out, "|")
	}
	k := b.s.known(o, b.s.linked(m))
	if k.state != stale.Complete || len(k.read) != 5 {
		t.Fatalf("recorded %+v", k)
	}
	o.stamp.Read = k.read
	hosttest.Equal(t, reasons(), "", "nothing changed")
	b.write(filepath.Join(b.top, "torch", "build-version"), "2.13.0+cu129")
	hosttest.Equal(t, reasons(), "T/torch/build-version changed: ", "libtorch was replaced in its place")
	b.write(filepath.Join(b.top, "torch", "build-version"), "2.13.0+cpu")
	b.write(filepath.Join(lib, "libcudart_static.a"), "another")
	b.write(filepath.Join(own, "libkernels.a"), "its own product")
	if got := reasons(); got != "lib64/libcudart_static.a changed: p" && got != "lib64/libcudart_static.a changed: " {
		t.Errorf("the static library changed: %q", got)
	}
	b.write(filepath.Join(lib, "libcudart_static.a"), "static")
	hosttest.OK(t, os.RemoveAll(filepath.Join(b.top, "gone")))
	hosttest.Equal(t, reasons(), "T/gone is gone: ", "a directory went")
	hosttest.OK(t, os.Remove(filepath.Join(lib, "libcudart_static.a")))
	if got := reasons(); !strings.Contains(got, "lib64/libcudart_static.a is gone") {
		t.Errorf("the static library went: %q", got)
	}
}

// TestInputsThatMatter changes one thing on the machine and says which inputs of which kind of package differ then. What is not named must not: each
// needless reason costs minutes.
func TestInputsThatMatter(t *testing.T) {
	if runtime.GOOS == "windows" {
		need.Missing(t, "linux", "the tree is one of Linux")
	}
	kernels := features.Inputs{
		NVCC: true,
		Host: true,
		Arch: true,
		Root: true,
		Env:  []string{"NVCC", "NVCC_CCBIN", "CUDA_HOME", "CUDA_NVCC_FLAGS", "PATH"},
	}
	linking := features.Inputs{Root: true, Env: []string{"CUDA_HOME", "CUDARC_CUDA_VERSION"}}
	asking := features.Inputs{NVCC: true, Version: true, Env: []string{"CUDARC_CUDA_VERSION"}}
	cmake := features.Inputs{NVCC: true, Host: true, Arch: true, Root: true, CXX: true, Env: []string{"CUDACXX", "CUDAHOSTCXX", "CMAKE_*"}}
	torch := features.Inputs{Torch: true, CXX: true, Env: []string{"LIBTORCH", "LIBTORCH_CXX11_ABI"}}
	nccl := features.Inputs{
		Headers: []catalog.Header{{File: "nccl.h", Vars: []string{"CUDA_PATH", "CUDA_HOME"}, Dirs: []string{"/nowhere/include"}}},
	}
	driver := features.Inputs{}
	dnn := features.Inputs{CUDNN: true}
	sameSize := func(path string) func(*bench) {
		return func(b *bench) {
			p := b.file(path)
			fi := hosttest.Must(os.Stat(p))(t)
			b.write(p, strings.Repeat("x", int(fi.Size())))
			hosttest.OK(b.t, os.Chtimes(p, fi.ModTime(), fi.ModTime()))
		}
	}
	rewrite := func(path, text string) func(*bench) { return func(b *bench) { b.write(b.file(path), text) } }
	set := func(name, value string) func(*bench) { return func(b *bench) { b.setenv(name, value) } }
	at := func(name, path string) func(*bench) { return func(b *bench) { b.setenv(name, b.file(path)) } }
	all := func(list ...func(*bench)) func(*bench) {
		return func(b *bench) {
			for _, do := range list {
				do(b)
			}
		}
	}
	move := func(b *bench) {
		old, other := b.file(""), filepath.Join(b.top, "moved")
		hosttest.OK(b.t, os.Rename(old, other))
		b.root(other)
	}
	libtorch := func(b *bench) {
		b.write(filepath.Join(b.top, "torch", "build-version"), "2.13.0+cu129\n")
		b.write(filepath.Join(b.top, "torch", "lib", "libtorch_cpu.so"), "cpu")
		b.setenv("LIBTORCH", filepath.Join(b.top, "torch"))
	}
	newer := func(version, header string) func(*bench) {
		return func(b *bench) {
			b.s.b.Tools.Set.CUDNN = &cudnn.Install{Root: b.top, Version: version, Include: filepath.Join(b.top, "cudnn")}
			b.write(filepath.Join(b.top, "cudnn", "cudnn_version.h"), header)
		}
	}
	profile := rewrite(
		"bin/nvcc.profile",
		"TOP = $(_HERE_)/..\nCICC_PATH = $(TOP)/nvvm/bin\nLD_LIBRARY_PATH += $(TOP)/lib:\nINCLUDES        +=  \"-I$(TOP)/include\" $(_SPACE_)\nLIBRARIES =+ x\nPTXAS_FLAGS     +=\n",
	)
	kinds := strings.Fields("kernels linking asking cmake torch nccl driver cudnn")
	inputsOf := []features.Inputs{kernels, linking, asking, cmake, torch, nccl, driver, dnn}
	for _, tt := range []struct {
		story  string
		before func(*bench)
		change func(*bench)
		want   string // KIND: REASON
	}{
		{"nothing", nil, nil, ""},
		{"nvcc touched", nil, func(b *bench) {
			hosttest.OK(b.t, os.Chtimes(b.file("bin/nvcc"), time.Now(), time.Unix(1e9, 0)))
		}, ""},
		{"another directory on PATH, of which what is run counts by its content", nil, func(b *bench) {
			b.setenv("PATH", b.s.b.Machine.Host.Env.Get("PATH")+string(filepath.ListSeparator)+b.top)
		}, ""},
		{"the root moved, with the same content", nil, move, ""},
		{"a patch of the same release", nil, rewrite("bin/nvcc", "Cuda compilation tools, release 13.4, V13.4.99"),
			"kernels: nvcc; asking: nvcc; cmake: nvcc"},
		{"another release in the same place", nil, rewrite("bin/nvcc", "Cuda compilation tools, release 13.5, V13.5.1"),
			"kernels: nvcc; asking: nvcc; cmake: nvcc"},
		{"cicc replaced", nil, rewrite("nvvm/bin/cicc", "other"), "kernels: cicc; cmake: cicc"},
		{"ptxas replaced by one of the same size with its time restored", nil, sameSize("bin/ptxas"), "kernels: ptxas; cmake: ptxas"},
		{"libdevice replaced", nil, rewrite("nvvm/libdevice/libdevice.10.bc", "other"),
			"kernels: libdevice.10.bc; cmake: libdevice.10.bc"},
		{"a header of crt", nil, rewrite("include/crt/mma.hpp", "other"), "kernels: mma.hpp; cmake: mma.hpp"},
		{"ptxas removed", nil, func(b *bench) {
			hosttest.OK(b.t, os.Remove(b.file("bin/ptxas")))
		}, "kernels: ptxas; cmake: ptxas"},
		{"a header that kernels include, which nvcc records", nil, rewrite("include/cuda_fp16.hpp", "other"), ""},
		{"a header that some kernels include, which nvcc records", nil, rewrite("include/curand_kernel.h", "x"), ""},
		{"a header below, of the same size with its time restored", nil, sameSize("include/cooperative_groups/details/helpers.h"), ""},
		{"a header of somebody else", nil, rewrite("include/cudnn_version.h", "x"), ""},
		{"a search path that holds nothing of CUDA's", nil, set("CPATH", "/nowhere"), "kernels: CPATH; cmake: CPATH"},
		{"a search path that is the toolkit's own, and moved with it", at("CPATH", "include"), func(b *bench) {
			move(b)
			b.setenv("CPATH", filepath.Join(b.top, "moved", "include")+"/")
		}, ""},
		{"a header before the toolkit's", at("CPLUS_INCLUDE_PATH", "../mine"), rewrite("../mine/cuda_fp16.h", "x"),
			"kernels: CPLUS_INCLUDE_PATH; cmake: CPLUS_INCLUDE_PATH"},
		{"a directory of headers before the toolkit's", all(at("C_INCLUDE_PATH", "../mine"), rewrite("../mine/thrust/sort.h", "1")),
			rewrite("../mine/thrust/sort.h", "2"), "kernels: C_INCLUDE_PATH; cmake: C_INCLUDE_PATH"},
		{"another header in a search path", at("CPATH", "../mine"), rewrite("../mine/boost.hpp", "x"), "kernels: CPATH; cmake: CPATH"},
		{"one without an ending, which nvcc records", all(at("CPATH", "../mine"), rewrite("../mine/Eigen/Dense", "1")),
			rewrite("../mine/Eigen/Dense", "2"), ""},
		{"what is no header of a project in a search path",
			all(at("CPATH", "../mine"), rewrite("../mine/Cargo.toml", ""), rewrite("../mine/target/CACHEDIR.TAG", "")),
			all(rewrite("../mine/src/main.rs", ""), rewrite("../mine/target/a.h", ""), rewrite("../mine/log", "")), ""},
		{"the same search path in another place", func(b *bench) {
			b.setenv("CPATH", b.file("../mine")+":"+b.file("../none"))
			b.write(b.file("../mine/a.h"), "1")
			b.write(b.file("../moved/a.h"), "1")
		}, func(b *bench) { b.setenv("CPATH", b.file("../moved")+":"+b.file("../none")) }, "kernels: CPATH; cmake: CPATH"},
		{"a header by -I in flags that nvcc reads", func(b *bench) {
			b.setenv("NVCC_PREPEND_FLAGS", "-O3 -isystem "+b.file("../mine")+" -I="+b.file("../other"))
			b.write(b.file("../other/a.h"), "1")
		}, rewrite("../other/a.h", "2"), "kernels: NVCC_PREPEND_FLAGS; cmake: NVCC_PREPEND_FLAGS"},
		{"a header that flags include, by a path from the package",
			all(set("NVCC_APPEND_FLAGS", "-include ../mine/a.h"), rewrite("../mine/a.h", "1")), rewrite("../mine/a.h", "2"),
			"kernels: NVCC_APPEND_FLAGS; cmake: NVCC_APPEND_FLAGS"},
		{"a header in a directory that a variable of the script names",
			all(at("CUDA_NVCC_FLAGS", "../mine"), rewrite("../mine/include/a.h", "1")), rewrite("../mine/include/a.h", "2"),
			"kernels: CUDA_NVCC_FLAGS"},
		{"what is no header there", all(at("CUDA_NVCC_FLAGS", "../mine"), rewrite("../mine/include/a.h", "1")),
			rewrite("../mine/lib/a.so", "2"), ""},
		{"a library's patch level", nil, rewrite("lib64/libcublas.so.13.4.1", "x"), ""},
		{"a library that was not there", nil, rewrite("lib64/libcublas.so.13", "x"), "linking: CUDA libraries"},
		{"link stubs that were not there", nil, func(b *bench) { b.s.b.Tools.Set.Toolkit.Stubs = b.file("lib64/stubs") },
			"linking: CUDA libraries"},
		{"another host compiler in its place", nil, rewrite("../gcc/gcc", "gcc 13"), "kernels: host compiler; cmake: host compiler"},
		{"another c++", nil, rewrite("../bin/c++", "c++ 13"), "cmake: C++ compiler; torch: C++ compiler"},
		{"flags that nvcc reads itself", nil, set("NVCC_APPEND_FLAGS", "-G"), "kernels: NVCC_APPEND_FLAGS; cmake: NVCC_APPEND_FLAGS"},
		{"the same, blank: nvcc takes nothing from it", nil, set("NVCC_PREPEND_FLAGS", " "), ""},
		{"where gcc looks for its programs", nil, set("COMPILER_PATH", "/nowhere"), "kernels: COMPILER_PATH; cmake: COMPILER_PATH"},
		{"what is loaded into each program", nil, set("LD_PRELOAD", "/none.so"), ""},
		{"a variable to which nvcc.profile adds", profile, all(set("PTXAS_FLAGS", "-O0"), set("LIBRARIES", "-L/x")),
			"kernels: LIBRARIES; kernels: PTXAS_FLAGS; cmake: LIBRARIES; cmake: PTXAS_FLAGS"},
		{"one that it sets itself, and the search path", profile,
			all(set("CICC_PATH", "/x"), set("LD_LIBRARY_PATH", "/x"), set("INCLUDES", "")), ""},
		{"a variable that one script reads", nil, set("CUDA_NVCC_FLAGS", "-lineinfo"), "kernels: CUDA_NVCC_FLAGS"},
		{"the same, empty", nil, set("CUDA_NVCC_FLAGS", ""), "kernels: CUDA_NVCC_FLAGS"},
		{"NVCC names the same nvcc", nil, at("NVCC", "bin/nvcc"), ""},
		{"NVCC is its bare name, and PATH leads to it",
			func(b *bench) { b.setenv("PATH", b.file("bin")+":"+filepath.Join(b.top, "bin")) },
			all(set("NVCC", "nvcc"), at("CUDACXX", "bin/nvcc")), ""},
		{"NVCC names a wrapper", nil, set("NVCC", "ccache nvcc"), "kernels: NVCC"},
		{"the wrapper that NVCC names was replaced", all(rewrite("../wrap", "1"), at("NVCC", "../wrap")), rewrite("../wrap", "2"),
			"kernels: NVCC"},
		{"CUDA_HOME spelt otherwise", nil, func(b *bench) { b.setenv("CUDA_HOME", b.file("")+"/") }, ""},
		{"CMake's own variables", nil, all(set("CMAKE_CUDA_ARCHITECTURES", "90"), set("CUDAHOSTCXX", "g++-12")),
			"cmake: CMAKE_CUDA_ARCHITECTURES; cmake: CUDAHOSTCXX"},
		{"how many compile at a time", nil, set("CMAKE_BUILD_PARALLEL_LEVEL", "3"), ""},
		{"another cuDNN of one version", newer("9.1", "x"), newer("9.1", "other"), "cudnn: cuDNN"},
		{"a cuDNN that was not there", nil, newer("9.1", "x"), "cudnn: cuDNN"},
		{"another arch", nil, func(b *bench) { b.s.b.Tools.Set.Capability = gpu.Capability{Major: 8} }, "kernels: arch; cmake: arch"},
		{"the same with its own features", nil, func(b *bench) { b.s.b.Tools.Set.Suffix = "a" }, "kernels: arch; cmake: arch"},
		{"a header of the package", rewrite("../package/inc/a.cuh", "1"), rewrite("../package/inc/a.cuh", "2"),
			"kernels: inc/a.cuh; cmake: inc/a.cuh"},
		{"a file of templates that a kernel includes", rewrite("../package/inc/a.tpp", "1"), rewrite("../package/inc/a.tpp", "2"),
			"kernels: inc/a.tpp; cmake: inc/a.tpp"},
		{"one touched", rewrite("../package/a.cuh", "1"), rewrite("../package/a.cuh", "1"), ""},
		{"kernel text with an old time", rewrite("../package/k.cu", "1"), sameSize("../package/k.cu"), "kernels: k.cu; cmake: k.cu"},
		{"what cargo watches itself, and a build directory in the package", nil,
			all(rewrite("../package/src/lib.rs", ""), rewrite("../package/target/CACHEDIR.TAG", ""), rewrite("../package/target/x.cuh", "")),
			""},
		{"another driver", nil, func(b *bench) { b.s.b.Tools.Set.Driver = gpu.Driver{Version: "580.1"} }, ""},
		{"libtorch moved", libtorch, func(b *bench) {
			hosttest.OK(b.t, os.Rename(filepath.Join(b.top, "torch"), filepath.Join(b.top, "torch2")))
			b.setenv("LIBTORCH", filepath.Join(b.top, "torch2"))
		}, ""},
		{"the torch of another Python", set("LIBTORCH_USE_PYTORCH", "1"), at("VIRTUAL_ENV", "../venv"), "torch: libtorch"},
		{"NCCL's header came", at("CUDA_HOME", ""), rewrite("include/nccl.h", "#define NCCL_MAJOR 2\n"), "nccl: nccl.h"},
		{"NCCL's header changed", all(at("CUDA_HOME", ""), rewrite("include/nccl.h", "#define NCCL_MAJOR 2\n")),
			rewrite("include/nccl.h", "#define NCCL_MAJOR 3\n"), "nccl: nccl.h"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			b := newBench(t)
			if tt.before != nil {
				tt.before(b)
			}
			before := make([][]stale.Input, len(kinds))
			for i, in := range inputsOf {
				before[i], _ = b.look(in)
			}
			for i, in := range inputsOf {
				_, read := b.look(in)
				hosttest.Equal(t, read, 0, kinds[i], "files were read although nothing changed")
			}
			if tt.change != nil {
				tt.change(b)
			}
			var got []string
			for i, in := range inputsOf {
				now, _ := b.look(in)
				for _, r := range stale.Differences("p", before[i], now) {
					got = append(got, kinds[i]+": "+r.Input)
				}
			}
			hosttest.Equal(t, strings.Join(got, "; "), tt.want)
		})
	}
}

// TestUnidentified: where the packages are unknown, that is said, with the reason.
func TestUnidentified(t *testing.T) {
	b := newBench(t)
	var said strings.Builder
	b.s.b.Machine.Shell = &console.Shell{Out: io.Discard, Err: &said}
	b.s.b.Reach = &features.Reach{}
	b.s.WarnUnidentified()
	if said.Len() > 0 {
		t.Errorf("nothing is untold: %s", said.String())
	}
	b.s.b.Reach = &features.Reach{Unknown: "an old cargo"}
	b.s.WarnUnidentified()
	if !strings.Contains(said.String(), "nothing is rebuilt") || !strings.Contains(said.String(), "an old cargo") {
		t.Error(said.String())
	}
}

// TestWhatNvccRead: a file that nvcc read counts with the content that it saw, whatever its name and wherever it is; one that the script
// writes each time counts as it left it; a place where a file was looked for counts once one is there.
func TestWhatNvccRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := filepath.Join(b.top, "package")
	unit := filepath.Join(b.top, "target", "debug", "build", "k-1")
	odd, twice, other := filepath.Join(dir, "odd"), filepath.Join(b.top, "gen.cu"), filepath.Join(b.file("include"), "mylib", "a.h")
	saw, first := strings.Repeat("5a", 32), strings.Repeat("1c", 32)
	b.write(odd, "edited after nvcc read it")
	b.write(other, "not CUDA's")
	b.write(twice, "as it was left")
	left := hosttest.Must(cache.Hash(twice))(t)
	b.write(filepath.Join(unit, "invoked.timestamp"), "")
	record := func(n, compiles, text string) {
		b.write(filepath.Join(unit, "gpubuild-read-"+n+".json"), `{"call": "`+n+`", "ran": 1, "compiles": `+compiles+`, "read": {`+text+`}}`)
	}
	record("1", "true", `"`+odd+`": "`+saw+`", "`+twice+`": "`+first+`", "`+other+`": "`+saw+`", "`+
		filepath.Join(dir, "later")+`": "none", "`+filepath.Join(unit, "out", "made.h")+`": "`+saw+`"`)
	record("2", "true", `"`+twice+`": "`+left+`"`)
	o := outDir{pkg: Package{ScriptUnit: features.ScriptUnit{Dir: dir, Inputs: features.Inputs{Arch: true}}}, dir: filepath.Join(unit, "out")}
	both := strings.Join(slices.Sorted(slices.Values([]string{first[:32], left[:32]})), " ")
	for _, want := range []string{both, stale.Each + both, stale.Each + both} { // in the first build, and in those that follow
		k := b.s.known(o, nil)
		all := map[string]string{"{package}/later": "none", "{package}/odd": saw[:32], "{toolkit}/include/mylib/a.h": saw[:32], twice: want}
		if k.state != stale.Complete || !maps.Equal(k.read, all) {
			t.Fatalf("%+v, want %v", k, all)
		}
		o.stamp.Read = k.read
	}
	changed := func() string {
		b.s.read = newReader(b.s.b)
		reasons := b.s.differences(o)
		var names []string
		for _, r := range reasons {
			names = append(names, r.Input)
		}
		return strings.Join(names, " ")
	}
	hosttest.Equal(t, changed(), "mylib/a.h odd", "what changed after nvcc had read it")
	b.write(filepath.Join(dir, "later"), "")
	hosttest.Equal(t, changed(), "mylib/a.h later odd", "what was looked for is there now")
	b.write(twice, "edited")
	hosttest.Equal(t, changed(), "mylib/a.h "+twice+" later odd", "what the script wrote is another thing now")
	for story, want := range map[string]string{"code of nobody knows whom": stale.Partial, "code of a recorded call": stale.Complete} {
		record("2", "true", "")
		o.content.Code = []codeFile{{Name: "k.ptx", Objects: fatbin.Objects{Device: []string{"s"}}}}
		if want == stale.Complete {
			b.write(filepath.Join(unit, "gpubuild-read-2.json"), `{"call": "2", "compiles": true, "made": ["s"]}`)
		}
		hosttest.Equal(t, b.s.known(o, nil).state, want, story)
	}
	o.pkg.script.Source, o.content.Code = filepath.Join(dir, "build.rs"), []codeFile{{Name: "k.o", Objects: fatbin.Objects{Host: []string{"s"}}}}
	b.write(o.pkg.script.Source, `fn main() { Command::new("nvcc").args(["-DX", include_str!("named.h")]); }`)
	b.write(filepath.Join(dir, "named.h"), "")
	b.s.read = newReader(b.s.b)
	b.write(filepath.Join(unit, "gpubuild-read-2.json"), `{"call": "2", "compiles": true, "made": ["s"]}`)
	k := b.s.known(o, nil)
	hosttest.Equal(t, k.alone, true, "no compiler but nvcc left anything")
	o.stamp = b.s.stampOf(o, k, false)
	unit2 := o.pkg.unit(false, false)
	o.stamp.Inputs = inputs.Now(b.s.b.Machine.Host, b.s.b.Tools, unit2, b.s.read.hashes)
	for _, name := range []string{"unread.h", "named.h", "unread.cpp", "new.cu"} {
		b.write(filepath.Join(dir, name), "new")
	}
	o.inputs = inputs.Now(b.s.b.Machine.Host, b.s.b.Tools, unit2, inputs.NewHashes(b.s.b.Machine))
	hosttest.Equal(t, changed(), "mylib/a.h "+twice+" later named.h new.cu odd", "C and C++ that nobody reads does not count")
	o.content.Code[0].Host[0] = "of gcc"
	hosttest.Equal(t, b.s.known(o, nil).alone, false, "an object that no nvcc made")
	o.content.Code[0].Program = true
	k = b.s.known(o, nil)
	hosttest.Equal(t, fmt.Sprint(k.why, k.unseen), "what the program k.o reads is not recorded"+"false")
	record("1", "false", "")
	hosttest.OK(t, os.Remove(filepath.Join(unit, "gpubuild-read-2.json")))
	k = b.s.known(o, nil)
	hosttest.Equal(t, fmt.Sprint(k.state, k.unseen), stale.None+"true", "without the record of a compilation")
}

// TestMembers: of an archive those members count that hold device code, with the hash of the file that was packed; other objects and programs
// are known as such.
func TestMembers(t *testing.T) {
	t.Parallel()
	need.CC(t)
	b := newBench(t)
	for name, text := range map[string]string{"a.o": "odd", "b.o": "kernel b", "a name of more than fifteen bytes.o": "kernel c"} {
		b.write(filepath.Join(b.top, name), text)
	}
	c := exec.Command("ar", "cq", "k.a", "a.o", "b.o", "a name of more than fifteen bytes.o")
	c.Dir = b.top
	hosttest.OK(t, c.Run())
	data := hosttest.Must(os.ReadFile(filepath.Join(b.top, "k.a")))(t)
	report := hosttest.Must(fatbin.ScanFile(b.s.b.Machine.Host, filepath.Join(b.top, "k.a")))(t)
	report.Images = []fatbin.Image{{Offset: int64(bytes.Index(data, []byte("kernel b")))}, {Offset: int64(bytes.Index(data, []byte("kernel c")))}}
	f := report.Objects(b.s.b.Machine.Host, filepath.Join(b.top, "k.a"), "of the archive")
	var want []string
	for _, name := range []string{"b.o", "a name of more than fifteen bytes.o"} {
		want = append(want, hosttest.Must(cache.Hash(filepath.Join(b.top, name)))(t))
	}
	if !slices.Equal(f.Device, want) || len(f.Host) > 0 || f.Program {
		t.Errorf("%+v, want %q", f, want)
	}
	report.Images = append(report.Images, fatbin.Image{Offset: 0})
	hosttest.Equal(t, len(report.Objects(b.s.b.Machine.Host, filepath.Join(b.top, "k.a"), "").Device), 3, "device code in no member")
	c = exec.Command("sh", "-ec", "echo 'int main() { return 0; }' >m.c; $CC -c m.c -o m.o; ar cq m.a a.o m.o; $CC m.o -o m; $CC -shared -fPIC m.c -o libm.so")
	c.Dir, c.Env = b.top, append(os.Environ(), "CC="+need.CC(t))
	hosttest.OK(t, c.Run())
	for name, want := range map[string]string{"m.o": "1 false", "m.a": "1 false", "m": "1 true", "libm.so": "1 false", "a.o": "0 false"} {
		path := filepath.Join(b.top, name)
		f := hosttest.Must(fatbin.ScanFile(b.s.b.Machine.Host, path))(t).Objects(b.s.b.Machine.Host, path, "it")
		hosttest.Equal(t, fmt.Sprint(len(f.Host), f.Program), want, name)
	}
}

// TestTwoChangesInOneTick: of two contents of the same size within one tick of the file system's clock, which therefore have the same times,
// each has its own hash.
func TestTwoChangesInOneTick(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(b.top, "header.h")
	fixed := time.Now()
	b.s.b.Machine.Host.Files = fixedTime{b.s.b.Machine.Host.Files, fixed}
	b.s.b.Machine.Began = fixed
	seen := map[string]bool{}
	for _, text := range []string{"one", "two"} {
		hosttest.OK(t, os.WriteFile(path, []byte(text), 0o644))
		list := inputs.NewHashes(b.s.b.Machine).Each(path)
		seen[list[0]] = true
	}
	hosttest.Equal(t, len(seen), 2, "both contents have the hash", seen)
}

// TestADirectoryWhereNoFileWas: nvcc looked for lib/x.h where there was no lib; a lib that appears is a change, and no error.
func TestADirectoryWhereNoFileWas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(b.top, "lib")
	before := inputs.NewHashes(b.s.b.Machine).Each(path)
	hosttest.OK(t, os.Mkdir(path, 0o755))
	for range 2 {
		if now := inputs.NewHashes(b.s.b.Machine).Each(path); now[0] == before[0] {
			t.Errorf("%v; before: %v", now, before)
		}
	}
}

// TestNoSuchPath: a path below a file, and one with a name that no file can have, are not there; neither is an error. A header with
// #define D(f) "x"#f"…" has such a name between its quotes.
func TestNoSuchPath(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := filepath.Join(b.top, "atomic")
	hosttest.OK(t, os.WriteFile(file, nil, 0o644))
	long := filepath.Join(b.top, strings.Repeat("y", 300))
	list := inputs.NewHashes(b.s.b.Machine).Each(filepath.Join(b.top, "none"), filepath.Join(file, "x.h"), long)
	if list[1] != list[0] || list[2] != list[0] {
		t.Errorf("%v", list)
	}
}

// fixedTime shows every file with the same times, as a file system with a coarse clock does.
type fixedTime struct {
	buildenv.Files
	at time.Time
}

func (f fixedTime) Stat(path string) (fs.FileInfo, error) {
	fi, err := f.Files.Stat(path)
	return fixedInfo{fi, f.at}, err
}

type fixedInfo struct {
	fs.FileInfo
	at time.Time
}

func (f fixedInfo) ModTime() time.Time { return f.at }
func (f fixedInfo) Sys() any           { return nil }

// TestWhatCargoRebuilds: a declared file that changed since the script ran is cargo's matter; one that is not declared is ours, and so is the
// architecture in a package that declares a file of that name.
func TestWhatCargoRebuilds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir, unit := filepath.Join(b.top, "package"), filepath.Join(b.top, "target", "debug", "build", "k-1")
	for _, name := range []string{"arch", "declared.cu", "old.cu", "other.cu"} {
		b.write(filepath.Join(dir, name), "")
	}
	b.write(filepath.Join(unit, "output"), "cargo:rerun-if-changed=arch\ncargo:rerun-if-changed=declared.cu\ncargo:rerun-if-changed=old.cu\n")
	ran := time.Now().Add(-time.Hour)
	hosttest.OK(t, os.Chtimes(filepath.Join(dir, "old.cu"), ran, ran.Add(-time.Hour)))
	o := outDir{pkg: Package{ScriptUnit: features.ScriptUnit{Name: "k", Dir: dir}}, dir: filepath.Join(unit, "out"), ran: ran.UnixNano()}
	list := func(arch, hash string) (out []stale.Input) {
		for _, name := range []string{"declared.cu", "old.cu", "other.cu"} {
			out = append(out, stale.Input{Name: stale.Part(inputs.Sources, name), Value: name, Hash: hash})
		}
		return append(out, stale.Input{Name: "arch", Value: arch})
	}
	o.stamp.Inputs, o.inputs = list("sm_80", "1"), list("sm_90", "2")
	if got := strings.Join(stale.Lines(b.s.differences(o)), "; "); got != "arch sm_80 → sm_90: k; old.cu changed: k; other.cu changed: k" {
		t.Error(got)
	}
}
