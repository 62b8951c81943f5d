package toolchain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gpubuild/buildenv"
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

// VisualStudio is a toolset of Microsoft's with the SDK and the C run-time library that go with it.
type VisualStudio struct {
	Toolset   *msvc.Toolset
	SDK, UCRT msvc.Kit
}

// toolsVersion is the variable that fixes a toolset in every instance, also for rustc's C dependencies (cc-rs).
const toolsVersion = "VCToolsVersion"

// Compilers lists the toolsets of a Windows machine as host compilers, with the variables by which the user named one. A variable that
// names none is listed with its problem. CC and CXX are left out: there they speak of C sources only.
func Compilers(h buildenv.Host, found msvc.Found) []hostcc.Compiler {
	first, _ := h.LookPath("cl") // what nvcc takes by itself; none is no error
	out := make([]hostcc.Compiler, 0, len(found.Toolsets))
	for _, t := range found.Toolsets {
		c := hostcc.Compiler{Path: t.CL, CXX: t.CL, Real: h.Real(t.CL), Kind: hostcc.MSVC, Version: t.Version, Major: t.MSC,
			Origin: t.Product, Problem: t.Problem, MinCUDA: t.STL.MinCUDA}
		if t.CL == "" {
			c.Path = t.Dir
		}
		if !c.MinCUDA.IsZero() {
			c.MinCUDAText = fmt.Sprintf("`%s` in %s, line %d", t.STL.Text, t.STL.File, t.STL.Line)
		}
		c.Default = t.CL != "" && first != "" && h.SamePath(h.Real(first), c.Real)
		out = append(out, c)
	}
	for _, i := range found.Instances {
		if len(i.Toolsets) == 0 {
			out = append(out, hostcc.Compiler{
				Path: i.Path, Real: i.Path, Kind: hostcc.MSVC, Origin: i.String(), Problem: "it has no C++ toolset",
			})
		}
	}
	for _, word := range append(hostcc.FlagVariables(), "NVCC_CCBIN", "CUDAHOSTCXX", "HOST_COMPILER", toolsVersion) {
		v := h.Env.Get(word)
		if slices.Contains(hostcc.FlagVariables(), word) {
			v, _ = hostcc.FromFlags(v)
		}
		if v = unquoted(v); v == "" || plainCL(v) {
			continue
		}
		known := false
		for i := range out {
			if namedMSVC(out[i], v) {
				known = true
				out[i].Word = cmp.Or(out[i].Word, word)
			}
		}
		if !known {
			out = append(out, hostcc.Compiler{Path: v, Real: v, Kind: hostcc.MSVC, Origin: word, Word: word,
				Problem: "it is no toolset that was found in a Visual Studio"})
		}
	}
	return out
}

// plainCL reports whether a compiler's name is what PATH answers.
func plainCL(name string) bool {
	return strings.EqualFold(name, "cl") || strings.EqualFold(name, "cl.exe")
}

// unquoted takes off what `set NVCC_CCBIN="C:\Program Files\…"` leaves in a variable.
func unquoted(v string) string { return strings.Trim(strings.TrimSpace(v), `"'`) }

// namedMSVC reports whether a name means a compiler: a version such as 14.44, the path of cl.exe, or any directory from its own up to the
// Visual Studio's. A path in the same toolset that leads to a cl.exe for another processor means the toolset, too.
func namedMSVC(c hostcc.Compiler, name string) bool {
	if name = unquoted(name); !strings.ContainsAny(name, `/\`) {
		return msvc.Toolset{Version: c.Version}.Is(name)
	}
	w := buildenv.Host{OS: buildenv.Windows}
	if c.CXX == "" || !w.IsAbs(name) {
		return false
	}
	toolset := w.Join(c.CXX, "..", "..", "..", "..") // …\14.44.35207\bin\Hostx64\x64\cl.exe
	return w.Below(name, toolset) || w.Below(toolset, name) || w.SamePath(name, c.Real) || w.SamePath(name, w.Dir(c.Real))
}

// readsAs reports whether nvcc takes a name for the cl.exe that is first on PATH. It compares texts: a separator at the end, a second one,
// "..", a quote or a link make it another compiler, for which it runs vcvars64.bat, and in the options of its variables it keeps the
// quotes, so that a path with a blank cannot stand there. Letter case, either separator and a missing .exe do no harm. Seen with nvcc.exe
// 13.4.92 under Wine.
func readsAs(c hostcc.Compiler, name string) bool {
	text := func(s string) string {
		return strings.TrimSuffix(strings.ToLower(strings.ReplaceAll(s, `\`, "/")), ".exe")
	}
	w := buildenv.Host{OS: buildenv.Windows}
	return plainCL(name) || text(name) == text(c.CXX) || text(name) == text(w.Dir(c.CXX))
}

// visualStudio finds the toolset that a compiler is, and the best SDK; why is not empty when there is no complete one.
func visualStudio(f Facts, c *hostcc.Compiler) (v *VisualStudio, why string) {
	if f.MSVC == nil || c == nil || c.Kind != hostcc.MSVC {
		return nil, ""
	}
	i := slices.IndexFunc(f.MSVC.Toolsets, func(t msvc.Toolset) bool { return t.CL == c.CXX })
	if i < 0 {
		return nil, ""
	}
	lacking := func(what string, kits []msvc.Kit) string {
		if len(kits) == 0 {
			return "no " + what + " was found"
		}
		return fmt.Sprintf("%s %s is not complete: %s", what, kits[0].Version, kits[0].Problem)
	}
	sdk, ucrt := msvc.Best(f.MSVC.SDKs), msvc.Best(f.MSVC.UCRTs)
	switch {
	case sdk == nil:
		return nil, lacking("Windows SDK", f.MSVC.SDKs)
	case ucrt == nil:
		return nil, lacking("Universal CRT", f.MSVC.UCRTs)
	}
	return &VisualStudio{&f.MSVC.Toolsets[i], *sdk, *ucrt}, ""
}

const vsFix = buildenv.InstallMSVC

// SDKFix is what to do where there is no complete Windows SDK.
func SDKFix(f Facts) string {
	if f.MSVC == nil || len(f.MSVC.Instances) == 0 {
		return vsFix // whose C++ brings one
	}
	return `install a Windows SDK: Visual Studio Installer, Modify, Individual components, "Windows 11 SDK"`
}

// CompilerFix is what to do where there is no compiler at all.
func CompilerFix(f Facts) string {
	if f.MSVC != nil {
		for _, i := range f.MSVC.Instances {
			if len(i.Toolsets) == 0 && i.Major() >= 15 { // winget changes nothing of what is installed
				return fmt.Sprintf("add C++ to %s: Visual Studio Installer, Modify, Workloads, \"Desktop development with C++\"", i)
			}
		}
		for _, t := range f.MSVC.Toolsets {
			if t.CL == "" && t.Target == "arm64" {
				return fmt.Sprintf(
					"add the compiler for ARM64 to %s: Visual Studio Installer, Modify, Individual components, \"MSVC … C++ "+
						"ARM64/ARM64EC build tools\"",
					t.Product,
				)
			}
		}
		if at := slices.IndexFunc(f.MSVC.Toolsets, func(t msvc.Toolset) bool { return t.Problem != "" }); at >= 0 {
			return fmt.Sprintf("repair %s: Visual Studio Installer, More, Repair", f.MSVC.Toolsets[at].Product)
		}
		return vsFix
	}
	return cmp.Or(f.GXX, "install g++")
}

func compilerPlaces(f Facts) []string {
	if f.MSVC != nil && len(f.MSVC.Instances) == 0 {
		return f.MSVC.Places
	}
	return nil
}

// lines are the toolsets that Visual Studio offers side by side, the newest first, and the oldest CUDA that their library takes. They
// serve to suggest; what is installed is asked itself. Sources: public reports over yvals_core.h (14.51: 13.2; 14.40 to 14.44: 12.4;
// 14.30 to 14.39: 11.6).
var lines = [...]struct {
	name string
	msc  int
	min  gpu.Version
	from int // the oldest Visual Studio that offers it
}{
	{"14.51", 1951, gpu.Version{Major: 13, Minor: 2}, 18},
	{"14.44", 1944, gpu.Version{Major: 12, Minor: 4}, 17},
	{"14.39", 1939, gpu.Version{Major: 11, Minor: 6}, 17},
	{"14.29", 1929, gpu.Version{Major: 11}, 16},
}

// toolsetFix words the smallest change that makes a pair: the toolset that the
// toolkit takes, or the toolkit that an installed toolset takes.
func toolsetFix(f Facts, gate *cuda.Toolkit, lost []Loser) string {
	if gate == nil || !anyUsable(f.Compilers) {
		return CompilerFix(f)
	}
	if slices.ContainsFunc(lost, func(l Loser) bool { return strings.HasPrefix(l.Why, notAsked) }) {
		var fits []string
		for _, c := range f.Compilers {
			if c.Kind == hostcc.MSVC && unfit(c, Wish{}, gate) == "" {
				fits = append(fits, c.Version)
			}
		}
		if len(fits) > 0 {
			return "ask for a toolset that is here and fits: " + strings.Join(fits, ", ")
		}
	}
	fix := ""
	for _, l := range lines {
		if ok, _ := gate.Bounds.Fits(hostcc.MSVC, l.msc); !ok || gate.Version.Compare(l.min) < 0 {
			continue
		}
		fix = vsFix
		if slices.ContainsFunc(f.MSVC.Instances, func(i msvc.Instance) bool { return i.Major() >= l.from }) {
			fix = fmt.Sprintf(
				"install the %s toolset, which CUDA %s takes (Visual Studio Installer, Modify, Individual components: MSVC … C++ "+
					"build tools (v%s…)); it can be installed next to the others",
				l.name, gate.Version, l.name,
			)
			break
		}
	}
	// For a toolkit that is not installed only the library's own bound is known; its header's bound is known once it is here.
	best := gpu.Version{}
	for _, c := range f.Compilers {
		if c.Problem == "" && c.Kind == hostcc.MSVC && gate.Version.Compare(c.MinCUDA) < 0 &&
			(best.IsZero() || c.MinCUDA.Compare(best) < 0) {
			best = c.MinCUDA
		}
	}
	if best.IsZero() {
		return fix
	}
	other := fmt.Sprintf("use CUDA %s or newer (%s)", best, fetchHint)
	if fix == "" {
		return other
	}
	return fix + "; or " + other
}

// visualStudio makes the developer prompt that the set means. Where one is open for the very toolset and SDK, everything stays.
func (e *writer) visualStudio(n Needs) {
	h, v := e.h, e.s.MSVC
	s := v.Toolset.Settings(h, v.SDK, v.UCRT)
	e.generator(n, s)
	e.shell(n)
	if e.prompted(s) {
		return
	}
	name := fmt.Sprintf("MSVC %s of %s, Windows SDK %s", v.Toolset.Version, v.Toolset.Product, v.SDK.Version)
	length := len(h.Env.Get("PATH"))
	for _, d := range slices.Backward(s.Path) {
		e.d.Add(buildenv.Prepend, "PATH", d, name)
	}
	for _, d := range s.Last {
		if length += len(d) + 1; length < most {
			e.d.Add(buildenv.Append, "PATH", d, "of "+v.Toolset.Product)
		}
	}
	e.list("INCLUDE", s.Include, name)
	e.list("LIB", s.Lib, name)
	for _, one := range s.Scalars {
		old, set := h.Env.Lookup(one.Name)
		reason := name
		if one.Name == "VSCMD_VER" {
			reason += "; with it nvcc runs no vcvars64.bat"
		}
		switch {
		case set && strings.EqualFold(old, one.Value):
			continue
		case set && old != "":
			reason = fmt.Sprintf("was %s; %s", old, reason)
		}
		e.d.Add(buildenv.Set, one.Name, one.Value, reason)
	}
}

// shell sets ComSpec where a service or a scrubbed environment has neither it nor cmd.exe on PATH: nvcc starts everything by it, and ends
// with 255 and no word without (seen with 13.4.92 under Wine).
func (e *writer) shell(n Needs) {
	h := e.h
	cmd := h.Join(cmp.Or(h.Env.Get("SystemRoot"), `C:\Windows`), "System32", "cmd.exe")
	if n.NVCC && h.Env.Get("ComSpec") == "" && len(h.LookPathAll("cmd")) == 0 && h.IsFile(cmd) {
		e.d.Add(buildenv.Set, "ComSpec", cmd, "nvcc starts cl.exe through it, and cmd is not on PATH")
	}
}

// prompted reports whether the environment is that of a developer prompt for the chosen toolset and SDK.
func (e *writer) prompted(s msvc.Settings) bool {
	h := e.h
	first, err := h.LookPath("cl")
	if err != nil || !h.SamePath(h.Real(first), h.Real(e.s.MSVC.Toolset.CL)) || h.Env.Get("VSCMD_VER") == "" {
		return false
	}
	for _, one := range s.Scalars { // what a user set over the prompt's own: the cc crate obeys both
		if old := h.Env.Get(one.Name); (one.Name == toolsVersion || one.Name == "VSCMD_ARG_TGT_ARCH") && old != "" &&
			!strings.EqualFold(old, one.Value) {
			return false
		}
	}
	return e.has("INCLUDE", s.Include) && e.has("LIB", s.Lib)
}

// has reports whether every directory stands in a list.
func (e *writer) has(name string, dirs []string) bool {
	h := e.h
	have := h.SplitList(h.Env.Get(name))
	return !slices.ContainsFunc(dirs, func(d string) bool {
		return !slices.ContainsFunc(have, func(o string) bool { return h.SamePath(o, d) })
	})
}

// list sets a list of directories. What the user had in it stays behind ours, except what belongs to a Visual Studio or a Windows SDK:
// headers of two compilers in one list are not understood by either.
func (e *writer) list(name string, dirs []string, reason string) {
	h := e.h
	if len(dirs) == 0 {
		return
	}
	all := slices.Clone(dirs)
	var kept, dropped []string
	for _, old := range h.SplitList(h.Env.Get(name)) {
		switch {
		case slices.ContainsFunc(all, func(d string) bool { return h.SamePath(d, strings.TrimRight(old, `\/`)) }):
		case e.microsoft(old):
			dropped = append(dropped, old)
		default:
			all, kept = append(all, old), append(kept, old)
		}
	}
	if len(kept) > 0 {
		reason += "; yours stays behind it: " + h.JoinList(kept...)
	}
	if len(dropped) > 0 {
		reason += "; without what belongs to another compiler or SDK: " + h.JoinList(dropped...)
	}
	if value := h.JoinList(all...); value != h.Env.Get(name) {
		e.d.Add(buildenv.Set, name, value, reason)
	}
}

// microsoft reports whether a directory belongs to a Visual Studio or a Windows SDK.
func (e *writer) microsoft(dir string) bool {
	low := strings.ToLower(strings.ReplaceAll(dir, "/", `\`))
	return strings.Contains(low, `\vc\tools\msvc\`) || strings.Contains(low, `\vc\auxiliary\`) || strings.Contains(low, `\windows kits\`) ||
		e.h.Below(dir, e.s.MSVC.Toolset.Install) ||
		e.h.Below(dir, e.s.MSVC.SDK.Root)
}

// generator has CMake crates use Ninja: the generator for Visual Studio needs CUDA's BuildCustomizations, which are absent when Visual
// Studio came after CUDA or is the Build Tools (ggml-org/llama.cpp issue 9144).
func (e *writer) generator(n Needs, s msvc.Settings) {
	h := e.h
	if _, set := h.Env.Lookup("CMAKE_GENERATOR"); set || !n.NVCC ||
		!slices.ContainsFunc(e.known, func(c consumer) bool { return c.name == "cmake" }) {
		return
	}
	shipped := func(d string) bool { return h.IsFile(h.Join(d, "ninja.exe")) }
	if len(h.LookPathAll("ninja")) > 0 || slices.ContainsFunc(s.Last, shipped) {
		e.d.Add(buildenv.Set, "CMAKE_GENERATOR", "Ninja", "the generator for Visual Studio needs CUDA's BuildCustomizations")
	}
}

// dlls puts the toolkit's run-time libraries on PATH where they are not in nvcc's directory: bin\x64 from CUDA 13 on, bin\x86_64 in wheels.
func (e *writer) dlls(n Needs) {
	h, t := e.h, e.s.Toolkit
	if h.OS != buildenv.Windows || !n.Libraries && !n.RunCUDNN {
		return
	}
	if c := e.s.CUDNN; c != nil && c.Bin != "" && !e.has("PATH", []string{c.Bin}) {
		e.d.Add(buildenv.Prepend, "PATH", c.Bin, "the run-time libraries of cuDNN "+c.Version)
	}
	for _, d := range []string{"x64", "x86_64", "arm64"} {
		if t == nil {
			break
		}
		dir := h.Join(t.Root, "bin", d)
		if (d == "arm64") != (h.Arch == "arm64") || !h.IsDir(dir) || e.has("PATH", []string{dir}) {
			continue
		}
		e.d.Add(buildenv.Prepend, "PATH", dir, "the run-time libraries of "+t.Named())
	}
}

// Planted is an error if a directory in which the build will run programs holds one that Windows would run in place of the chosen one;
// nil elsewhere, and for the compiler's own directory. nvcc.exe asks for ./cl.exe before it looks at PATH (seen with 13.4.92 under Wine: a
// cl.exe in the kernel's directory ran, whatever PATH said; -ccbin alone would keep it off, but then nvcc starts vcvars64.bat), and it
// starts its own parts by their bare names through cmd.exe, which takes every program of the current directory first (a cudafe++.exe there
// ran, too). A variable that keeps cmd.exe from that (NoDefaultCurrentDirectoryInExePath) would keep users' own batch files from being
// found, so nothing is set: it is refused.
func Planted(h buildenv.Host, s Set, dirs []string) error {
	if h.OS != buildenv.Windows || s.Toolkit == nil {
		return nil
	}
	type program struct{ name, chosen string }
	var programs []program
	if s.Compiler != nil { // a lib.bat of a project's own is no attack, so lib.exe is named with its ending
		bin := h.Dir(s.Compiler.CXX)
		programs = []program{{"cl", s.Compiler.CXX}, {"link.exe", h.Join(bin, "link.exe")}, {"lib.exe", h.Join(bin, "lib.exe")}}
	}
	if s.Toolkit.NVCC != "" {
		for _, name := range []string{"nvcc", "cudafe++", "cicc", "ptxas", "fatbinary", "nvlink", "bin2c"} {
			programs = append(programs, program{name, h.Join(h.Dir(s.Toolkit.NVCC), name+".exe")})
		}
	}
	for _, dir := range dirs {
		for _, p := range programs {
			path := h.ProgramIn(dir, p.name)
			if path == "" || h.SamePath(h.Real(path), h.Real(p.chosen)) {
				continue
			}
			return &MisfitError{
				What: fmt.Sprintf("%s lies where the build runs, and Windows would run it instead of %s: it looks into the current "+
					"directory before PATH", path, p.chosen), Fix: "move or remove " + path}
		}
	}
	return nil
}

// most is how many characters of PATH leave room for what cargo and nvcc put before it. nvcc starts cl.exe through cmd.exe, which hands on
// no variable of more than 8191 ("Command prompt line string limitation", Microsoft, KB 830473): with a longer PATH it finds no cl.exe.
const most = 7000

// Unreadable lists what of the environment nvcc on Windows cannot take: its own path, and directories that it has to read and write, whose
// names its code page may not express (nvcc.exe 13.4.92 then ends with 5 and not one word, seen under Wine), and a PATH that is too long.
// Nil outside Windows.
func Unreadable(h buildenv.Host, n Needs, t *cuda.Toolkit, targetDir string) (notes []string) {
	if !n.NVCC || t == nil || h.OS != buildenv.Windows {
		return nil
	}
	for _, d := range []struct{ what, path, fix string }{
		{"nvcc", t.NVCC, buildenv.HowToSet(h.OS, "GPUBUILD_CACHE", `C:\gpubuild`) + " and install it again"},
		{"the target directory", targetDir, buildenv.HowToSet(h.OS, "CARGO_TARGET_DIR", `C:\target`)},
		{"the directory for temporary files", h.Env.Get("TMP"), buildenv.HowToSet(h.OS, "TMP", `C:\tmp`)},
	} {
		if strings.ContainsFunc(d.path, func(r rune) bool { return r >= 0x80 }) {
			notes = append(notes, fmt.Sprintf("%s is %s, and nvcc.exe reads paths in a code page that may not have all of these letters: "+
				"where it fails, %s, or another directory of plain letters", d.what, d.path, d.fix))
		}
	}
	if size := utf8.RuneCountInString(h.Env.Get("PATH")); size > most {
		notes = append(notes, fmt.Sprintf("PATH has %d characters, and nvcc starts cl.exe through cmd.exe, "+
			"which hands on no more than 8191: if nvcc finds no cl.exe, take directories out of PATH", size))
	}
	return notes
}
