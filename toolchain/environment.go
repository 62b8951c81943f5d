package toolchain

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

// Environment says what a build must have in its environment so that every consumer takes the same root, the same compiler and the same
// arch. A variable that nothing reads is left alone, and so is one whose plain value, or absence, already leads to the same tree,
// whatever its spelling: cargo compares variables as text, and a build by plain cargo after one by us must find nothing changed.
func Environment(h buildenv.Host, s Set, n Needs) buildenv.Delta {
	if len(s.Backends) > 0 {
		n = n.only(s.Backends)
	}
	e := writer{h: h, s: s}
	e.known, e.names = readers(n.Reads)
	if s.ROCm != nil {
		e.rocm()
	}
	if s.MSVC != nil {
		e.visualStudio(n) // before the toolkit's own directory, so that this one is first
	}
	e.dlls(n) // before path, so that nvcc's own directory is first
	if s.Toolkit != nil {
		e.path()
		e.cudnn(n) // before the roots: cudarc's CUDNN_LIB counts as a root and takes its usual ones away
		e.roots()
		e.nvcc()
		e.compiler(n)
		if n.NVCC {
			e.conforming()
		}
		e.linking(n)
	}
	if n.NVCC {
		e.capability(len(n.Reads) == 0 || slices.Contains(n.Reads, "CUDA_COMPUTE_CAP"))
		e.archsOfCMake()
		e.archOfOxide()
	}
	return e.d
}

// writer collects the changes.
type writer struct {
	h     buildenv.Host
	s     Set
	known []consumer
	names []string
	d     buildenv.Delta
	libs  bool // CUDNN_LIB will be set, by the user or by us
}

// reads reports whether anything reads a variable.
func (e *writer) reads(name string) bool {
	return slices.Contains(e.names, name) || slices.ContainsFunc(e.known, func(c consumer) bool { return slices.Contains(c.roots, name) })
}

// path puts the toolkit's programs first, unless the first nvcc on PATH is this one already: cudarc and bindgen_cuda ask that one.
func (e *writer) path() {
	h, t := e.h, e.s.Toolkit
	if t.NVCC == "" {
		return
	}
	firsts := slices.DeleteFunc(h.LookPathAll("nvcc"), func(p string) bool { // ccache's nvcc calls the next one on PATH
		return strings.TrimSuffix(strings.ToLower(h.Base(h.Real(p))), ".exe") != "nvcc" && !slices.Contains(e.s.Launchers, p)
	})
	if len(firsts) > 0 && e.isNVCC(firsts[0]) {
		return
	}
	reason := "nvcc is not on PATH; this directory has the one of " + t.Named()
	if len(firsts) > 0 {
		reason = fmt.Sprintf("before %s, which belongs to another toolkit than %s", firsts[0], t.Named())
	}
	e.d.Add(buildenv.Prepend, "PATH", h.Dir(t.NVCC), reason)
}

// isNVCC reports whether a path is the chosen toolkit's nvcc, by name or through links.
func (e *writer) isNVCC(path string) bool {
	h, t := e.h, e.s.Toolkit
	if h.SamePath(h.Real(path), h.Real(t.NVCC)) || slices.Contains(e.s.Launchers, path) {
		return true
	}
	const debian = "/usr/lib/nvidia-cuda-toolkit/bin/nvcc" // what Debian's /usr/bin/nvcc, a script, calls
	return t.Packaged == cuda.Debian && (path == debian || h.Real(path) == debian || path == "/usr/bin/nvcc")
}

// roots sets the variables that name the root, for those consumers that would not find it otherwise.
func (e *writer) roots() {
	h, t := e.h, e.s.Toolkit
	for _, name := range cuda.RootVariables() {
		old, set := h.Env.Lookup(name)
		switch {
		case !e.reads(name):
		case set && old != "" && t.Is(h, old):
		case set && old != "":
			e.d.Add(buildenv.Set, name, t.Root, fmt.Sprintf("was %s, %s", old, e.other(name)))
		case e.needed(name):
			e.d.Add(buildenv.Set, name, t.Root, "root of "+t.Named()+", "+t.Origin)
		}
	}
}

// other says what a variable's own value is.
func (e *writer) other(name string) string {
	if !e.h.IsDir(e.h.Env.Get(name)) {
		return "which does not exist"
	}
	for _, l := range e.s.Losers {
		if l.What == "CUDA toolkit" && strings.Contains(l.Origin, name) {
			return "another toolkit: " + l.Why
		}
	}
	return "another toolkit; every consumer must take the same one"
}

// needed reports whether a consumer that reads a variable, which is not set, would take another root without it.
func (e *writer) needed(name string) bool {
	h, t := e.h, e.s.Toolkit
	for _, c := range e.known {
		if !slices.Contains(c.roots, name) {
			continue
		}
		same, foreign := false, false
		for _, r := range c.roots {
			if v := h.Env.Get(r); v != "" {
				same = same || t.Is(h, v)
				foreign = foreign || !t.Is(h, v)
			}
		}
		switch {
		case same: // and what is foreign will be set right
		case foreign, !e.usual(c):
			return true
		}
	}
	// A package's own script that reads this variable and no other must find it there; one that also reads another is served by that.
	if !slices.Contains(e.names, name) {
		return false
	}
	for _, r := range cuda.RootVariables() {
		if v := h.Env.Get(r); slices.Contains(e.names, r) && v != "" && t.Is(h, v) {
			return false
		}
	}
	return true
}

// usual reports whether a consumer with no variable set finds the chosen toolkit first among its own usual roots.
func (e *writer) usual(c consumer) bool {
	h, t := e.h, e.s.Toolkit
	if h.OS == buildenv.Windows {
		return false // no consumer's usual roots on Windows lead to a versioned directory for certain: the variables say it
	}
	if c.name == "cudarc" && e.libs {
		return false // it asks its usual roots only when no variable is set, and CUDNN_LIB is one
	}
	for _, r := range c.roots {
		if _, set := h.Env.Lookup(r); set && !c.always {
			return false // set and empty is set
		}
	}
	for _, d := range c.defaults {
		if t.Is(h, d) {
			return true
		}
		if h.IsFile(h.Join(d, "include", "cuda.h")) || d != "/usr" && h.IsDir(h.Join(d, "lib64")) {
			return false
		}
	}
	return false
}

// nvcc takes NVCC, and CMake's CUDACXX, away where the user's own points elsewhere: without it PATH answers, and there ours is first.
// Another value would be a change for every script that declares the variable, although it leads to the nvcc that was used before. NVCC
// goes whoever reads it: a script can put the name together, and the user reads that it is not used.
func (e *writer) nvcc() {
	h, t := e.h, e.s.Toolkit
	for _, name := range []string{"NVCC", "CUDACXX"} {
		old := h.Env.Get(name)
		broken := name == "NVCC" && old != "" && cuda.Unusable(h, old) != ""
		if t.NVCC == "" || !h.IsAbs(old) && !broken || e.isNVCC(old) || name != "NVCC" && !e.reads(name) {
			continue
		}
		e.d.Add(buildenv.Unset, name, "", fmt.Sprintf("was %s, which is not of %s", old, t.Named()))
	}
}

// compiler sets NVCC_CCBIN, and for CMake CUDAHOSTCXX, only where nvcc would take another compiler by itself. cudaforge and bindgen_cuda
// add -allow-unsupported-compiler whenever NVCC_CCBIN is set; the pair was checked against the toolkit's own header, so nothing is let
// through by that. CMake passes CUDAHOSTCXX on as -ccbin, which nvcc puts before NVCC_CCBIN (CMake, "CUDAHOSTCXX").
func (e *writer) compiler(n Needs) {
	c := e.s.Compiler
	if c == nil || !n.NVCC {
		return
	}
	e.flags()
	alone := c.Default || takes(e.s.Toolkit, *c) || c.Kind == hostcc.MSVC // which is first on PATH then
	for _, name := range []string{"NVCC_CCBIN", "CUDAHOSTCXX"} {
		old := e.h.Env.Get(name)
		if name == "CUDAHOSTCXX" && !e.reads(name) {
			continue
		}
		same := c.Word == name || named(*c, old) || e.h.IsAbs(old) && e.h.SamePath(e.h.Real(old), e.h.Real(c.CXX))
		switch {
		case old != "" && c.Kind == hostcc.MSVC && readsAs(*c, old):
		case old != "" && c.Kind == hostcc.MSVC && same:
			e.d.Add(buildenv.Unset, name, "",
				fmt.Sprintf("was %s, which nvcc does not read as the cl.exe on PATH; that one is %s", old, c.Named()))
		case old != "" && c.Kind != hostcc.MSVC && same:
		case name == "NVCC_CCBIN" && e.s.passed != "":
			e.d.Add(buildenv.Set, name, c.CXX, e.s.passed)
		case old != "" && alone:
			e.d.Add(buildenv.Unset, name, "", fmt.Sprintf("was %s, %s; nvcc takes %s by itself", old, e.lost(name, old), c.Named()))
		case alone:
		default:
			reason := "nvcc would take a compiler that does not fit; checked against " + e.s.Toolkit.Bounds.File
			if i := slices.IndexFunc(e.s.Losers, func(l Loser) bool { return l.What == "host compiler" && l.Origin == "PATH" }); i >= 0 {
				reason = fmt.Sprintf("nvcc would take %s: %s; used instead", e.s.Losers[i].Where, e.s.Losers[i].Why)
			}
			if old != "" {
				reason = fmt.Sprintf("was %s, %s", old, e.lost(name, old))
			}
			e.d.Add(buildenv.Set, name, c.CXX, reason+": "+c.Named())
		}
	}
}

// flags takes a -ccbin out of nvcc's own variables where it does not lead to
// the chosen compiler: nvcc puts it before NVCC_CCBIN and before PATH.
func (e *writer) flags() {
	h, c := e.h, e.s.Compiler
	for _, name := range hostcc.FlagVariables() {
		old := h.Env.Get(name)
		said, rest := hostcc.FromFlags(old)
		if said == "" {
			continue
		}
		path := unquoted(said)
		reason := e.lost(name, path)
		switch {
		case c.Kind == hostcc.MSVC && readsAs(*c, said):
			continue
		case c.Kind == hostcc.MSVC && namedMSVC(*c, path):
			reason = "which nvcc does not read as the cl.exe on PATH"
		case c.Kind != hostcc.MSVC && e.leads(*c, path):
			continue
		}
		reason = fmt.Sprintf("without its -ccbin %s, %s; %s is used", said, reason, c.Named())
		if rest == "" {
			e.d.Add(buildenv.Unset, name, "", reason)
			continue
		}
		e.d.Add(buildenv.Set, name, rest, reason)
	}
}

// leads reports whether nvcc would call a compiler, gcc or clang, that is named
// so: by its path, by its directory, or by a name that PATH answers.
func (e *writer) leads(c hostcc.Compiler, name string) bool {
	h := e.h
	if !strings.ContainsAny(name, "/") {
		if found, err := h.LookPath(name); err == nil {
			name = found
		}
	}
	if h.IsDir(name) {
		name = h.Join(name, "g++")
	}
	real := h.Real(name)
	return named(c, name) || real == c.Real || real == h.Real(c.CXX)
}

// lost says why a compiler was not chosen.
func (e *writer) lost(name, path string) string {
	for _, l := range e.s.Losers {
		if l.What == "host compiler" &&
			(l.Where == path || l.Origin == name || e.s.MSVC != nil && namedMSVC(hostcc.Compiler{CXX: l.Where, Real: l.Where}, path)) {
			return "which is not used: " + l.Why
		}
	}
	return "which is not the one chosen"
}

// cudnn sets the variables of cuDNN's root. Inside the toolkit and in the system's directories it is found without them.
func (e *writer) cudnn(n Needs) {
	h, c := e.h, e.s.CUDNN
	_, e.libs = h.Env.Lookup("CUDNN_LIB")
	if c == nil || !n.CUDNN {
		return
	}
	found := c.System || c.Real == e.s.Toolkit.Real
	for _, name := range cudnn.Variables() {
		old := h.Env.Get(name)
		if !e.reads(name) || old != "" && h.SamePath(h.Real(h.Clean(old)), c.Real) {
			continue
		}
		switch {
		case old != "":
			e.d.Add(buildenv.Set, name, c.Root, fmt.Sprintf("was %s, which is not the root of the cuDNN chosen", old))
		case !found:
			e.d.Add(buildenv.Set, name, c.Root, "root of "+c.String()+", "+c.Origin)
		default:
			continue
		}
		e.libs = e.libs || name == "CUDNN_LIB"
	}
}

// linking adds the directories that build scripts do not name to the linker: the HPC SDK's math_libs, wsl's libcuda, and those of the
// toolkit unless cudarc or cust_raw is known to name them. gcc and clang read LIBRARY_PATH when they link, and no build script asks for it,
// so that it makes nothing stale.
func (e *writer) linking(n Needs) {
	h, t := e.h, e.s.Toolkit
	if !n.Libraries {
		return
	}
	for _, d := range t.Libs {
		e.d.Add(buildenv.Append, "LIBRARY_PATH", d, "the HPC SDK keeps its mathematical libraries apart from CUDA")
	}
	if dir := h.Dir(e.s.LibCUDA); e.s.LibCUDA != "" && t.Stubs == "" && h.Below(dir, "/usr/lib/wsl") {
		e.d.Add(buildenv.Append, "LIBRARY_PATH", dir, "WSL keeps the driver's libcuda.so where no linker looks")
	}
	// find_cuda_helper 0.2 links only from /usr/local/cuda*, /opt/cuda and the roots in this variable, and stops where there is none.
	const helper = "CUDA_LIBRARY_PATH"
	if h.OS == buildenv.Linux && slices.Contains(e.names, helper) &&
		!slices.ContainsFunc(h.SplitList(h.Env.Get(helper)), func(d string) bool {
			return t.Is(h, d)
		}) && !t.Is(h, "/usr/local/cuda") && !t.Is(h, "/opt/cuda") {
		e.d.Add(buildenv.Prepend, helper, t.Root, "root of "+t.Named()+", which find_cuda_helper does not know")
	}
	// Of the readers that are assumed where none is known (see readers), none has named a directory.
	named := slices.Contains(n.Reads, "cudarc") || slices.Contains(n.Reads, "cust_raw")
	given := h.SplitList(h.Env.Get("LIBRARY_PATH"))
	for _, d := range []string{t.Lib, t.Stubs} {
		if h.OS == buildenv.Linux && !named && d != "" && !h.Below(d, "/usr/lib") && !slices.Contains(given, d) {
			e.d.Add(buildenv.Append, "LIBRARY_PATH", d, "these crates' build scripts may not name it to the linker")
		}
	}
}

// capability sets CUDA_COMPUTE_CAP for scripts that read it themselves, and where cudaforge and bindgen_cuda would not find the same by
// nvidia-smi, which they ask for its first line. They read "89"; bindgen_cuda panics at "8.9" and "90a", so that a suffix is kept from it.
func (e *writer) capability(read bool) {
	h, c, suffix := e.h, e.s.Capability, e.s.Suffix
	if c.IsZero() || !e.reads("CUDA_COMPUTE_CAP") {
		return
	}
	reason := "compile for " + c.String() + ": " + e.s.CapabilityOrigin
	if suffix != "" && slices.ContainsFunc(e.known, func(k consumer) bool { return k.name == "bindgen_cuda" }) {
		reason += fmt.Sprintf("; without its %.200q, which bindgen_cuda does not read", suffix)
		suffix = ""
	}
	old, digits := h.Env.Get("CUDA_COMPUTE_CAP"), c.Digits()+suffix
	switch {
	case old == digits:
	case old != "":
		e.d.Add(buildenv.Set, "CUDA_COMPUTE_CAP", digits, "was "+old+"; "+reason)
	case !read && e.s.CapabilityUnset && e.s.Driver.Version != "" && len(h.LookPathAll("nvidia-smi")) > 0:
	case !read && suffix == "" && len(e.s.Devices) > 0 && e.s.Devices[0].Capability == c && len(h.LookPathAll("nvidia-smi")) > 0:
	default:
		e.d.Add(buildenv.Set, "CUDA_COMPUTE_CAP", digits, reason)
	}
}

// archsOfCMake names the architecture to CMake, whose own default is nvcc's. ggml, in whisper-rs-sys and llama-cpp-sys-2, asks for
// "native", which no machine without a GPU has, unless it is given CMAKE_CUDA_ARCHITECTURES: their build scripts hand every CMAKE_* on.
func (e *writer) archsOfCMake() {
	var list []string
	for _, a := range e.s.Archs() {
		list = append(list, a.Capability.Digits()+a.Suffix)
	}
	digits := strings.Join(list, ";")
	for _, v := range []struct{ name, read string }{{"CUDAARCHS", "CUDAARCHS"}, {"CMAKE_CUDA_ARCHITECTURES", "CMAKE_*"}} {
		old := e.h.Env.Get(v.name) // the user's own stays, except where the command line says another
		wins := old == "" || strings.HasPrefix(e.s.CapabilityOrigin, "--")
		if digits != "" && slices.Contains(e.names, v.read) && old != digits && wins {
			e.d.Add(buildenv.Set, v.name, digits, "compile for "+gpu.Archs(e.s.Archs())+": "+e.s.CapabilityOrigin)
		}
	}
}

// archOfOxide names the architecture to cuda-oxide, which compiles for that very one: only where the user has said one. Otherwise
// `cargo oxide` looks at the kernels, and to run them at the GPU.
func (e *writer) archOfOxide() {
	const name = "CUDA_OXIDE_TARGET"
	arch, old := "sm_"+e.s.Capability.Digits()+e.s.Suffix, e.h.Env.Get(name)
	wins := old == "" || strings.HasPrefix(e.s.CapabilityOrigin, "--")
	if e.s.ArchAsked && slices.Contains(e.names, name) && old != arch && wins {
		e.d.Add(buildenv.Set, name, arch, "compile for "+e.s.Capability.String()+": "+e.s.CapabilityOrigin)
	}
}

// conforming has cl.exe preprocess as the C++ standard says, where the toolkit's CCCL stops with #error otherwise: since CUDA 13.2, in
// cuda/std/__cccl/preprocessor.h, which candle-kernels 0.11.1 includes through cuda/std/limits.
func (e *writer) conforming() {
	const name, option = "NVCC_APPEND_FLAGS", "-Xcompiler=/Zc:preprocessor"
	t, c := e.s.Toolkit, e.s.Compiler
	flags := e.h.Apply(e.h.Env, e.d).Get(name)
	if c == nil || c.Kind != hostcc.MSVC || t.Version.Compare(gpu.Version{Major: 13, Minor: 2}) < 0 ||
		strings.Contains(flags+e.h.Env.Get("NVCC_PREPEND_FLAGS"), "Zc:preprocessor") {
		return
	}
	reason := "CCCL of CUDA " + t.Version.String() + " stops cl.exe's traditional preprocessor"
	e.d.Add(buildenv.Set, name, strings.TrimSpace(flags+" "+option), reason)
}
