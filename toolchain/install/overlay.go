package install

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/otiai10/copy"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
)

// Overlay makes one root, in the user's cache, of a cuDNN whose headers and import libraries lie in directories of several CUDA
// versions, as NVIDIA's installer for Windows puts them: <root>/include and <root>/lib/x64, where every build script looks. Nothing of
// the install is touched. The files are copies (some MB: the DLLs stay where they are and are found by PATH). If a file of the install
// changes, a new root with another name is made.
func Overlay(h buildenv.Host, cacheDir, version, include, lib string) (string, error) {
	parts := []struct{ from, to string }{{include, "include"}, {lib, h.Join("lib", "x64")}}
	sum := sha256.New()
	for _, p := range parts {
		entries, err := os.ReadDir(p.from)
		if err != nil {
			return "", fmt.Errorf("cuDNN %s: %w", version, err)
		}
		fmt.Fprintln(sum, p.from)
		for _, e := range entries {
			if id, err := cache.Identify(h.Join(p.from, e.Name())); err == nil {
				fmt.Fprintln(sum, e.Name(), id.Size, id.MTime)
			}
		}
	}
	dir := h.Join(cacheDir, "overlays")
	root := h.Join(dir, fmt.Sprintf("cudnn-%s-%x", version, sum.Sum(nil)[:8]))
	if h.IsDir(root) {
		return root, cache.TrustedDir(root) // it was renamed into place, so it is whole
	}
	if err := cache.Make(dir); err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(dir, ".making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made)
	for _, p := range parts {
		if err := mirror(p.from, h.Join(made, p.to)); err != nil {
			return "", fmt.Errorf("a view of cuDNN %s in %s: %w", version, dir, err)
		}
	}
	if err := os.Rename(made, root); err != nil && !h.IsDir(root) { // another gpubuild may have been first
		return "", err
	}
	return root, nil
}

// mirror copies a directory's headers and import libraries of cuDNN.
func mirror(from, to string) error {
	return copy.Copy(from, to, copy.Options{
		OnSymlink: func(string) copy.SymlinkAction { return copy.Deep }, PreserveTimes: true,
		Skip: func(info os.FileInfo, src, _ string) (bool, error) {
			name := strings.ToLower(filepath.Base(src))
			wanted := strings.HasPrefix(name, "cudnn") && (strings.HasSuffix(name, ".h") || strings.HasSuffix(name, ".lib"))
			return src != from && (info.IsDir() || !wanted), nil
		},
	})
}
