package install

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/toolchain/install/tree"
)

// Installation is a toolkit in the cache.
type Installation = tree.Installation

// Installed lists the complete toolkits of a cache: newest CUDA first, and of one version the one with more parts first. It reads one
// small file for each.
func Installed(h buildenv.Host, cacheDir string) []Installation {
	out, _ := toolkitsIn(h, cacheDir)
	slices.SortStableFunc(out, func(a, b Installation) int {
		return cmp.Or(b.CUDA.Compare(a.CUDA), cmp.Compare(len(b.Parts), len(a.Parts)))
	})
	return out
}

// Incomplete lists the directories among a cache's toolkits that are none, with no more than Root and Name: the marker is missing,
// damaged or of a later schema. No build takes one, and installing the same toolkit again replaces it.
func Incomplete(h buildenv.Host, cacheDir string) []Installation {
	_, rest := toolkitsIn(h, cacheDir)
	return rest
}

func toolkitsIn(h buildenv.Host, cacheDir string) (whole, rest []Installation) {
	dir := h.Join(cacheDir, toolkitsDir)
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil, nil
	}
	for _, e := range entries {
		root := h.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if in, ok := tree.Read(h, root); ok {
			whole = append(whole, in)
		} else if e.IsDir() {
			rest = append(rest, Installation{Root: root, Name: e.Name()})
		}
	}
	return whole, rest
}

// Verify compares every file of a toolkit with what was installed. No problems: it is whole.
func Verify(ctx context.Context, h buildenv.Host, in Installation) ([]tree.Problem, error) {
	return tree.Verify(ctx, h, in)
}

// Remove deletes a toolkit, found by its directory's name. It is renamed first, so that nobody finds half of one. Remove waits while
// another gpubuild works in the cache, and calls waiting.
func Remove(ctx context.Context, h buildenv.Host, cacheDir, name string, waiting func(holder string)) error {
	var names []string
	for _, in := range append(Installed(h, cacheDir), Incomplete(h, cacheDir)...) {
		names = append(names, in.Name)
	}
	if !slices.Contains(names, name) {
		return &NotInstalledError{Name: name, Have: names}
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
	if errors.Is(err, fs.ErrPermission) {
		err = &WriteError{Dir: root, Err: err}
	}
	return errors.Join(err, release())
}
