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

// Out is a place where the build script of a package wrote.
type Out struct {
	Package, Dir string
	Ran          int64 // see Ran
}

// Outs lists where in the directories of a profile the build scripts of some packages ran: in build/PACKAGE-HASH/out (layouts up to
// 1.99) or build/PACKAGE/HASH/out (1.100).
func Outs(h buildenv.Host, profiles []string, packages map[string]bool) []Out {
	var outs []Out
	add := func(name, dir string) {
		if ran := Ran(h, dir); ran != 0 {
			outs = append(outs, Out{name, dir, ran})
		}
	}
	for _, profile := range profiles {
		dir := h.Join(profile, "build")
		for _, e := range h.Names(dir) {
			if at := strings.LastIndexByte(e, '-'); at > 0 && packages[e[:at]] {
				add(e[:at], h.Join(dir, e, "out"))
			}
			if packages[e] {
				for _, hash := range h.Names(h.Join(dir, e)) {
					add(e, h.Join(dir, e, hash, "out"))
				}
			}
		}
	}
	return outs
}
