package bundle

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	_ "embed"
	"io"
	"os"
	"path"
	"slices"
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
	Licence   []licence
	Opens     map[string][]string // what a library loads by name, as path.Match takes it
	Functions map[string][]string // of a library that users load by its name: those that each user looks up
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

// majorVersion reports whether a name has one number behind it, as a loader asks for a library.
func majorVersion(file string) bool {
	m := soName.FindStringSubmatch(file)
	return m != nil && strings.Count(m[2], ".") == 1
}

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

// driver says whether a library belongs to the driver or the graphics of the machine, which must fit its kernel module and are never
// shipped. EGL_nvidia and its like are what the vendor-neutral libraries of OpenGL and VDPAU load.
var driver = lazyregexp.New(`^(cuda|nvcuda|nvidia-.*|.+_nvidia|nvml|cudadebugger|nvcuvid|nvoptix|GL|GLX|OpenGL|EGL|GLdispatch|GLESv1_CM` +
	`|GLESv2|vulkan)$`).MatchString

// builtinsName is what NVRTC loads, as its own file has it.
var builtinsName = lazyregexp.New(`libnvrtc-builtins\.so\.\d+\.\d+|nvrtc-builtins64_\d+\.dll`)

// systemLibrary are the parts of the C library and its loader, which fit nothing but each other, and what compilers add: every system has
// them, and a copy would need the C library of this machine.
var systemLibrary = lazyregexp.New(
	`^(ld-linux.*|ld-musl.*|linux-vdso|lib(c|m|dl|pthread|rt|resolv|util|anl|nsl|nss_\w+|mvec|` +
		`thread_db|c\.musl-\w+|gcc_s|stdc\+\+))\.so`).MatchString

// system says whether a library is part of the system that every machine has.
func system(h buildenv.Host, name, file string) bool {
	if h.OS == buildenv.Windows {
		return file == "" && strings.HasPrefix(strings.ToLower(name), "api-ms-") || h.Below(file, h.Env.Get("SystemRoot"))
	}
	return systemLibrary(name)
}

// asked lists the libraries of the table whose file's name, or the name of one of whose functions, is in a file: a program that loads a
// library itself looks its functions up by name.
func (t table) asked(file string, windows bool) (found []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := buildinfo.Read(f); err == nil && info.Path == "gpubuild/cmd/gpubuild" { // it knows all of them, and loads none
		return nil, nil
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
	for _, part := range parts {
		text, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		for name, functions := range t.Functions {
			fileName := "lib" + name + ".so"
			if windows {
				fileName = name + "64_"
			}
			if bytes.Contains(text, []byte(fileName)) || slices.ContainsFunc(functions, func(function string) bool {
				return !defined[function] && bytes.Contains(text, []byte(function))
			}) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
