package cuda

import (
	"cmp"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// RootVariables lists the variables that name a toolkit's root, in the order in which messages name them.
// Source: facts of the tools that read them: cudarc, bindgen_cuda, cudaforge and cuda-bindings build scripts, CMake FindCUDAToolkit, meson, PyTorch.
func RootVariables() []string {
	return []string{"CUDAToolkit_ROOT", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "CUDA_TOOLKIT_PATH"}
}

// debianRoot is where Debian's and Ubuntu's own package keeps nvcc; the rest of it is spread over /usr.
const debianRoot = "/usr/lib/nvidia-cuda-toolkit"

// place is one root to look at.
type place struct {
	root   string
	source Source
	nvcc   string // the nvcc that led there
	loud   bool   // a user named it: say so when nothing is there
}

// Find lists every toolkit of a machine, and every place that a user named although no toolkit is there, with its Problem. A tree with
// several names is listed once, with all its sources. The order is that of the sources: variables, the active environment, PATH, usual
// places; within one sort the newest first.
func Find(h buildenv.Host, extra []Candidate) []Toolkit {
	l := looker{h}
	var found []Toolkit
	for _, p := range l.places(extra) {
		t, ok := l.at(p)
		if !ok && !p.loud {
			continue
		}
		i := slices.IndexFunc(found, func(f Toolkit) bool { return f.Packaged == t.Packaged && h.SamePath(f.Real, t.Real) })
		if i < 0 {
			t.Origin, t.Sources = p.source.Name, nil
			t.add(p.source, "")
			found = append(found, t)
			continue
		}
		found[i].add(p.source, t.Root)
	}
	slices.SortStableFunc(found, func(a, b Toolkit) int {
		if k := int(a.Sources[0].Kind - b.Sources[0].Kind); k != 0 || a.Sources[0].Kind < Given {
			return k
		}
		return b.Version.Compare(a.Version)
	})
	return found
}

// at reads the toolkit at a place, by the rules of the layout that it belongs to.
func (l looker) at(p place) (Toolkit, bool) {
	h := l.h
	if why := Unusable(h, p.nvcc); p.nvcc != "" && why != "" {
		return Toolkit{Root: p.nvcc, Real: p.nvcc, Problem: why}, false
	}
	if real := h.Real(p.nvcc); p.nvcc != "" && !isNVCC(h, real) {
		t := Toolkit{Root: p.nvcc, Real: p.nvcc, NVCC: p.nvcc, Problem: "it only calls another nvcc"}
		if !h.SamePath(real, p.nvcc) {
			t.Problem = "it is a link to " + real + ", which only calls another nvcc"
		}
		return t, false
	}
	if h.OS == buildenv.Linux {
		real := h.Real(h.Clean(p.root))
		if (real == "/usr" || real == "/usr/lib/cuda" || real == debianRoot) && h.IsFile(debianRoot+"/bin/nvcc") {
			return l.debian(), true
		}
		if h.Base(real) == "compilers" && h.IsDir(h.Join(h.Dir(real), "cuda")) {
			p.root = h.Join(h.Dir(real), "cuda") // the HPC SDK: nvcc in compilers/bin, toolkits in cuda/X.Y
			if all := gpu.Versioned(h.Names(p.root), ""); len(all) > 0 {
				p.root = h.Join(p.root, all[0])
			}
		}
	}
	t, ok := l.read(p.root)
	if !ok && p.nvcc != "" {
		t.NVCC = p.nvcc
		t.Problem = "no toolkit lies around it: include/cuda.h is not in " + t.Root
	}
	return t, ok
}

// Unusable says what a variable names that should name a program, where it is none; empty: it can be started, or is a name for PATH.
func Unusable(h buildenv.Host, program string) string {
	words := strings.Fields(program)
	_, err := h.LookPath(program)
	switch {
	case h.IsFile(program), !h.IsAbs(program) && err == nil:
		return ""
	case h.IsDir(program):
		bin := h.Clean(program)
		if h.Base(bin) != "bin" {
			bin = h.Join(bin, "bin")
		}
		return "it is a directory; name the program: " + h.Join(bin, h.Exe("nvcc"))
	case len(words) > 1 && (!h.IsAbs(program) || h.IsFile(words[0])):
		return "it is taken for the name of one program; name " + words[len(words)-1] +
			" alone: a launcher such as ccache is put first on PATH by a link to it that is called nvcc"
	case h.IsAbs(program):
		return "it does not exist"
	}
	return "it is not on PATH"
}

func isNVCC(h buildenv.Host, path string) bool {
	base := h.Base(path)
	if h.OS == buildenv.Windows {
		base = strings.ToLower(base)
	}
	return strings.TrimSuffix(base, ".exe") == "nvcc"
}

// debian reads Debian's own toolkit: programs in /usr/bin (a script that calls the real nvcc), headers in /usr/include.
func (l looker) debian() Toolkit {
	h := l.h
	t := Toolkit{Root: "/usr", Real: "/usr", Packaged: Debian, NVCC: debianRoot + "/bin/nvcc", Bin: debianRoot + "/bin"}
	if h.IsFile("/usr/bin/nvcc") {
		t.NVCC, t.Bin = "/usr/bin/nvcc", "/usr/bin"
	}
	if h.IsFile("/usr/include/cuda.h") {
		t.Include = "/usr/include"
	}
	t.Lib = first([]string{"/usr/lib/" + h.Multiarch(), "/usr/lib64", "/usr/lib"},
		func(d string) bool { return holds(h, d, "libcudart.so") })
	l.version(&t)
	l.parts(&t)
	return t
}

// places lists where to look, the user's words first.
func (l looker) places(extra []Candidate) []place {
	h := l.h
	var out []place
	for _, name := range RootVariables() {
		for v := range strings.SplitSeq(h.Env.Get(name), ";") { // a list of CMake's, as nixpkgs sets it
			if v != "" {
				root := h.Abs(v)
				if misspelt(v) != "" && !h.IsDir(root) {
					root = v
				}
				out = append(out, place{root, Source{Variable, name}, "", true})
			}
		}
	}
	for _, name := range h.Env.Names() {
		if strings.HasPrefix(strings.ToUpper(name), "CUDA_PATH_V") && h.Env.Get(name) != "" {
			out = append(out, place{h.Env.Get(name), Source{Usual, name}, "", true})
		}
	}
	for _, c := range extra {
		out = append(out, place{c.Root, Source{cmp.Or(c.Kind, Given), c.Origin}, "", true})
	}
	if dir := h.Env.Get("CONDA_PREFIX"); dir != "" {
		root := dir
		if h.OS == buildenv.Windows {
			root = h.Join(dir, "Library")
		}
		out = append(out, place{root, Source{Environment, "CONDA_PREFIX"}, "", false})
	}
	if dir := h.Env.Get("VIRTUAL_ENV"); dir != "" {
		for _, site := range h.SitePackages(dir) {
			for _, d := range l.list(h.Join(site, "nvidia"), "cu") {
				if wheelRoot.MatchString(h.Base(d)) {
					out = append(out, place{d, Source{Environment, "VIRTUAL_ENV"}, "", false})
				}
			}
		}
	}
	if v := h.Env.Get("NVCC"); h.IsAbs(v) || Unusable(h, v) != "" && v != "" {
		out = append(out, l.around(v, Source{OnPath, "NVCC"}, true))
	}
	for _, p := range h.LookPathAll("nvcc") {
		out = append(out, l.around(p, Source{OnPath, "PATH"}, true))
	}
	out = append(out, l.windowsOnPath()...)
	out = append(out, l.registered()...)
	return append(out, l.usual()...)
}

// registered takes what NVIDIA's Windows installers write down: it holds where CUDA_PATH is not set yet, as in a shell that was opened
// before the install, and where a user chose another directory.
func (l looker) registered() (out []place) {
	const key = `HKLM\SOFTWARE\NVIDIA Corporation\GPU Computing Toolkit\CUDA`
	if l.h.OS != buildenv.Windows {
		return nil
	}
	names, err := l.h.Registry.Keys(key, 64)
	if err != nil {
		return nil // nothing was installed so, or it may not be read: the usual places follow
	}
	for _, name := range names {
		if dir, err := l.h.Registry.String(key+`\`+name, "InstallDir", 64); err == nil && l.h.IsAbs(dir) {
			out = append(out, place{dir, Source{Usual, "the registry"}, "", false})
		}
	}
	return out
}

// around returns the root that an nvcc belongs to: two levels above it, by its own name when that means the same tree.
func (l looker) around(nvcc string, s Source, loud bool) place {
	h := l.h
	real := h.Real(nvcc)
	root := h.Dir(h.Dir(real))
	if named := h.Dir(h.Dir(nvcc)); h.SamePath(h.Real(named), root) {
		root = named
	}
	if h.SamePath(real, "/usr/bin/nvcc") || h.SamePath(real, debianRoot+"/bin/nvcc") {
		root = "/usr"
	}
	return place{root, s, nvcc, loud}
}

// windowsOnPath finds the Windows toolkit that WSL shows on PATH, to say why it is left alone.
func (l looker) windowsOnPath() (out []place) {
	h := l.h
	if !h.IsWSL() {
		return nil
	}
	for _, dir := range h.SplitList(h.Env.Get("PATH")) {
		// Asking a Windows drive is slow from WSL, so only directories that speak of CUDA are asked.
		if h.Below(dir, "/mnt") && strings.Contains(strings.ToLower(dir), "cuda") && h.IsFile(h.Join(dir, "nvcc.exe")) {
			out = append(out, place{h.Dir(dir), Source{OnPath, "PATH"}, "", true})
		}
	}
	return out
}

// wheelRoot is the one root that the wheels share from CUDA 13 on. Those of 12
// have a directory for each part (cublas, cuda_runtime), and no nvcc.
var wheelRoot = lazyregexp.New(`^cu\d+$`)

// list returns the directories in dir whose names begin so, in their order.
func (l looker) list(dir, prefix string) (out []string) {
	for _, name := range l.h.Names(dir) {
		if p := l.h.Join(dir, name); strings.HasPrefix(name, prefix) && l.h.IsDir(p) {
			out = append(out, p)
		}
	}
	return out
}

// UsualPlaces lists where a toolkit may be without anyone naming it, for messages that list where gpubuild searched. A * is any version.
func UsualPlaces(h buildenv.Host) []string {
	switch h.OS {
	case buildenv.Linux:
		return []string{"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", debianRoot, "/opt/nvidia/hpc_sdk/Linux_*/*/cuda/*"}
	case buildenv.Windows:
		pf := cmp.Or(h.Env.Get("ProgramFiles"), `C:\Program Files`)
		return []string{h.Join(pf, "NVIDIA GPU Computing Toolkit", "CUDA", "v*"), `C:\CUDA`}
	}
	return nil
}

// AdminLink is where an administrator links the toolkit of a machine that has several: most build scripts look there first.
const AdminLink = "/usr/local/cuda"

// usual expands UsualPlaces. The administrator's directory is listed whatever it holds, so that a user reads of it.
func (l looker) usual() (out []place) {
	if l.h.OS == buildenv.Linux && slices.Contains(l.h.Names("/usr/local"), "cuda") {
		out = append(out, place{AdminLink, Source{Given, "a usual place"}, "", true})
	}
	for _, pattern := range UsualPlaces(l.h) {
		for _, dir := range l.h.Dirs(pattern) {
			out = append(out, place{dir, Source{Usual, "a usual place"}, "", false})
		}
	}
	return out
}
