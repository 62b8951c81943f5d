// Package loader finds, before a program is started, which shared libraries its loader will load and from where: what is missing, what
// is a link stub, and what is found only in directories that gpubuild adds.
//
// What a Linux program loads is asked of the system's own loader, glibc's or musl's, by its path (never of the one that the file names):
// it prints the list, and runs nothing of the program. Where it cannot be asked (another processor, a loader of Nix's, a file with an audit
// library, which the loader would run), the answer is Unknown. For Windows programs the search order of LoadLibrary is followed (the
// program's, the system's, the Windows and the current directory, PATH), delay-loaded imports included.
//
// Limits: Libraries that a program opens by itself (dlopen, as cudarc does) are in no file's list; Open answers for names that are known.
// On Windows manifests (side-by-side assemblies), .local redirection, KnownDLLs, AddDllDirectory and a 32-bit program's SysWOW64 are not
// followed, nor what Windows' own DLLs import.
package loader

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// Kind is what is the matter with a library.
type Kind string

// The kinds, from nothing to worst.
const (
	OK      Kind = ""
	Added   Kind = "added"   // a bare start would lack it: it is only in a directory that gpubuild adds
	Unknown Kind = "unknown" // nobody could be asked
	Stub    Kind = "stub"    // a link stub: every call of it fails
	Broken  Kind = "broken"  // the loader will take this file, and stop at it
	Missing Kind = "missing" // the program will not start
)

// Library is one shared library that a program needs, itself or through another.
type Library struct {
	Name    string `json:"name"`             // as it is asked for: libcudart.so.13
	Path    string `json:"path,omitempty"`   // the file that the loader takes; empty when there is none
	By      string `json:"by"`               // the file that asks for it first
	Origin  string `json:"origin,omitempty"` // why the loader looks there: "PATH" (Windows), "added by gpubuild"
	Kind    Kind   `json:"kind,omitempty"`
	Problem string `json:"problem,omitempty"` // Kind in words, with what was seen
	Delayed bool   `json:"delayed,omitempty"` // Windows: loaded at the first call of one of its functions, not at the start
}

// Variable names the variable with further directories for the loader.
func Variable(h buildenv.Host) string {
	if h.OS == buildenv.Windows {
		return "PATH"
	}
	return libraryPath
}

// Resolve lists every library that the loader will load for binary, in its order, when dirs stand at the end of LD_LIBRARY_PATH, or on
// Windows of PATH. A binary that cannot be read or is none of this host is an error; a library that cannot is a Problem.
func Resolve(ctx context.Context, h buildenv.Host, r buildenv.Runner, binary string, dirs []string) ([]Library, error) {
	return resolve(ctx, h, r, binary, nil, dirs)
}

// Open lists what dlopen(3) or LoadLibrary, called by binary, would find for names: for libraries that a program opens by itself. A name
// whose file another name has loaded already is left out.
func Open(ctx context.Context, h buildenv.Host, r buildenv.Runner, binary string, names, dirs []string) ([]Library, error) {
	if len(names) == 0 {
		return nil, nil
	}
	return resolve(ctx, h, r, binary, names, dirs)
}

// resolve returns for names, or where they are nil for what binary needs itself.
func resolve(ctx context.Context, h buildenv.Host, r buildenv.Runner, binary string, names, dirs []string) ([]Library, error) {
	if h.OS == buildenv.Windows {
		return resolveWindows(h, binary, names, dirs)
	}
	o, err := open(h, binary)
	if err != nil || names == nil && o.interp == "" && len(o.needed) == 0 { // linked statically
		return nil, err
	}
	if sh, err := open(h, "/bin/sh"); err == nil && len(o.needed) == 0 { // a static program has no search path of its own
		sh.path, sh.asked = o.path, sh.path
		o = sh
	}
	asked := names
	if names == nil {
		asked = o.needed
	}
	loader, why := systemLoader(h, o)
	if why == "" && o.interp != "" && !h.IsFile(o.interp) {
		first := Library{Name: o.interp, By: o.path, Kind: Missing, Problem: "not found: it is the loader of the program, which does " +
			"not start without it (\"No such file or directory\")"}
		return append([]Library{first}, unknown(o.path, asked, "the loader was not asked: it is not here")...), nil
	}
	if why != "" {
		return unknown(o.path, asked, why), nil
	}
	ask := func(dirs []string) ([]Library, error) {
		libs, err := trace(ctx, h, r, loader, o, names, dirs)
		if errors.Is(err, errSilent) {
			return unknown(o.path, asked, err.Error()), nil
		}
		return libs, err
	}
	libs, err := ask(nil)
	if err != nil || len(dirs) == 0 {
		return libs, err
	}
	full, err := ask(dirs)
	for i, l := range full {
		at := slices.IndexFunc(libs, func(bare Library) bool { return bare.Name == l.Name })
		if l.Kind != OK || !slices.Contains(dirs, h.Dir(l.Path)) {
			continue
		}
		full[i].Origin = originAdded
		if at < 0 || libs[at].Kind == Missing {
			full[i].Kind, full[i].Problem = Added, onlyIn(h, l.Path, libraryPath)
		}
	}
	return full, err
}

func unknown(by string, names []string, why string) (out []Library) {
	for _, n := range names {
		out = append(out, Library{Name: n, By: by, Kind: Unknown, Problem: why})
	}
	return out
}

func onlyIn(h buildenv.Host, file, variable string) string {
	return "only in " + h.Dir(file) + ", which gpubuild adds to " + variable + ": a bare start lacks it"
}

const (
	originAdded = "added by gpubuild"
	libraryPath = "LD_LIBRARY_PATH"
)

// Only these carry the toolkit's own major version in their names: libcufft.so.11 and cusolver64_11.dll belong to CUDA 12,
// curand64_10.dll to all. cudart64_110.dll and nvrtc64_112_0.dll are CUDA 11's; nvrtc64_120_0.dll is CUDA 12's. Source: the wheels and
// installers of 11.8, 12.9 and 13.4.
var (
	elfName = lazyregexp.New(`^lib(?:cudart|cublas|cublaslt|nvrtc|nvrtc-builtins|nvjitlink)\.so\.(\d{1,4})(?:\D|$)`)
	dllName = lazyregexp.New(`^(?:cudart64|cublas64|cublaslt64|nvrtc64|nvrtc-builtins64|nvjitlink)_(\d{1,4})(?:_\d+)?\.dll$`)
)

// CUDAMajor returns the major version of CUDA in a library's name; 0 if it has none.
func CUDAMajor(name string) int {
	for _, form := range []*lazyregexp.Regexp{elfName, dllName} {
		if m := form.FindStringSubmatch(strings.ToLower(name)); m != nil {
			n, _ := strconv.Atoi(m[1]) // at most four digits
			if form == dllName && n >= 100 {
				n /= 10 // 110, 112, 120: major and minor
			}
			return n
		}
	}
	return 0
}

// Mixed says where the libraries of a program come from two CUDA majors, each
// with its own state of the one driver; empty when they do not.
func Mixed(libs []Library) string {
	var first Library
	for _, l := range libs {
		switch major := CUDAMajor(l.Name); {
		case major == 0:
		case first.Name == "":
			first = l
		case CUDAMajor(first.Name) != major:
			return fmt.Sprintf("two CUDA versions in one program: %s (for %s) and %s (for %s)", first.Name, first.By, l.Name, l.By)
		}
	}
	return ""
}

// versionName is how a version of the C library is named in an ELF file: those that a program needs, and all that a C library has.
var versionName = lazyregexp.New(`GLIBC_\d+(\.\d+)+`)

// NeedsGlibc is the newest version of the C library that a file names: the oldest one with which a program or library loads. A script, or
// what needs none, has an empty one.
func NeedsGlibc(file string) (newest string) {
	e, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer e.Close()
	names := e.Section(".dynstr")
	if names == nil || e.SectionByType(elf.SHT_GNU_VERSYM) == nil {
		return ""
	}
	text, _ := names.Data() // an unreadable one names none
	for _, name := range versionName.FindAllString(string(text), -1) {
		if version := strings.TrimPrefix(name, "GLIBC_"); Older(newest, version) {
			newest = version
		}
	}
	return newest
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

// SystemDirs are those in which Linux systems have their libraries.
var SystemDirs = []string{"/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/x86_64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu", "/lib", "/usr/lib", "/usr/local/lib"}

// TooOld says why the C library of the machine called name does not do; empty: it does.
func (g Glibc) TooOld(h buildenv.Host, name string) string {
	if g.Version == "" || h.OS == buildenv.Windows {
		return ""
	}
	has := ""
	for _, dir := range SystemDirs {
		has = cmp.Or(has, NeedsGlibc(h.Join(dir, "libc.so.6")))
	}
	switch {
	case has == "":
		return fmt.Sprintf("%s needs glibc %s or newer, and %s has no glibc", g.By, g.Version, name)
	case Older(has, g.Version):
		return fmt.Sprintf("%s needs glibc %s or newer, and %s has glibc %s", g.By, g.Version, name, has)
	}
	return ""
}
