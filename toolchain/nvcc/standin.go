package nvcc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/memo"
)

// Mark is in everything that the stand-in writes but empty archives. A file that has it was made for a type check and holds no device code.
// It is put together here so that gpubuild's own binary does not hold it.
var Mark = strings.ReplaceAll("GPUBUILD_CHECK_ONLY_9f3c1e7a: made without nvcc for a type check, holds no device code", "_", "-")

// libraries are those that a build script may look for, without lib and ending.
const libraries = `cuda cudart cudart_static cublas cublas_static cublasLt cublasLt_static curand curand_static cusolver cusolver_static
	cusolverMg cusparse cusparse_static cufft cufft_static cufftw nvrtc nvrtc_static nvrtc-builtins_static nvptxcompiler_static nvJitLink
	nvJitLink_static cudnn cudnn_static nccl nccl_static cupti nvToolsExt culibos cudadevrt cutensor cufile nvfatbin nvfatbin_static`

// CheckDirectory is below the target directory, and holds what type checks with a stand-in build.
const CheckDirectory = "gpubuild-check"

// StandIn makes a toolkit in gpubuild's cache that compiles nothing, of a release such as "12.8", and returns its root.
func StandIn(h buildenv.Host, cacheDir, release, self string) (root string, err error) {
	root = filepath.Join(cacheDir, Views, "check-"+release)
	program := filepath.Join(root, "bin", h.Exe("nvcc"))
	want := view{Release: release, Cache: cacheDir, Made: memo.Open(h, cacheDir, time.Now()).Identity(self)}
	if is, err := readView(program); err == nil && is == want {
		return root, nil
	}
	major, minor, _ := strings.Cut(release, ".")
	version := fmt.Sprintf("#define CUDA_VERSION %s%02s0\n#define CUDART_VERSION CUDA_VERSION\n", major, minor)
	files := map[string][]byte{
		"include/cuda.h": []byte(version), "include/cuda_runtime_api.h": []byte(version),
		"include/cuda_runtime.h": []byte("#include \"cuda.h\"\n"),
		"include/cublas_v2.h":    nil, "include/cudnn.h": []byte("#include \"cudnn_version.h\"\n"),
		"include/cudnn_version.h": []byte("#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 0\n#define CUDNN_PATCHLEVEL 0\n"),
	}
	for _, dir := range []string{"lib64", "lib", "lib/x64", "lib64/stubs", "targets/x86_64-linux/lib"} {
		for _, name := range strings.Fields(libraries) {
			files[dir+"/lib"+name+".a"], files[dir+"/"+name+".lib"] = []byte(archive), []byte(archive)
		}
	}
	files["lib64/libstdc++.a"] = []byte(archive) // cudarc links it statically; the host compiler, which looks into lib, must not find it
	for name, data := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if err := cache.Keep(path, data, 0o644); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		return "", err
	}
	return root, want.program(self, program)
}

// CheckEnvironment says what cargo's environment needs for a type check with a stand-in, and directories of its own below targetDir.
func CheckEnvironment(h buildenv.Host, root, targetDir string) (d buildenv.Delta) {
	const why = "a type check without a CUDA toolkit"
	d.Add(buildenv.Prepend, "PATH", h.Join(root, "bin"), why)
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "CUDAToolkit_ROOT"} {
		d.Add(buildenv.Set, name, root, why)
	}
	for _, name := range []string{"NVCC", "CUDACXX", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CUDNN_LIB", "CUDNN_PATH"} {
		if _, set := h.Env.Lookup(name); set {
			d.Add(buildenv.Unset, name, "", why)
		}
	}
	if h.Env.Get("CUDA_COMPUTE_CAP") == "" {
		d.Add(buildenv.Set, "CUDA_COMPUTE_CAP", "80", why)
	}
	own := h.Join(targetDir, CheckDirectory)
	d.Add(buildenv.Set, "CARGO_TARGET_DIR", own, "a real build must not find what was made for a type check")
	d.Add(buildenv.Set, "CARGO_BUILD_BUILD_DIR", own, "a real build must not find what was made for a type check")
	return d
}

// Marked reports whether a file holds anything that a stand-in made.
func Marked(path string) (marked bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = buildenv.Pieces(f, len(Mark), func(piece []byte) bool {
		marked = bytes.Contains(piece, []byte(Mark))
		return marked
	})
	return marked, err
}

// standIn acts as an nvcc of a release that compiles nothing.
type standIn struct {
	call
	host           buildenv.Host
	runner         buildenv.Runner
	major, minor   string
	stdout, stderr io.Writer
}

func (s *standIn) main(ctx context.Context, args []string) int {
	for _, a := range args {
		switch a {
		case "-V", "--version":
			fmt.Fprintf(s.stdout, "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2026 NVIDIA Corporation\n"+
				"Built on Thu_Jan_01_00:00:00_UTC_1970\nCuda compilation tools, release %s.%s, V%[1]s.%[2]s.0\n"+
				"Build gpubuild_check_only\n", s.major, s.minor)
			return 0
		case "--list-gpu-arch", "-arch-ls", "--list-gpu-code", "-code-ls":
			for _, n := range strings.Fields("50 52 60 61 70 72 75 80 86 87 89 90 100 120") {
				fmt.Fprintln(s.stdout, map[bool]string{true: "compute_", false: "sm_"}[strings.Contains(a, "arch")]+n)
			}
			return 0
		}
	}
	if s.mode == "E" { // cc asks which compiler it has
		return s.preprocess(ctx)
	}
	return s.write()
}

// preprocess has a host compiler do it.
func (s *standIn) preprocess(ctx context.Context) int {
	path, err := s.host.LookPath("c++")
	if err != nil {
		return s.fail("no c++ on PATH")
	}
	args := slices.Concat([]string{"-E", "-D__NVCC__", "-D__CUDACC__", "-x", "c++"}, s.in)
	run := run{env: s.host.Env.Entries(), runner: s.runner, real: path, args: args}
	return run.plain(ctx, nil, s.stdout, s.stderr)
}

func (s *standIn) fail(format string, a ...any) int {
	fmt.Fprintf(s.stderr, "nvcc fatal   : "+format+"\n", a...)
	return 1
}

// write makes marked files of the kind that nvcc would make.
func (s *standIn) write() int {
	if len(s.in) == 0 {
		return s.fail("No input files specified; use option --help for more information")
	}
	for _, in := range s.in {
		if strings.HasPrefix(filepath.Base(in), "CMakeCUDACompiler") {
			return s.fail("CMake needs a CUDA toolkit; this is a stand-in of gpubuild's for type checks: use --gpu-toolkit=fetch")
		}
		if !s.host.IsFile(s.host.Abs(in)) && !readOnce(in) {
			return s.fail("Don't know what to do with '%s'", in)
		}
	}
	inputs := s.in
	if !slices.Contains([]string{"o", "ptx", "cubin", "fatbin"}, s.mode) {
		inputs = inputs[:1]
	}
	for _, in := range inputs {
		one := s.call
		one.in = []string{in}
		out := one.output()
		data := object(s.host)
		switch s.mode {
		case "ptx": // a module without a function
			data = []byte("//\n// " + Mark + "\n//\n.version 7.0\n.target sm_52\n.address_size 64\n")
		case "a":
			data = []byte(archive)
		case "":
			if s.out == "" {
				out = "a.out"
			}
		}
		if err := os.WriteFile(out, data, 0o666); err != nil {
			return s.fail("%v", err)
		}
	}
	return 0
}

// object is written in place of what is compiled. No linker of Unix and no loader takes it; ar takes any file into an archive, and lib.exe
// one with a header of COFF, of a file that holds nothing (Microsoft, "PE Format").
func object(h buildenv.Host) []byte {
	header := ""
	if h.OS == buildenv.Windows {
		header = "\x64\x86" + strings.Repeat("\x00", 18)
	}
	return []byte(header + Mark + "\n")
}

// archive is one without a member: there is nothing in it to link.
const archive = "!<arch>\n"
