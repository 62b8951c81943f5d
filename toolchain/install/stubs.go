package install

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

//go:embed stubs/*.txt
var stubNames embed.FS

// StubMark is a symbol that every link stub of ours exports, so that one that was copied elsewhere is known for what it is.
const StubMark = "gpubuild_link_stub"

// stub is a library of which only the names are needed, so that programs can be linked where the real one is not.
type stub struct {
	library string // cublas
	soname  string // libcublas.so.13: what a linked program will ask for; %d is the CUDA's major version
	part    string // the part that holds the real one; empty: the driver's
}

// Sources: the wheels of CUDA 13.0–13.4 and of cuDNN 9 (readelf -d); for CUDA 12 the names that cuda_pathfinder loads
// (NVIDIA/cuda-python, cuda/pathfinder/_dynamic_libs/supported_nvidia_libs.py).
var extraStubs = []stub{
	{"cublas", "libcublas.so.%d", "cublas"},
	{"cublasLt", "libcublasLt.so.%d", "cublas"},
	{"curand", "libcurand.so.10", "curand"},
	{"nvrtc", "libnvrtc.so.%d", "nvrtc"},
	{"cudnn", "libcudnn.so.9", "cudnn"},
}

// compilers are what a C compiler is called, in the order in which they are tried.
var compilers = []string{"cc", "gcc", "clang"}

func (p Plan) findCompiler() (string, error) {
	if p.compiler != "" {
		return p.compiler, nil
	}
	for _, name := range compilers {
		if path, err := p.host.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", &NoCompilerError{Tried: compilers}
}

// needsCompiler says whether link stubs will be made: libcuda's wherever cuda.h is, because no wheel has it and the driver's own library is
// absent where there is no GPU.
func (p Plan) needsCompiler() bool {
	if p.host.OS != buildenv.Linux {
		return false
	}
	return p.LinkStubs || p.holds("runtime")
}

func (p Plan) holds(part string) bool {
	for _, it := range p.Items {
		if it.Part == part {
			return true
		}
	}
	return false
}

// addAllStubs makes the link stubs while the rest is fetched: the driver's last, for it needs the runtime's headers. cc is empty where none is wanted.
func (t *tree) addAllStubs(ctx context.Context, run runner, p Plan, cc, staging string, headers <-chan struct{}) error {
	if cc == "" {
		return nil
	}
	if err := t.addStubs(ctx, run, p, cc, filepath.Join(staging, "scratch-stubs")); err != nil || !p.holds("runtime") {
		return err
	}
	select {
	case <-headers:
		return t.addDriverStub(ctx, run, p, cc, filepath.Join(staging, "scratch"))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// addDriverStub makes libcuda's link stub in lib/stubs. Nothing may ever have that directory on its run path.
func (t *tree) addDriverStub(ctx context.Context, run runner, p Plan, cc, scratch string) error {
	if !t.has("include/cuda.h") {
		return nil
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	names, err := p.driverNames(ctx, run, cc, filepath.Join(t.root, "include"), scratch)
	if err != nil {
		return err
	}
	// 34 is CUDA_ERROR_STUB_LIBRARY: a program that loads the stub by mistake is told so.
	return t.addStub(ctx, run, p, cc, scratch, stub{library: "cuda", soname: "libcuda.so.1"}, names, 34)
}

// addStubs makes the link stubs of the libraries whose parts are left out. It needs nothing that is fetched.
func (t *tree) addStubs(ctx context.Context, run runner, p Plan, cc, scratch string) error {
	if !p.LinkStubs {
		return nil
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	for _, s := range extraStubs {
		if p.holds(s.part) {
			continue
		}
		names, err := libraryNames(s.library, p.CUDA)
		if err != nil {
			return err
		}
		if strings.Contains(s.soname, "%d") {
			s.soname = fmt.Sprintf(s.soname, p.CUDA.Major)
		}
		if err := t.addStub(ctx, run, p, cc, scratch, s, names, 1); err != nil {
			return err
		}
	}
	return nil
}

// call is a function in C. Names that only look like calls (function pointer types) do no harm in a link stub.
var call = regexp.MustCompile(`\bcu[A-Z][A-Za-z0-9_]*[ \t\n]*\(`)

// driverNames reads the driver's functions out of the toolkit's own cuda.h. The compiler expands it, because cuda.h renames functions by
// macros (cuMemAlloc is cuMemAlloc_v2), and in three ways for the three sets of names that programs link.
func (p Plan) driverNames(ctx context.Context, run runner, cc, include, scratch string) ([]string, error) {
	source := filepath.Join(scratch, "names.c")
	if err := os.WriteFile(source, []byte("#include <cuda.h>\n"), 0o600); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, define := range []string{"", "-D__CUDA_API_VERSION_INTERNAL", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"} {
		args := []string{"-E", "-P", "-I" + include}
		if define != "" {
			args = append(args, define)
		}
		r, err := run.Run(ctx, p.ccCmd(cc, scratch, append(args, source)...))
		if err != nil {
			return nil, stubError(ctx, "libcuda.so", err)
		}
		for _, m := range call.FindAll(r.Stdout, -1) {
			found[strings.TrimRight(string(m), " \t\n(")] = true
		}
	}
	if !found["cuInit"] {
		return nil, &StubError{Library: "libcuda.so", Err: fmt.Errorf("%s declares no cuInit", filepath.Join(include, "cuda.h"))}
	}
	names := make([]string, 0, len(found))
	for n := range found {
		names = append(names, n)
	}
	sort.Strings(names)
	return names, nil
}

// libraryNames answers what a library exports in a CUDA version. A program that needs a name that its libraries will not have is then
// told by the linker, not by the loader of another machine.
func libraryNames(library string, v gpu.Version) ([]string, error) {
	data, err := stubNames.ReadFile("stubs/" + library + ".txt")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, line := range strings.Split(string(data), "\n") {
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

func (t *tree) addStub(ctx context.Context, run runner, p Plan, cc, scratch string, s stub, names []string, answer int) error {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "int %s(void){return %d;}\n", n, answer)
	}
	fmt.Fprintf(&b, "const int %s = 1;\n", StubMark)
	source := filepath.Join(scratch, s.library+".c")
	if err := os.WriteFile(source, []byte(b.String()), 0o600); err != nil {
		return err
	}
	rel := "lib/stubs/lib" + s.library + ".so"
	out := filepath.Join(t.root, filepath.FromSlash(rel))
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	_, err := run.Run(ctx, p.ccCmd(cc, scratch, "-shared", "-fPIC", "-w", "-fno-builtin", "-nostdlib", "-Wl,-soname,"+s.soname, "-o", out, source))
	if err != nil {
		return stubError(ctx, "lib"+s.library+".so", err)
	}
	if err := t.add(rel, true); err != nil {
		return &StubError{Library: "lib" + s.library + ".so", Err: err}
	}
	return nil
}

func (p Plan) ccCmd(cc, dir string, args ...string) buildenv.Cmd {
	return buildenv.Cmd{Path: cc, Args: args, Dir: dir, Env: p.host.Env.Set("LC_ALL", "C").Set("TMPDIR", dir).Entries()}
}

func stubError(ctx context.Context, library string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &StubError{Library: library, Err: err}
}
