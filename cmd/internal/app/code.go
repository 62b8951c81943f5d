package app

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu/fatbin"
)

// Bounds of what is looked at below one OUT_DIR; an ordinary one has some dozens of files, a CMake build some thousands.
const (
	mostEntries = 50_000
	mostDepth   = 16
	keptResults = 200 // build directories whose results are kept
)

// seen is the kept reading of a file: what it holds, as long as it is the same file.
type seen struct {
	Is    string       `json:"is"`
	Code  []stale.Code `json:"code,omitempty"`
	Hosts []string     `json:"hosts,omitempty"` // host compilers that an object with device code names
}

// results is what is kept of one build directory in our cache: readings only. Without it everything is read again.
type results struct {
	Version  string            `json:"version"`
	Files    map[string]seen   `json:"files"`
	Programs map[string]string `json:"programs"` // program → the state of it and of all code, in which it held no older code than the packages
	// Libraries are those of units whose OUT_DIR holds no device code, by OUT_DIR: which they are, only cargo says, and only when it builds.
	Libraries map[string][]string `json:"libraries,omitempty"`
	// Took are the OUT_DIRs that builds took of packages of which only their code may show that they compile kernels; see tookKey.
	Took map[string]string `json:"took,omitempty"`
	// Foreign are OUT_DIRs with device code that is nobody's of this project, by when their script ran: to find that out all sources are read.
	Foreign map[string]int64 `json:"foreign,omitempty"`

	path  string
	used  map[string]bool
	dirty bool
}

func (j *journey) openResults() *results {
	if j.results != nil {
		return j.results
	}
	r := &results{path: j.Host.Join(j.CacheDir, "results", cache.Name(j.Host.Real(j.graph.Places.BuildDirectory))+".json"), used: map[string]bool{}}
	if data, err := j.Host.ReadFile(r.path, recordLimit); err == nil {
		if json.Unmarshal(data, r) != nil || r.Version != version.Number() {
			r.Files, r.Programs, r.Libraries, r.Took, r.Foreign = nil, nil, nil, nil, nil // damaged, or of another gpubuild: only time is lost
		}
	}
	if r.Files == nil {
		r.Files = map[string]seen{}
	}
	if r.Programs == nil {
		r.Programs = map[string]string{}
	}
	r.Version = version.Number()
	j.results = r
	return r
}

// keepLibraries remembers which libraries are a unit's.
func (r *results) keepLibraries(o output) {
	if !slices.Equal(r.Libraries[o.outDir], o.libraries) {
		if r.Libraries == nil {
			r.Libraries = map[string][]string{}
		}
		r.Libraries[o.outDir], r.dirty = o.libraries, true
	}
}

// foreign remembers that a script's last run left nobody's kernels of this project.
func (r *results) foreign(outDir string, ran int64) {
	if r.Foreign == nil {
		r.Foreign = map[string]int64{}
	}
	r.Foreign[outDir], r.dirty = ran, true
}

// took remembers which OUT_DIR a build took.
func (r *results) took(key, outDir string) {
	if r.Took[key] != outDir {
		if r.Took == nil {
			r.Took = map[string]string{}
		}
		r.Took[key], r.dirty = outDir, true
	}
}

// keep writes the readings down, without those of files that are gone.
func (r *results) keep(a *app) {
	for path := range r.Files {
		if !r.used[path] && !a.Host.IsFile(path) {
			delete(r.Files, path)
			r.dirty = true
		}
	}
	if !r.dirty {
		return
	}
	for path := range r.Programs {
		if !a.Host.IsFile(path) {
			delete(r.Programs, path)
		}
	}
	for dir := range r.Libraries {
		if !a.Host.IsDir(dir) {
			delete(r.Libraries, dir)
		}
	}
	for dir := range r.Foreign {
		if !a.Host.IsDir(dir) {
			delete(r.Foreign, dir)
		}
	}
	for key, dir := range r.Took {
		if !a.Host.IsDir(dir) {
			delete(r.Took, key)
		}
	}
	data, err := json.Marshal(r)
	if err == nil {
		dir := filepath.Dir(r.path)
		if err = cache.Make(dir); err == nil {
			err = cache.WriteFile(r.path, data, 0o600)
			prune(dir, keptResults)
		}
	}
	if err != nil {
		a.Shell.Detail("what the build's files hold is not kept: %v", err)
	}
	r.dirty = false
}

// codeOf answers what device code a file holds; one that has not changed is not read again.
func (j *journey) codeOf(path string) (seen, error) {
	r := j.openResults()
	is := j.Memo().State(path)
	r.used[path] = true
	if old, ok := r.Files[path]; ok && is != "" && old.Is == is {
		return old, nil
	}
	report, err := fatbin.ScanFile(j.Host, path)
	if err != nil {
		return seen{}, err
	}
	now := seen{Is: is, Code: grouped(j.Host.Base(path), report.Images)}
	if len(now.Code) > 0 {
		now.Hosts = hostsOf(j.Host, path)
	}
	r.Files[path], r.dirty = now, true
	return now, nil
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
			if !containsMake(out[k], m) {
				out[k] = append(out[k], m)
			}
		}
	}
	return out
}

func containsMake(list []stale.Make, m stale.Make) bool {
	for _, e := range list {
		if e == m {
			return true
		}
	}
	return false
}

// grouped puts kernels of a file that were made in the same ways together: a file of thousands is so kept in a few lines. Code without a kernel is
// judged only where a file has nothing else: nvcc leaves an empty image of each source that has no kernel.
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

// hostsOf reads the host compilers' names out of an object's .comment section, where gcc leaves its version (gcc's -fident). Anything that is no ELF
// object names none.
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
		if host := "gcc " + m[1]; !contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}

// withoutCode are the endings of files that hold no device code, though the packages' sources and CMake's own notes fill an OUT_DIR with them.
var withoutCode = map[string]bool{
	".rs": true, ".c": true, ".cc": true, ".cpp": true, ".cu": true, ".cuh": true, ".h": true, ".hpp": true, ".inl": true, ".d": true, ".txt": true, ".md": true,
	".json": true, ".cmake": true, ".make": true, ".ninja": true, ".toml": true, ".py": true, ".log": true, ".yaml": true, ".yml": true, ".pc": true, ".ts": true,
	".internal": true, ".marks": true, ".in": true, ".sh": true,
}

// toolkitLibrary are libraries of NVIDIA's that build scripts copy or link: they hold kernels of their own for many architectures.
var toolkitLibrary = regexp.MustCompile(`^(lib)?(cublas|cudnn|cudart|cudadevrt|cusparse|cusolver|cufft|curand|cutensor|npp|nccl|nvrtc|nvjpeg|nvJitLink|culibos|nvshmem)`)

// below lists the files below an OUT_DIR that may hold device code, and CMake's caches and cudaforge's. What CMake compiled to get to know its compilers
// (CMakeFiles/*/CompilerIdCUDA, CMakeDetermineCompilerABI_CUDA.bin, CMakeScratch, CMakeTmp: cmake-developer notes on CMakeDetermineCompilerId) is
// for another architecture than the build.
func (j *journey) below(outDir string) (code, notes []string, err error) {
	left := mostEntries
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		entries, err := j.Host.Files.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if left--; left < 0 {
				return fmt.Errorf("%s holds more than %d files", outDir, mostEntries)
			}
			name := e.Name()
			path := j.Host.Join(dir, name)
			switch {
			case e.IsDir():
				if name == ".git" || strings.HasPrefix(name, "CompilerId") || name == "CMakeScratch" || name == "CMakeTmp" || depth == mostDepth {
					continue
				}
				if err := walk(path, depth+1); err != nil {
					return err
				}
			case name == "CMakeCache.txt" || name == ".cudaforge_cache.json":
				notes = append(notes, path)
			case withoutCode[strings.ToLower(j.Host.Ext(name))] || strings.HasPrefix(name, "CMakeDetermineCompilerABI"):
			case toolkitLibrary.MatchString(name):
			default:
				if fi, err := j.Host.Files.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Size() > 0 {
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
	return code, notes, err
}

// holding is the device code of one package's build script.
type holding struct {
	code  []stale.Code
	path  []string // of the file that each of code lies in
	hosts []string
	notes []string // caches that build tools keep there
}

// holds reads the device code below an OUT_DIR.
func (j *journey) holds(outDir string) (holding, error) {
	var out holding
	files, notes, err := j.below(outDir)
	if err != nil {
		return out, err
	}
	out.notes = notes
	for _, path := range files {
		s, err := j.codeOf(path)
		if err != nil {
			return out, err
		}
		out.add(path, s)
	}
	return out, nil
}

func (o *holding) add(path string, s seen) {
	for _, c := range s.Code {
		o.code, o.path = append(o.code, c), append(o.path, path)
	}
	for _, h := range s.Hosts {
		if !contains(o.hosts, h) {
			o.hosts = append(o.hosts, h)
		}
	}
}
