package catalog

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	fast "github.com/pelletier/go-toml/v2"

	"gpubuild/gpu"
)

//go:embed crates.toml
var catalogText string

// Roles of a crate in a GPU build.
const (
	Carrier     = "carrier"      // its presence in the graph is the signal
	Binding     = "binding"      // the same, but it holds functions only: a program with it need not use a GPU
	Gated       = "gated"        // on when one of its CUDA features is on
	Monitor     = "monitor"      // its cuda feature only reads device information
	ByFile      = "file"         // a file that its build script finds decides
	Helper      = "helper"       // build support that runs nvcc
	FalseFriend = "false-friend" // its feature cuda means something else
)

// Catalog is what is known of GPU crates.
type Catalog struct {
	Schema int     `toml:"schema"`
	Crates []Crate `toml:"crate"`
	Traces []Trace `toml:"trace"`
	byName map[string]*Crate
	forked []*Crate
}

// Trace is how a program shows that it uses a backend.
type Trace struct {
	Backend   string   `toml:"backend"`
	System    string   `toml:"system"`    // the part of a target's name without which nothing has the backend; empty: none
	Libraries []string `toml:"libraries"` // what their names begin with
	Plugins   []string `toml:"plugins"`   // libraries that a program may name and not use
	Names     []string `toml:"names"`     // others
	Functions []string `toml:"functions"` // which every program of the backend calls
	Calls     []string `toml:"calls"`     // what names of other functions begin with, one of which who calls a library through a binding names
}

// Crate is one entry of the catalog.
type Crate struct {
	Name         string              `toml:"name"`
	SeenVersion  string              `toml:"seen_version"`
	Backend      string              `toml:"backend"` // cuda, wgpu, rocm, libtorch, none
	Role         string              `toml:"role"`
	CUDAFeatures []string            `toml:"cuda_features"` // those that mean CUDA
	Forked       bool                `toml:"forked"`        // a package NAME-SUFFIX is a renamed copy: candle-core-fathomdb
	EmbedsPTX    bool                `toml:"embeds_ptx"`
	Notes        string              `toml:"notes"`
	Sources      []string            `toml:"sources"`
	BuildNeeds   []string            `toml:"build_needs"`   // while its CUDA code is on
	AlwaysNeeds  []string            `toml:"always_needs"`  // whatever its features
	FeatureNeeds map[string][]string `toml:"feature_needs"` // while a feature is on
	IdleWith     []string            `toml:"idle_with"`     // features with which its build script does nothing
	RunNeeds     []string            `toml:"run_needs"`     // what a program with its CUDA code links or opens
	RunLibraries [][]string          `toml:"run_libraries"` // a feature (cudnn* for all that begin so), and what it makes a program open
	Backends     map[string]string   `toml:"backends"`      // features that turn on another GPU than CUDA
	Means        map[string]string   `toml:"means"`         // features of whoever depends on it, and the backend that they need
	// of a carrier of another GPU: without any of these it finds no device; versions that do not declare the first have all
	CarrierFeatures []string            `toml:"carrier_features"`
	Features        map[string][]string `toml:"features"`
	Script          *CrateScript        `toml:"build_script"`
	Lost            map[string]string   `toml:"lost"` // by feature: what a build without it has not
	Floors          []Floor             `toml:"floor"`
	Files           []Files             `toml:"files"`
	Archives        []Archive           `toml:"archive"`
	Loads           *Loads              `toml:"loads"`
}

// Floor is the lowest architecture that a crate's kernels compile for. One that only some sources have is recognized by their text:
// forks and clones between two releases have the same version numbers.
type Floor struct {
	Arch    gpu.Capability `toml:"arch"`
	Since   gpu.Version    `toml:"since"` // only with CUDA from here on; zero: with any
	Until   gpu.Version    `toml:"until"` // only with CUDA up to here; zero: with any
	File    string         `toml:"file"`  // the floor holds where this file of the package matches has and not lacks; empty: always
	Has     string         `toml:"has"`
	Lacks   string         `toml:"lacks"`
	Why     string         `toml:"why"`
	Sources []string       `toml:"sources"`
}

// AppliesTo reports whether a package whose File has this text has the floor.
func (f Floor) AppliesTo(text string) bool {
	matches := func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(text) } // TestCatalog compiles each
	return f.File == "" || text != "" && matches(f.Has) && (f.Lacks == "" || !matches(f.Lacks))
}

// Files are headers (cublas_v2.h) and libraries (libcublas, or libculibos.a where no other form will do) of the toolkit that a build cannot
// do without.
type Files struct {
	Names   []string `toml:"names"`
	OS      string   `toml:"os"`     // empty: on every system
	Unless  string   `toml:"unless"` // a feature with which they are not asked for
	Sources []string `toml:"sources"`
}

// Archive is what a build script downloads for CUDA in some versions of its crate; of others nothing is known.
type Archive struct {
	Versions []string `toml:"versions"`
	Feature  string   `toml:"feature"` // it is downloaded where this one is on; empty: always
	Not      string   `toml:"not"`     // and this one off, with which a library of the system's may be taken
	System   bool     `toml:"system"`  // pkg-config is asked first, and may know a library of this machine's
	Unless   []string `toml:"unless"`  // and none of these variables is set
	CUDA     int      `toml:"cuda"`    // the major version that it is built for; 0: there is one for each
	NVCC     int      `toml:"nvcc"`    // another one for which it is taken where nvcc or CUDA_HOME is of that
	Targets  []string `toml:"targets"` // that it is there for
	Else     string   `toml:"else"`    // what it does for other targets
	Instead  string   `toml:"instead"` // what to do about it; empty: to set one of those variables
	Sources  []string `toml:"sources"`
}

// Loads are features with which some versions of a gated crate open a library at run time, whatever their gate says: that file decides.
type Loads struct {
	Features []string `toml:"features"`
	Versions []string `toml:"versions"`
	Notes    string   `toml:"notes"`
	Sources  []string `toml:"sources"`
}

// In is the crate as it is in a version with these features.
func (c *Crate) In(version string, features []string) *Crate {
	if c == nil || c.Loads == nil || c.On(features) || !Overlap(features, c.Loads.Features) || !slices.Contains(c.Loads.Versions, version) {
		return c
	}
	out := *c
	out.Role, out.Notes = ByFile, c.Loads.Notes
	return &out
}

// Archive is what the crate's build script downloads in a version with these features; nil: nothing, or not known.
func (c *Crate) Archive(version string, features []string) *Archive {
	for i := range c.Archives {
		a := &c.Archives[i]
		asked := a.Feature == "" || slices.Contains(features, a.Feature)
		if slices.Contains(a.Versions, version) && asked && !slices.Contains(features, a.Not) &&
			(c.On(features) || c.Role == ByFile) && !c.Ineffective(features) {
			return a
		}
	}
	return nil
}

// CrateScript is what a crate's build script reads and does.
type CrateScript struct {
	Declared   []string `toml:"env_declared_rerun"`
	Undeclared []string `toml:"env_read_not_declared"`
	Headers    []Header `toml:"headers_read"`
}

// Default returns the embedded catalog, which tests read first. It is shared: do not change it.
var Default = sync.OnceValue(func() *Catalog {
	c, err := parseCatalog(catalogText)
	if err != nil {
		panic(err)
	}
	return c
})

func parseCatalog(text string) (*Catalog, error) {
	c := &Catalog{}
	// it is read in every run: see readTOML
	if err := fast.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(c); err != nil {
		if unknown, ok := errors.AsType[*fast.StrictMissingError](err); ok {
			return nil, fmt.Errorf("crates.toml: unknown key:\n%s", unknown.String())
		}
		return nil, fmt.Errorf("crates.toml: %w", err)
	}
	c.byName = make(map[string]*Crate, len(c.Crates))
	for i := range c.Crates {
		c.byName[c.Crates[i].Name] = &c.Crates[i]
		if c.Crates[i].Forked {
			c.forked = append(c.forked, &c.Crates[i])
		}
	}
	return c, nil
}

// With is the catalog with one more crate.
func (c *Catalog) With(add Crate) *Catalog {
	out := *c
	out.byName = maps.Clone(c.byName)
	out.byName[add.Name] = &add
	return &out
}

// Crate returns the entry of a package name, or of the crate that the package is a renamed copy of; nil when the catalog has none.
func (c *Catalog) Crate(name string) *Crate {
	if known := c.byName[name]; known != nil {
		return known
	}
	for i := range c.forked {
		if strings.HasPrefix(name, c.forked[i].Name+"-") {
			return c.forked[i]
		}
	}
	return nil
}

// CUDA reports whether the crate can bring CUDA code into a program.
func (c *Crate) CUDA() bool {
	return c != nil && c.Backend == "cuda" && (c.Linked() || c.Role == Gated)
}

// Linked reports whether the crate has its code whenever it is linked.
func (c *Crate) Linked() bool { return c != nil && (c.Role == Carrier || c.Role == Binding) }

// BringsCUDA reports whether a program with the crate may use CUDA, by its features or by a file.
func (c *Crate) BringsCUDA() bool {
	return c.CUDA() || c.RunsNvcc() || c != nil && c.Role == ByFile
}

// RunsNvcc reports whether a build script that uses the crate runs nvcc.
func (c *Crate) RunsNvcc() bool { return c != nil && c.Role == Helper && c.Needs("nvcc") }

// On reports whether the crate has CUDA code with these features.
func (c *Crate) On(features []string) bool {
	switch c.Role {
	case Carrier, Binding:
		return true
	case Gated, Monitor:
		return Overlap(c.CUDAFeatures, features)
	}
	return false
}

// Overlap reports whether two lists share a name.
func Overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// Other lists the GPUs other than CUDA that the crate's features turn on: wgpu, rocm, vulkan, metal.
func (c *Crate) Other(features []string) []string {
	var out []string
	for _, f := range features {
		if b := c.Backends[f]; b != "" {
			out = append(out, b)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Ineffective reports whether the crate's build script does nothing with these features.
func (c *Crate) Ineffective(features []string) bool {
	return Overlap(c.IdleWith, features)
}

// Also lists what the crate's build script needs apart from its CUDA code.
func (c *Crate) Also(features []string) []string {
	if c.Ineffective(features) {
		return nil
	}
	out := slices.Clone(c.AlwaysNeeds)
	for _, f := range features {
		for _, need := range c.FeatureNeeds[f] {
			if !slices.Contains(out, need) {
				out = append(out, need)
			}
		}
	}
	return out
}

// Opens lists what a program with the crate links or opens.
func (c *Crate) Opens(features []string) (out []string) {
	if !c.Ineffective(features) {
		out = slices.Clone(c.RunNeeds)
	}
	for _, l := range c.RunLibraries {
		prefix, any := strings.CutSuffix(l[0], "*")
		if slices.ContainsFunc(features, func(f string) bool { return f == l[0] || any && strings.HasPrefix(f, prefix) }) {
			out = append(out, l[1])
		}
	}
	return out
}

// Needs reports whether the crate needs something to build (nvcc, host_cxx, cuda_headers_or_libs, cmake, …).
func (c *Crate) Needs(what string) bool { return slices.Contains(c.BuildNeeds, what) }

// Env lists the variables that the crate's build script reads, declared and not; GGML_* means all with that prefix. PATH is left out:
// what is found on it is recorded itself.
func (c *Crate) Env() []string {
	if c.Script == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.Script.Declared, c.Script.Undeclared))))
}

// Header is a file that a build script looks for, and reads, without telling cargo.
type Header struct {
	File     string   `json:"file" toml:"file"`
	Features []string `json:"-"    toml:"features"` // it is looked for when one of them is on
	Vars     []string `json:"vars" toml:"vars"`     // variables that name a root; the file lies in its include
	Dirs     []string `json:"dirs" toml:"dirs"`     // and then these directories
}
