package bundle

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
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
	Licence   []licence
	Opens     map[string][]string // what a library loads by name, as path.Match takes it
	Functions map[string]string
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

// builtinsName is what NVRTC loads, as its own file has it.
var builtinsName = lazyregexp.New(`nvrtc-builtins(\.so\.[\d.]+|64_\d+\.dll)\x00`)

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

// asked lists the libraries of NVIDIA's that a file names, the driver's included, each with the names of files that it holds:
// "libcudart.so.13"; "" is the name of one of its functions, which a program looks up that loads the library itself.
func (t table) asked(file string, windows bool) (map[string][]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found := map[string][]string{}
	if info, err := buildinfo.Read(f); err == nil && info.Path == "gpubuild/cmd/gpubuild" { // it knows all of them, and loads none
		return found, nil
	}
	parts := []io.Reader{io.NewSectionReader(f, 0, 1<<40)}
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
		for _, name := range fileNames(text, windows) {
			if nvidia(nameOf(name)) {
				add(nameOf(name), name)
			}
		}
	}
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
func Older(version, than string) bool {
	return slices.Compare(gpu.Numbers(version), gpu.Numbers(than)) < 0
}

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

// soname is the name by which an ELF library is loaded; empty where it has none.
func soname(file string) string {
	f, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	if names, err := f.DynString(elf.DT_SONAME); err == nil && len(names) > 0 {
		return names[0]
	}
	return ""
}
