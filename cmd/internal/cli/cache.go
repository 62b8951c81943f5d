package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/cmd/internal/answer"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/report"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/install"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/nvcc"
)

func cacheVerb() verb {
	var json *string
	var kernels, toolkits bool
	set := func(to *bool) func(string) error { return func(string) error { *to = true; return nil } }
	return verb{
		Verb: help.Verb{Name: "cache", Usage: "show or empty gpubuild's cache", Text: "GPUBUILD_CACHE moves the cache."},
		verbs: []verb{
			{
				Verb: help.Verb{Name: "show", Usage: "show what the kernel cache has saved (the default)",
					Examples: []string{"gpubuild cache"}},
				flags: []*flag{jsonFlag(&json)},
				run:   func(_ context.Context, a *invocation, _ cargo.Line) error { return showUse(a, json) },
			},
			{
				Verb:  help.Verb{Name: "dir", Usage: "print the directory of the cache", Examples: []string{"gpubuild cache dir"}},
				flags: []*flag{jsonFlag(&json)},
				run:   func(_ context.Context, a *invocation, _ cargo.Line) error { return showCache(a, json) },
			},
			{
				Verb: help.Verb{Name: "clean", Usage: "empty the cache, except for CUDA toolkits",
					Examples: []string{"gpubuild cache clean", "gpubuild cache clean --kernels"}},
				flags: []*flag{
					newFlag("kernels", cargo.Switch, "", "remove compiled kernels, and nothing else", set(&kernels)),
					newFlag("toolkits", cargo.Switch, "", "remove installed CUDA toolkits, too", set(&toolkits)),
					jsonFlag(&json),
				},
				run: func(_ context.Context, a *invocation, _ cargo.Line) error {
					parts := slices.DeleteFunc(slices.Clone(cacheParts), func(name string) bool {
						if name == toolkitsPart {
							return !toolkits
						}
						return kernels && name != nvcc.Kernels
					})
					return cleanCache(a, json, parts)
				},
			},
		},
	}
}

func showUse(a *invocation, json *string) error {
	use := nvcc.Totals(a.CacheDir)
	if json != nil {
		return a.answer(json, "cache", true, nil, cacheAnswer{a.CacheDir, use})
	}
	text := fmt.Sprintf("%s\nkernels: hits %d, misses %d, not cached %d, %.1f MB, saved %s\n", a.CacheDir, use.Hits, use.Misses,
		use.Uncached,
		float64(use.Size)/1e6, use.Saved.Round(100*time.Millisecond))
	for _, reason := range use.MostFrequent() {
		text += fmt.Sprintf("  not cached %d: %s\n", use.Reasons[reason], reason)
	}
	return a.Shell.Data(text)
}

func showCache(a *invocation, json *string) error {
	if json != nil {
		return a.answer(json, "cache-dir", true, nil, answer.CacheDir{Dir: a.CacheDir})
	}
	return a.Shell.Data(a.CacheDir + "\n")
}

func cleanCache(a *invocation, json *string, parts []string) error {
	// The cache may be a directory that the user named. Where it holds anything that we never write, a "wheels" or "cargo" in it may
	// be the user's own, and nothing is removed.
	if other := foreign(a.CacheDir); len(other) > 0 {
		return usage(fmt.Sprintf("%s holds what is not gpubuild's: %s; nothing was removed", a.CacheDir, strings.Join(other, ", ")),
			"point GPUBUILD_CACHE at a directory of its own, or remove gpubuild's parts by hand: "+
				strings.Join(cacheParts, " "))
	}
	size, toolkits := int64(0), ""
	for _, name := range parts {
		size += dirSize(filepath.Join(a.CacheDir, name))
	}
	if n := len(install.Installed(a.Host, a.CacheDir)); n > 0 && slices.Contains(parts, toolkitsPart) {
		toolkits = ", with " + report.Count(n, "CUDA toolkit")
	} else if n > 0 && len(parts) > 1 {
		toolkits = "; " + report.Count(n, "CUDA toolkit") + " kept: --toolkits removes toolkits"
	}
	for _, name := range parts {
		if err := os.RemoveAll(filepath.Join(a.CacheDir, name)); err != nil {
			return fmt.Errorf("cache: %w", err)
		}
	}
	a.Shell.Status("Removed", "%s of %s%s", tree.Size(size), a.CacheDir, toolkits)
	return a.answer(json, "cache-clean", true, nil, nil)
}

// toolkitsPart holds installed toolkits, which take long to fetch again.
const toolkitsPart = "toolkits"

// cacheParts is everything that gpubuild writes into its cache, or wrote in earlier versions.
var cacheParts = []string{
	"answers", "cargo", "hashes.json", "kernels", "locks", "memo", "overlays", "probe", "runs", "said", "scans", "sums", "toolkits",
	"trial", "untold", "views", "wheels",
}

// foreign lists what is in the cache's directory and is no part of a cache.
func foreign(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // not there: nothing can be removed, either
	}
	var out []string
	for _, e := range entries {
		if !slices.Contains(cacheParts, e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// dirSize is how many bytes the files below a directory have.
func dirSize(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if fi, err := d.Info(); err == nil {
				size += fi.Size()
			}
		}
		return nil // what cannot be read is not counted
	})
	return size
}

// cacheAnswer is the answer of `cache`.
type cacheAnswer struct {
	Dir     string   `json:"dir"`
	Kernels nvcc.Use `json:"kernels"`
}
