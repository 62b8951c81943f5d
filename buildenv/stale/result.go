package stale

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpubuild/gpu"
)

// Make is one image of a kernel: what it is, what it is for and what made it.
type Make struct {
	Kind string   `json:"kind"` // as package fatbin names it
	Arch gpu.Arch `json:"arch"`
	NVCC string   `json:"nvcc,omitempty"` // version with which its compiler signed it; empty: unsigned
	PTX  string   `json:"ptx,omitempty"`  // PTX version, where it is PTX
}

// signed is what tells which compiler made it.
func (m Make) signed() string {
	switch {
	case m.NVCC != "":
		return "nvcc " + m.NVCC
	case m.PTX != "":
		return "PTX " + m.PTX
	}
	return "an unknown compiler"
}

func (m Make) form() string {
	if m.PTX != "" {
		return "PTX for " + m.Arch.String()
	}
	return m.Arch.String() + " code"
}

func (m Make) String() string {
	if m.NVCC == "" && m.PTX != "" { // its version is all that tells where it is from
		return "PTX " + m.PTX + " for " + m.Arch.String()
	}
	return m.form() + " from " + m.signed()
}

// Code is what a file holds of one kernel, or of several that were made in the same ways.
type Code struct {
	File    string `json:"file"`
	Kernel  string `json:"kernel,omitempty"`  // its name, or the first one's; empty: device code without a kernel
	Kernels int    `json:"kernels,omitempty"` // how many there are of them
	Makes   []Make `json:"makes"`             // one for each architecture and form
}

func (c Code) has(arch gpu.Capability) bool {
	return slices.ContainsFunc(c.Makes, func(m Make) bool { return m.Arch.Capability == arch })
}

// Runs says whether any of the code runs on a device of a capability.
func Runs(code []Code, c gpu.Capability) bool {
	for _, k := range code {
		for _, m := range k.Makes {
			if ok, _ := m.Arch.Runs(c); ok && m.Kind != "lto-ir" { // which needs a link step first
				return true
			}
		}
	}
	return false
}

// Want is what device code should be.
type Want struct {
	NVCC []string `json:"nvcc"` // versions with which the chosen toolkit's nvcc, cicc and ptxas sign; empty: not known
	PTX  string   `json:"ptx"`  // the PTX version that it writes; empty: not known
	Arch gpu.Arch `json:"arch"` // zero: any
}

func (w Want) String() string {
	arch, from := "any architecture", "any nvcc"
	if !w.Arch.Capability.IsZero() {
		arch = w.Arch.String()
	}
	if len(w.NVCC) > 0 {
		from = w.NVCC[0]
	}
	return arch + " from " + from
}

// What a mismatch is about.
const (
	ByNVCC = "nvcc"
	ByArch = "arch"
)

// Mismatch is code that is not what it should be.
type Mismatch struct {
	Code
	At    int    // which of the held code it is
	By    string // ByNVCC or ByArch; code from another nvcc is told as that, whatever it is for
	Found Make   // the one that shows it
}

func (m Mismatch) String() string {
	kernel := "device code"
	if m.Kernel != "" {
		kernel = "kernel " + m.Kernel
	}
	if m.Kernels > 1 {
		kernel += fmt.Sprintf(" and %d more", m.Kernels-1)
	}
	return fmt.Sprintf("%s: %s: %s", m.File, kernel, m.Found)
}

// Held is what comes of holding code against what it should be.
type Held struct {
	Mismatches []Mismatch
	NVCC       int      // pieces of code whose compiler is the chosen one
	Arch       int      // pieces of code that are there for the wanted architecture
	Open       []string // what could not be decided, and why
}

// Hold judges each piece of device code by itself: all that is there of a kernel must be signed by the chosen toolkit, and one of
// it must be for the wanted capability. sm_90a, sm_90f and compute_90 are all for 9.0: build crates choose the form (cudaforge
// makes sm_90a of 90), and a list of architectures that holds the wanted one is no mistake. Nor is a kernel that its source has
// for some architectures of such a list only: others of its file are there for all of its own and for the wanted one.
//
// PTX without a signature is judged by its own version, which each toolkit has one of. PTX that stands as text and has a version
// but no signature was not written by nvcc: where its version differs, nothing is said of it.
func Hold(code []Code, w Want) Held {
	var h Held
	open := func(c Code, why string) { h.Open = append(h.Open, c.File+": "+why) }
	for at, c := range code {
		wrong, right := -1, 0
		for i, m := range c.Makes {
			switch w.made(m) {
			case wrongly:
				if wrong < 0 || c.Makes[wrong].NVCC == "" {
					wrong = i // a signature says more than a PTX version
				}
			case rightly:
				right++
			default:
				open(c, m.Kind+" without a word on which nvcc made it")
			}
		}
		if wrong >= 0 {
			h.Mismatches = append(h.Mismatches, Mismatch{Code: c, At: at, By: ByNVCC, Found: c.Makes[wrong]})
			continue
		}
		if right == len(c.Makes) {
			h.NVCC++
		}
		want := w.Arch.Capability
		if want.IsZero() {
			continue
		}
		unknown := slices.ContainsFunc(c.Makes, func(m Make) bool { return m.Arch.Capability.IsZero() })
		switch {
		case c.has(want), conditional(c, code, want):
			h.Arch++
		case unknown || len(c.Makes) == 0:
			open(c, "device code without a word on what it is for")
		default:
			found := c.Makes[0]
			for _, m := range c.Makes[1:] {
				if found.PTX != "" && m.PTX == "" {
					found = m // what runs first is what is told first
				}
			}
			h.Mismatches = append(h.Mismatches, Mismatch{Code: c, At: at, By: ByArch, Found: found})
		}
	}
	return h
}

func conditional(c Code, all []Code, want gpu.Capability) bool {
	for _, o := range all {
		if o.File != c.File || !o.has(want) {
			continue
		}
		whole := len(c.Makes) > 0
		for _, m := range c.Makes {
			whole = whole && o.has(m.Arch.Capability)
		}
		if whole {
			return true
		}
	}
	return false
}

type made int

const (
	undecided made = iota
	rightly
	wrongly
)

func (w Want) made(m Make) made {
	switch {
	case m.NVCC != "" && len(w.NVCC) > 0:
		if slices.Contains(w.NVCC, m.NVCC) {
			return rightly
		}
		return wrongly
	case m.NVCC == "" && m.PTX != "" && w.PTX != "":
		if m.PTX == w.PTX {
			return rightly
		}
		if m.Kind == "ptx" { // in a fatbin: nvcc or fatbinary put it there
			return wrongly
		}
	}
	return undecided
}

// Told words what a package holds and what was asked for, by the mismatch that says most: another nvcc before another
// architecture, machine code before PTX.
func Told(pkg string, list []Mismatch, w Want) string {
	if len(list) == 0 {
		return ""
	}
	weight := func(m Mismatch) int {
		n := 0
		if m.By == ByNVCC {
			n += 2
		}
		if m.Found.NVCC != "" && m.Found.PTX == "" {
			n++
		}
		return n
	}
	best := list[0]
	for _, m := range list[1:] {
		if weight(m) > weight(best) {
			best = m
		}
	}
	if best.By == ByArch {
		return fmt.Sprintf("%s holds %s; the build asked for %s", pkg, best.Found.form(), w.Arch)
	}
	asked := w
	if best.Found.NVCC == "" { // told by the PTX version, so wanted by it
		asked.NVCC = []string{"nvcc " + asked.nvcc() + ", which writes PTX " + w.PTX}
	}
	return fmt.Sprintf("%s holds %s; the build asked for %s", pkg, best.Found, asked)
}

func (w Want) nvcc() string {
	if len(w.NVCC) > 0 {
		return w.NVCC[0]
	}
	return "unknown"
}

// Sum names a list of mismatches without saying where they lie, so that the same code in another directory has the same sum.
func Sum(list []Mismatch) string {
	lines := make([]string, 0, len(list))
	for _, m := range list {
		lines = append(lines, fmt.Sprintf("%s %s %d %v", m.By, m.Kernel, m.Kernels, m.Makes))
	}
	sort.Strings(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// Traces is what can be read in an OUT_DIR, and in what its build script printed, of the build that made it.
type Traces struct {
	Code []Code
	// CUDA and CUDNN are versions that the script itself found, as cudarc tells
	// them in its cfgs ("13.4", "9.21"); empty: not told.
	CUDA, CUDNN string
	// Libraries are the toolkits' library directories that the script told the linker of, in its order.
	Libraries []string
	// Compilers are those that CMake keeps using, by path, and Hosts the host compilers that objects name
	// ("gcc 12.2.0").
	Compilers, Hosts []string
	// Archs are those for which cudaforge keeps what it compiled.
	Archs []gpu.Arch
	// Declared are the variables that cargo itself watches for the script.
	Declared []string
	// Bundled are static libraries from outside that the script had linked: what is in them went into what was built.
	Bundled []string
	// Was is what is recorded of an earlier run of the script, where there is a record.
	Was []Input
}

// Asks is what a unit's traces must answer.
type Asks struct {
	Compiles  bool // kernels, with nvcc
	Version   bool // it asks for the toolkit's version and compiles nothing
	Libraries bool // it links libraries of the toolkit
	CUDNN     bool

	Want         Want
	CUDA         string // the chosen toolkit's version, 13.4
	Library      string // its library directory
	Compiler     string // its nvcc
	CUDNNVersion string
	Host         string // the host compiler's version
}

// Adoption is whether a build that nobody recorded can be taken for one with the inputs of now.
type Adoption struct {
	Reasons []Reason // what shows that it was built with something else
	Open    []string // what cannot be decided
	Trusted []string // inputs that nothing tells of and that are taken on trust
}

// Adopted says that it can.
func (a Adoption) Adopted() bool { return len(a.Reasons)+len(a.Open) == 0 }

// Adopt decides from traces what a build without a record was made with. What must show
// itself: nvcc and the architecture in the device code, the version in what a script told
// rustc, the library directory in what it told the linker, and nothing may speak against them.
//
// On trust are taken: the toolkit's headers, which are of the release that shows itself; the host compiler and the Windows SDK
// where no object names one, since nvcc uses them for nothing that the device code keeps; and that variables which are unset now
// were so then. Whatever else goes into the build now, a variable for one, is undecidable unless cargo watches it for the script
// or a record says that it was the same.
func Adopt(u Unit, a Asks, t Traces) Adoption {
	var out Adoption
	differs := func(input, was, is string) {
		r := Reason{Package: u.Package, Input: input, Old: was, New: is}
		if !slices.Contains(out.Reasons, r) {
			out.Reasons = append(out.Reasons, r)
		}
	}
	open := func(format string, args ...any) {
		if why := fmt.Sprintf(format, args...); !slices.Contains(out.Open, why) {
			out.Open = append(out.Open, why)
		}
	}
	trust := func(what string) {
		if !slices.Contains(out.Trusted, what) {
			out.Trusted = append(out.Trusted, what)
		}
	}
	switch {
	case a.Compiles:
		held := Hold(t.Code, a.Want)
		for _, m := range held.Mismatches {
			switch {
			case m.By == ByArch:
				differs("arch", m.Found.Arch.String(), a.Want.Arch.String())
			case m.Found.NVCC != "":
				differs("nvcc", m.Found.NVCC, a.Want.nvcc())
			default:
				differs("PTX version", m.Found.PTX, a.Want.PTX)
			}
		}
		for _, arch := range t.Archs {
			if want := a.Want.Arch; !want.Capability.IsZero() && arch.Capability != want.Capability && len(held.Mismatches) == 0 {
				differs("arch", arch.String(), want.String())
			}
		}
		for _, c := range t.Compilers {
			if c != a.Compiler {
				differs("nvcc", c, a.Compiler)
			}
		}
		switch {
		case len(t.Code) == 0:
			open("its output directory holds no device code")
		case len(held.Open) > 0:
			open("%s", held.Open[0])
		}
	case a.Version && t.CUDA == "":
		open("its script told no CUDA version")
	case a.Version && t.CUDA != a.CUDA:
		differs("nvcc", t.CUDA, a.CUDA)
	}
	if a.Libraries && len(t.Libraries) > 0 && t.Libraries[0] != a.Library {
		differs("CUDA libraries", t.Libraries[0], a.Library)
	} else if a.Libraries && len(t.Libraries) == 0 && !a.Compiles {
		open("its script named no library directory of a toolkit")
	}
	if a.CUDNN {
		switch {
		case t.CUDNN == "":
			open("its script told no cuDNN version")
		case t.CUDNN != a.CUDNNVersion:
			differs("cuDNN", t.CUDNN, a.CUDNNVersion)
		}
	}
	for _, host := range t.Hosts {
		if a.Host != "" && !sameVersion(host, a.Host) {
			differs("host compiler", host, a.Host)
		}
	}
	was := byName(t.Was)
	for _, lib := range t.Bundled {
		if !slices.ContainsFunc(t.Was, func(in Input) bool { return in.Name == lib }) {
			open("nothing tells which %s it holds", lib)
		}
	}
	for _, in := range u.Inputs {
		old, recorded := was[in.Name]
		same := recorded && (old.Value == in.Value || old.Hash != "" && old.Hash == in.Hash)
		switch in.Name {
		case "nvcc", "nvcc version", "arch", "cuDNN", "CUDA libraries":
			continue // shown by what is there
		case "CUDA headers", "CUDA include directory":
			if !same {
				trust("the toolkit's headers")
			}
		case "host compiler", "Windows SDK":
			switch {
			case recorded && !same:
				open("the %s is another than the one recorded of an earlier run", in.Name)
			case len(t.Hosts) == 0 || in.Name != "host compiler":
				trust("the " + in.Name)
			}
		default:
			if !same && !slices.Contains(t.Declared, in.Name) {
				open("nothing tells which %s it was built with", in.Name)
			}
		}
	}
	now := byName(u.Inputs)
	for _, old := range t.Was {
		if _, still := now[old.Name]; !still && !slices.Contains(t.Declared, old.Name) {
			open("%s was recorded as %s and is nothing now", old.Name, old.Value)
		}
	}
	return out
}

// sameVersion compares "gcc 12.2.0" with "gcc 12", which is all that some compilers tell of themselves.
func sameVersion(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}
