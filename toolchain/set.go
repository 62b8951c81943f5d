// Package toolchain chooses one set of toolkit, host compiler, cuDNN, driver and architecture that work together, out of what its
// subpackages found, and says what a build's environment must be for every consumer to use that set.
//
// Choose and Environment are pure: they read Facts and, for the rules of paths and links only, the Host. Every candidate that is not chosen
// stays in the answer with the reason why it was rejected. Nothing here ever adds -allow-unsupported-compiler: where a user's own flags
// lift nvcc's check, the answer says so.
//
// Limits: A toolkit's link stubs are taken from the tree; whether a driver's libcuda.so can be linked is the caller's Facts.LibCUDA.
package toolchain

import (
	"fmt"

	"gpubuild/buildenv"
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
	"gpubuild/toolchain/rocm"
)

// Facts is what was found on a machine.
type Facts struct {
	Toolkits  []cuda.Toolkit
	Compilers []hostcc.Compiler
	CUDNN     []cudnn.Install
	ROCm      []rocm.Install
	Driver    gpu.Driver
	Devices   []gpu.Device
	MSVC      *msvc.Found // Visual Studio and Windows SDKs; nil on a machine that is not Windows
	LibCUDA   string      // a libcuda.so that the linker finds by itself or below /usr/lib/wsl; DriverLibrary finds it
	Places    []string    // where toolkits were looked for, listed if there is none
	GXX       string      // the command that installs g++
}

// Needs is what the crates that will be linked ask of the toolchain.
type Needs struct {
	NVCC         bool        // something is compiled by nvcc
	NVCCVersion  bool        // nvcc on PATH is asked for its version: it must be there, and need not be able to compile
	HostCompiler bool        // a C++ compiler is needed even without nvcc
	Libraries    bool        // CUDA libraries are linked
	Links        []string    // those of the toolkit's that are known: libcublas
	CUDNN        bool        // cuDNN is needed to build
	RunCUDNN     bool        // a program needs cuDNN to run: without one it builds all the same
	Parts        []string    // what a toolkit of gpubuild's needs beyond its default parts, on Linux
	EmbedsPTX    bool        // PTX goes into the binary: the toolkit must not be newer than the driver
	ROCm         bool        // crates of AMD's ROCm are linked
	CUDA         bool        // any GPU crate of CUDA is on; alone it needs a driver only
	CudarcMax    gpu.Version // newest CUDA that the build scripts which ask nvcc for its version know; zero: no limit
	MaxBy        string      // the package that knows no newer one; empty: cudarc
	Pin          gpu.Version // a feature such as cuda-12030 fixes the version of cudarc's bindings
	Floors       []Floor     // lowest capabilities that the crates' kernels compile for
	Highest      gpu.Arch    // of a list of architectures
	// consumers (cudarc, cudaforge, bindgen_cuda, cmake …) or variables that are read; empty: all known consumers
	Reads   []string
	Because []string // which crate asks for what, as a person reads it
}

// Toolkit reports whether a toolkit is needed at all.
func (n Needs) Toolkit() bool { return n.NVCC || n.NVCCVersion || n.Libraries || n.CUDNN }

// Floor is the lowest capability that a crate's kernels compile for, with some or all versions of CUDA.
type Floor struct {
	Crate        string
	Arch         gpu.Capability
	Since, Until gpu.Version // zero: no limit
	Why          string
}

// floor is the highest of the crates' floors that holds with a version of CUDA.
func (n Needs) floor(v gpu.Version) (highest Floor) {
	for _, f := range n.Floors {
		if v.Compare(f.Since) >= 0 && (f.Until.IsZero() || v.Compare(f.Until) <= 0) && f.Arch.Compare(highest.Arch) > 0 {
			highest = f
		}
	}
	return highest
}

// Wish is what the user asked for.
type Wish struct {
	CUDA          string            // a version, a root, "fetch" or nothing
	CUDAOrigin    string            // who said so
	Arch          string            // such as 89, 8.9, sm_89, a list of those, or nothing
	ArchOrigin    string            // who said so
	CCBin         string            // path of a host compiler
	EnvFiles      map[string]string // the variables that an [env] table of cargo's configuration sets, and its file
	Backend       string            // cuda, rocm or nothing: which one where the crates reach both
	BackendOrigin string            // who said so
	Previous      []gpu.Arch        // what this target directory was built for; code for sm_90a is none for sm_90
	// PreviousUnset says that it was built so with CUDA_COMPUTE_CAP unset, because nvidia-smi answered the same. Then it stays unset
	// without asking the driver again: setting it now would make cargo rebuild every kernel.
	PreviousUnset bool
	Unchecked     string // where the user switched nvcc's check of host compilers off; Unchecked finds it
}

// Set is the choice.
type Set struct {
	Toolkit          *cuda.Toolkit    // nil when none is needed
	Compiler         *hostcc.Compiler // nil when none is needed
	passed           string           // why the c++ that the cc crate passes to nvcc does not fit
	MSVC             *VisualStudio    // where Compiler is Microsoft's
	CUDNN            *cudnn.Install   // nil when none is needed
	ROCm             *rocm.Install    // nil when none is needed
	Backends         []string         // CUDA, ROCm: what tools are set up for
	BackendWhy       string
	Driver           gpu.Driver
	Devices          []gpu.Device
	Capability       gpu.Capability // what is built for; zero when nothing is compiled
	Suffix           string         // "a" or "f" where the user's arch has one
	Further          []gpu.Arch     // the higher ones of a list, for which our nvcc compiles, too
	CapabilityOrigin string
	ArchAsked        bool // the user has said it
	CapabilityUnset  bool // earlier builds had this default; see Wish.PreviousUnset
	LibCUDA          string
	Launchers        []string // programs in front of the toolkit's nvcc, such as ccache, that call it: they stay where they are
	Notes            []string // what a user should know although a set was found: disagreements, doubts
	Losers           []Loser
}

// Archs are all architectures that are built for, from the lowest on; empty when nothing is compiled.
func (s Set) Archs() []gpu.Arch {
	if s.Capability.IsZero() {
		return nil
	}
	return append([]gpu.Arch{{Capability: s.Capability, Suffix: s.Suffix}}, s.Further...)
}

// OneArch refuses a list of architectures; fix begins what else helps than to name one.
func (s Set) OneArch(why, fix string) error {
	if len(s.Further) == 0 {
		return nil
	}
	list := s.Archs()
	return &MisfitError{What: fmt.Sprintf("%s (%s) is a list, and %s", gpu.Archs(list), s.CapabilityOrigin, why),
		Fix: fmt.Sprintf("%s, or name one architecture, such as %s", fix, list[0]), Part: PartCapability}
}

// DriverLibrary finds a libcuda.so without a number where a linker can take it: in the system's library directories, or below
// /usr/lib/wsl, where no build script looks (chelsea0x3b/cudarc issues 255 and 296).
func DriverLibrary(h buildenv.Host) string {
	dirs := []string{
		"/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib",
		"/run/opengl-driver/lib", "/usr/lib/wsl/lib",
	}
	if h.Arch == "arm64" {
		dirs[0], dirs[1] = "/usr/lib/aarch64-linux-gnu", "/lib/aarch64-linux-gnu"
	}
	if h.OS != buildenv.Linux {
		return ""
	}
	for _, d := range dirs {
		if p := h.Join(d, "libcuda.so"); h.IsFile(p) {
			return p
		}
	}
	return ""
}
