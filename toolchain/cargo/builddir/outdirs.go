package builddir

import (
	"strings"

	"gpubuild/buildenv"
)

// Profiles are the directories of a profile in a build directory: the host's first, then that of each platform. Their names are
// documented (cargo book, "Build cache" and "Profiles").
func Profiles(h buildenv.Host, build, profile string, platforms []string) []string {
	switch profile {
	case "dev", "test":
		profile = "debug"
	case "bench":
		profile = "release"
	}
	dirs := []string{h.Join(build, profile)}
	for _, p := range platforms {
		dirs = append(dirs, h.Join(build, p, profile))
	}
	return dirs
}

// OutDirs lists where in the directories of a profile the build scripts of some packages may have an OUT_DIR.
func OutDirs(h buildenv.Host, profiles []string, packages ...string) []string {
	wanted := map[string]bool{}
	for _, p := range packages {
		wanted[p] = true
	}
	var outs []string
	for _, profile := range profiles {
		dir := h.Join(profile, "build")
		for _, e := range h.Names(dir) {
			if at := strings.LastIndexByte(e, '-'); at > 0 && wanted[e[:at]] {
				outs = append(outs, h.Join(dir, e, "out"))
			}
			if wanted[e] {
				for _, hash := range h.Names(h.Join(dir, e)) {
					outs = append(outs, h.Join(dir, e, hash, "out"))
				}
			}
		}
	}
	return outs
}
