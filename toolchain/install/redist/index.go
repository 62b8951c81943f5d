package redist

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/tree"
)

// components are the names of parts in NVIDIA's index. Since 13.0 cuda_nvcc is three components (redistrib_13.0.0.json); before, it holds
// the crt headers and nvvm itself, and cuda_cudart holds culibos.
var components = []struct {
	part, name string
	since      int // ten times the version of CUDA that has it by itself
}{
	{"nvcc", "cuda_nvcc", 0}, {"nvvm", "libnvvm", 130}, {"crt", "cuda_crt", 130}, {"runtime", "cuda_cudart", 0}, {"cccl", "cuda_cccl", 0},
	{"cupti", "cuda_cupti", 0}, {"cublas", "libcublas", 0}, {"curand", "libcurand", 0}, {"nvrtc", "cuda_nvrtc", 0},
	{"culibos", "cuda_culibos", 130}, {"nvjitlink", "libnvjitlink", 0}, {"tileiras", "cuda_tileiras", 131}, {"cudnn", "cudnn", 0},
}

// Component returns the name of a part in the index of a CUDA version; empty: there it belongs to another component, or is unknown.
func Component(part string, cuda gpu.Version) string {
	for _, c := range components {
		if c.part == part && c.since <= 10*cuda.Major+cuda.Minor {
			return c.name
		}
	}
	return ""
}

// Platform returns the index's name for a platform such as linux-x86_64; empty: NVIDIA has nothing for it.
func Platform(platform string) string {
	return map[string]string{"linux-x86_64": platform, "windows-x86_64": platform,
		"linux-aarch64": "linux-sbsa"}[platform] // servers; linux-aarch64 was Jetson's
}

// Release is the label of an index: 12.9.1.
type Release [3]int

func (r Release) String() string { return fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2]) }

// CUDA is the release's version of CUDA.
func (r Release) CUDA() gpu.Version { return gpu.Version{Major: r[0], Minor: r[1]} }

var indexName = lazyregexp.New(`redistrib_(\d{1,4})\.(\d{1,4})\.(\d{1,4})\.json`)

// releases reads the labels out of a directory listing, a web server's page included, newest first.
func releases(listing string) []Release {
	var out []Release
	for _, m := range indexName.FindAllStringSubmatch(listing, -1) {
		var r Release
		for i := range r {
			r[i], _ = strconv.Atoi(m[i+1]) // at most four digits
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Release) int { return slices.Compare(b[:], a[:]) })
	return slices.Compact(out)
}

const cudaDir, cudnnDir = "cuda/redist/", "cudnn/redist/"

// Releases lists what the source has of CUDA 12 and later, newest first; cuda_nvcc of earlier ones has another layout.
func (s *Source) Releases(ctx context.Context) ([]Release, error) {
	listing, err := s.list(ctx, cudaDir)
	return slices.DeleteFunc(releases(listing), func(r Release) bool { return r[0] < 12 }), err
}

// Archives reads a release's index and returns the archives of some parts; of cuDNN the newest 9 for that CUDA. A part that belongs to
// another component there has none of its own.
func (s *Source) Archives(ctx context.Context, r Release, platform string, parts []string) ([]tree.Archive, error) {
	index, err := s.index(ctx, cudaDir, r)
	if err != nil {
		return nil, err
	}
	var out []tree.Archive
	for _, part := range parts {
		var a tree.Archive
		switch name := Component(part, r.CUDA()); name {
		case "":
			continue
		case "cudnn":
			a, err = s.cudnn(ctx, platform, r[0])
		default:
			a, err = index.archive(name, platform)
		}
		if err != nil {
			return nil, err
		}
		a.Part = part
		out = append(out, a)
	}
	return out, nil
}

// cudnn returns the newest cuDNN 9 for a CUDA major version.
func (s *Source) cudnn(ctx context.Context, platform string, major int) (tree.Archive, error) {
	listing, err := s.list(ctx, cudnnDir)
	if err != nil {
		return tree.Archive{}, err
	}
	where := s.Show(cudnnDir)
	for _, r := range releases(listing) {
		if r[0] != 9 {
			continue
		}
		index, err := s.index(ctx, cudnnDir, r)
		if err != nil {
			return tree.Archive{}, err
		}
		a, err := index.archive("cudnn", fmt.Sprintf("%s/cuda%d", platform, major))
		if err == nil {
			return a, nil
		}
		where = err.Error()
	}
	return tree.Archive{}, &IndexError{where, fmt.Sprintf("no cuDNN 9 for CUDA %d on %s", major, platform)}
}

type index struct {
	name       string // for messages
	dir        string // from the layout's root
	components map[string]component
}

type component struct {
	version  string
	archives map[string]archive // by platform; cuDNN's by platform/cuda12
}

// archive is one file of an index, where the size is a string.
type archive struct {
	Path   string `json:"relative_path"`
	SHA256 string `json:"sha256"`
	Size   string `json:"size"`
}

func (s *Source) index(ctx context.Context, dir string, r Release) (index, error) {
	rel := dir + "redistrib_" + r.String() + ".json"
	data, err := s.Read(ctx, rel)
	if err != nil {
		return index{}, err
	}
	components, err := parseIndex(data)
	if err != nil {
		return index{}, &IndexError{s.Show(rel), err.Error()}
	}
	return index{s.Show(rel), dir, components}, nil
}

// parseIndex reads a redistrib_*.json. Its values that are no components (release_date, release_label, …) are strings. The platforms
// of a component are keys next to its name and version; cuDNN's archives are one level deeper, by the CUDA that they are for (cuda12).
func parseIndex(data []byte) (map[string]component, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, err
	}
	out := map[string]component{}
	for name, raw := range top {
		var keys map[string]json.RawMessage
		if json.Unmarshal(raw, &keys) != nil {
			continue
		}
		c := component{archives: map[string]archive{}}
		if v, ok := keys["version"]; ok {
			if err := json.Unmarshal(v, &c.version); err != nil {
				return nil, fmt.Errorf("%s.version: %w", name, err)
			}
		}
		for key, v := range keys {
			var a archive
			var variants map[string]archive
			if json.Unmarshal(v, &a) == nil && a.Path != "" {
				c.archives[key] = a
			} else if json.Unmarshal(v, &variants) == nil {
				for variant, a := range variants {
					c.archives[key+"/"+variant] = a
				}
			}
		}
		out[name] = c
	}
	return out, nil
}

// archive returns a component's archive for a platform.
func (x index) archive(name, platform string) (tree.Archive, error) {
	c, ok := x.components[name]
	if !ok {
		return tree.Archive{}, &IndexError{x.name, "has no component " + name}
	}
	a, ok := c.archives[platform]
	if !ok {
		return tree.Archive{}, &IndexError{x.name, name + " is not there for " + platform}
	}
	out, err := a.checked(name, c.version)
	if err != nil {
		return tree.Archive{}, &IndexError{x.name, name + ": " + err.Error()}
	}
	out.Path = x.dir + a.Path
	return out, nil
}

var (
	hexHash   = lazyregexp.New(`^[0-9a-f]{64}$`)
	plainName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// checked refuses an entry of the index that could not be fetched and checked.
func (a archive) checked(name, version string) (tree.Archive, error) {
	size, err := strconv.ParseInt(a.Size, 10, 64)
	file, sum := path.Base(a.Path), strings.ToLower(a.SHA256)
	switch {
	case slices.ContainsFunc(strings.Split(a.Path, "/"), func(step string) bool { return !plainName.MatchString(step) }):
		err = fmt.Errorf("relative_path %.200q is not one below the index", a.Path)
	case !strings.HasSuffix(file, ".tar.xz") && !strings.HasSuffix(file, ".zip"):
		err = fmt.Errorf("%.200q is neither a .tar.xz nor a .zip", file)
	case !hexHash.MatchString(sum):
		err = fmt.Errorf("%.200q is no sha256", a.SHA256)
	case !plainName.MatchString(version):
		err = fmt.Errorf("%.200q is no version", version)
	case err != nil || size <= 0 || size > 1<<36:
		err = fmt.Errorf("%.200q is no size", a.Size)
	}
	// The index does not say what an archive unpacks to. NVIDIA's own grow three- to fivefold: this is an estimate to show, not a limit.
	return tree.Archive{Package: name, Version: version, SHA256: sum, File: file, Size: size, Unpacked: 4 * size}, err
}
