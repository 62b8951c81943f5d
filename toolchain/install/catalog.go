package install

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/redist"
	"gpubuild/toolchain/install/tree"
)

//go:embed pins.toml
var pins string

// Catalog is every toolkit that is pinned, newest first, and what can be asked for by name.
type Catalog struct {
	Licences map[string]Licence `toml:"licence"`
	Groups   map[string]string  `toml:"group"` // name and what it is for
	Parts    []Part             `toml:"part"`
	Sets     []Set              `toml:"set"`
}

// Licence is whose terms a part comes under.
type Licence struct {
	Name string `toml:"name" json:"name"`
	URL  string `toml:"url" json:"url"`
}

// Part is one piece of a toolkit that can be asked for by its own name or by its group's.
type Part struct {
	Name    string `toml:"name"`
	Package string `toml:"package"` // on the package index
	Group   string `toml:"group"`   // build, cupti, run, cudnn
	Licence string `toml:"licence"` // key of Catalog.Licences
	Holds   string `toml:"holds"`
}

// Set is one release of the toolkit: versions that belong together.
type Set struct {
	CUDA     gpu.Version                        `toml:"cuda"`
	Release  string                             `toml:"release"`  // 13.4.3
	Platform map[string]map[string]tree.Archive `toml:"platform"` // wheels by part
}

// DefaultCatalog returns the pins that are part of this program.
func DefaultCatalog() (*Catalog, error) { return ParseCatalog([]byte(pins)) }

// ParseCatalog reads pins. They are part of the program: a test checks that each can be fetched and checked.
func ParseCatalog(data []byte) (*Catalog, error) {
	c := &Catalog{}
	meta, err := toml.Decode(string(data), c)
	if err != nil {
		return nil, fmt.Errorf("pins: %w", err)
	}
	if extra := meta.Undecoded(); len(extra) > 0 {
		return nil, fmt.Errorf("pins: unknown key %s", extra[0])
	}
	for _, s := range c.Sets {
		for _, wheels := range s.Platform {
			for name, w := range wheels {
				p := c.part(name)
				w.Part, w.Package, w.Licence = name, p.Package, p.Licence
				wheels[name] = w
			}
		}
	}
	slices.SortStableFunc(c.Sets, func(a, b Set) int { return b.CUDA.Compare(a.CUDA) })
	return c, nil
}

// part is the part of a name; zero where there is none.
func (c *Catalog) part(name string) (none Part) {
	for _, p := range c.Parts {
		if p.Name == name {
			return p
		}
	}
	return none
}

// Releases lists those that are pinned for a platform, newest first.
func (c *Catalog) Releases(platform string) (all []string) {
	for _, s := range c.Sets {
		if s.Platform[platform] != nil {
			all = append(all, s.Release)
		}
	}
	return all
}

// Available lists the releases in NVIDIA's redistributable archives, newest first.
func Available(ctx context.Context, h buildenv.Host, from Redist) (out []string, err error) {
	source, err := redist.Open(h, cmp.Or(from.Base, redist.Home))
	if err != nil {
		return nil, err
	}
	releases, err := source.Releases(ctx)
	for _, r := range releases {
		out = append(out, r.String())
	}
	return out, err
}

// Default is what is fetched when nothing else is asked for: enough to compile kernels and to prove that they ran.
func Default() []string { return []string{"build", "cupti"} }

// offers reports whether any set has a wheel of a part for a platform; of a platform without sets nothing is known.
func (c *Catalog) offers(platform, part string) bool {
	known := false
	for _, s := range c.Sets {
		wheels, has := s.Platform[platform]
		if wheels[part].File != "" {
			return true
		}
		known = known || has
	}
	return !known
}

// expand turns names of groups and parts into parts, in the catalog's order. "all" means every part that is there for the platform.
func (c *Catalog) expand(platform string, names []string) ([]string, error) {
	if len(names) == 0 {
		names = Default()
	}
	means := func(n string, p Part) bool {
		return n == p.Name || (n == "all" || n == p.Group) && c.offers(platform, p.Name)
	}
	for _, n := range names {
		if !slices.ContainsFunc(c.Parts, func(p Part) bool { return means(n, p) }) {
			return nil, exit.Errorf(exit.Usage, "ask for one of "+strings.Join(c.names(), ", "), "%.200q is no part of a toolkit", n)
		}
	}
	var out []string
	for _, p := range c.Parts {
		if slices.ContainsFunc(names, func(n string) bool { return means(n, p) }) {
			out = append(out, p.Name)
		}
	}
	return out, nil
}

// names lists what can be asked for: groups first, then parts.
func (c *Catalog) names() []string {
	out := slices.Sorted(maps.Keys(c.Groups))
	for _, p := range c.Parts {
		if c.Groups[p.Name] == "" {
			out = append(out, p.Name)
		}
	}
	return append(out, "all")
}

// choose returns the newest set that fits, and why each newer one, or each at all, was rejected.
func (c *Catalog) choose(platform string, parts []string, w Want) (*Set, []string) {
	var rejected []string
	for i := range c.Sets {
		s := &c.Sets[i]
		wheels := s.Platform[platform]
		missing := slices.IndexFunc(parts, func(p string) bool { return wheels[p].File == "" && !slices.Contains(w.Parts, "all") })
		switch why := w.refuses(s.CUDA, s.Release); {
		case wheels == nil:
		case why != "" && (w.Release != "" || !w.Exact.IsZero() && s.CUDA != w.Exact): // the user knows which version that is
		case why != "":
			rejected = append(rejected, "CUDA "+s.CUDA.String()+why)
		case missing >= 0:
			rejected = append(rejected, fmt.Sprintf("CUDA %s has no %s", s.CUDA, parts[missing]))
		default:
			return s, rejected
		}
	}
	return nil, rejected
}
