package fatbin

import (
	"fmt"
	"strconv"

	"gpubuild/gpu"
)

// Kinds of images.
const (
	Cubin   = "cubin"    // machine code for one architecture
	PTX     = "ptx"      // PTX in a fatbin, compiled by the driver at load time
	PTXText = "ptx-text" // PTX as plain text, as include_str! leaves it
	LTO     = "lto-ir"   // intermediate code that only a link step makes runnable
)

// Ways an image is stored.
const (
	Raw  = "raw"
	LZ4  = "lz4"
	Zstd = "zstd"
)

// Image is one piece of device code for one architecture.
type Image struct {
	Offset int64    `json:"offset"` // of the fatbin entry, the cubin or the text in the file
	Fatbin int64    `json:"fatbin"` // offset of the fatbin that holds it; of what is in none, its own
	Kind   string   `json:"kind"`   // Cubin, PTX, PTXText, LTO, or "kind N" for one that is not known
	Arch   gpu.Arch `json:"arch"`   // sm_90a for machine code, compute_90a for PTX
	// version of the compiler that made a cubin or wrote PTX text, such as 13.4.92; a fatbin's PTX does not say it
	Toolkit     string   `json:"toolkit,omitempty"`
	PTXVersion  string   `json:"ptx_version,omitempty"` // such as 9.4
	Compression string   `json:"compression"`           // Raw, LZ4 or Zstd
	Size        int64    `json:"size"`                  // bytes that it takes in the file
	Unpacked    int64    `json:"unpacked"`              // bytes when unpacked; Size when it is raw, 0 when it could not be unpacked
	Kernels     []string `json:"kernels,omitempty"`     // names as the driver knows them (mangled), sorted
	// Resources are those of each kernel, in their order; only machine code has them.
	Resources   []Resources `json:"resources,omitempty"`
	Relocatable bool        `json:"relocatable,omitempty"` // a device link must complete it (nvcc -rdc)
	// the line of a kernel in its source file, "FILE:LINE", by its name: what nvcc -lineinfo or -G compiled has it
	Lines map[string]string `json:"lines,omitempty"`
	Where string            `json:"where,omitempty"` // section of the file, or member of the archive, if it lies in one
}

// Resources are what a kernel takes, as ptxas laid it out. Registers 0: not known.
type Resources struct {
	Registers uint64 `json:"registers"` // of each thread
	Stack     uint64 `json:"stack"`     // bytes of each thread, spilled registers included
	Shared    uint64 `json:"shared"`    // bytes of each block, without those that a launch adds
	Constant  uint64 `json:"constant"`  // bytes in bank 0: parameters, mostly
	// The linker could not bound the stack, of a recursion say; then Stack is 0.
	StackUnknown bool `json:"stack_unknown,omitempty"`
}

func (r Resources) String() string {
	stack := strconv.FormatUint(r.Stack, 10)
	if r.StackUnknown {
		stack = "unknown"
	}
	return fmt.Sprintf("registers %d, stack %s, shared %d, constant %d", r.Registers, stack, r.Shared, r.Constant)
}

// Formats of files.
const (
	ELF   = "ELF"
	PE    = "PE"
	Other = "not an executable"
)

// Report is what a file holds.
type Report struct {
	Format  string   `json:"format"`            // ELF, PE or Other
	Machine string   `json:"machine,omitempty"` // x86_64, aarch64, …
	Size    int64    `json:"size"`
	Images  []Image  `json:"images"`                    // by offset
	Imports []string `json:"imports"`                   // libraries that the loader must find, in the file's order
	Delayed []string `json:"delayed_imports,omitempty"` // PE: libraries that are loaded at the first call of one of their functions
	Notes   []string `json:"notes,omitempty"`           // what was malformed, cut off or left out
	Members []Member `json:"-"`                         // of an archive
}

// Member is where a member of an archive lies in it.
type Member struct{ From, Size int64 }

// Bounds. Each is far above what real files hold and says what a hostile one can cost.
const (
	maxImages    = 1 << 16   // images in a report
	maxNotes     = 100       // notes in a report
	maxBad       = 1 << 10   // malformed images that are looked at
	maxNames     = 256 << 20 // bytes of kernel names in a report
	maxNameBytes = 8 << 10   // bytes of one kernel's name
	maxImage     = 256 << 20 // bytes of one unpacked image
	maxUnpacked  = 16 << 30  // bytes unpacked for one report
)
