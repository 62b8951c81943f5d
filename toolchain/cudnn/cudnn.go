// Package cudnn finds cuDNN: in toolkits, in the system's directories, where CUDNN_* variables point, in conda and pip environments.
//
// It decides which installs there are, their version and, where anything says so, the CUDA major that each was built for; it does not
// choose. The <M.m> directories of cuDNN's Windows installer and the cuda12 in an archive's name say what cuDNN was built with, never
// which toolkit the user has: only the major counts. It owns releases.toml.
//
// Limits: a cuDNN that was copied into a toolkit is taken to be for that toolkit's CUDA unless its version says otherwise.
package cudnn

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

//go:embed releases.toml
var releasesText string

// Install is one cuDNN. Paths are absolute; a part that is not there is empty.
type Install struct {
	Root    string `json:"root"` // what CUDNN_LIB, CUDNN_PATH and CUDNN_HOME are to be, despite the first one's name
	Real    string `json:"real"`
	Include string `json:"include,omitempty"` // directory of cudnn_version.h
	Lib     string `json:"lib,omitempty"`     // directory of libcudnn, on Windows of cudnn.lib
	Bin     string `json:"bin,omitempty"`     // Windows: directory of its DLLs
	// its parts lie in directories of several CUDA versions: no root has them where build scripts look
	Split     bool           `json:"split,omitempty"`
	Version   string         `json:"version,omitempty"` // 9.21.1
	Major     int            `json:"major"`             // of cuDNN itself; in libcudnn.so.9
	CUDAMajor int            `json:"cuda_major"`        // the CUDA that it was built for; 0 when nothing says so
	Known     []int          `json:"known,omitempty"`   // CUDA majors that this release was published for
	MinSM     gpu.Capability `json:"min_sm"`            // lowest capability that it lists; zero when not known
	Link      bool           `json:"link"`              // libcudnn.so without a number is there, by which a linker finds it
	System    bool           `json:"system,omitempty"`  // it lies where compilers and linkers look by themselves
	InToolkit string         `json:"toolkit,omitempty"` // the toolkit's root that it lies in
	Origin    string         `json:"origin"`
	Named     bool           `json:"named,omitempty"`   // a variable of the user names it
	Problem   string         `json:"problem,omitempty"` // why it is of no use
}

func (i Install) String() string {
	v := cmp.Or(i.Version, "of unknown version")
	return fmt.Sprintf("cuDNN %s in %s", v, i.Root)
}

// Misfit says why the install is not for a CUDA major; empty: it is, or nobody knows.
func (i Install) Misfit(major int) string {
	switch {
	case major == 0:
	case i.CUDAMajor != 0 && i.CUDAMajor != major:
		return fmt.Sprintf("it is built for CUDA %d, not %d", i.CUDAMajor, major)
	case i.CUDAMajor == 0 && len(i.Known) > 0 && !slices.Contains(i.Known, major):
		return fmt.Sprintf("cuDNN %s was never published for CUDA %d", i.Version, major)
	}
	return ""
}

// Variables lists the variables that name a cuDNN root.
// Source: build scripts of cudarc (CUDNN_LIB, CUDNN_PATH) and cudaforge (CUDNN_HOME, CUDNN_LIB), PyTorch (CUDNN_HOME, CUDNN_PATH).
func Variables() []string { return []string{"CUDNN_LIB", "CUDNN_PATH", "CUDNN_HOME", "CUDNN_ROOT"} }

// Places says where Find looks, in a person's words.
func Places(windows bool) string {
	named := strings.Join(Variables(), ", ") + ", the toolkits, CONDA_PREFIX, VIRTUAL_ENV, pip's packages"
	if windows {
		return named + `, PATH, Program Files\NVIDIA\CUDNN of C: to G: and C:\tools\cuda`
	}
	return named + ", /usr, /usr/local/cudnn and /opt/cudnn"
}

// Find lists every cuDNN of a machine: what the variables name, what lies in the toolkits, in the active environment and in
// the system. A tree with several names is listed once.
func Find(h buildenv.Host, toolkits []string) []Install {
	f := finder{h: h}
	for _, v := range append(Variables(), "CUDNN") { // no build script reads the last one, and people set it
		if dir := strings.Trim(h.Env.Get(v), `"`); dir != "" { // cmd keeps the quotes of set X="V"
			f.root(h.Abs(dir), v, true)
		}
	}
	for _, root := range toolkits {
		f.root(root, "toolkit", false)
		for i := range f.found {
			if h.SamePath(f.found[i].Real, h.Real(h.Clean(root))) {
				f.found[i].InToolkit = root
			}
		}
	}
	if dir := h.Env.Get("CONDA_PREFIX"); dir != "" {
		f.root(dir, "CONDA_PREFIX", false)
		if h.OS == buildenv.Windows {
			f.root(h.Join(dir, "Library"), "CONDA_PREFIX", false)
		}
	}
	if dir := h.Env.Get("VIRTUAL_ENV"); dir != "" {
		for _, site := range h.SitePackages(dir) {
			f.root(h.Join(site, "nvidia", "cudnn"), "VIRTUAL_ENV", false)
		}
	}
	f.wheels()
	if h.OS == buildenv.Windows {
		f.onPath()
		f.installer()
		f.root(`C:\tools\cuda`, `C:\tools\cuda`, false) // where NVIDIA's guide once had people unpack it
	}
	if h.OS == buildenv.Linux {
		f.system()
		f.root("/usr/local/cudnn", "/usr/local/cudnn", false)
		f.root("/opt/cudnn", "/opt/cudnn", false)
	}
	return f.found
}

type finder struct {
	h     buildenv.Host
	found []Install
}

// root looks below one root: include, lib64 and lib, the toolkit's targets, and the cuda directory of old archives.
func (f *finder) root(root, origin string, named bool) {
	h := f.h
	root = h.Clean(root)
	target := "x86_64-linux"
	if h.Arch == "arm64" {
		target = "sbsa-linux"
	}
	roots := []string{root, h.Join(root, "cuda")}
	if named { // a variable may name a directory in it: the libraries, as CUDNN_LIB's name suggests, or the programs, as one on PATH
		roots = append(roots, f.above(root))
	}
	for _, r := range roots {
		if h.OS == buildenv.Windows && f.versions(r, origin, named) {
			return
		}
		i := Install{Root: r, Real: h.Real(r), Origin: origin, Named: named}
		f.look(&i, []string{h.Join(r, "include"), h.Join(r, "targets", target, "include"), h.Join(r, "include", h.Multiarch())},
			[]string{h.Join(r, "lib64"), h.Join(r, "lib"), h.Join(r, "lib", "x64"), h.Join(r, "targets", target, "lib"), h.Join(r, "lib", h.Multiarch())})
		if i.Include != "" || i.Lib != "" {
			f.bin(&i, h.Join(r, "bin", "x64"), h.Join(r, "bin"))
			f.add(i)
			return
		}
	}
	if named {
		f.found = append(f.found, Install{Root: root, Real: h.Real(root), Origin: origin, Named: true,
			Problem: "there is no cuDNN: neither include/cudnn.h nor " + f.library()})
	}
}

// inside is a directory of libraries, programs or headers, which NVIDIA's installer puts below the number of a CUDA: bin\13.0\x64.
var inside = lazyregexp.New(`(?i)^(.+?)[\\/](bin|include|lib\w*)([\\/][\d.]+)?([\\/]x64)?$`)

// above is the root of the tree that such a directory belongs to; any other is its own.
func (f *finder) above(dir string) string {
	if m := inside.FindStringSubmatch(f.h.Clean(dir)); m != nil {
		return m[1]
	}
	return dir
}

// onPath finds the archive whose directories were put on PATH.
func (f *finder) onPath() {
	for _, dir := range f.h.SplitList(f.h.Env.Get("PATH")) {
		mine := func(name string) bool { return strings.HasPrefix(strings.ToLower(name), "cudnn") }
		if root := f.above(dir); root != dir && slices.ContainsFunc(f.h.Names(dir), mine) {
			f.root(root, "PATH", false)
		}
	}
}

// wheels finds what pip installed for the python on PATH and for this user.
func (f *finder) wheels() {
	h := f.h
	var prefixes []string
	for _, name := range []string{"python3", "python"} {
		for _, p := range h.LookPathAll(name) {
			if p = h.Dir(p); h.OS != buildenv.Windows {
				p = h.Dir(p)
			}
			prefixes = append(prefixes, p)
		}
	}
	if h.Home != "" && h.OS != buildenv.Windows {
		prefixes = append(prefixes, h.Join(h.Home, ".local"))
	}
	for _, prefix := range prefixes {
		for _, site := range h.SitePackages(prefix) {
			f.root(h.Join(site, "nvidia", "cudnn"), "pip", false)
		}
	}
}

// installer looks where NVIDIA's installer for Windows puts cuDNN: C:\Program Files\NVIDIA\CUDNN\v9.N, the newest first, and the same on
// the first other drives. Later letters are most often a network's, which is slow to answer where it is gone.
func (f *finder) installer() {
	h := f.h
	bases := []string{cmp.Or(h.Env.Get("ProgramFiles"), `C:\Program Files`)}
	for drive := 'D'; drive <= 'G'; drive++ {
		bases = append(bases, string(drive)+`:\Program Files`)
	}
	for _, base := range bases {
		base = h.Join(base, "NVIDIA", "CUDNN")
		for _, name := range gpu.Versioned(h.Names(base), "v") {
			f.root(h.Join(base, name), "the installer's place", false)
		}
	}
}

// versions looks below a root of NVIDIA's installer, where include, lib and bin each have a directory for every CUDA that cuDNN was built
// with: include\12.9, lib\12.9\x64, bin\12.9 or, from 9.19 on, bin\12.9\x64. It says whether there was one. Source: public reports of the
// layouts of cuDNN 9.2 to 9.25.
func (f *finder) versions(root, origin string, named bool) bool {
	h := f.h
	any := false
	for _, v := range gpu.Versioned(h.Names(h.Join(root, "include")), "") {
		include := h.Join(root, "include", v)
		i := Install{Root: root, Real: h.Real(include), Origin: origin, Named: named, Split: true}
		i.CUDAMajor = gpu.Numbers(v)[0]
		f.look(&i, []string{include}, []string{h.Join(root, "lib", v, "x64"), h.Join(root, "lib", v)})
		if i.Include == "" && i.Lib == "" {
			continue
		}
		f.bin(&i, h.Join(root, "bin", v, "x64"), h.Join(root, "bin", v))
		f.add(i)
		any = true
	}
	return any
}

// library names the file without which there is nothing to link.
func (f *finder) library() string {
	if f.h.OS == buildenv.Windows {
		return `lib\x64\cudnn.lib`
	}
	return "lib/libcudnn.so"
}

// bin notes the first directory that holds cuDNN's DLLs.
func (f *finder) bin(i *Install, dirs ...string) {
	isDLL := func(name string) bool {
		return strings.HasPrefix(strings.ToLower(name), "cudnn64_") && strings.EqualFold(f.h.Ext(name), ".dll")
	}
	if at := slices.IndexFunc(dirs, func(d string) bool { return slices.ContainsFunc(f.h.Names(d), isDLL) }); at >= 0 {
		i.Bin = dirs[at]
	}
}

// system looks where the distributions' packages put cuDNN.
func (f *finder) system() {
	i := Install{Root: "/usr", Real: "/usr", Origin: "system", System: true}
	arch := f.h.Multiarch()
	f.look(&i, []string{"/usr/include/" + arch, "/usr/include"}, []string{"/usr/lib/" + arch, "/usr/lib64", "/usr/lib"})
	if i.Include != "" || i.Lib != "" {
		f.add(i)
	}
}

func (f *finder) add(i Install) {
	for n, o := range f.found {
		// a variable that names an empty place is still the user's choice
		if (o.Problem == "" || o.Include != "") && f.h.SamePath(o.Real, i.Real) {
			f.found[n].Named = o.Named || i.Named
			f.found[n].System = o.System || i.System
			if !strings.Contains(o.Origin, i.Origin) {
				f.found[n].Origin = o.Origin + ", " + i.Origin
			}
			return
		}
	}
	f.cudaMajor(&i)
	i.known()
	if i.Lib == "" {
		i.Problem = "its headers are there, its libraries are not"
	}
	f.found = append(f.found, i)
}

// look fills in what lies in the directories.
func (f *finder) look(i *Install, includes, libs []string) {
	h := f.h
	for _, d := range includes {
		for _, name := range []string{"cudnn_version.h", "cudnn.h"} {
			if data, err := h.ReadFile(h.Join(d, name), buildenv.Note); err == nil && i.Include == "" {
				if v, major := version(data); major != 0 {
					i.Include, i.Version, i.Major = d, v, major
				}
			}
		}
	}
	for _, d := range libs {
		if i.Lib != "" {
			break
		}
		for _, name := range h.Names(d) {
			v, ok := strings.CutPrefix(name, "libcudnn.so")
			if strings.EqualFold(name, "cudnn.lib") { // the import library, by which a linker finds it
				i.Lib, i.Link = d, true
				continue
			}
			if !ok {
				continue
			}
			i.Lib = d
			i.Link = i.Link || v == ""
			if n, err := strconv.Atoi(strings.SplitN(strings.TrimPrefix(v, "."), ".", 2)[0]); err == nil {
				i.Major = max(i.Major, n)
				if i.Version == "" || strings.HasPrefix(strings.TrimPrefix(v, "."), i.Version+".") && i.Include == "" {
					i.Version = strings.TrimPrefix(v, ".")
				}
			}
		}
	}
}

var define = lazyregexp.New(`(?m)^\s*#\s*define\s+CUDNN_(MAJOR|MINOR|PATCHLEVEL)\s+(\d{1,4})\b`)

// version reads the numbers of cudnn_version.h, and of the cudnn.h of releases before 8.
func version(data []byte) (string, int) {
	n := map[string]int{"MAJOR": 0, "MINOR": 0, "PATCHLEVEL": 0}
	for _, m := range define.FindAllSubmatch(data, -1) {
		n[string(m[1])], _ = strconv.Atoi(string(m[2])) // at most four digits
	}
	return fmt.Sprintf("%d.%d.%d", n["MAJOR"], n["MINOR"], n["PATCHLEVEL"]), n["MAJOR"]
}

var (
	archive = lazyregexp.New(`cudnn-[a-z]+-[a-z0-9_]+-[\d.]+_cuda(\d{2})`)
	meta    = lazyregexp.New(`^(?:lib)?cudnn-[\d.]+-cuda_?(\d{2})`)
	pip     = lazyregexp.New(`^nvidia_cudnn_cu(\d{2})-`)
	deb     = lazyregexp.New(`^libcudnn\d+-(?:dev-)?cuda-(\d{2})(?::[a-z0-9]+)?\.list$`)
)

// cudaMajor finds the CUDA major in the name of the archive, in the records of conda, pip and dpkg.
func (f *finder) cudaMajor(i *Install) {
	h := f.h
	if m := archive.FindStringSubmatch(i.Real); m != nil {
		i.CUDAMajor, _ = strconv.Atoi(m[1])
		return
	}
	type place struct {
		dir string
		re  *lazyregexp.Regexp
	}
	places := []place{{h.Join(i.Root, "conda-meta"), meta}, {h.Dir(h.Dir(i.Real)), pip}}
	if i.System {
		places = []place{{"/var/lib/dpkg/info", deb}}
	}
	for _, p := range places {
		majors := map[int]bool{}
		for _, name := range h.Names(p.dir) {
			if m := p.re.FindStringSubmatch(name); m != nil {
				n, _ := strconv.Atoi(m[1])
				majors[n] = true
			}
		}
		if len(majors) == 1 { // two of them overwrite each other's files, and nothing shows which one won
			for n := range majors {
				i.CUDAMajor = n
			}
			return
		}
	}
}

// known adds what is published of the release.
func (i *Install) known() {
	var file struct {
		Release []struct {
			From string `toml:"from"`
			CUDA []int  `toml:"cuda"`
			SM   int    `toml:"sm"`
		} `toml:"release"`
	}
	have := gpu.Numbers(i.Version)
	if have == nil || toml.Unmarshal([]byte(releasesText), &file) != nil {
		return
	}
	for _, r := range file.Release {
		if slices.Compare(gpu.Numbers(r.From), have) <= 0 {
			i.Known, i.MinSM = r.CUDA, gpu.Capability{Major: r.SM / 10, Minor: r.SM % 10}
		}
	}
	if i.CUDAMajor == 0 && len(i.Known) == 1 {
		i.CUDAMajor = i.Known[0]
	}
}
