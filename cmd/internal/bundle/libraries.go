package bundle

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"debug/pe"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

//go:embed libraries.toml
var librariesText string

// licence is the permission to ship some libraries, and where it was read.
type licence struct {
	Title     string
	Read      string
	Address   string
	Libraries []string // names as path.Match takes them
}

// table is libraries.toml.
type table struct {
	Licence []licence
	Opens   []struct {
		Library string
		Names   []string
		Read    string
	}
	Parts []struct {
		Of     []string // file names as path.Match takes them
		Needed []string
		Read   string
	}
	Functions map[string]string
	Static    map[string]string
	Packages  map[string]string
}

// known is the table; a mistake in it is one in this program.
var known = sync.OnceValue(func() table {
	var t table
	if _, err := toml.Decode(librariesText, &t); err != nil {
		panic("libraries.toml: " + err.Error())
	}
	return t
})

// permission is the licence that lets a library be shipped.
func (t table) permission(name string) (licence, bool) {
	for _, l := range t.Licence {
		if matches(l.Libraries, name) {
			return l, true
		}
	}
	return licence{}, false
}

// opens are the libraries that another one loads by name.
func (t table) opens(name string) []string {
	for _, o := range t.Opens {
		if o.Library == name {
			return o.Names
		}
	}
	return nil
}

// parts are those of a library's file without which it does not work.
func (t table) parts(file string) []string {
	for _, p := range t.Parts {
		if matches(p.Of, file) {
			return p.Needed
		}
	}
	return nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, err := path.Match(p, name); return err == nil && ok })
}

var (
	soName  = lazyregexp.New(`^lib(.+?)\.so(\.[\d.]+)?$`)
	dllName = lazyregexp.New(`(?i)^(.+?)(64)?(_\d+)*\.dll$`)
)

// nameOf is a library's name without its prefix, version and extension: libcublasLt.so.13 and cublasLt64_13.dll are cublasLt.
func nameOf(file string) string {
	for _, form := range []*lazyregexp.Regexp{soName, dllName} {
		if m := form.FindStringSubmatch(file); m != nil {
			return m[1]
		}
	}
	return file
}

// nvidia says whether a library is one of NVIDIA's, by its name.
var nvidia = lazyregexp.New(`^(cu(da|blas|dla|dnn|fft|rand|sparse|solver|pti|file|tensor|dss|inj|statevec|quantum|density|objclient|vs)` +
	`|accinj|nv[A-Za-z_-]|npp|nccl|sanitizer-|TreeLauncher|InterceptorInjection|checkpoint$|pcsamplingutil$)`).MatchString

// inToolkit says whether a file is in an installation of NVIDIA's: a toolkit of its installers' or gpubuild's, or pip's packages.
func inToolkit(h buildenv.Host, file string) bool {
	for dir, up := h.Dir(file), 0; up < 8 && dir != h.Dir(dir); dir, up = h.Dir(dir), up+1 {
		if text, err := h.ReadFile(h.Join(dir, "version.json"), 1<<20); err == nil && bytes.Contains(text, []byte("CUDA SDK")) {
			return true
		}
		if h.IsFile(h.Join(dir, "gpubuild-toolkit.json")) || h.Base(dir) == "nvidia" && strings.HasSuffix(h.Dir(dir), "-packages") {
			return true
		}
	}
	return false
}

// driver says whether a library belongs to the driver, which is never shipped: it must be that of the machine's kernel module. EGL_nvidia
// and its like are what the vendor-neutral libraries of OpenGL and VDPAU load.
var driver = lazyregexp.New(`^(cuda|nvcuda|nvidia-.*|.+_nvidia|nvml|cudadebugger|nvcuvid|nvoptix)$`).MatchString

// graphics says whether a library is a vendor-neutral part of OpenGL, EGL or Vulkan, which must be the one that the driver there fits.
var graphics = lazyregexp.New(`^(GL|GLX|OpenGL|EGL|GLdispatch|GLESv1_CM|GLESv2|vulkan)$`).MatchString

// What files hold; nvcc, ptxas, cicc and their like of CUDA 13.4 have a copyright line with this form of a year. Each pattern starts with
// plain text, without which a search through a large library takes seconds.
var (
	nvidiaProgram = lazyregexp.New(`%s NVIDIA Corporation`)
	driverName    = map[bool]*lazyregexp.Regexp{false: lazyregexp.New(`libcuda\.so`), true: lazyregexp.New(`nvcuda\.dll`)} // on Windows?
	builtinsName  = lazyregexp.New(`nvrtc-builtins(\.so\.[\d.]+|64_\d+\.dll)\x00`)
)

// find is the first match of a pattern in a file of any size; a match has at most 64 bytes.
func find(file string, pattern *lazyregexp.Regexp) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf, kept := make([]byte, 1<<20), 0
	for {
		n, err := io.ReadFull(f, buf[kept:])
		text := buf[:kept+n]
		if m := pattern.FindIndex(text); m != nil {
			return string(text[m[0]:m[1]]), nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		kept = copy(buf, text[len(text)-64:])
	}
}

// isGpubuild reports whether a program is a gpubuild, which holds the names and texts by which others are known.
func isGpubuild(file string) bool {
	info, err := buildinfo.ReadFile(file)
	return err == nil && info.Path == "gpubuild/cmd/gpubuild"
}

// isLibrary says whether a file is a shared library and no program: one without a mark as a program (PIE) and without the loader's name, or
// with a name of its own, as the C library, which prints its version if it is started.
func isLibrary(file string) bool {
	if p, err := pe.Open(file); err == nil {
		defer p.Close()
		return p.Characteristics&pe.IMAGE_FILE_DLL != 0
	}
	e, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer e.Close()
	flags, _ := e.DynValue(elf.DT_FLAGS_1) // none: it has no sections
	pie := slices.ContainsFunc(flags, func(f uint64) bool { return f&uint64(elf.DF_1_PIE) != 0 })
	started := slices.ContainsFunc(e.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	return e.Type == elf.ET_DYN && !pie && (!started || soname(file) != "")
}

// systemLibrary are the parts of the C library and its loader, which every system has and which fit nothing but each other.
var systemLibrary = lazyregexp.New(
	`^(ld-linux.*|ld-musl.*|linux-vdso|lib(c|m|dl|pthread|rt|resolv|util|anl|nsl|nss_\w+|mvec|thread_db|c\.musl-\w+))\.so`).MatchString

// system says whether a library is part of the system that every machine has.
func system(h buildenv.Host, name, file string) bool {
	if h.OS == buildenv.Windows {
		return file == "" && strings.HasPrefix(strings.ToLower(name), "api-ms-") || h.Below(file, h.Env.Get("SystemRoot"))
	}
	return systemLibrary(name)
}

// asked lists the libraries of NVIDIA's that a file names, each with the names of files that it holds: "libcudart.so.13"; "" is the name of
// one of its functions, which a program looks up that loads the library itself.
func (t table) asked(file string, windows bool) (map[string][]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	parts := []io.Reader{f}
	defined := map[string]bool{}
	if e, err := elf.NewFile(f); err == nil { // no name in debug information or a symbol table is looked up
		parts = nil
		for _, p := range e.Progs {
			if p.Type == elf.PT_LOAD {
				parts = append(parts, p.Open())
			}
		}
		symbols, _ := e.Symbols() // none: they were stripped
		for _, s := range symbols {
			defined[s.Name] = defined[s.Name] || s.Section != elf.SHN_UNDEF // linked statically
		}
	}
	found, static := map[string][]string{}, map[string]bool{}
	add := func(library, file string) {
		if !slices.Contains(found[library], file) {
			found[library] = append(found[library], file)
		}
	}
	for _, part := range parts {
		text, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		for function, library := range t.Functions {
			if !defined[function] && bytes.Contains(text, []byte(function)) {
				add(library, "")
			}
		}
		for library, mark := range t.Static {
			static[library] = static[library] || bytes.Contains(text, []byte(mark))
		}
		for _, name := range fileNames(text, windows) {
			if library := nameOf(name); nvidia(library) && !driver(library) {
				add(library, name)
			}
		}
	}
	maps.DeleteFunc(found, func(library string, names []string) bool {
		return static[library] && len(names) == 1 && names[0] == ""
	})
	return found, nil
}

var (
	nameEnd = lazyregexp.New(`[\w+-]+$`)
	number  = lazyregexp.New(`^(\.\d+)*`)
)

// fileNames are the names of shared libraries in a text. The texts of a Rust program follow each other without a zero byte.
func fileNames(text []byte, windows bool) (out []string) {
	ending := ".so"
	if windows {
		ending = ".dll"
	}
	for {
		before, after, found := bytes.Cut(text, []byte(ending))
		if !found {
			return out
		}
		before = before[max(0, len(before)-256):]
		name, version := nameEnd.FindString(string(before)), ""
		if !windows {
			name = name[max(0, strings.LastIndex(name, "lib")):]
			version = number.FindString(string(after[:min(32, len(after))]))
		}
		if name != "" {
			out = append(out, name+ending+version)
		}
		text = after
	}
}

func numbers(version string) (out []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part) // GLIBC_PRIVATE is before all
		out = append(out, n)
	}
	return out
}

// newest is the newest version of the C library in a list.
func newest(list []string) (newest string) {
	for _, name := range list {
		if version, is := strings.CutPrefix(name, "GLIBC_"); is && Older(newest, version) {
			newest = version
		}
	}
	return newest
}

// Needs is the newest version of the C library of which a file uses functions: the oldest one with which it loads. A script, or what needs
// none, has an empty one.
func Needs(file string) string {
	e, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer e.Close()
	if e.SectionByType(elf.SHT_GNU_VERSYM) == nil {
		return ""
	}
	needs, err := e.DynamicVersionNeeds()
	if err != nil {
		return ""
	}
	var names []string
	for _, library := range needs {
		for _, v := range library.Needs {
			names = append(names, v.Dep)
		}
	}
	return newest(names)
}

// provides is the version of a C library; empty: it is none.
func provides(file string) string {
	e, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer e.Close()
	versions, err := e.DynamicVersions()
	if err != nil {
		return ""
	}
	var names []string
	for _, v := range versions {
		names = append(names, v.Name)
	}
	return newest(names)
}

// Older reports whether a version of the C library comes before another.
func Older(version, than string) bool { return slices.Compare(numbers(version), numbers(than)) < 0 }

// Glibc is the oldest C library that every file takes, and the file that takes none older.
type Glibc struct {
	Version string `json:"version,omitempty"`
	By      string `json:"by,omitempty"`
}

// TooOld says why the C library of the machine called name does not do; empty: it does.
func (g Glibc) TooOld(h buildenv.Host, name string) string {
	if g.Version == "" || h.OS == buildenv.Windows {
		return ""
	}
	has := ""
	for _, dir := range []string{"/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/x86_64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu", "/lib", "/usr/lib"} {
		has = cmp.Or(has, provides(h.Join(dir, "libc.so.6")))
	}
	switch {
	case has == "":
		return fmt.Sprintf("%s needs glibc %s or newer, and %s has no glibc", g.By, g.Version, name)
	case Older(has, g.Version):
		return fmt.Sprintf("%s needs glibc %s or newer, and %s has glibc %s", g.By, g.Version, name, has)
	}
	return ""
}

// dynamic are the texts of a tag in an ELF file's dynamic section.
func dynamic(file string, tag elf.DynTag) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.DynString(tag)
}

// soname is the name by which an ELF library is loaded; empty where it has none.
func soname(file string) string {
	if names, err := dynamic(file, elf.DT_SONAME); err == nil && len(names) > 0 {
		return names[0]
	}
	return ""
}
