package cuda

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// Bare is the problem of a directory with which nothing can be built.
const Bare = "it has no compiler and no headers: neither bin/nvcc nor include/cuda.h leads to a file"

// looker looks at one machine.
type looker struct{ h buildenv.Host }

// targets lists the names under targets/ for the host's processor. arm64 servers are "sbsa", Jetsons "aarch64".
func (l looker) targets() []string {
	if l.h.Arch == "arm64" {
		return []string{"sbsa-linux", "aarch64-linux"}
	}
	return []string{"x86_64-linux"}
}

func (l looker) includes(root string) []string {
	dirs := []string{l.h.Join(root, "include")}
	if l.h.OS == buildenv.Windows {
		return dirs
	}
	for _, t := range l.targets() {
		dirs = append(dirs, l.h.Join(root, "targets", t, "include"))
	}
	return dirs
}

func (l looker) libs(root string) []string {
	if l.h.OS == buildenv.Windows {
		dirs := []string{l.h.Join(root, "lib", "x64")}
		if l.h.Arch == "arm64" {
			dirs = []string{l.h.Join(root, "lib", "arm64")}
		}
		return append(dirs, l.h.Join(root, "lib"))
	}
	dirs := []string{l.h.Join(root, "lib64"), l.h.Join(root, "lib")}
	for _, t := range l.targets() {
		dirs = append(dirs, l.h.Join(root, "targets", t, "lib"))
	}
	return dirs
}

// read looks at one root. ok is false when nothing there speaks of CUDA; the answer's Problem then says what is there instead.
func (l looker) read(root string) (t Toolkit, ok bool) {
	h := l.h
	root = h.Clean(root)
	t = Toolkit{Root: root, Real: h.Real(root), Bin: h.Join(root, "bin")}
	fi, err := h.Files.Stat(root)
	switch {
	case errors.Is(err, fs.ErrPermission):
		t.Problem = "it cannot be read: permission denied"
		return t, false
	case err != nil:
		t.Problem = "it does not exist" + misspelt(root)
		if slices.Contains(h.Names(h.Dir(root)), h.Base(root)) {
			t.Problem = "it is a link to a directory that does not exist"
		}
		return t, false
	case !fi.IsDir():
		t.Problem = "it is no directory"
		return t, false
	}
	if _, err := h.Files.ReadDir(root); errors.Is(err, fs.ErrPermission) {
		t.Problem = "it cannot be read: permission denied"
		return t, false
	}
	if nvcc := h.Join(t.Bin, h.Exe("nvcc")); h.IsFile(nvcc) {
		t.NVCC = nvcc
	}
	t.Include = first(l.includes(root), func(d string) bool { return h.IsFile(h.Join(d, "cuda.h")) })
	if t.Include == "" {
		t.Include = first(l.includes(root), func(d string) bool {
			return h.IsFile(h.Join(d, "cuda_runtime.h")) || h.IsFile(h.Join(d, "crt", "host_config.h"))
		})
	}
	t.Lib = first(l.libs(root), func(d string) bool { return holds(h, d, "libcudart.so", "cudart.lib", "libcublas.so", "libnvrtc.so") })
	switch {
	case t.NVCC == "" && h.OS != buildenv.Windows && h.IsFile(h.Join(root, "bin", "nvcc.exe")):
		t.Problem = "it is a Windows toolkit (bin/nvcc.exe), which cannot build for Linux"
		return t, false
	case t.NVCC == "" && t.Include == "" && t.Lib == "":
		t.Problem = Bare
		return t, false
	}
	if t.NVCC != "" && t.Include == "" && t.Lib == "" {
		t.Problem = "only nvcc is there, without headers and libraries of CUDA"
	}
	l.packaging(&t)
	l.version(&t)
	l.parts(&t)
	if arch := l.foreign(t.NVCC); arch != "" {
		t.Problem = "its nvcc is a program for " + arch + ", which this machine does not run"
	}
	return t, true
}

// misspelt says what of a directory's name a user did not mean; empty: nothing.
func misspelt(dir string) string {
	switch {
	case strings.Trim(dir, `"'`) != dir:
		return ": the quotes are part of its name"
	case strings.TrimSpace(dir) != dir:
		return ": its name begins or ends with a space"
	case strings.HasPrefix(dir, "~"):
		return ": no shell has expanded ~"
	}
	return ""
}

// foreign is the processor that a program of Linux is for, by its ELF header (e_machine of elf.h), where it is another one than this
// machine's; empty for a script, and for what is not known.
func (l looker) foreign(program string) string {
	data, err := head(l.h, program, 20)
	if err != nil || len(data) < 20 || string(data[:4]) != "\x7fELF" {
		return ""
	}
	arch := map[byte]string{62: "amd64", 183: "arm64"}[data[18]]
	if arch == l.h.Arch {
		return ""
	}
	return arch
}

// packaging recognises the layouts with rules of their own.
func (l looker) packaging(t *Toolkit) {
	h := l.h
	up := h.Dir(t.Real)
	switch {
	case h.IsDir(h.Join(t.Root, "conda-meta")),
		h.OS == buildenv.Windows && strings.EqualFold(h.Base(t.Root), "Library") && h.IsDir(h.Join(h.Dir(t.Root), "conda-meta")):
		t.Packaged = Conda
	// site-, or Debian's dist-packages
	case h.Base(up) == "nvidia" && wheelRoot.MatchString(h.Base(t.Real)) && strings.HasSuffix(h.Base(h.Dir(up)), "-packages"):
		t.Packaged = Wheels
	case h.Base(up) == "cuda" && h.IsDir(h.Join(h.Dir(up), "math_libs")):
		t.Packaged = HPC
		math := h.Join(h.Dir(up), "math_libs", h.Base(t.Real))
		for _, d := range l.libs(math) {
			if h.IsDir(d) {
				t.Libs = append(t.Libs, d)
				break
			}
		}
	}
}

// parts notes what is there and what is not.
func (l looker) parts(t *Toolkit) {
	h := l.h
	includes := l.includes(t.Root)
	if t.Include != "" && !slices.Contains(includes, t.Include) {
		includes = append([]string{t.Include}, includes...)
	}
	in := func(name ...string) string {
		for _, d := range includes {
			if p := h.Join(append([]string{d}, name...)...); h.IsFile(p) {
				return p
			}
		}
		return ""
	}
	missing := func(part string, is bool) {
		if is {
			t.Missing = append(t.Missing, part)
		}
	}
	config := in("crt", "host_config.h")
	missing(PartNVCC, t.NVCC == "")
	missing(PartCRT, config == "")
	missing(PartNVVM, !l.cicc(*t))
	missing(PartCCCL, in("nv", "target") == "" && in("cccl", "nv", "target") == "")
	missing(PartRuntime, in("cuda_runtime.h") == "")
	missing(PartDriver, in("cuda.h") == "")
	t.Damage = l.damage(*t)
	missing(PartTools, t.Damage != "")
	missing(PartLinks, t.Lib == "" || !h.IsFile(h.Join(t.Lib, "libcudart.so")) && !h.IsFile(h.Join(t.Lib, "cudart.lib")))
	if config != "" {
		if data, err := h.ReadFile(config, buildenv.Note); err == nil {
			t.Bounds = ParseHostConfig(data)
		} else {
			missing(PartCRT, true)
		}
		t.Bounds.File = config
	}
	t.MinArch, t.MaxArch = archs(t.Version)
	for _, d := range append([]string{t.Lib}, l.libs(t.Root)...) {
		if s := h.Join(d, "stubs"); d != "" && t.Stubs == "" && h.IsFile(h.Join(s, "libcuda.so")) {
			t.Stubs = s
		}
	}
	for _, d := range append([]string{t.Lib, t.Stubs}, t.Libs...) {
		for _, name := range h.Names(d) {
			if m := linkable.FindStringSubmatch(name); m != nil {
				t.Links = append(t.Links, "lib"+m[1])
			}
		}
	}
	t.CUPTI = l.cupti(*t)
}

// linkable matches what -lNAME means: libNAME.so, libNAME.a, NAME.lib.
var linkable = lazyregexp.New(`^(?:lib)?(.+?)\.(?:so|a|lib)$`)

// damage is the first file of nvcc's own that is not there. NVIDIA keeps four of them in nvcc's directory: a layout that has none of them
// there, or that has them on PATH, is another one. nvcc itself says which other file it misses, and where it looked.
func (l looker) damage(t Toolkit) string {
	h, dir := l.h, l.h.Dir(l.h.Real(t.NVCC))
	files := []string{h.Exe("ptxas"), h.Exe("fatbinary"), h.Exe("cudafe++"), "nvcc.profile"}
	at := slices.IndexFunc(files, func(name string) bool { return !h.IsFile(h.Join(dir, name)) && len(h.LookPathAll(name)) == 0 })
	if t.NVCC == "" || t.Packaged == Debian || at < 0 || !holds(h, dir, files...) {
		return ""
	}
	return "bin/" + files[at]
}

func (l looker) cicc(t Toolkit) bool {
	h := l.h
	for _, p := range [][]string{{"nvvm", "bin"}, {"nvvm", "bin", "x64"}, {"nvvm", "bin", "arm64"}} {
		if h.IsFile(h.Join(append(append([]string{t.Root}, p...), h.Exe("cicc"))...)) {
			return true
		}
	}
	return t.Packaged == Debian && h.IsFile(debianRoot+"/bin/cicc")
}

var cuptiName = lazyregexp.New(`(?i)^(?:libcupti\.so\.?|cupti64_)(\d*(?:\.\d+)*)(?:\.dll)?$`)

// cupti finds the CUPTI library: the one with the toolkit's own major in its name, else the highest. CUDA 12 and 13 name it libcupti.so.12
// and .13, CUDA 11 libcupti.so.11.8; each also has one with a year in it. On Windows the name changes with every release:
// cupti64_2026.3.1.dll is 13.4's, cupti64_13.dll is 13.5's (cuda-pathfinder 1.8.6 release notes). The installer puts it in
// extras\CUPTI\lib64, from CUDA 13 on in bin\x64, too; wheels have bin\x86_64.
func (l looker) cupti(t Toolkit) string {
	h := l.h
	dirs := slices.Concat(l.libs(h.Join(t.Root, "extras", "CUPTI")), []string{t.Lib}, l.libs(t.Root))
	if h.OS == buildenv.Windows {
		bin := h.Join(t.Root, "bin")
		dirs = []string{h.Join(t.Root, "extras", "CUPTI", "lib64"), h.Join(bin, "x64"), h.Join(bin, "x86_64"), h.Join(bin, "arm64"), bin}
	}
	for _, d := range dirs {
		if d == "" {
			continue
		}
		best, rank := "", []int(nil)
		for _, name := range h.Names(d) {
			m := cuptiName.FindStringSubmatch(name)
			if m == nil {
				continue
			}
			r := gpu.Numbers(m[1])
			windows := h.OS == buildenv.Windows
			if !windows && len(r) > 0 {
				r = r[:1]
			}
			if len(r) > 0 && (!windows && r[0] == t.Version.Major || windows && r[0] >= 13 && r[0] < 80) { // cupti64_80.dll is 8.0's
				r[0] = 1 << 20
			}
			if p := h.Join(d, name); (best == "" || slices.Compare(r, rank) > 0) && h.IsFile(p) {
				best, rank = p, r
			}
		}
		if best != "" {
			return best
		}
	}
	return ""
}

var cudaVersion = lazyregexp.New(`(?m)^\s*#\s*define\s+CUDA_VERSION\s+(\d{4,6})\b`)

// version reads version.json, version.txt or cuda.h, in that order, and for wheels their metadata. What cannot be read is passed over.
func (l looker) version(t *Toolkit) {
	h := l.h
	roots := []string{t.Root}
	if t.Packaged == Debian {
		roots = []string{"/usr/lib/cuda"}
	}
	for _, root := range roots {
		if l.versionJSON(t, h.Join(root, "version.json")) || l.versionText(t, h.Join(root, "version.txt")) {
			return
		}
	}
	if t.Include != "" {
		path := h.Join(t.Include, "cuda.h")
		if data, err := head(h, path, 1<<18); err == nil {
			if m := cudaVersion.FindSubmatch(data); m != nil {
				n, _ := strconv.Atoi(string(m[1])) // at most six digits
				t.Version, t.Read = gpu.VersionOf(n), path
				t.Label = t.Version.String()
			}
		}
	}
	if t.Packaged == Wheels {
		l.wheels(t)
	}
}

func (l looker) versionJSON(t *Toolkit, path string) bool {
	data, err := l.h.ReadFile(path, buildenv.Note)
	if err != nil {
		return false
	}
	var f struct {
		CUDA struct{ Version string } `json:"cuda"`
	}
	if json.Unmarshal(data, &f) != nil {
		return false
	}
	return t.label(f.CUDA.Version, path)
}

func (l looker) versionText(t *Toolkit, path string) bool {
	data, err := l.h.ReadFile(path, buildenv.Note)
	if err != nil {
		return false
	}
	words := strings.Fields(string(data)) // "CUDA Version 10.2.89"
	if len(words) < 3 || words[0] != "CUDA" || words[1] != "Version" {
		return false
	}
	return t.label(words[2], path)
}

func (t *Toolkit) label(s, path string) bool {
	v, err := gpu.ParseVersion(s)
	if err != nil || v.IsZero() {
		return false
	}
	t.Version, t.Label, t.Read = v, s, path
	return true
}

// wheels reads the versions of pip's packages: they are installed one by one, and an nvcc with another release's cicc does not work
// ("Unsupported .version 9.3; current version is '9.0'").
func (l looker) wheels(t *Toolkit) {
	h := l.h
	versions := map[string]string{}
	for _, name := range h.Names(h.Dir(h.Dir(t.Real))) {
		name, ok := strings.CutSuffix(name, ".dist-info")
		if pkg, v, found := strings.Cut(name, "-"); ok && found {
			versions[pkg] = v
		}
	}
	nvcc, nvvm := versions["nvidia_cuda_nvcc"], versions["nvidia_nvvm"]
	if v, err := gpu.ParseVersion(nvcc); err == nil && nvcc != "" {
		t.Label = nvcc
		if t.Version.IsZero() {
			t.Version = v
		}
		if w, err := gpu.ParseVersion(nvvm); err == nil && nvvm != "" && w != v {
			t.Problem = fmt.Sprintf("its nvcc is %s and its nvvm %s: two releases do not work together", nvcc, nvvm)
		}
	}
}

// head reads the beginning of a file: cuda.h is more than a megabyte long and says its version on the first pages.
func head(h buildenv.Host, path string, n int64) ([]byte, error) {
	f, err := h.Files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// holds reports whether a directory has a file whose name begins so.
func holds(h buildenv.Host, dir string, names ...string) bool {
	return slices.ContainsFunc(h.Names(dir), func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n) })
	})
}

func first(dirs []string, ok func(string) bool) string {
	if i := slices.IndexFunc(dirs, ok); i >= 0 {
		return dirs[i]
	}
	return ""
}
