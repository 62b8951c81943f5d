package features

import (
	_ "embed" // crates.toml
	"fmt"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
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
	BuildNeeds   []string            `toml:"build_needs"`
	Features     map[string][]string `toml:"features"`
	Script       *CrateScript        `toml:"build_script"`
	Runtime      CrateRuntime        `toml:"runtime"`
	Lost         map[string]string   `toml:"lost"` // by feature: what a build without it has not
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
}

// CrateRuntime is what a program with the crate needs to run.
type CrateRuntime struct {
	Linked []string `toml:"linked"`
	Dlopen []string `toml:"dlopen"`
	Note   string   `toml:"note"`
}

var defaultCatalog = sync.OnceValues(func() (*Catalog, error) { return parseCatalog(catalogText) })

// DefaultCatalog answers the embedded catalog. It is shared: do not change it.
func DefaultCatalog() (*Catalog, error) { return defaultCatalog() }

func parseCatalog(text string) (*Catalog, error) {
	c := &Catalog{}
	md, err := toml.Decode(text, c)
	if err != nil {
		return nil, fmt.Errorf("crates.toml: %w", err)
	}
	if left := md.Undecoded(); len(left) > 0 {
		return nil, fmt.Errorf("crates.toml: unknown key %s", left[0])
	}
	c.byName = make(map[string]*Crate, len(c.Crates))
	for i := range c.Crates {
		c.byName[c.Crates[i].Name] = &c.Crates[i]
	}
	return c, nil
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
			if contains(features, f) {
				return true
			}
		}
	}
	return false
}

// Needs says whether the crate needs something to build (nvcc, host_cxx, cuda_headers_or_libs, cmake, …).
func (c *Crate) Needs(what string) bool { return contains(c.BuildNeeds, what) }

// Env lists the variables that the crate's build script reads, declared and not. PATH is left out: what is found on it is recorded itself.
func (c *Crate) Env() []string {
	if c.Script == nil {
		return nil
	}
	var out []string
	for _, list := range [][]string{c.Script.Declared, c.Script.Undeclared} {
		for _, s := range list {
			name, _, _ := strings.Cut(s, " ")
			if name != "" && name != "PATH" && name != "OUT_DIR" && !strings.HasPrefix(name, "CARGO_") && name == strings.ToUpper(name) && !strings.ContainsAny(name, "*.,/") {
				out = mergeStrings(out, []string{name})
			}
		}
	}
	return sorted(out)
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
