package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

// RedistHome is where NVIDIA keeps its redistributables: <home>/cuda/redist/redistrib_<release>.json names the archives of a release by paths
// from its own directory, <home>/cudnn/redist/ likewise. A mirror, or a directory without network, has the same layout.
const RedistHome = "https://developer.download.nvidia.com/compute"

// Redist says where the redistributables are taken from. It is the user's word or NVIDIA's own server, never a cloned repository's word.
type Redist struct {
	Base   string // URL or directory; empty: RedistHome
	Origin string // who said so, for Plan.Lines
}

// component is what a part is called in NVIDIA's index. Since 13.0 cuda_nvcc is three components (redistrib_13.0.0.json); before, it holds
// the crt headers and nvvm itself.
type component struct {
	part, name string
	since      int // major version of CUDA that has it by itself
}

var components = []component{
	{"nvcc", "cuda_nvcc", 0}, {"nvvm", "libnvvm", 13}, {"crt", "cuda_crt", 13}, {"runtime", "cuda_cudart", 0}, {"cccl", "cuda_cccl", 0},
	{"cupti", "cuda_cupti", 0}, {"cublas", "libcublas", 0}, {"curand", "libcurand", 0}, {"nvrtc", "cuda_nvrtc", 0}, {"nvjitlink", "libnvjitlink", 0},
	{"cudnn", "cudnn", 0},
}

// release is the label of an index: 12.9.1.
type release [3]int

func (r release) String() string    { return fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2]) }
func (r release) cuda() gpu.Version { return gpu.Version{Major: r[0], Minor: r[1]} }
func (r release) compare(o release) int {
	for i := range r {
		if r[i] != o[i] {
			return r[i] - o[i]
		}
	}
	return 0
}

var indexName = regexp.MustCompile(`redistrib_(\d{1,4})\.(\d{1,4})\.(\d{1,4})\.json`)

// releases reads the labels out of a directory listing, a web server's page included, newest first.
func releases(listing string) []release {
	seen := map[release]bool{}
	var out []release
	for _, m := range indexName.FindAllStringSubmatch(listing, -1) {
		var r release
		for i := range r {
			r[i], _ = strconv.Atoi(m[i+1]) // at most four digits
		}
		if !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].compare(out[j]) > 0 })
	return out
}

// archive is one file of an index. The size stands there as a string.
type archive struct {
	Path   string `json:"relative_path"`
	SHA256 string `json:"sha256"`
	Size   string `json:"size"`
}

// indexEntry is a component of an index; the platforms stand beside these keys, and cuDNN's lie one deeper, by the CUDA that they are for (cuda12).
type indexEntry struct {
	Name    string
	Licence string
	Version string
	Archive map[string]archive // by platform; cuDNN's by platform/cuda12
}

// parseIndex reads a redistrib_*.json. What is no component (release_date, release_label, …) is a string there.
func parseIndex(data []byte) (map[string]indexEntry, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, err
	}
	out := map[string]indexEntry{}
	for name, raw := range top {
		var keys map[string]json.RawMessage
		if json.Unmarshal(raw, &keys) != nil {
			continue
		}
		e := indexEntry{Archive: map[string]archive{}}
		for to, key := range map[*string]string{&e.Name: "name", &e.Licence: "license", &e.Version: "version"} {
			if v, ok := keys[key]; ok {
				if err := json.Unmarshal(v, to); err != nil {
					return nil, fmt.Errorf("%s.%s: %w", name, key, err)
				}
			}
		}
		for key, v := range keys {
			var a archive
			if json.Unmarshal(v, &a) == nil && a.Path != "" {
				e.Archive[key] = a
				continue
			}
			var variants map[string]archive
			if json.Unmarshal(v, &variants) == nil {
				for variant, a := range variants {
					if a.Path != "" {
						e.Archive[key+"/"+variant] = a
					}
				}
			}
		}
		out[name] = e
	}
	return out, nil
}

// redistPlatform is the host's name in the index; empty where NVIDIA has nothing for it.
func redistPlatform(h buildenv.Host) string {
	switch p := Platform(h); p {
	case "linux-x86_64", "windows-x86_64":
		return p
	case "linux-aarch64":
		return "linux-sbsa" // servers; linux-aarch64 was Jetson's
	}
	return ""
}

// IndexError says that NVIDIA's index, or a mirror's, holds something that cannot be used.
type IndexError struct{ Index, Problem string }

func (e *IndexError) Error() string { return e.Index + ": " + e.Problem }

// Hint says what a user can do about it.
func (e *IndexError) Hint() string {
	return "name another release (gpubuild toolchain install 12.8), or another place with --redist or GPUBUILD_REDIST"
}

// wheel turns an archive of the index into a file to fetch.
func (a archive) wheel(part Part, comp component, e indexEntry) (Wheel, error) {
	w := Wheel{Part: part.Name, Package: comp.name, Licence: part.Licence, Version: e.Version, SHA256: strings.ToLower(a.SHA256), File: path.Base(a.Path), Path: a.Path}
	bad := func(problem string) (Wheel, error) { return Wheel{}, errors.New(comp.name + ": " + problem) }
	for _, step := range strings.Split(a.Path, "/") {
		if !plainName.MatchString(step) {
			return bad(fmt.Sprintf("relative_path %q is not one below the index", a.Path))
		}
	}
	var err error
	w.Size, err = strconv.ParseInt(a.Size, 10, 64)
	switch {
	case !strings.HasSuffix(w.File, ".tar.xz") && !strings.HasSuffix(w.File, ".zip"):
		return bad(fmt.Sprintf("%q is neither a .tar.xz nor a .zip", w.File))
	case !hexHash.MatchString(w.SHA256):
		return bad(fmt.Sprintf("%q is no sha256", a.SHA256))
	case !plainName.MatchString(w.Version):
		return bad(fmt.Sprintf("%q is no version", e.Version))
	case err != nil || w.Size <= 0 || w.Size > 1<<36:
		return bad(fmt.Sprintf("%q is no size", a.Size))
	}
	// The index does not say what an archive unpacks to. NVIDIA's own grow three- to fivefold; this is for the eyes, bound() for the bombs.
	w.Unpacked = 4 * w.Size
	return w, nil
}

// MakeRedistPlan plans to take a toolkit from NVIDIA's redistributable archives: CUDA 12, of which no wheel holds nvcc, and CUDA 13 where
// there is no pip. It reads the index over the network, so the caller has the user's word already; of a toolkit that is installed, and
// is the very release asked for or no older than what could be had offline, nothing is read.
func MakeRedistPlan(ctx context.Context, c *Catalog, h buildenv.Host, cacheDir string, w Want, from Redist) (Plan, error) {
	parts, err := c.expand(w.Parts)
	if err != nil {
		return Plan{}, err
	}
	platform := redistPlatform(h)
	none := &NoFitError{Platform: Platform(h), Exact: w.Exact, Max: w.MaxVersion}
	if platform == "" {
		return Plan{}, none
	}
	for _, in := range Installed(h, cacheDir) {
		if in.answers(h, parts, w) {
			return Plan{Root: in.Root, Installed: true, CUDA: in.CUDA, Release: in.Release, Platform: in.Platform, LinkStubs: in.LinkStubs, name: in.Name, cacheDir: cacheDir, host: h}, nil
		}
	}
	if from.Base == "" {
		from = Redist{Base: RedistHome, Origin: "NVIDIA's server"}
	}
	src, err := newSource(h, from.Base)
	if err != nil {
		return Plan{}, err
	}
	listing, err := src.list(ctx, "cuda/redist/")
	if err != nil {
		return Plan{}, err
	}
	all := releases(listing)
	for _, r := range all {
		switch v := r.cuda(); {
		case v.Major < 12:
			continue // their cuda_nvcc is laid out in another way
		case !w.Exact.IsZero() && v != w.Exact:
			continue
		case w.refuses(v) != "":
			none.Losers = append(none.Losers, "CUDA "+r.String()+w.refuses(v))
			continue
		case len(none.Losers) > 20:
			return Plan{}, none
		}
		p, err := redistPlan(ctx, c, h, cacheDir, parts, w, src, from, platform, r)
		var index *IndexError
		if errors.As(err, &index) && w.Exact.IsZero() {
			none.Losers = append(none.Losers, index.Error())
			continue
		}
		if err == nil && w.Exact.IsZero() {
			p.Notes = none.Losers
		}
		return p, err
	}
	if len(none.Losers) == 0 {
		none.Losers = []string{src.show("cuda/redist/") + " has " + nearest(all, w.Exact)}
	}
	return Plan{}, none
}

// nearest lists up to four releases around a version, for a person who asked for one that does not exist.
func nearest(all []release, v gpu.Version) string {
	var near []release
	for _, r := range all {
		if r[0] >= 12 {
			near = append(near, r)
		}
	}
	if len(near) == 0 {
		return "no release of CUDA 12 or newer"
	}
	far := func(r release) int {
		d := (r[0]-v.Major)*100 + r[1] - v.Minor
		return max(d, -d)
	}
	sort.SliceStable(near, func(i, j int) bool { return far(near[i]) < far(near[j]) })
	near = near[:min(len(near), 4)]
	sort.Slice(near, func(i, j int) bool { return near[i].compare(near[j]) < 0 })
	var words []string
	for _, r := range near {
		words = append(words, r.String())
	}
	return "CUDA " + strings.Join(words, ", ")
}

// redistPlan is the plan of one release.
func redistPlan(ctx context.Context, c *Catalog, h buildenv.Host, cacheDir string, parts []Part, w Want, src *source, from Redist, platform string, r release) (Plan, error) {
	const dir = "cuda/redist/"
	p := Plan{CUDA: r.cuda(), Release: r.String(), Platform: Platform(h), LinkStubs: w.LinkStubs && h.OS == buildenv.Linux,
		cacheDir: cacheDir, compiler: w.Compiler, host: h, source: src, from: from}
	index, err := src.index(ctx, dir, r)
	if err != nil {
		return Plan{}, err
	}
	seen := map[string]bool{}
	for _, part := range parts {
		comp := componentOf(part.Name)
		if comp.name == "" || comp.since > r[0] {
			continue // part of another component there
		}
		var wheel Wheel
		if part.Name == "cudnn" {
			wheel, err = cudnnArchive(ctx, src, part, comp, platform, r[0])
		} else {
			wheel, err = pick(index, src.show(dir+indexFile(r)), part, comp, platform)
		}
		if err != nil {
			return Plan{}, err
		}
		if part.Name != "cudnn" {
			wheel.Path = dir + wheel.Path
		}
		p.Items = append(p.Items, Item{Wheel: wheel})
		if !seen[part.Licence] {
			seen[part.Licence] = true
			p.Licences = append(p.Licences, c.Licences[part.Licence])
		}
	}
	p.name = p.directory()
	p.Root = h.Join(cacheDir, toolkitsDir, p.name)
	if in, ok := read(h, p.Root); ok && in.satisfies(p) {
		p.Installed = true
		return p, nil
	}
	for i := range p.Items {
		it := &p.Items[i]
		it.Have = have(h, append([]string{h.Join(cacheDir, wheelsDir)}, w.Folders...), it.Wheel)
		if it.Have == "" && src.dir != "" {
			it.Have = have(h, []string{filepath.Dir(src.file(it.Path))}, it.Wheel)
		}
		if it.Have == "" {
			p.Fetch += it.Size
		}
		p.Disk += it.Unpacked
	}
	return p, nil
}

func componentOf(part string) component {
	for _, c := range components {
		if c.part == part {
			return c
		}
	}
	return component{}
}

func indexFile(r release) string { return "redistrib_" + r.String() + ".json" }

// pick answers a component's archive for a platform.
func pick(index map[string]indexEntry, where string, part Part, comp component, platform string) (Wheel, error) {
	e, ok := index[comp.name]
	if !ok {
		return Wheel{}, &IndexError{where, "has no component " + comp.name}
	}
	a, ok := e.Archive[platform]
	if !ok {
		return Wheel{}, &IndexError{where, comp.name + " is not there for " + platform}
	}
	w, err := a.wheel(part, comp, e)
	if err != nil {
		return Wheel{}, &IndexError{where, err.Error()}
	}
	return w, nil
}

// cudnnArchive answers the newest cuDNN 9 for a CUDA major version.
func cudnnArchive(ctx context.Context, src *source, part Part, comp component, platform string, major int) (Wheel, error) {
	const dir = "cudnn/redist/"
	listing, err := src.list(ctx, dir)
	if err != nil {
		return Wheel{}, err
	}
	where := src.show(dir)
	for _, r := range releases(listing) {
		if r[0] != 9 {
			continue
		}
		index, err := src.index(ctx, dir, r)
		if err != nil {
			return Wheel{}, err
		}
		w, err := pick(index, src.show(dir+indexFile(r)), part, comp, fmt.Sprintf("%s/cuda%d", platform, major))
		if err == nil {
			w.Path = dir + w.Path
			return w, nil
		}
		where = err.Error()
	}
	return Wheel{}, &IndexError{where, fmt.Sprintf("no cuDNN 9 for CUDA %d on %s", major, platform)}
}

// answers says whether an installed toolkit is what a redistributable plan would put there, without asking any index.
func (in Installation) answers(h buildenv.Host, parts []Part, w Want) bool {
	if in.Platform != Platform(h) || w.refuses(in.CUDA) != "" || w.LinkStubs && h.OS == buildenv.Linux && !in.LinkStubs {
		return false
	}
	for _, p := range parts {
		if componentOf(p.Name).since <= in.CUDA.Major && !in.Has(p.Name) {
			return false
		}
	}
	return true
}
