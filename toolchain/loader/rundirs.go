package loader

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// IsStubDir reports whether a directory is one of link stubs, which must never be on a run path (huggingface/candle issues 2449, 2175).
func IsStubDir(h buildenv.Host, dir string) bool {
	return strings.EqualFold(h.Base(dir), "stubs")
}

// RunDirs returns the directories that a program needs on its loader's path to run with toolkits and cuDNN: each of places is a directory
// of libraries or a root that has some. Stubs are never among them, nor one directory twice.
func RunDirs(h buildenv.Host, places ...string) []string {
	below := []string{"", "lib64", "lib", "targets/" + target(h) + "/lib"}
	if h.OS == buildenv.Windows {
		below = []string{"bin/x64", "bin/x86_64", "bin", ""}
	}
	var out []string
	seen := map[string]bool{}
	for _, p := range places {
		if p == "" || !h.IsAbs(p) {
			continue
		}
		for _, b := range below {
			dir := h.Join(p, b)
			real := h.Real(dir)
			if seen[real] || IsStubDir(h, dir) || IsStubDir(h, real) || !hasLibraries(h, dir) {
				continue
			}
			seen[real] = true
			out = append(out, dir)
		}
	}
	return out
}

// target names the directory of a toolkit in which NVIDIA's installers put what belongs to one architecture.
func target(h buildenv.Host) string {
	if h.Arch == "arm64" {
		return "sbsa-linux"
	}
	return "x86_64-linux"
}

func hasLibraries(h buildenv.Host, dir string) bool {
	return slices.ContainsFunc(h.Names(dir), func(name string) bool {
		name = strings.ToLower(name)
		return h.OS == buildenv.Windows && strings.HasSuffix(name, ".dll") ||
			strings.HasPrefix(name, "lib") && strings.Contains(name, ".so")
	})
}
