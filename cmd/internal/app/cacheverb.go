package app

import (
	"context"
	"fmt"
	"gpubuild/toolchain/cargo"
	"os"
	"path/filepath"
)

func runCache(a *app, _ context.Context, o Options, l cargo.Line) error {
	word := "dir"
	if len(l.Positional) > 0 {
		word = l.Positional[0]
	}
	switch word {
	case "dir":
		if o.JSON != nil {
			return a.answer(o, "cache", true, nil, struct {
				Dir string `json:"dir"`
			}{a.cacheDir})
		}
		fmt.Fprintln(a.shell.Out, a.cacheDir)
		return nil
	case "clean":
		// Only what is ours goes: the cache may be a directory that the user named, with other things in it.
		for _, name := range cacheParts {
			if err := os.RemoveAll(filepath.Join(a.cacheDir, name)); err != nil {
				return fmt.Errorf("cache: %w", err)
			}
		}
		a.shell.Status("Removed", "%s", a.cacheDir)
		return a.answer(o, "cache", true, nil, nil)
	}
	return &usageError{fmt.Sprintf("cache knows no %q", word), "gpubuild cache dir, or gpubuild cache clean"}
}

// cacheParts is everything that gpubuild writes into its cache.
var cacheParts = []string{"answers", "cargo", "hashes.json", "locks", "probe", "runs", "scans", "toolkits", "untold", "wheels"}
