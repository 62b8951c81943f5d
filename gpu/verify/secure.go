package verify

import (
	"fmt"
	"io/fs"

	"gpubuild/buildenv"
)

// privileged says how a program gains rights by being run, or nothing. Such a process is in secure mode (AT_SECURE, getauxval(3)): the loader drops
// LD_LIBRARY_PATH, a library may well ignore the variable that loads the probe, and the probe, as another user, cannot write its records.
// Nothing that is not seen of it means anything.
func privileged(path string, mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSetuid != 0:
		return "it is setuid"
	case mode&fs.ModeSetgid != 0:
		return "it is setgid"
	}
	if has, err := capable(path); err != nil {
		return fmt.Sprintf("whether it carries capabilities is not known (%v)", err)
	} else if has {
		return "it carries capabilities"
	}
	return ""
}

// driverPlaces are where a driver's library is found without any variable: Debian and Ubuntu, Fedora and SUSE, WSL2, NVIDIA's compatibility packages,
// NixOS.
var driverPlaces = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib", "/usr/local/cuda/compat", "/run/opengl-driver/lib",
}

// drivers lists the drivers of this machine, the given one first, each once: whoever opens one of them while a program runs is told. A program that
// loses its environment loads another one than the control did.
func drivers(h buildenv.Host, first string) []string {
	var out []string
	add := func(path string) {
		if real, err := h.Files.EvalSymlinks(path); err == nil {
			path = real
		} else if path != first {
			return
		}
		if path != "" && !contains(out, path) {
			out = append(out, path)
		}
	}
	add(first)
	for _, dir := range driverPlaces {
		add(h.Join(dir, "libcuda.so.1"))
	}
	return out
}
