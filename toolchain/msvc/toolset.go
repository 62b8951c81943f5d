// Package msvc finds what Visual Studio brings: every instance from 2017 on, every toolset inside each, the Windows SDK and the UCRT, and
// says which environment variables a toolset and an SDK mean. It reads files and the registry only: no cl.exe, vswhere, PowerShell or
// vcvarsall.bat is run.
//
// An instance comes from state.json, which is what the COM server behind vswhere reads, too (ziglang/zig lib/std/zig/WindowsSdk.zig),
// from the registry, from the variables of a developer prompt, or from the usual directories. The files on the disk decide which toolsets
// it has, never the list of packages in state.json: the two can disagree.
//
// The version of a toolset is the name of its directory, and _MSC_VER follows from it. Visual Studio 2015 and older are not found. A
// layout without registry and state.json, such as a copied toolset, is found only through VCToolsInstallDir and its like.
package msvc

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
)

// Toolset is one version of Microsoft's compiler, its linker, headers and libraries.
type Toolset struct {
	Version string `json:"version"` // the directory's name: 14.44.35207
	MSC     int    `json:"msc_ver"` // _MSC_VER: 1944
	Dir     string `json:"dir"`
	Bin     string `json:"bin,omitempty"`  // directory of the cl.exe that runs on this machine and builds for the target
	Host    string `json:"host,omitempty"` // x64, x86 or arm64: what cl.exe itself is
	Target  string `json:"target"`         // what it builds for
	CL      string `json:"cl,omitempty"`
	Default bool   `json:"default,omitempty"` // what the instance's own default.txt names
	STL     STL    `json:"stl"`
	Problem string `json:"problem,omitempty"` // why it is of no use
	// The instance that it belongs to.
	Install string `json:"install"`
	Product string `json:"product"` // as Instance.String says it
	Release string `json:"-"`       // the instance's version
}

// Name is the version as people ask for it: 14.44.
func (t Toolset) Name() string {
	n := gpu.Numbers(t.Version)
	if len(n) < 2 {
		return t.Version
	}
	return strconv.Itoa(n[0]) + "." + strconv.Itoa(n[1])
}

// Is reports whether a version such as 14.44, 14.44.35207 or 14.44.17.14 means the toolset. Of four numbers the last two are the Visual
// Studio that brought it, which the directory's name does not contain.
func (t Toolset) Is(version string) bool {
	want, have := gpu.Numbers(version), gpu.Numbers(t.Version)
	if len(want) == 4 {
		want = want[:2]
	}
	return len(want) >= 2 && len(want) <= len(have) && slices.Equal(want, have[:len(want)])
}

// STL is the oldest CUDA that the toolset's standard library lets through (static assertion STL1002), as its yvals_core.h says.
type STL struct {
	MinCUDA gpu.Version `json:"min_cuda"` // zero: none is demanded
	Text    string      `json:"text,omitempty"`
	Line    int         `json:"line,omitempty"`
	File    string      `json:"file,omitempty"`
}

var stl1002 = lazyregexp.New(`STL1002\b[^"]{0,200}"[^"]{0,200}\bCUDA (\d{1,3}\.\d{1,3})`)

// parseSTL reads yvals_core.h: `_EMIT_STL_ERROR(STL1002, "Unexpected compiler
// version, expected CUDA 12.4 or newer.");`. Of several the highest counts.
func parseSTL(data []byte) STL {
	var s STL
	text := cuda.Uncommented(string(data))
	for _, m := range stl1002.FindAllStringSubmatchIndex(text, -1) {
		if v, err := gpu.ParseVersion(text[m[2]:m[3]]); err == nil && v.Compare(s.MinCUDA) > 0 {
			line, _, _ := strings.Cut(text[strings.LastIndexByte(text[:m[0]], '\n')+1:], "\n")
			s.MinCUDA, s.Text, s.Line = v, strings.TrimSpace(line), 1+strings.Count(text[:m[0]], "\n")
		}
	}
	return s
}

var toolsetName = lazyregexp.New(`^14\.\d{2}\.\d{1,6}$`)

// hosts lists what a cl.exe may be to run on a processor, the best first. Windows on ARM emulates the others.
func hosts(arch string) []string {
	all := []string{"arm64", "x64", "x86"}
	return all[slices.Index(all, Target(arch)):]
}

// Target is Microsoft's name for a processor that Go names arch.
func Target(arch string) string {
	return cmp.Or(map[string]string{"arm64": "arm64", "386": "x86"}[arch], "x64")
}

// toolsets lists the toolsets of an instance, the newest first.
func (f *finder) toolsets(i Instance) []Toolset {
	h := f.h
	dir := h.Join(i.Path, "VC", "Tools", "MSVC")
	standard := ""
	if data, err := h.ReadFile(h.Join(i.Path, "VC", "Auxiliary", "Build", "Microsoft.VCToolsVersion.default.txt"), buildenv.Note); err == nil {
		standard = strings.TrimSpace(strings.TrimPrefix(string(data), "\xef\xbb\xbf"))
	}
	var out []Toolset
	for _, name := range h.Names(dir) {
		if !toolsetName.MatchString(name) {
			continue
		}
		t := Toolset{Version: name, MSC: 1900 + gpu.Numbers(name)[1], Dir: h.Join(dir, name), Target: f.target, Default: name == standard,
			Install: i.Path, Product: i.String(), Release: i.Version}
		f.complete(&t)
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b Toolset) int { return slices.Compare(gpu.Numbers(b.Version), gpu.Numbers(a.Version)) })
	return out
}

// empty reports whether a program is a file without a byte, as a broken installation or an alias of the Microsoft Store leaves one.
func empty(h buildenv.Host, path string) bool {
	fi, err := h.Files.Stat(path)
	return err == nil && fi.Size() == 0
}

// complete finds a toolset's parts. The names of the directories differ in letter case: Hostx64 and HostX64.
func (f *finder) complete(t *Toolset) {
	h := f.h
	for _, host := range hosts(h.Arch) {
		bin := h.Join(f.named(h.Join(t.Dir, "bin"), "Host"+host), t.Target)
		if cl := h.Join(bin, "cl.exe"); h.IsFile(cl) && !empty(h, cl) {
			t.Bin, t.Host, t.CL = bin, host, h.Join(bin, "cl.exe")
			break
		}
	}
	header := h.Join(t.Dir, "include", "yvals_core.h")
	data, err := h.ReadFile(header, buildenv.Note)
	if errors.Is(err, fs.ErrNotExist) && h.IsFile(h.Join(t.Dir, "include", "yvals.h")) {
		data, err = nil, nil // Visual Studio 2017 before 15.5 has none, and demands no CUDA
	}
	switch {
	case t.CL == "":
		t.Problem = "it has no cl.exe that runs here and builds for " + t.Target
	case !h.IsFile(h.Join(t.Bin, "link.exe")): // nvcc, rustc and the cc crate take linker and librarian from cl.exe's directory
		t.Problem = "it has no " + h.Join(t.Bin, "link.exe")
	case !h.IsFile(h.Join(t.Bin, "lib.exe")):
		t.Problem = "it has no " + h.Join(t.Bin, "lib.exe")
	case err != nil:
		t.Problem = "the headers of its standard library cannot be read: " + header
	case !h.IsDir(h.Join(t.Dir, "lib", t.Target)):
		t.Problem = "it has no libraries for " + t.Target
	}
	if t.STL = parseSTL(data); data != nil {
		t.STL.File = header
	}
}

// named returns the directory below dir as the disk spells it.
func (f *finder) named(dir, name string) string {
	for _, spelled := range f.h.Names(dir) {
		if strings.EqualFold(spelled, name) {
			return f.h.Join(dir, spelled)
		}
	}
	return f.h.Join(dir, name)
}

// Found is everything of Microsoft's on a machine.
type Found struct {
	Instances []Instance `json:"instances"`
	Toolsets  []Toolset  `json:"-"`        // of all instances: those of use first, the newest first
	SDKs      []Kit      `json:"sdks"`     // the best first, those with a Problem last
	UCRTs     []Kit      `json:"ucrts"`    // the same for the C run-time library, which may be of another version
	Problems  []string   `json:"problems"` // what could not be read
	Places    []string   `json:"-"`        // where instances were looked for
}

// Find lists every Visual Studio, toolset and SDK of a Windows machine, for building for a processor as Go names it.
func Find(h buildenv.Host, arch string) Found {
	f := finder{h: h, target: Target(arch)}
	f.states()
	f.registered()
	f.prompt()
	f.usual()
	slices.SortStableFunc(f.instances, func(a, b Instance) int { return slices.Compare(gpu.Numbers(b.Version), gpu.Numbers(a.Version)) })
	var all []Toolset
	for n := range f.instances {
		f.instances[n].Toolsets = f.toolsets(f.instances[n])
		all = append(all, f.instances[n].Toolsets...)
	}
	f.alone()
	slices.SortStableFunc(all, func(a, b Toolset) int {
		bad := map[bool]int{true: 1}
		return cmp.Or(bad[a.Problem != ""]-bad[b.Problem != ""], slices.Compare(gpu.Numbers(b.Version), gpu.Numbers(a.Version)))
	})
	out := Found{Instances: f.instances, Toolsets: all}
	out.SDKs, out.UCRTs = f.kits()
	out.Problems = f.problems
	for _, pf := range programFiles(h) {
		out.Places = append(out.Places, h.Join(pf, "Microsoft Visual Studio"))
	}
	return out
}
