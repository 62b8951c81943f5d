package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/cargo"
)

func cacheVerb() verb {
	var o Options
	return verb{
		name: "cache", usage: "show or empty gpubuild's cache: `dir` or `clean`",
		text:  "gpubuild cache dir\n\nGPUBUILD_CACHE moves it.",
		flags: answerFlag(&o),
		run:   func(_ context.Context, a *invocation, l cargo.Line) error { return showCache(a, o, l) },
	}
}

func showCache(a *invocation, o Options, l cargo.Line) error {
	word := "dir"
	if len(l.Positional) > 0 {
		word = l.Positional[0]
	}
	switch word {
	case "dir":
		if o.JSON != nil {
			return a.answer(o, "cache", true, nil, struct {
				Dir string `json:"dir"`
			}{a.CacheDir})
		}
		fmt.Fprintln(a.Shell.Out, a.CacheDir)
		return nil
	case "clean":
		// The cache may be a directory that the user named. Where it holds anything that we never write, a "wheels" or "cargo" in it may
		// be the user's own, and nothing is removed.
		if other := foreign(a.CacheDir); len(other) > 0 {
			return &exit.UsageError{
				What: fmt.Sprintf("%s holds what is not gpubuild's: %s; nothing was removed", a.CacheDir, strings.Join(other, ", ")),
				Fix: "point GPUBUILD_CACHE at a directory of its own, or remove gpubuild's parts by hand: " +
					strings.Join(cacheParts, " "),
			}
		}
		for _, name := range cacheParts {
			if err := os.RemoveAll(filepath.Join(a.CacheDir, name)); err != nil {
				return fmt.Errorf("cache: %w", err)
			}
		}
		a.Shell.Status("Removed", "%s", a.CacheDir)
		return a.answer(o, "cache", true, nil, nil)
	}
	return &exit.UsageError{What: fmt.Sprintf("cache knows no %q", word), Fix: "gpubuild cache dir, or gpubuild cache clean"}
}

// cacheParts is everything that gpubuild writes into its cache, or wrote in earlier versions.
var cacheParts = []string{
	"answers", "cargo", "hashes.json", "locks", "memo", "overlays", "probe", "runs", "said", "scans", "toolkits", "untold", "wheels",
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
