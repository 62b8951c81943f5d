package install

import (
	_ "embed"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/gpu"
)

//go:embed pins.toml
var pins string

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

// Wheel is one file to fetch: a pinned wheel, or an archive of NVIDIA's redistributables.
type Wheel struct {
	Part     string `toml:"-"`
	Package  string `toml:"-"`
	Licence  string `toml:"-"`
	Version  string `toml:"version"`
	Size     int64  `toml:"size"`     // bytes to fetch
	Unpacked int64  `toml:"unpacked"` // bytes on disk
	SHA256   string `toml:"sha256"`
	File     string `toml:"file"`
	Path     string `toml:"-"` // of a redistributable: from the address of all of them
}

func (w Wheel) String() string { return w.Package + " " + w.Version }

// bound is how many bytes its entries may have.
func (w Wheel) bound() uint64 {
	if w.Path != "" { // the index does not say: xz makes no more than this of anything that is of use
		return uint64(w.Size)*100 + 64<<20
	}
	return uint64(w.Unpacked) + margin
}

// tag is the platform tag by which pip finds the wheel; the first of several is as good as any.
func (w Wheel) tag() string {
	name := strings.TrimSuffix(w.File, ".whl")
	tags := name[strings.LastIndexByte(name, '-')+1:]
	tag, _, _ := strings.Cut(tags, ".")
	return tag
}

// Set is one release of the toolkit: versions that belong together.
type Set struct {
	CUDA     gpu.Version                 `toml:"cuda"`
	Release  string                      `toml:"release"` // 13.4.3
	Platform map[string]map[string]Wheel `toml:"platform"`
}

// Catalog is everything that can be fetched, newest set first.
type Catalog struct {
	Schema   int                `toml:"schema"`
	Licences map[string]Licence `toml:"licence"`
	Groups   map[string]string  `toml:"group"` // name and what it is for
	Parts    []Part             `toml:"part"`
	Sets     []Set              `toml:"set"`
}

// DefaultCatalog answers the pins that are part of this program.
func DefaultCatalog() (*Catalog, error) { return ParseCatalog([]byte(pins)) }

var (
	hexHash   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	wheelName = regexp.MustCompile(`^[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-py[a-z0-9.]*-none-[a-z0-9_.]+\.whl$`)
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// ParseCatalog reads pins and refuses any that could not be fetched and checked.
func ParseCatalog(data []byte) (*Catalog, error) {
	c := &Catalog{}
	meta, err := toml.Decode(string(data), c)
	if err != nil {
		return nil, fmt.Errorf("pins: %w", err)
	}
	if extra := meta.Undecoded(); len(extra) > 0 {
		return nil, fmt.Errorf("pins: unknown key %s", extra[0])
	}
	if c.Schema != 1 {
		return nil, fmt.Errorf("pins: schema %d, this program reads 1", c.Schema)
	}
	parts := map[string]Part{}
	for _, p := range c.Parts {
		if !plainName.MatchString(p.Name) || !plainName.MatchString(p.Package) || c.Groups[p.Group] == "" || c.Licences[p.Licence].Name == "" {
			return nil, fmt.Errorf("pins: part %q lacks a package, a group or a licence", p.Name)
		}
		parts[p.Name] = p
	}
	for _, s := range c.Sets {
		if s.CUDA.IsZero() || !plainName.MatchString(s.Release) {
			return nil, fmt.Errorf("pins: a set lacks its version")
		}
		for platform, wheels := range s.Platform {
			for name, w := range wheels {
				p, known := parts[name]
				where := fmt.Sprintf("pins: %s %s %s", s.Release, platform, name)
				switch {
				case !known:
					return nil, fmt.Errorf("%s: no such part", where)
				case !hexHash.MatchString(w.SHA256):
					return nil, fmt.Errorf("%s: %q is no sha256", where, w.SHA256)
				case !wheelName.MatchString(w.File) || !plainName.MatchString(w.Version):
					return nil, fmt.Errorf("%s: %q is no wheel's name", where, w.File)
				case w.Size <= 0 || w.Unpacked <= 0:
					return nil, fmt.Errorf("%s: no size", where)
				}
				w.Part, w.Package, w.Licence = p.Name, p.Package, p.Licence
				wheels[name] = w
			}
		}
	}
	sort.SliceStable(c.Sets, func(i, j int) bool { return c.Sets[i].CUDA.Compare(c.Sets[j].CUDA) > 0 })
	return c, nil
}

// Default is what is fetched when nothing else is asked for: enough to compile kernels and to prove that they ran.
func Default() []string { return []string{"build", "cupti"} }

// expand turns names of groups and parts into parts, in the catalog's order. "all" means every part.
func (c *Catalog) expand(names []string) ([]Part, error) {
	if len(names) == 0 {
		names = Default()
	}
	wanted := map[string]bool{}
	for _, n := range names {
		found := false
		for _, p := range c.Parts {
			if n == "all" || n == p.Name || n == p.Group {
				wanted[p.Name], found = true, true
			}
		}
		if !found {
			return nil, &UnknownPartError{Name: n, Known: c.names()}
		}
	}
	var out []Part
	for _, p := range c.Parts {
		if wanted[p.Name] {
			out = append(out, p)
		}
	}
	return out, nil
}

// names lists what can be asked for: groups first, then parts.
func (c *Catalog) names() []string {
	var out []string
	for g := range c.Groups {
		out = append(out, g)
	}
	sort.Strings(out)
	for _, p := range c.Parts {
		if c.Groups[p.Name] == "" {
			out = append(out, p.Name)
		}
	}
	return append(out, "all")
}
