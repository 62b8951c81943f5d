package features

import (
	"errors"
	"fmt"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/gpu"
)

// Severities of findings.
const (
	Error   = finding.Error
	Warning = finding.Warning
	Note    = finding.Note
)

// Ids of findings.
const (
	IDUnreached    = "features.unreached"          // the feature leaves the GPU crates off and gates nothing
	IDUndecided    = "features.undecided"          // it gates code of the package's own: what the binary holds decides
	IDSibling      = "features.sibling"            // a linked crate's own CUDA code is left off
	IDOwnOff       = "features.own-code-off"       // the GPU crates are on, and the package's own code for cuda is not
	IDCudnnAlone   = "features.cudnn-without-cuda" // cudnn is on where the crate's own cuda is off
	IDWeak         = "features.weak-edge"          // x?/f without x
	IDStrong       = "features.strong-edge"        // x/f brings all of an optional x into the build
	IDForced       = "features.forced"             // CUDA is on without any feature asked for
	IDBorrowed     = "features.borrowed"           // only another package's edge turns the crates on
	IDUndeclared   = "features.undeclared"         // a root of several has no such feature
	IDOtherMeaning = "features.other-meaning"      // the feature means something else in the crates it reaches
	IDUnsure       = "features.unsure"             // cargo's two answers differ
	IDPins         = "features.cudarc-pins"        // two cudarc in one graph were told different CUDA versions
	IDNoVersion    = "features.cudarc-version"     // a cudarc that is told no CUDA version
	IDByFile       = "features.by-file"            // a file, not a feature, decides (libtorch)
	IDLoadDynamic  = "features.load-dynamic"       // ort: the loaded library decides
	IDHostCopy     = "features.host-copy"          // only the copy of a build script or proc-macro has the feature
	IDPropagation  = "features.propagation"        // a member's feature is not passed on to a dependency that has it, too
)

// Input is what Judge decides from. Graph or Tree may be nil.
type Input struct {
	Project *manifest.Project
	Request manifest.Request
	Catalog *catalog.Catalog // nil: the embedded one
	Graph   *graph.Graph
	Tree    *graph.Tree
	Strict  bool // warnings stop, too
}

// view is what a build links, with the sources of its packages at hand.
type view struct {
	*graph.View
	src *source.Reader
}

// View is what the build links, to be explained or drawn.
func (in Input) View(h buildenv.Host) (*graph.View, error) {
	v, err := in.view(h)
	if err != nil {
		return nil, err
	}
	return v.View, nil
}

func (in Input) view(h buildenv.Host) (*view, error) {
	if in.Graph == nil && in.Tree == nil {
		return nil, errors.New("features: neither a unit graph nor a cargo tree to look at")
	}
	return newView(h, in.Project, in.Catalog, in.Graph, in.Tree), nil
}

func newView(h buildenv.Host, p *manifest.Project, c *catalog.Catalog, g *graph.Graph, t *graph.Tree) *view {
	root := ""
	if p != nil {
		root = p.Root
	}
	return &view{graph.NewView(h, p, c, g, t), source.NewReader(h, root)}
}

// Answer is what a build links, what is wrong with it and what it needs.
type Answer struct {
	Via      string           `json:"via"` // "unit graph", "cargo tree" or both
	Roots    []Root           `json:"roots"`
	Paths    []graph.Why      `json:"paths"`
	Findings []Finding        `json:"findings"`
	Stops    bool             `json:"stops"`  // exit 10 unless the user goes on anyhow
	Unsure   bool             `json:"unsure"` // cargo's two answers differ
	Needs    Needs            `json:"needs"`
	Units    []ScriptUnit     `json:"units"`
	Untold   []string         `json:"untold,omitempty"` // packages of a tree that may belong to Units and cannot be judged
	Cudarc   []catalog.Cudarc `json:"cudarc,omitempty"`
	// newest CUDA version that every build script which asks nvcc for it knows: a newer toolkit makes one stop; zero: none asks
	CudarcMax gpu.Version `json:"cudarc_max"`
	MaxBy     string      `json:"max_by"` // the crate that knows no newer one
	// version that a feature tells a cudarc which links the toolkit's libraries;
	// zero: none. One that opens them at run time may have any toolkit
	Pin gpu.Version `json:"pin"`
}

// Root is one thing that is built: a program, a library, a test.
type Root struct {
	Package string       `json:"package"`
	Version string       `json:"version"`
	Target  string       `json:"target"`
	Kind    string       `json:"kind"` // bin, lib, test, …; empty from cargo tree
	Mode    string       `json:"mode"`
	For     string       `json:"for,omitempty"` // the target that it is built for, where several are
	Asked   []string     `json:"asked"`         // GPU features that are on in the root's own package
	Reached bool         `json:"reached"`       // CUDA code of at least one crate is linked
	Crates  []CrateState `json:"crates"`

	Programs manifest.Programs `json:"-"` // from cargo tree, which does not tell which of them a root is
}

// CrateState is what a linked crate has of the GPU.
type CrateState struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	PkgID   string `json:"pkg_id,omitempty"`
	// cuda, wgpu, rocm, libtorch, none; "own" for the user's packages, "unknown" for crates outside the catalog
	Backend  string   `json:"backend"`
	Role     string   `json:"role,omitempty"`
	Features []string `json:"features"`
	On       bool     `json:"on"`
	// on, off, "file" (a file decides), "-" (an own package of which nothing was asked, or another meaning of the feature)
	State  string          `json:"state"`
	Also   []string        `json:"also,omitempty"`   // GPUs that are on besides backend: wgpu, rocm, vulkan, metal
	Wanted map[string]bool `json:"wanted,omitempty"` // each GPU feature asked for that the crate declares, and whether it is on
	Note   string          `json:"note,omitempty"`
}

// Finding is one thing that a user should know.
type Finding struct {
	finding.Finding
	Root  string `json:"root,omitempty"`  // the root it was found for
	Lacks []Lack `json:"lacks,omitempty"` // the features of linked crates that it is about
	// the edges that mend it, in the order in which they can be written one by one; none: no manifest of the workspace mends it
	Edits []edit.Edit `json:"edits,omitempty"`

	line       lineAt // what it wants of the line at which it points
	beside     bool   // a part of another finding's mend, in another manifest
	undeclared bool   // … which has no such feature yet
}

// lineAt is what a finding wants of one line of a manifest.
type lineAt struct {
	feature string
	edges   []string
	to      []string // the dependencies, where only names were compared
}

// Lack is a feature that a linked crate has not, although the request means it.
type Lack struct {
	Crate   string `json:"crate"`
	Version string `json:"version"`
	Feature string `json:"feature"`
}

func (l Lack) String() string { return fmt.Sprintf("`%s` of %s %s", l.Feature, l.Crate, l.Version) }

// Needs is what the linked crates and their build scripts ask of the machine.
type Needs struct {
	CUDA        bool         `json:"cuda"`         // CUDA code is linked
	NVCC        bool         `json:"nvcc"`         // a build script calls nvcc
	HostCXX     bool         `json:"host_cxx"`     // … and it needs a C++ compiler
	CUDALibs    bool         `json:"cuda_libs"`    // headers or libraries of the toolkit at build time
	CUDNN       bool         `json:"cudnn"`        // cuDNN at build time
	RunCUDNN    bool         `json:"run_cudnn"`    // cuDNN when the program runs
	RunLibs     []string     `json:"run_libs"`     // libraries that are linked or opened at run time, as the catalog knows them
	CMake       bool         `json:"cmake"`        //
	LibClang    bool         `json:"libclang"`     //
	LibTorch    bool         `json:"libtorch"`     //
	ROCm        bool         `json:"rocm"`         //
	Network     bool         `json:"network"`      // a build script downloads
	ComputeCap  bool         `json:"compute_cap"`  // a build script asks for the GPU, or CUDA_COMPUTE_CAP
	DriverOnly  bool         `json:"driver_only"`  // CUDA code, but nothing of the toolkit at build time
	EmbedsPTX   bool         `json:"embeds_ptx"`   // PTX is compiled by the driver, which must be as new as the toolkit
	NVCCVersion bool         `json:"nvcc_version"` // nvcc is only asked for its version
	VulkanSDK   bool         `json:"vulkan_sdk"`   //
	Because     []NeedReason `json:"because"`      // what each crate needs to build
	Run         []NeedReason `json:"run"`          // what the program needs to run, and which crate asks for it
}

// NeedReason says which crate asks for something.
type NeedReason struct {
	Need  string `json:"need"`
	Crate string `json:"crate"`
	Why   string `json:"why"`
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
	NVCC    bool             `json:"nvcc"`
	Version bool             `json:"nvcc_version"` // nvcc is asked for its version and compiles nothing
	Host    bool             `json:"host_compiler"`
	Arch    bool             `json:"arch"`
	Root    bool             `json:"root"`  // headers or libraries below the toolkit's root
	Binds   bool             `json:"binds"` // bindgen reads headers there
	CUDNN   bool             `json:"cudnn"`
	CXX     bool             `json:"cxx"` // a C++ compiler of its own choice, by the cc crate or CMake
	Torch   bool             `json:"libtorch"`
	Headers []catalog.Header `json:"headers,omitempty"`
	Env     []string         `json:"env"` // variables; one that ends with * stands for all that begin so
}
