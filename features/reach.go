package features

import (
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
)

// Reach is what a build links, what is wrong with it and what it needs.
type Reach struct {
	Via      string           `json:"via"`               // unit graph, manifests, or unknown
	Unknown  string           `json:"unknown,omitempty"` // why cargo gives no unit graph: needs are those that manifests show
	Roots    []Root           `json:"roots"`
	Findings []Finding        `json:"findings"`
	Stops    bool             `json:"stops"` // exit 10 unless the user goes on anyhow
	Needs    Needs            `json:"needs"`
	Units    []ScriptUnit     `json:"units"`
	Others   []ScriptUnit     `json:"-"` // of which nothing shows that they compile kernels, with what such a script would take from the machine
	Cudarc   []catalog.Cudarc `json:"cudarc,omitempty"`
	// newest CUDA version that every build script which asks nvcc for it knows: a newer toolkit makes one stop; zero: none asks
	CudarcMax gpu.Version `json:"cudarc_max"`
	MaxBy     string      `json:"max_by"` // the crate that knows no newer one
	// version that a feature sets for a cudarc which links the toolkit's libraries;
	// zero: none. One that opens them at run time may have any toolkit
	Pin gpu.Version `json:"pin"`

	NoArchive []string `json:"-"` // which crates have no library with CUDA to download for the target

	// ids of the packages with a build script whose own GPU features are all off, in a build in which nobody asks for a GPU
	LeftOff []string `json:"-"`

	requested bool // a GPU feature is asked for, or a default
}

// GPUWork reports whether a judged build has anything to do with CUDA, or with the GPU that its command line asks for.
func (a *Reach) GPUWork() bool {
	named := slices.ContainsFunc(a.Roots, func(r Root) bool { return slices.ContainsFunc(r.Open, func(o Open) bool { return o.Named }) })
	return a.requested || a.Stops || a.Unknown != "" || len(a.Units) > 0 || a.Needs.CUDA || a.Needs.LibTorch || named
}

// AsksCUDA reports whether a feature for CUDA is asked for, or is a default.
func (a *Reach) AsksCUDA() bool { return a.requested }

// UsesVulkan reports whether the programs link wgpu or ash, and nothing of CUDA that is on or was asked for.
func (a *Reach) UsesVulkan() bool {
	uses := false
	for _, root := range a.Roots {
		if root.Reached || slices.ContainsFunc(root.Asked, func(f string) bool { return strings.Contains(f, "cud") }) {
			return false
		}
		uses = uses || slices.ContainsFunc(root.Backends(), func(b string) bool { return b == "wgpu" || b == "vulkan" })
	}
	return uses
}

// Backends lists the GPU backends that are on in a root, by the crates that it links: cuda, rocm, wgpu, vulkan, metal and the like.
// Without any, the program computes on the CPU.
func (r Root) Backends() []string {
	var on []string
	for _, c := range r.Crates {
		for b := range strings.SplitSeq(c.Backend, ",") {
			if c.On && !slices.Contains([]string{"", "own", "unknown", "none", "libtorch"}, b) && !slices.Contains(on, b) {
				on = append(on, b)
			}
		}
	}
	slices.Sort(on)
	if len(on) == 0 {
		return []string{"cpu"}
	}
	return on
}

// Root is one thing that is built: a program, a library, a test.
type Root struct {
	Package string       `json:"package"`
	Version string       `json:"version"`
	Target  string       `json:"target"`
	Kind    string       `json:"kind"` // bin, lib, test, …
	Mode    string       `json:"mode"`
	For     string       `json:"for,omitempty"` // the target that --target names
	Asked   []string     `json:"asked"`         // GPU features that are on in the root's own package
	Reached bool         `json:"reached"`       // CUDA code of at least one crate is linked
	Crates  []CrateState `json:"crates"`

	Named       []string `json:"-"` // GPU features that were asked for of a dependency: candle-core/cuda
	Ineffective []string `json:"-"` // of asked: those that turn no linked GPU crate on
	Other       string   `json:"-"` // the backend that was asked for, where that is another than CUDA
	OtherOff    []string `json:"-"` // the linked crates without it
	Open        []Open   `json:"-"` // what only the build shows
}

// Undecided names a root of which only the build shows what a feature for CUDA does; empty: there is none.
func (a *Reach) Undecided() string {
	for _, r := range a.Roots {
		for _, o := range r.Open {
			if o.Backend == "cuda" {
				return r.Package
			}
		}
	}
	return ""
}

// Open is a request of which only what the build makes shows whether it put GPU code into a root's programs.
type Open struct {
	Feature string   // as a sentence names it: `cuda` of app
	Backend string   // cuda, rocm, vulkan, metal, opencl; gpu: any
	Named   bool     // the command line names the feature, or all
	Off     []string // crates with kernels that are linked without those
	Gates   []string // … and what would turn each on: `cuda` of candle-core 0.9.2
	Middle  []string // a package that the request turns on, depends on one of them and does not forward the request, and what it links
	Always  []string // bindings that are linked whatever was asked for
	Bound   bool     // a binding is linked by the request
	Sources []string // how the names of the source files of all those bindings begin, which their code in a program names where it may panic
	Blind   bool     // what the bindings of Always bring into a program does not count
	Listed  bool     // gpubuild.toml names the package
	Warns   bool     // where nothing is found, that is a warning
	Path    string   // of the feature
	Line    int
	Fix     string
}

// Title is the backend in a sentence.
func (o Open) Title() string {
	if o.Backend == manifest.AnyGPU {
		return "a GPU in a way that gpubuild knows"
	}
	return title(o.Backend)
}

// CrateState is what a linked crate has of the GPU.
type CrateState struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	PkgID   string `json:"pkg_id,omitempty"`
	// cuda, wgpu, rocm, libtorch, none; several with commas where several are on; "own" for the user's packages, "unknown" for crates
	// outside the catalog
	Backend  string   `json:"backend"`
	Role     string   `json:"role,omitempty"`
	Features []string `json:"features"`
	On       bool     `json:"on"`
	// how the request turns it on, if it does; own packages have none
	Steps  []graph.Step `json:"steps,omitempty"`
	Anyway bool         `json:"-"` // on, but not by what was requested
}

// Needs is what the linked crates and their build scripts ask of the machine.
type Needs struct {
	CUDA        bool `json:"cuda"`         // CUDA code is linked
	NVCC        bool `json:"nvcc"`         // a build script calls nvcc
	HostCXX     bool `json:"host_cxx"`     // … and it needs a C++ compiler
	CUDALibs    bool `json:"cuda_libs"`    // headers or libraries of the toolkit at build time
	CUDNN       bool `json:"cudnn"`        // cuDNN at build time
	LibTorch    bool `json:"libtorch"`     //
	ROCm        bool `json:"rocm"`         //
	EmbedsPTX   bool `json:"embeds_ptx"`   // PTX is compiled by the driver, which must be as new as the toolkit
	NVCCVersion bool `json:"nvcc_version"` // nvcc is only asked for its version
	// a package outside of the catalog that may compile kernels in this build: it is given a toolkit if there is one
	Perhaps string       `json:"-"`
	Because []NeedReason `json:"because"` // what each crate needs to build
	Run     []NeedReason `json:"run"`     // what the program needs to run, and which crate asks for it
	Floors  []Floor      `json:"floors,omitempty"`
	Files   []string     `json:"files,omitempty"` // headers and libraries of the toolkit, as far as they are known
}

// Floor is the lowest architecture that a crate's kernels compile for, with some or all versions of CUDA.
type Floor struct {
	Crate string         `json:"crate"`
	Arch  gpu.Capability `json:"arch"`
	Since gpu.Version    `json:"since"` // zero: any
	Until gpu.Version    `json:"until"`
	Why   string         `json:"why"`
}

// NeedReason says which crate asks for something.
type NeedReason struct {
	Need  string `json:"need"`
	Crate string `json:"crate"`
	Why   string `json:"why"`
	Major int    `json:"-"` // the library is that of this major version of CUDA; 0: that of the toolkit
	NVCC  int    `json:"-"` // … or of this one where nvcc is of that
}

// ScriptUnit is a GPU package whose build script runs: what a record of build inputs is kept for.
type ScriptUnit struct {
	PkgID    string   `json:"pkg_id"`
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Features []string `json:"features"`
	Dir      string   `json:"dir"` // of its manifest
	Platform string   `json:"platform,omitempty"`
	Inputs   Inputs   `json:"inputs"`
}

// Inputs is what of the machine a build script's output depends on.
type Inputs struct {
	NVCC    bool `json:"nvcc"`
	Version bool `json:"nvcc_version"` // nvcc is asked for its version and compiles nothing
	Host    bool `json:"host_compiler"`
	Arch    bool `json:"arch"`
	Root    bool `json:"root"`  // headers or libraries below the toolkit's root
	Binds   bool `json:"binds"` // bindgen reads headers there
	CUDNN   bool `json:"cudnn"`
	CXX     bool `json:"cxx"` // a C++ compiler of its own choice, by the cc crate or CMake
	// PassesCXX: the compiler that CXX names is passed to nvcc, by the cc crate.
	PassesCXX bool             `json:"passes_cxx,omitempty"`
	Torch     bool             `json:"libtorch"`
	Headers   []catalog.Header `json:"headers,omitempty"`
	Env       []string         `json:"env"` // variables; one that ends with * means all with that prefix
}
