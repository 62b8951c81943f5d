package bundle

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	_ "embed"
	"io"
	"path"
	"slices"
	"sync"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/regular"
)

//go:embed libraries.toml
var librariesText string

// licence is the permission to ship some libraries, and where it was read.
type licence struct {
	Title     string
	Address   string
	Libraries []string // names as path.Match takes them
}

// table is libraries.toml.
type table struct {
	Licence   []licence
	Names     map[string][]string // whose a library is by its name, as path.Match takes it: nvidia, driver, system
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
	soName       = lazyregexp.New(`^lib(.+?)\.so(\.[\d.]+)?$`)
	dllName      = lazyregexp.New(`(?i)^(.+?)(64)?(_\d+)*\.dll$`)
	majorVersion = lazyregexp.New(`^lib.+\.so\.\d+$`).MatchString // as a loader asks for a library
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

// builtinsName is what NVRTC loads, as its own file has it.
var builtinsName = lazyregexp.New(`libnvrtc-builtins\.so\.\d+\.\d+|nvrtc-builtins64_\d+\.dll`)

// asked lists the libraries of the table whose file's name, or the name of one of whose functions, is in a file: a program that loads a
// library itself looks its functions up by name.
func (t table) asked(file string, windows bool) (found []string, err error) {
	f, err := regular.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info, err := buildinfo.Read(f); err == nil && info.Path == "gpubuild/cmd/gpubuild" { // it knows all of them, and loads none
		return nil, nil
	}
	parts := []io.Reader{io.NewSectionReader(f, 0, fi.Size())}
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
	text, err := io.ReadAll(io.MultiReader(parts...))
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
	slices.Sort(found)
	return found, err
}
