package install

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

// assembly is part of a toolkit's name: raise it whenever trees are put together differently, and old ones are left alone.
const assembly = "1"

// Want is what a caller asks for.
type Want struct {
	Parts      []string    // groups or parts; empty: Default
	MaxVersion gpu.Version // newest version that the driver and the locked crates allow; zero: no limit
	MaxBecause string      // whose limit that is, for Plan.Lines: "the driver supports CUDA 13.0"
	Exact      gpu.Version // that very version; zero: the newest that fits
	Pin        gpu.Version // that version or a later one of the same major: what a feature of cudarc fixes its bindings to; zero: any
	LinkStubs  bool        // also stubs of cublas, cublasLt, curand, nvrtc, cudnn where the real ones are not among the parts
	Folders    []string    // directories that may hold the wheels already; what is found there is checked and not fetched
	Compiler   string      // C compiler for the stubs; empty: cc, gcc or clang of PATH
}

// Item is one wheel of a plan.
type Item struct {
	Wheel
	Have string // a file of that name and size, to be checked; empty: it will be fetched
}

// Plan is what Run will do.
type Plan struct {
	Root      string // where the toolkit will be, or is
	Installed bool   // it is there already: Run answers at once
	CUDA      gpu.Version
	Release   string // 13.4.3
	Platform  string // linux-x86_64
	Items     []Item
	Fetch     int64 // bytes that will be fetched
	Disk      int64 // bytes that it takes once it is there
	Licences  []Licence
	LinkStubs bool
	Notes     []string // why newer sets lost

	name     string
	cacheDir string
	compiler string
	host     buildenv.Host
	source   *source // not nil: redistributables, and no pip
	from     Redist
	pip      pip // that FindPip found
}

// Platform names the host as the pins do: linux-x86_64.
func Platform(h buildenv.Host) string {
	arch := h.Arch
	switch arch {
	case "amd64":
		arch = "x86_64"
	case "arm64":
		arch = "aarch64"
	}
	return h.OS + "-" + arch
}

// MakePlan picks the newest set that fits and says what getting it means. It changes nothing.
func MakePlan(c *Catalog, h buildenv.Host, cacheDir string, w Want) (Plan, error) {
	parts, err := c.expand(w.Parts)
	if err != nil {
		return Plan{}, err
	}
	platform := Platform(h)
	set, losers := c.choose(platform, parts, w)
	if set == nil {
		return Plan{}, &NoFitError{Platform: platform, Exact: w.Exact, Max: w.MaxVersion, Losers: losers}
	}
	p := Plan{CUDA: set.CUDA, Release: set.Release, Platform: platform, LinkStubs: w.LinkStubs && h.OS == buildenv.Linux,
		Notes: losers, cacheDir: cacheDir, compiler: w.Compiler, host: h}
	if !w.Exact.IsZero() {
		p.Notes = nil // the user knows why
	}
	seen := map[string]bool{}
	for _, part := range parts {
		p.Items = append(p.Items, Item{Wheel: set.Platform[platform][part.Name]})
		if !seen[part.Licence] {
			seen[part.Licence] = true
			p.Licences = append(p.Licences, c.Licences[part.Licence])
		}
	}
	p.name = p.directory()
	p.Root = h.Join(cacheDir, toolkitsDir, p.name)
	for _, in := range Installed(h, cacheDir) {
		if in.satisfies(p) {
			p.Root, p.name, p.Installed = in.Root, in.Name, true
			return p, nil
		}
	}
	for i := range p.Items {
		it := &p.Items[i]
		it.Have = have(h, append([]string{h.Join(cacheDir, wheelsDir)}, w.Folders...), it.Wheel)
		if it.Have == "" {
			p.Fetch += it.Size
		}
		p.Disk += it.Unpacked
	}
	return p, nil
}

// choose answers the newest set that fits, and why each newer one, or each at all, lost.
func (c *Catalog) choose(platform string, parts []Part, w Want) (*Set, []string) {
	var losers []string
	for i := range c.Sets {
		s := &c.Sets[i]
		wheels := s.Platform[platform]
		missing := ""
		for _, p := range parts {
			if _, ok := wheels[p.Name]; !ok && missing == "" {
				missing = p.Name
			}
		}
		switch {
		case wheels == nil:
			continue
		case w.refuses(s.CUDA) != "":
			losers = append(losers, "CUDA "+s.CUDA.String()+w.refuses(s.CUDA))
		case missing != "":
			losers = append(losers, fmt.Sprintf("CUDA %s has no %s", s.CUDA, missing))
		default:
			return s, losers
		}
	}
	return nil, losers
}

// refuses says why a version may not be taken; empty: it may.
func (w Want) refuses(v gpu.Version) string {
	switch {
	case !w.Exact.IsZero() && v != w.Exact:
		return fmt.Sprintf(" is not the %s asked for", w.Exact)
	case !w.MaxVersion.IsZero() && v.Compare(w.MaxVersion) > 0:
		return " is newer than " + w.limit()
	case !w.Pin.IsZero() && (v.Major != w.Pin.Major || v.Compare(w.Pin) < 0):
		return fmt.Sprintf(" has not all of what a feature fixes cudarc's bindings to (CUDA %d from %s on)", w.Pin.Major, w.Pin)
	}
	return ""
}

func (w Want) limit() string {
	if w.MaxBecause != "" {
		return w.MaxVersion.String() + " (" + w.MaxBecause + ")"
	}
	return w.MaxVersion.String() + ", the newest that may be used here"
}

// have answers a file with a wheel's name and size in one of the directories. Its hash is checked when it is used.
func have(h buildenv.Host, dirs []string, w Wheel) string {
	for _, d := range dirs {
		path := h.Join(d, w.File)
		if fi, err := h.Files.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Size() == w.Size {
			return path
		}
	}
	return ""
}

// directory names a toolkit by what is in it: two sets of parts, or pins of two versions of gpubuild, never share a directory.
func (p Plan) directory() string {
	var lines []string
	for _, it := range p.Items {
		lines = append(lines, it.SHA256)
	}
	sort.Strings(lines)
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s %v %s", assembly, p.LinkStubs, strings.Join(lines, " "))))
	return fmt.Sprintf("cuda-%s-%s-%s", p.CUDA, p.Platform, hex.EncodeToString(sum[:4]))
}

// Fits answers a *SpaceError where so many free bytes are too few, before anything is fetched; 0: it cannot be told. What NVIDIA's archives unpack to is
// not known before, so those are tried.
func (p Plan) Fits(free uint64) error {
	need := p.Fetch + p.Disk // the wheels are there until the last is unpacked
	if p.Installed || p.source != nil || free == 0 || uint64(need) <= free {
		return nil
	}
	return &SpaceError{Dir: p.cacheDir, Need: need, Free: int64(free)}
}

// Lines says for a person what Run would do: what, how large, under whose licence, where to.
func (p Plan) Lines() []string {
	if p.Installed {
		return []string{fmt.Sprintf("CUDA %s is already in %s", p.Release, p.Root)}
	}
	var lines, names []string
	for _, it := range p.Items {
		from := size(it.Size)
		if it.Have != "" {
			from = "have it"
		}
		names = append(names, fmt.Sprintf("%s %s (%s)", it.Package, it.Version, from))
	}
	by, about := "by your own pip", ""
	if p.source != nil {
		by, about = "from "+p.source.show("")+" ("+p.from.Origin+")", "about "
	}
	lines = append(lines, fmt.Sprintf("CUDA %s for %s: fetch %s %s, %s%s on disk", p.Release, p.Platform, size(p.Fetch), by, about, size(p.Disk)))
	lines = append(lines, names...)
	for _, l := range p.Licences {
		lines = append(lines, fmt.Sprintf("licence: %s, %s", l.Name, l.URL))
	}
	lines = append(lines, "into "+p.Root)
	for _, n := range p.Notes {
		lines = append(lines, "not taken: "+n)
	}
	return lines
}

// size writes a number of bytes as people say it.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d bytes", n)
}
