package fresh

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu/fatbin"
)

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

var gccComment = regexp.MustCompile(`GCC: \([^)]*\) (\d+(?:\.\d+)*)`)

// hostsOf reads the host compilers' names out of an object's .comment section, where gcc leaves its version (gcc's -fident).
// Anything that is no ELF object names none.
func hostsOf(h buildenv.Host, path string) []string {
	if !strings.EqualFold(h.Ext(path), ".o") {
		return nil
	}
	data, err := h.ReadFile(path, 256<<20)
	if err != nil {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil || f.Section(".comment") == nil {
		return nil
	}
	text, err := f.Section(".comment").Data()
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range gccComment.FindAllStringSubmatch(string(text), -1) {
		if host := "gcc " + m[1]; !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
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
var toolkitLibrary = regexp.MustCompile(`^(lib)?(cublas|cudnn|cudart|cudadevrt|cusparse|cusolver|cufft|curand|cutensor|` +
	`npp|nccl|nvrtc|nvjpeg|nvJitLink|culibos|nvshmem)`)

// below lists the files below an OUT_DIR that may hold device code, CMake's caches and cudaforge's, and the directories that were
// looked at. What CMake compiled to get to know its compilers (CMakeFiles/*/CompilerIdCUDA, CMakeDetermineCompilerABI_CUDA.bin,
// CMakeScratch, CMakeTmp: cmake-developer notes on CMakeDetermineCompilerId) is for another architecture than the build.
func below(h buildenv.Host, outDir string) (code, notes, dirs []string, err error) {
	left := inputs.MostEntries
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		dirs = append(dirs, dir)
		entries, err := h.Files.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if left--; left < 0 {
				return fmt.Errorf("%s holds more than %d files", outDir, inputs.MostEntries)
			}
			name := e.Name()
			path := h.Join(dir, name)
			switch {
			case e.IsDir():
				ofCMake := strings.HasPrefix(name, "CompilerId") || name == "CMakeScratch" || name == "CMakeTmp"
				if name == ".git" || ofCMake || depth == inputs.MostDepth {
					continue
				}
				if err := walk(path, depth+1); err != nil {
					return err
				}
			case name == "CMakeCache.txt" || name == ".cudaforge_cache.json":
				notes = append(notes, path)
			case withoutCode[strings.ToLower(h.Ext(name))] || strings.HasPrefix(name, "CMakeDetermineCompilerABI"):
			case toolkitLibrary.MatchString(name):
			default:
				if fi, err := h.Files.Stat(path); err == nil && fi.Mode().IsRegular() {
					code = append(code, path)
				}
			}
		}
		return nil
	}
	err = walk(outDir, 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return code, notes, dirs, err
}

// codeKind names the cache entries about the device code of files.
const codeKind = "code-1"

// holds reads the device code below an OUT_DIR, or takes what was read when nothing there has changed since.
func (s *State) holds(outDir string) (holding, error) {
	outDir = s.host.Clean(outDir)
	if held, ok := s.held[outDir]; ok {
		return held, nil
	}
	held, err := s.remembered(outDir, func() (held holding, files, watched []string, err error) {
		files, held.Notes, watched, err = below(s.host, outDir)
		return held, files, watched, err
	})
	if err == nil {
		s.held[outDir] = held
	}
	return held, err
}

// inLibraries reads the device code of a package's libraries.
func (s *State) inLibraries(paths []string) (holding, error) {
	return s.remembered(strings.Join(paths, "\n"), func() (holding, []string, []string, error) { return holding{}, paths, nil, nil })
}

// remembered answers what is kept under a name, or reads the files that list names. What is kept holds as long as those and what
// else is watched are what they were.
func (s *State) remembered(name string, list func() (held holding, files, watched []string, err error)) (holding, error) {
	store, key := s.b.Machine.Memo(), memo.Key(version.Number(), name)
	if data, ok := store.Get(codeKind, key); ok {
		var held holding
		if json.Unmarshal(data, &held) == nil {
			return held, nil
		}
	}
	held, files, watched, err := list()
	if err != nil {
		return held, err
	}
	inputs := store.Watch(append(watched, files...)...)
	for _, path := range files {
		if fi, err := s.host.Files.Stat(path); err == nil && fi.Size() == 0 {
			continue
		}
		report, err := fatbin.ScanFile(s.host, path)
		if err != nil {
			return held, err
		}
		code := grouped(s.host.Base(path), report.Images)
		for _, c := range code {
			held.Code, held.Path = append(held.Code, c), append(held.Path, path)
		}
		if len(code) == 0 {
			continue
		}
		for _, h := range hostsOf(s.host, path) {
			if !slices.Contains(held.Hosts, h) {
				held.Hosts = append(held.Hosts, h)
			}
		}
	}
	data, err := json.Marshal(held)
	if err == nil {
		err = store.Put(codeKind, key, inputs, data)
	}
	if err != nil {
		s.shell.Detail("what the build's files hold is not kept: %v", err)
	}
	return held, nil
}
