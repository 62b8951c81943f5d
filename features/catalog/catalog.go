package catalog

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	fast "github.com/pelletier/go-toml/v2"

	"gpubuild/buildenv"
)

//go:embed crates.toml
var catalogText string

// Roles of a crate in a GPU build.
const (
	Carrier     = "carrier"      // its presence in the graph is the signal
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
	byName map[string]*Crate
}

// Crate is one entry of the catalog.
type Crate struct {
	Name         string              `toml:"name"`
	Repo         string              `toml:"repo"`
	SeenVersion  string              `toml:"seen_version"`
	Backend      string              `toml:"backend"` // cuda, wgpu, rocm, libtorch, none
	Role         string              `toml:"role"`
	CUDAFeatures []string            `toml:"cuda_features"` // those that mean CUDA
	DriverOnly   bool                `toml:"driver_only"`
	EmbedsPTX    bool                `toml:"embeds_ptx"`
	Renames      []string            `toml:"common_renames"`
	Probe        []string            `toml:"probe_features"`
	CarrierDeps  []string            `toml:"gpu_carrier_dep"`
	GPUBy        string              `toml:"gpu_by"`
	Notes        string              `toml:"notes"`
	Sources      []string            `toml:"sources"`
	BuildNeeds   []string            `toml:"build_needs"`   // while its CUDA code is on
	AlwaysNeeds  []string            `toml:"always_needs"`  // whatever its features
	FeatureNeeds map[string][]string `toml:"feature_needs"` // while a feature is on
	IdleWith     []string            `toml:"idle_with"`     // features with which its build script does nothing
	RunNeeds     []string            `toml:"run_needs"`     // what a program with its CUDA code links or opens
	Backends     map[string]string   `toml:"backends"`      // features that turn on another GPU than CUDA
	Features     map[string][]string `toml:"features"`
	Script       *CrateScript        `toml:"build_script"`
	Runtime      CrateRuntime        `toml:"runtime"`
	Lost         map[string]string   `toml:"lost"`  // by feature: what a build without it has not
	Minor        map[string]string   `toml:"minor"` // the same, where it is hardly missed
	// by optional dependency: what has CUDA code only with it and the CUDA feature together
	Together map[string]string `toml:"together"`
	External []External        `toml:"external"` // what its build script keeps outside the target directory
}

// External is a directory outside the target directory that a build script keeps things in. No `cargo clean` reaches it.
type External struct {
	What    string          `toml:"what"`
	Places  []ExternalPlace `toml:"places"`
	Holds   []string        `toml:"holds"`    // regular expressions of whole paths below it, with slashes: all that the script writes there
	BlindTo []string        `toml:"blind_to"` // inputs whose change the script's own check of what it kept does not see
	Sources []string        `toml:"sources"`

	holds []*regexp.Regexp
}

// ExternalPlace is where it may be.
type ExternalPlace struct {
	OS   string `toml:"os"`   // empty: on every system
	Path string `toml:"path"` // with slashes; $NAME is a variable, $HOME the user's directory
}

// Dir answers the directory that the script uses here: the first place whose
// variables are all set. Empty: none, and what it keeps lies in OUT_DIR.
func (x *External) Dir(h buildenv.Host) string {
	for _, p := range x.Places {
		if p.OS != "" && p.OS != h.OS {
			continue
		}
		whole := true
		dir := os.Expand(p.Path, func(name string) string {
			v, ok := h.Env.Lookup(name)
			if name == "HOME" && h.Home != "" {
				v, ok = h.Home, true
			}
			whole = whole && ok && v != ""
			return v
		})
		switch {
		case !whole:
		case h.IsAbs(dir):
			return h.Clean(dir)
		default:
			return "" // relative to wherever the script runs: not known here
		}
	}
	return ""
}

// Writes says whether a path below the directory, with slashes, is one that the script writes.
func (x *External) Writes(rel string) bool {
	for _, re := range x.holds {
		if re.MatchString(rel) {
			return true
		}
	}
	return false
}

// CrateScript is what a crate's build script reads and does.
type CrateScript struct {
	Declared   []string `toml:"env_declared_rerun"`
	Undeclared []string `toml:"env_read_not_declared"`
	Runs       []string `toml:"commands_run"`
	EmitsCfg   []string `toml:"emits_cfg"`
	EmitsEnv   []string `toml:"emits_env"`
	Cache      string   `toml:"own_cache_in_out_dir"`
	Watches    string   `toml:"files_watched"`
	Headers    []Header `toml:"headers_read"`
}

// CrateRuntime is what a program with the crate needs to run.
type CrateRuntime struct {
	Linked []string `toml:"linked"`
	Dlopen []string `toml:"dlopen"`
	Note   string   `toml:"note"`
}

var defaultCatalog = sync.OnceValues(func() (*Catalog, error) { return parseCatalog(catalogText) })

// Default answers the embedded catalog. It is shared: do not change it.
func Default() (*Catalog, error) { return defaultCatalog() }

func parseCatalog(text string) (*Catalog, error) {
	c := &Catalog{}
	// it is read in every run: see readTOML
	if err := fast.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(c); err != nil {
		var unknown *fast.StrictMissingError
		if errors.As(err, &unknown) {
			return nil, fmt.Errorf("crates.toml: unknown key:\n%s", unknown.String())
		}
		return nil, fmt.Errorf("crates.toml: %w", err)
	}
	for i := range c.Crates {
		for k := range c.Crates[i].External {
			if err := c.Crates[i].External[k].compile(); err != nil {
				return nil, fmt.Errorf("crates.toml: %s: %w", c.Crates[i].Name, err)
			}
		}
	}
	c.byName = make(map[string]*Crate, len(c.Crates))
	for i := range c.Crates {
		c.byName[c.Crates[i].Name] = &c.Crates[i]
	}
	return c, nil
}

func (x *External) compile() error {
	if x.What == "" || len(x.Places) == 0 || len(x.Holds) == 0 || len(x.Sources) == 0 {
		return fmt.Errorf("external %q needs what, places, holds and sources", x.What)
	}
	for _, pattern := range x.Holds {
		re, err := regexp.Compile("^(?:" + pattern + ")$")
		if err != nil {
			return fmt.Errorf("external %q: %w", x.What, err)
		}
		x.holds = append(x.holds, re)
	}
	return nil
}

// Crate answers the entry of a package name; nil when the catalog has none.
func (c *Catalog) Crate(name string) *Crate {
	if c == nil {
		return nil
	}
	return c.byName[name]
}

// CUDA says whether the crate can bring CUDA code into a program.
func (c *Crate) CUDA() bool {
	return c != nil && c.Backend == "cuda" && (c.Role == Carrier || c.Role == Gated)
}

// On says whether the crate has CUDA code with these features.
func (c *Crate) On(features []string) bool {
	switch c.Role {
	case Carrier:
		return true
	case Gated, Monitor:
		for _, f := range c.CUDAFeatures {
			if slices.Contains(features, f) {
				return true
			}
		}
	}
	return false
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

// Idle says whether the crate's build script does nothing with these features.
func (c *Crate) Idle(features []string) bool {
	for _, f := range c.IdleWith {
		if slices.Contains(features, f) {
			return true
		}
	}
	return false
}

// Also lists what the crate's build script needs apart from its CUDA code.
func (c *Crate) Also(features []string) []string {
	if c.Idle(features) {
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

// Needs says whether the crate needs something to build (nvcc, host_cxx, cuda_headers_or_libs, cmake, …).
func (c *Crate) Needs(what string) bool { return slices.Contains(c.BuildNeeds, what) }

// Env lists the variables that the crate's build script reads, declared and not; GGML_* stands for all that begin so. PATH is left out:
// what is found on it is recorded itself.
func (c *Crate) Env() []string {
	if c.Script == nil {
		return nil
	}
	var out []string
	for _, list := range [][]string{c.Script.Declared, c.Script.Undeclared} {
		for _, s := range list {
			name, _, _ := strings.Cut(s, " ")
			if name != "" && name != "PATH" && name != "OUT_DIR" && !strings.HasPrefix(name, "CARGO_") && name == strings.ToUpper(name) &&
				!strings.ContainsAny(strings.TrimSuffix(name, "*"), "*.,/") {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Means answers the feature by which the crate calls what the user calls name: cudnn is cudnn, everything else is CUDA.
func (c *Crate) Means(name string) string {
	if name == "cudnn" {
		return "cudnn"
	}
	for _, f := range c.CUDAFeatures {
		if f == name {
			return f
		}
	}
	if len(c.CUDAFeatures) > 0 {
		return c.CUDAFeatures[0]
	}
	return name
}

// Header is a file that a build script looks for, and reads, without telling cargo.
type Header struct {
	File     string   `json:"file" toml:"file"`
	Features []string `json:"-" toml:"features"` // it is looked for when one of them is on
	Vars     []string `json:"vars" toml:"vars"`  // variables that name a root; the file lies in its include
	Dirs     []string `json:"dirs" toml:"dirs"`  // and then these directories
}
