package install

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/install/tree"
)

// Installation is a toolkit in the cache.
type Installation = tree.Installation

// Installed lists the complete toolkits of a cache, newest CUDA first. It reads one small file for each.
func Installed(h buildenv.Host, cacheDir string) []Installation {
	out, _ := Toolkits(h, cacheDir)
	return out
}

// read returns the toolkit in a directory, with its Problem where no build may take it: it looks at what is run or loaded of a toolkit, and
// at the directories above it.
func read(h buildenv.Host, root string) Installation {
	in := tree.Read(h, root)
	err := cache.Trusted(h.Dir(root), root)
	for _, dir := range []string{"bin", "bin/x64", "lib", "lib64", "lib/x64", "nvvm/bin", "nvvm/libdevice", "extras/CUPTI/lib64"} {
		err = cmp.Or(err, cache.TrustedDir(h.Join(root, dir)))
	}
	if err != nil {
		in.Problem = cmp.Or(in.Problem, err.Error())
	}
	return in
}

// Toolkits lists what Installed does, and the other directories among a cache's toolkits, which no build takes, each with its Problem.
func Toolkits(h buildenv.Host, cacheDir string) (whole, rest []Installation) {
	dir := h.Join(cacheDir, toolkitsDir)
	for _, name := range h.Names(dir) {
		root := h.Join(dir, name)
		if strings.HasPrefix(name, ".") {
			continue
		}
		if in := read(h, root); in.Problem == "" {
			whole = append(whole, in)
		} else if h.IsDir(root) {
			if holder, held := cache.Held(lockFile(cacheDir)); held && in.Schema == 0 {
				in.Problem, in.Installing = "another gpubuild is installing it ("+holder+")", true
			}
			rest = append(rest, in)
		}
	}
	slices.SortStableFunc(whole, func(a, b Installation) int {
		return cmp.Or(b.CUDA.Compare(a.CUDA), cmp.Compare(len(b.Parts), len(a.Parts)))
	})
	return whole, rest
}

// Remove deletes a toolkit, found by its directory's name. It is renamed first, so that nobody finds half of one. Remove waits while
// another gpubuild works in the cache, and calls waiting.
func Remove(ctx context.Context, h buildenv.Host, cacheDir, name string, waiting func(holder string)) error {
	var names []string
	whole, rest := Toolkits(h, cacheDir)
	for _, in := range append(whole, rest...) {
		names = append(names, in.Name)
	}
	if !slices.Contains(names, name) {
		fix := "these are there: " + strings.Join(names, ", ")
		if len(names) == 0 {
			fix = "gpubuild has fetched no toolkit yet"
		}
		return exit.Errorf(0, fix, "no toolkit %s in the cache", name)
	}
	release, err := cache.Lock(ctx, lockFile(cacheDir), waiting)
	if err != nil {
		return err
	}
	root, gone := filepath.Join(cacheDir, toolkitsDir, name), filepath.Join(cacheDir, toolkitsDir, removedPrefix+name)
	err = os.RemoveAll(gone)
	if err == nil {
		err = os.Rename(root, gone)
	}
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if err != nil {
		err = &cache.WriteError{Path: filepath.Join(root, tree.MarkerFile), Err: err}
	}
	return errors.Join(err, release())
}
