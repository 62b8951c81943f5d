package fresh

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo/builddir"
)

// reader reads the files of a build directory and remembers what it read.
type reader struct {
	m       *session.Machine
	hashes  *inputs.Hashes
	inputs  map[noted][]stale.Input // of packages, as they were before the build; see inputsOf
	scripts map[string]bool         // the packages whose scripts run in this build
	outs    []builddir.Out          // as they were when the build was looked at
}

func newReader(b Build) *reader {
	hashes := inputs.NewHashes(b.Machine, b.ownDirs()...)
	return &reader{m: b.Machine, hashes: hashes, inputs: map[noted][]stale.Input{}, scripts: map[string]bool{}}
}

// holding is what a build script made.
type holding struct {
	Sum  string       `json:"sum"` // of all that goes into what cargo makes of it
	Code []stale.Code `json:"code,omitempty"`
	Path []string     `json:"path,omitempty"` // of the file that each of Code lies in
}

// made is what an image says of its making.
func made(im fatbin.Image) stale.Make {
	return stale.Make{Kind: im.Kind, Arch: im.Arch, NVCC: im.Toolkit, PTX: im.PTXVersion}
}

// byKernel lists for each kernel how it was made; device code without a kernel stands under "".
func byKernel(images []fatbin.Image) map[string][]stale.Make {
	out := map[string][]stale.Make{}
	for _, im := range images {
		names := im.Kernels
		if len(names) == 0 {
			names = []string{""}
		}
		for _, k := range names {
			m := made(im)
			if !slices.Contains(out[k], m) {
				out[k] = append(out[k], m)
			}
		}
	}
	return out
}

// grouped puts kernels of a file that were made in the same ways together: a file of thousands is so kept in a few lines. Code
// without a kernel is judged only where a file has nothing else: nvcc leaves an empty image of each source that has no kernel.
func grouped(file string, images []fatbin.Image) []stale.Code {
	kernels := byKernel(images)
	if len(kernels) > 1 {
		delete(kernels, "")
	}
	groups := map[string]*stale.Code{}
	for name, makes := range kernels {
		sort.Slice(makes, func(i, k int) bool { return fmt.Sprint(makes[i]) < fmt.Sprint(makes[k]) })
		key := fmt.Sprint(makes)
		g := groups[key]
		if g == nil {
			g = &stale.Code{File: file, Kernel: name, Makes: makes}
			groups[key] = g
		}
		if g.Kernels++; name < g.Kernel {
			g.Kernel = name
		}
	}
	out := make([]stale.Code, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	sort.Slice(out, func(i, k int) bool { return out[i].Kernel < out[k].Kernel })
	return out
}

// withoutCode are the endings of files that hold no device code, though the packages' sources and CMake's own notes fill an
// OUT_DIR with them.
var withoutCode = map[string]bool{
	".rs": true, ".c": true, ".cc": true, ".cpp": true, ".cu": true, ".cuh": true, ".h": true, ".hpp": true,
	".inl": true, ".d": true, ".txt": true, ".md": true, ".json": true, ".cmake": true, ".make": true,
	".ninja": true, ".toml": true, ".py": true, ".log": true, ".yaml": true, ".yml": true, ".pc": true,
	".ts": true, ".internal": true, ".marks": true, ".in": true, ".sh": true,
}

// toolkitLibrary are libraries of NVIDIA's that build scripts copy or link:
// they hold kernels of their own for many architectures.
var toolkitLibrary = lazyregexp.New(`^(lib)?(cublas|cudnn|cudart|cudadevrt|cusparse|cusolver|cufft|curand|cutensor|` +
	`npp|nccl|nvrtc|nvjpeg|nvJitLink|culibos|nvshmem)`)

// below lists the files below an OUT_DIR that may hold device code, the Rust files there, and the directories that were looked at. What
// CMake compiled to get to know its compilers (CMakeFiles/*/CompilerIdCUDA, CMakeDetermineCompilerABI_CUDA.bin, CMakeScratch, CMakeTmp:
// cmake-developer notes on CMakeDetermineCompilerId) is for another architecture than the build.
func below(h buildenv.Host, outDir string) (code, rust, dirs []string, err error) {
	dirs = []string{outDir}
	complete, err := h.Walk(outDir, func(path, rel string, e fs.DirEntry, isDir bool) bool {
		name := e.Name()
		switch {
		case isDir:
			ofCMake := strings.HasPrefix(name, "CompilerId") || name == "CMakeScratch" || name == "CMakeTmp"
			if name == ".git" || ofCMake || !e.IsDir() {
				return false
			}
			dirs = append(dirs, path)
		case strings.EqualFold(h.Ext(name), ".rs"):
			rust = append(rust, path)
		case withoutCode[strings.ToLower(h.Ext(name))] || strings.HasPrefix(name, "CMakeDetermineCompilerABI"):
		case toolkitLibrary.MatchString(name):
		default:
			if fi, err := h.Files.Stat(path); err == nil && fi.Mode().IsRegular() {
				code = append(code, path)
			}
		}
		return true
	})
	if err == nil && !complete {
		err = fmt.Errorf("%s holds more than %d files", outDir, buildenv.MostEntries)
	}
	return code, rust, dirs, err
}

// codeKind names the cache entries about the device code of files.
const codeKind = "code-3"

// gccComment is what gcc leaves in an object about itself (-fident). Objects are not the same from run to run, so that the compiler of the
// host is known by it.
var gccComment = lazyregexp.New(`GCC: \([^)]*\) \d+(?:\.\d+)*`)

// holds reads what a build script made, or takes what was read when nothing there has changed since.
func (r *reader) holds(outDir string) (holding, error) {
	outDir = r.m.Host.Clean(outDir)
	store, key := r.m.Memo(), memo.Key(version.Number(), outDir)
	if data, ok := store.Get(codeKind, key); ok {
		var held holding
		if json.Unmarshal(data, &held) == nil {
			return held, nil
		}
	}
	code, other, watched, err := below(r.m.Host, outDir)
	if err != nil {
		return holding{}, err
	}
	watched = append(watched, builddir.Printed(r.m.Host, outDir))
	state := store.Watch(slices.Concat(watched, code, other)...)
	held, sums := holding{}, map[string]bool{}
	for _, path := range code {
		if fi, err := r.m.Host.Files.Stat(path); err == nil && fi.Size() == 0 {
			continue
		}
		report, err := fatbin.ScanFile(r.m.Host, path)
		if err != nil {
			return held, err
		}
		for _, c := range grouped(r.m.Host.Base(path), report.Images) {
			held.Code, held.Path = append(held.Code, c), append(held.Path, path)
		}
		if err := r.sum(sums, path, strings.TrimPrefix(path, outDir), report.Images); err != nil {
			return held, err
		}
	}
	if len(held.Code) == 0 {
		other = append(other, code...) // it may be there in a form that nobody knows
	}
	for _, path := range other {
		sum, err := cache.Hash(path)
		if err != nil {
			return held, err
		}
		sums["file "+strings.TrimPrefix(path, outDir)+" "+sum] = true
	}
	said, err := builddir.Output(r.m.Host, outDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return held, err
	}
	for _, rule := range said.Rules {
		sums["rule "+rule] = true
	}
	all := sha256.Sum256([]byte(strings.Join(sorted(sums), "\n")))
	held.Sum = hex.EncodeToString(all[:16])
	data, err := json.Marshal(held)
	if err == nil {
		err = store.Put(codeKind, key, state, data)
	}
	if err != nil {
		r.m.Shell.Detail("what the build's files hold is not kept: %v", err)
	}
	return held, nil
}

// sum adds the name of a file and the bytes of its device code. Objects and libraries differ from run to run in other places.
func (r *reader) sum(sums map[string]bool, path, name string, images []fatbin.Image) error {
	if len(images) == 0 {
		return nil
	}
	data, err := r.m.Host.ReadFile(path, 4<<30)
	if err != nil {
		return err
	}
	for _, im := range images {
		if im.Offset+im.Size > int64(len(data)) {
			return fmt.Errorf("%s changed while it was read", path)
		}
		one := sha256.Sum256(bytes.TrimRight(data[im.Offset:im.Offset+im.Size], "\x00"))
		sums["code "+name+" "+hex.EncodeToString(one[:16])] = true
	}
	for _, host := range gccComment.FindAll(data, -1) {
		sums["host "+string(host)] = true
	}
	return nil
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
