package toolkits

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/install"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/nvcc"
)

// ShowUse prints what the kernel cache has saved.
func ShowUse(m *session.Machine, json *string) error {
	use := nvcc.Totals(m.CacheDir)
	if json != nil {
		return report.Answer(m, json, "cache", true, nil, Cache{m.CacheDir, use})
	}
	text := fmt.Sprintf("%s\nkernels: hits %d, misses %d, not cached %d, %.1f MB, saved %s\n", m.CacheDir, use.Hits, use.Misses,
		use.Uncached,
		float64(use.Size)/1e6, use.Saved.Round(100*time.Millisecond))
	for _, reason := range use.MostFrequent() {
		text += fmt.Sprintf("  not cached %d: %s\n", use.Reasons[reason], reason)
	}
	return m.Shell.Data(text)
}

// CleanCache empties the cache: the kernels alone, or everything but installed toolkits, which `toolchain remove` takes by name.
func CleanCache(m *session.Machine, kernels bool) error {
	parts := slices.DeleteFunc(slices.Clone(cacheParts), func(name string) bool {
		return name == toolkitsPart || name == cache.Tag || kernels && name != nvcc.Kernels
	})
	// The cache may be a directory that the user named and uses otherwise: a "wheels" or "cargo" in it may be the user's own then.
	if !cache.Adopted(m.CacheDir) {
		return exit.Usagef("point GPUBUILD_CACHE at a directory of its own, or remove gpubuild's parts by hand: "+
			strings.Join(cacheParts, " "), "%s was not empty when gpubuild first used it: it has no %s of gpubuild's; nothing was removed",
			m.CacheDir, cache.Tag)
	}
	size, toolkits := int64(0), ""
	for _, name := range parts {
		_, n := nvcc.Files(filepath.Join(m.CacheDir, name))
		size += n
	}
	if n := len(install.Installed(m.Host, m.CacheDir)); n > 0 && len(parts) > 1 {
		toolkits = "; " + report.Count(n, "CUDA toolkit") + " kept: `gpubuild toolchain remove` removes toolkits"
	}
	for _, name := range parts {
		if err := os.RemoveAll(filepath.Join(m.CacheDir, name)); err != nil {
			return fmt.Errorf("cache: %w", err)
		}
	}
	m.Shell.Status("Removed", "%s of %s%s", tree.Size(size), m.CacheDir, toolkits)
	return nil
}

// toolkitsPart holds installed toolkits, which take long to fetch again.
const toolkitsPart = "toolkits"

// cacheParts is everything that gpubuild writes into its cache, or wrote in earlier versions.
var cacheParts = []string{
	cache.Tag, "answers", "cargo", "hashes.json", "kernels", "locks", "memo", "overlays", "probe", "runs", "said", "scans", "sums",
	"toolkits", "trial", "untold", "views", "wheels",
}

// Cache is the answer of `cache`.
type Cache struct {
	Dir     string   `json:"dir"`
	Kernels nvcc.Use `json:"kernels"`
}
