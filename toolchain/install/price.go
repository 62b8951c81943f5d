package install

import (
	"fmt"

	"gpubuild/gpu"
)

// Price is what fetching a toolkit costs, without looking at any machine.
type Price struct {
	Release string // 13.4.3
	Fetch   int64  // bytes to fetch
	Disk    int64  // bytes on disk
	CUDNN   string // version of its cuDNN; empty when that is not among the parts
}

// Price answers what the parts of one version cost on a platform; a *NoFitError says that it cannot be fetched, and why.
func (c *Catalog) Price(platform string, v gpu.Version, parts []string) (Price, error) {
	wanted, err := c.expand(parts)
	if err != nil {
		return Price{}, err
	}
	set, losers := c.choose(platform, wanted, Want{Exact: v})
	if set == nil {
		return Price{}, &NoFitError{Platform: platform, Exact: v, Losers: losers}
	}
	p := Price{Release: set.Release}
	for _, part := range wanted {
		w := set.Platform[platform][part.Name]
		p.Fetch += w.Size
		p.Disk += w.Unpacked
		if part.Name == "cudnn" {
			p.CUDNN = w.Version
		}
	}
	return p, nil
}

// Newest is the newest version that can be fetched for a platform and is not newer than max; zero: any. It is zero when there is none.
func (c *Catalog) Newest(platform string, max gpu.Version) gpu.Version {
	for _, s := range c.Sets { // newest first
		if s.Platform[platform] != nil && (max.IsZero() || s.CUDA.Compare(max) <= 0) {
			return s.CUDA
		}
	}
	return gpu.Version{}
}

// Why is the reason without the list of what there is instead: a person who reads a hundred rows needs it short.
func (e *NoFitError) Why() string {
	if !e.Exact.IsZero() && e.Exact.Major < 13 {
		return fmt.Sprintf("a matrix pins no CUDA %s: NVIDIA's wheels of CUDA 12 and older hold no nvcc, and its archives are not pinned; name an image or `toolkit = \"runner\"`", e.Exact)
	}
	return fmt.Sprintf("gpubuild fetches no CUDA %s for %s; name an image or `toolkit = \"runner\"`", e.Exact, e.Platform)
}
