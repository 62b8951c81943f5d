package tree

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

//go:embed stubs/*.txt
var stubNames embed.FS

// StubMark is a symbol that every link stub of ours exports, so that a copy of one is recognized elsewhere.
const StubMark = "gpubuild_link_stub"

// stub is a library of which only the names are needed, so that programs can be linked where the real one is not.
type stub struct {
	library string // cublas
	soname  string // libcublas.so.13: what a linked program will ask for; %d is the CUDA's major version
	part    string // the part that has the real one
}

// file is where a toolkit has the stub.
func (s stub) file() string { return "lib/stubs/lib" + s.library + ".so" }

// Sources: the wheels of CUDA 13.0–13.4 and of cuDNN 9 (readelf -d); for CUDA 12 the names that cuda_pathfinder loads
// (NVIDIA/cuda-python, cuda/pathfinder/_dynamic_libs/supported_nvidia_libs.py).
var stubs = []stub{
	{"cublas", "libcublas.so.%d", "cublas"},
	{"cublasLt", "libcublasLt.so.%d", "cublas"},
	{"curand", "libcurand.so.10", "curand"},
	{"nvrtc", "libnvrtc.so.%d", "nvrtc"},
	{"cudnn", "libcudnn.so.9", "cudnn"},
}

// Compiler is the C compiler that makes link stubs.
type Compiler struct {
	path string
	env  buildenv.Env
	run  buildenv.Runner
}

// FindCompiler looks for a C compiler on PATH.
func FindCompiler(h buildenv.Host, run buildenv.Runner) (Compiler, error) {
	names := []string{"cc", "gcc", "clang"}
	for _, name := range names {
		if path, err := h.LookPath(name); err == nil {
			return Compiler{path, h.Env, run}, nil
		}
	}
	return Compiler{}, exit.Errorf(exit.Missing, "install g++, which nvcc needs, too: "+h.InstallCommand(buildenv.GXX),
		"no C compiler to make libcuda's link stub with (tried %s)", strings.Join(names, ", "))
}

func (c Compiler) do(ctx context.Context, library, dir string, args ...string) (string, error) {
	env := c.env.Set("LC_ALL", "C").Set("TMPDIR", dir).Entries()
	r, err := c.run.Run(ctx, buildenv.Cmd{Path: c.path, Args: args, Dir: dir, Env: env})
	if err != nil && ctx.Err() == nil {
		err = stubError(library, err)
	}
	return string(r.Stdout), err
}

// AddStubs makes the link stubs that are not there: libcuda's wherever cuda.h is, because no archive has it and the driver's own library is
// absent where there is no GPU, and those of the libraries whose parts are left out. scratch is an empty directory.
func (t *Tree) AddStubs(ctx context.Context, c Compiler, in Installation, scratch string) error {
	for _, s := range stubs {
		if !slices.Contains(in.Stubs(), s.library) || t.there(s.file()) {
			continue
		}
		names, err := libraryNames(s.library, in.CUDA)
		if err != nil {
			return err
		}
		if strings.Contains(s.soname, "%d") {
			s.soname = fmt.Sprintf(s.soname, in.CUDA.Major)
		}
		if err := t.addStub(ctx, c, s, names, 1, scratch); err != nil {
			return err
		}
	}
	driver := stub{library: "cuda", soname: "libcuda.so.1"}
	if !t.there("include/cuda.h") || t.there(driver.file()) {
		return nil
	}
	names, err := driverNames(ctx, c, filepath.Join(t.root.Name(), "include"), scratch)
	if err != nil {
		return err
	}
	// 34 is CUDA_ERROR_STUB_LIBRARY, for a program that loads the stub by mistake. Nothing may have lib/stubs on its run path.
	return t.addStub(ctx, c, driver, names, 34, scratch)
}

// call is a function in C. Names that only look like calls (function pointer types) do no harm in a link stub.
var call = lazyregexp.New(`\b(cu[A-Z][A-Za-z0-9_]*)[ \t\n]*\(`)

// driverNames reads the driver's functions out of the toolkit's own cuda.h. The compiler expands it, because cuda.h renames functions by
// macros (cuMemAlloc is cuMemAlloc_v2), and in three ways for the three sets of names that programs link.
func driverNames(ctx context.Context, c Compiler, include, scratch string) ([]string, error) {
	source := filepath.Join(scratch, "names.c")
	if err := os.WriteFile(source, []byte("#include <cuda.h>\n"), 0o600); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, defines := range [][]string{nil, {"-D__CUDA_API_VERSION_INTERNAL"}, {"-DCUDA_API_PER_THREAD_DEFAULT_STREAM"}} {
		text, err := c.do(ctx, "libcuda.so", scratch, slices.Concat([]string{"-E", "-P", "-I" + include}, defines, []string{source})...)
		if err != nil {
			return nil, err
		}
		for _, m := range call.FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
	}
	if !found["cuInit"] {
		return nil, stubError("libcuda.so", fmt.Errorf("%s declares no cuInit", filepath.Join(include, "cuda.h")))
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// libraryNames returns what a library exports in a CUDA version. If a program needs a name that its libraries will not have, the
// linker says so, not the loader of another machine.
func libraryNames(library string, v gpu.Version) ([]string, error) {
	data, err := stubNames.ReadFile("stubs/" + library + ".txt")
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) > 1 {
			since, err := gpu.ParseVersion(f[1])
			if err != nil {
				return nil, fmt.Errorf("stubs/%s.txt: %w", library, err)
			}
			if v.Compare(since) < 0 {
				continue
			}
		}
		names = append(names, f[0])
	}
	return names, nil
}

// addStub compiles a library in which every function returns answer.
func (t *Tree) addStub(ctx context.Context, c Compiler, s stub, names []string, answer int, scratch string) error {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "int %s(void){return %d;}\n", n, answer)
	}
	fmt.Fprintf(&b, "const int %s = 1;\n", StubMark)
	source := filepath.Join(scratch, s.library+".c")
	if err := os.WriteFile(source, []byte(b.String()), 0o600); err != nil {
		return err
	}
	out := filepath.Join(scratch, "lib"+s.library+".so")
	args := []string{"-shared", "-fPIC", "-w", "-fno-builtin", "-nostdlib", "-Wl,-soname," + s.soname, "-o", out, source}
	if _, err := c.do(ctx, filepath.Base(out), scratch, args...); err != nil {
		return err
	}
	failed := func(_ string, err error) error { return stubError(filepath.Base(out), err) }
	data, err := os.ReadFile(out)
	if err != nil {
		return failed("", err)
	}
	return t.put(File{Path: s.file(), Size: int64(len(data)), Exec: true}, bytes.NewReader(data), failed)
}

// stubError says that a link stub could not be made.
func stubError(library string, err error) error {
	return exit.Errorf(0, "check that the C compiler on PATH can make a shared library", "link stub for %s: %w", library, err)
}
