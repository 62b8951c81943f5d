package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
)

//go:embed csrc
var sources embed.FS

// Variables that the probe reads.
const (
	InjectionVariable   = "CUDA_INJECTION64_PATH"       // the CUDA driver loads what it names
	DirVariable         = "GPUBUILD_PROBE_DIR"          // where the records go
	CUPTIVariable       = "GPUBUILD_PROBE_CUPTI"        // the libcupti to load
	UntilProvedVariable = "GPUBUILD_PROBE_UNTIL_PROVED" // set: a proof is waited for while the program runs
	LayersVariable      = "VK_INSTANCE_LAYERS"          // the layers that the Vulkan loader puts into a program
	AddLayersVariable   = "VK_ADD_LAYER_PATH"           // directories in which it finds layers, besides its own (loader 1.3.207)
	LayerPathVariable   = "VK_LAYER_PATH"               // directories in which it finds them, instead of its own
)

// Backend is the API of the GPU whose work is recorded.
type Backend string

// Backends. The zero value is CUDA, as in receipts that name none.
const (
	CUDA   Backend = ""
	Vulkan Backend = "vulkan"
)

// Name is what a user calls the backend.
func (b Backend) Name() string {
	if b == Vulkan {
		return "Vulkan"
	}
	return "CUDA"
}

// Probe is the built programs. Control and Watch are empty where only a library was given: then nothing can be Proved or NotUsed.
type Probe struct {
	Backend    Backend `json:"backend,omitempty"`
	Library    string  `json:"library"`           // the injection library
	Control    string  `json:"control,omitempty"` // the positive control
	Watch      string  `json:"watch,omitempty"`   // the parent of the watched program
	SourceHash string  `json:"source_hash,omitempty"`
	Digest     string  `json:"digest"` // SHA-256 of the library
}

type part struct {
	source, name string
	shared       bool
}

func parts(os string, backend Backend) []part {
	switch {
	case backend == Vulkan:
		return []part{{"layer.c", "libgpubuild_layer.so", true}, {"control_vulkan.c", "gpubuild-vulkan-control", false},
			{"watch.c", "gpubuild-watch", false}}
	case os == buildenv.Windows:
		return []part{{"probe.c", "gpubuild_probe.dll", true}, {"control.c", "gpubuild-control.exe", false},
			{"watch_windows.c", "gpubuild-watch.exe", false}}
	}
	return []part{{"probe.c", "libgpubuild_probe.so", true}, {"control.c", "gpubuild-control", false}, {"watch.c", "gpubuild-watch", false}}
}

// LayerName is what the Vulkan loader calls the layer.
const LayerName = "VK_LAYER_GPUBUILD_probe"

// manifestName is the file by which the Vulkan loader finds the layer next to it.
const manifestName = "VkLayer_gpubuild_probe.json"

// manifest is in the form that Khronos' loader documents (LoaderLayerInterface.md, "Layer Manifest File Format").
const manifest = `{
  "file_format_version": "1.1.2",
  "layer": {
    "name": "` + LayerName + `", "type": "GLOBAL", "library_path": "./libgpubuild_layer.so", "api_version": "1.3.0",
    "implementation_version": "1", "description": "records compute dispatches for gpubuild"
  }
}
`

// Compiler is what builds the probe.
type Compiler struct {
	Path string
	CL   bool         // it takes cl's options: Microsoft's cl; else gcc's: gcc and clang
	Env  buildenv.Env // what it runs in, for cl with INCLUDE and LIB; the zero value: the machine's own
}

const stamp = "built.json"

// built is the content of the stamp next to the programs.
type built struct {
	Digests map[string]string `json:"digests"` // SHA-256 by file name
}

// SourceHash returns the SHA-256 of the C sources that this gpubuild carries.
func SourceHash() string {
	all := Sources()
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(all[name]), all[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Sources returns the C files that this gpubuild carries, by name.
func Sources() map[string]string {
	out := map[string]string{}
	entries, _ := sources.ReadDir("csrc") // embedded: cannot fail
	for _, e := range entries {
		data, _ := sources.ReadFile("csrc/" + e.Name())
		out[e.Name()] = string(data)
	}
	return out
}

// Compile is the command that makes a program, or a library that is loaded into others' processes, of one C file; a value, so that tests can
// compare it.
func Compile(h buildenv.Host, c Compiler, dir, source, target string, shared bool) buildenv.Cmd {
	env := c.Env
	if len(env.Names()) == 0 {
		env = h.Env
	}
	var args []string
	switch {
	case c.CL:
		// The C library is linked into the library (/MT): one that is loaded
		// into a foreign process must bring no other that it has to find.
		args = []string{"/nologo", "/TC", "/utf-8", "/W3", "/O2", "/MT"}
		if shared {
			args = append(args, "/LD")
		}
		args = append(args, "/Fo:"+target+".obj", "/Fe:"+target, source)
		// Options from here would come before and behind ours (Microsoft, "CL environment variables", "LINK environment variables").
		for _, name := range []string{"CL", "_CL_", "LINK", "_LINK_"} {
			env = env.Unset(name)
		}
	case h.OS == buildenv.Windows:
		args = []string{"-std=c11", "-O2", "-static", "-o", target}
		if shared {
			args = append(args, "-shared")
		}
		args = append(args, source)
	default:
		args = []string{"-std=c11", "-O2", "-pthread", "-o", target}
		if shared {
			args = append(args, "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,nodelete")
		}
		args = append(args, source, "-ldl")
	}
	return buildenv.Cmd{
		Path: c.Path, Args: args, Dir: dir, Env: env.Set("LC_ALL", "C").Entries(),
		Timeout: 10 * time.Minute, Limit: 1 << 20, // 2 were too few where others had the processors
	}
}

// cannotBuild says why there is no probe for a machine: its source knows Linux and, of CUDA, Windows on x86_64.
func cannotBuild(os, arch string, c Compiler, backend Backend) error {
	switch {
	case backend == Vulkan && os != buildenv.Linux:
		return exit.Errorf(exit.Missing, "prove it on Linux", "the Vulkan layer can be built on Linux only, not on %s", os)
	case os != buildenv.Linux && (os != buildenv.Windows || arch == "arm64"):
		return exit.Errorf(exit.Missing, "prove on Linux or on Windows x86_64, or give a library with prove --probe FILE",
			"the probe cannot be built on %s %s yet", os, arch)
	case c.Path == "":
		return NoCompiler(os, "the probe", ", or give a library that was built elsewhere with prove --probe FILE")
	}
	return nil
}

// NoCompiler says that there is nothing to build a part of ours with; or is another way out.
func NoCompiler(os, what, or string) error {
	compilers, fix := "gcc or clang", "install gcc"
	if os == buildenv.Windows {
		compilers, fix = "cl, gcc or clang", buildenv.InstallMSVC
	}
	return exit.Errorf(exit.Missing, fix+or, "no host compiler (%s) to build %s with", compilers, what)
}

// buildError says that the compiler refused a source.
func buildError(source string, err error) error {
	fix := "try another host compiler (its C library's headers must be installed), or prove --probe FILE"
	if strings.Contains(err.Error(), "No space left on device") {
		fix = makeRoom
	}
	return exit.Errorf(0, fix, "building the probe's %s: %w", source, err)
}

const makeRoom = "make room or set GPUBUILD_CACHE to a directory that can be written"

// CacheError says that the cache could not be written.
func CacheError(dir string, err error) error {
	return exit.Errorf(0, makeRoom, "the probe's cache %s: %w", dir, err)
}

// Build returns a backend's probe in cacheDir, and compiles it if it is missing, was built from other sources or by another compiler, or
// has changed since. It is built in a temporary directory and renamed, so that it is complete or absent, also when two build at once.
//
// A release carries the programs, and takes them in place of a compiler's.
func Build(ctx context.Context, h buildenv.Host, run buildenv.Runner, cacheDir string, compiler Compiler, backend Backend) (Probe, error) {
	return build(ctx, h, run, cacheDir, compiler, backend, carriedIn(released, h.OS, backend))
}

// Carried reports whether this is a release that needs no compiler for a machine's CUDA probe.
func Carried(os string) bool { return carriedIn(released, os, CUDA) != nil }

// carriedIn are the programs of a backend that a release carries, by name; nil: it carries none, or not all.
func carriedIn(in fs.ReadDirFS, os string, backend Backend) map[string][]byte {
	out := map[string][]byte{}
	for _, p := range parts(os, backend) {
		data, err := fs.ReadFile(in, "released/"+p.name)
		if err != nil {
			return nil
		}
		out[p.name] = data
	}
	return out
}

func build(ctx context.Context, h buildenv.Host, run buildenv.Runner, cacheDir string, compiler Compiler, backend Backend,
	carried map[string][]byte,
) (Probe, error) {
	source, by, state := SourceHash(), "gpubuild's release", ""
	if carried == nil {
		if err := cannotBuild(h.OS, h.Arch, compiler, backend); err != nil {
			return Probe{}, err
		}
		fi, err := h.Files.Stat(compiler.Path)
		if err != nil {
			return Probe{}, fmt.Errorf("host compiler: %w", err)
		}
		by, state = h.Real(compiler.Path), fmt.Sprint(fi.Size(), fi.ModTime().UnixNano())
	}
	key := sha256.Sum256(fmt.Append(nil, []string{source, by, state, h.Arch, string(backend)}))
	home := filepath.Join(cacheDir, "probe")
	dir := filepath.Join(home, hex.EncodeToString(key[:12]))
	if p, err := check(h, dir, source, backend); err == nil && cache.Trusted(home) == nil {
		return p, nil
	}
	if err := cache.Make(home); err != nil { // what is there is used of a cache that is read-only, too
		return Probe{}, err
	}
	entries, _ := os.ReadDir(home)
	for _, e := range entries { // what a killed one left costs space only; a younger one may be at work
		if fi, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), ".build-") && time.Since(fi.ModTime()) > time.Hour {
			_ = os.RemoveAll(filepath.Join(home, e.Name()))
		}
	}
	tmp, err := os.MkdirTemp(home, ".build-")
	if err != nil {
		return Probe{}, CacheError(home, err)
	}
	defer os.RemoveAll(tmp)
	b, files := built{map[string]string{}}, map[string][]byte{}
	for name, text := range Sources() {
		files[name] = []byte(text)
	}
	if backend == Vulkan {
		files[manifestName] = []byte(manifest)
	}
	maps.Copy(files, carried)
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(tmp, name), data, 0o600); err != nil {
			return Probe{}, CacheError(home, err)
		}
	}
	for _, p := range parts(h.OS, backend) {
		file := filepath.Join(tmp, p.name)
		if carried == nil {
			_, err = run.Run(ctx, Compile(h, compiler, tmp, h.Join(tmp, p.source), file, p.shared))
		}
		if err == nil {
			b.Digests[p.name], err = cache.Hash(file)
		}
		if err != nil {
			return Probe{}, cmp.Or(ctx.Err(), buildError(p.source, err))
		}
		if err := os.Chmod(file, 0o700); err != nil {
			return Probe{}, CacheError(home, err)
		}
	}
	data, err := json.Marshal(b)
	if err != nil {
		return Probe{}, err
	}
	if err := os.WriteFile(filepath.Join(tmp, stamp), data, 0o600); err != nil {
		return Probe{}, CacheError(home, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		// Another gpubuild was faster, or what stands there is damaged.
		if p, err := check(h, dir, source, backend); err == nil {
			return p, nil
		}
		if err := errors.Join(os.RemoveAll(dir), os.Rename(tmp, dir)); err != nil {
			return Probe{}, CacheError(home, err)
		}
	}
	return check(h, dir, source, backend)
}

// check returns the probe in dir if every file is still what was built.
func check(h buildenv.Host, dir, source string, backend Backend) (Probe, error) {
	if err := cache.TrustedDir(dir); err != nil { // the stamp and what it vouches for could both be somebody else's
		return Probe{}, err
	}
	data, err := os.ReadFile(filepath.Join(dir, stamp))
	if err != nil {
		return Probe{}, err
	}
	var b built
	if err := json.Unmarshal(data, &b); err != nil {
		return Probe{}, fmt.Errorf("%s: %w", filepath.Join(dir, stamp), err)
	}
	p, of := Probe{Backend: backend, SourceHash: source}, parts(h.OS, backend)
	for i, to := range []*string{&p.Library, &p.Control, &p.Watch} {
		*to = filepath.Join(dir, of[i].name)
		sum, err := cache.Hash(*to)
		if err != nil {
			return Probe{}, err
		}
		if sum != b.Digests[of[i].name] {
			return Probe{}, fmt.Errorf("%s is not what was built", *to)
		}
	}
	if backend == Vulkan {
		if text, err := os.ReadFile(filepath.Join(dir, manifestName)); err != nil || string(text) != manifest {
			return Probe{}, errors.Join(err, fmt.Errorf("%s is not what was built", filepath.Join(dir, manifestName)))
		}
	}
	p.Digest = b.Digests[of[0].name]
	return p, nil
}

// FromFile takes a library that was built elsewhere. The control and the watcher are taken from its directory, if they are there.
func FromFile(h buildenv.Host, library string, backend Backend) (Probe, error) {
	library = h.Abs(library)
	sum, err := cache.Hash(library)
	if err != nil {
		return Probe{}, fmt.Errorf("probe: %w", err)
	}
	p := Probe{Backend: backend, Library: library, Digest: sum}
	for i, to := range []*string{&p.Control, &p.Watch} {
		if at := h.Join(h.Dir(library), parts(h.OS, backend)[i+1].name); h.IsFile(at) {
			*to = at
		}
	}
	return p, nil
}
