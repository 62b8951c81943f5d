package toolchain

import (
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
)

// ArchWish returns what the user said of the architecture, the strongest word first: the flag, by the name it has there, GPUBUILD_ARCH,
// CUDA_COMPUTE_CAP, the project's configuration.
func ArchWish(flag, name string, env buildenv.Env, configured, configuredBy string) (arch, origin string) {
	switch {
	case flag != "":
		return flag, name
	case env.Get("GPUBUILD_ARCH") != "":
		return env.Get("GPUBUILD_ARCH"), "GPUBUILD_ARCH"
	case env.Get("CUDA_COMPUTE_CAP") != "":
		return env.Get("CUDA_COMPUTE_CAP"), "CUDA_COMPUTE_CAP"
	case configured != "":
		return configured, configuredBy
	}
	return "", ""
}

// wanted are the architectures that are asked for before a toolkit is known, from the lowest on: one zero when nothing says one.
func wanted(f Facts, w Wish) ([]gpu.Arch, string, error) {
	if w.Arch != "" {
		a, err := gpu.ParseArchs(w.Arch)
		if err != nil {
			return nil, "", exit.Usagef("give a compute capability such as 89 or 8.9", "%s: %v", w.ArchOrigin, err)
		}
		return a, w.ArchOrigin, nil
	}
	if len(w.Previous) > 0 {
		return w.Previous, "what this target directory was built for", nil
	}
	if d, ok := lowest(f.Devices); ok {
		from := "the GPU"
		if len(f.Devices) > 1 {
			from = fmt.Sprintf("the lowest of %d GPUs", len(f.Devices))
		}
		return []gpu.Arch{{Capability: d.Capability}}, fmt.Sprintf("%s, %s", from, d.Name), nil
	}
	return []gpu.Arch{{}}, "", nil
}

// lowest returns the device with the lowest capability: code for it runs, as PTX, on the others too.
func lowest(devices []gpu.Device) (gpu.Device, bool) {
	var best gpu.Device
	for _, d := range devices {
		if !d.Capability.IsZero() && (best.Capability.IsZero() || d.Capability.Compare(best.Capability) < 0) {
			best = d
		}
	}
	return best, !best.Capability.IsZero()
}

// floor is what is built for when nothing says otherwise: the largest of what the toolkit, the crates and cuDNN can do.
func floor(s Set, n Needs) (gpu.Capability, string) {
	t := s.Toolkit
	c, from := t.MinArch.Capability, fmt.Sprintf("the lowest that CUDA %s compiles for", t.Version)
	if usual := (gpu.Capability{Major: 7, Minor: 5}); !c.IsZero() && usual.Compare(c) > 0 && t.MaxArch.Capability.Compare(usual) >= 0 {
		from = fmt.Sprintf("the lowest that CUDA 13 compiles for (CUDA %s goes down to %s)", t.Version, t.MinArch)
		c = usual
	}
	if f := n.floor(t.Version); f.Arch.Compare(c) > 0 {
		c, from = f.Arch, fmt.Sprintf("the lowest that %s compiles for with CUDA %s", f.Crate, t.Version)
	}
	if d := s.CUDNN; d != nil && d.MinSM.Compare(c) > 0 {
		c, from = d.MinSM, fmt.Sprintf("the lowest that cuDNN %s runs on", d.Version)
	}
	if c.IsZero() {
		return c, ""
	}
	return c, from + ", because no GPU is visible and no architecture was given"
}

// processors are the first words of rustc's targets for which there is a CUDA toolkit or a 32-bit twin of one, by the name that Go has
// for the processor (rustc --print target-list).
var processors = map[string]string{
	"x86_64": "amd64", "x86_64h": "amd64", "aarch64": "arm64", "arm64ec": "arm64", "arm64e": "arm64",
	"i586": "386", "i686": "386", "armv7": "arm", "thumbv7a": "arm", "thumbv7neon": "arm", "powerpc64le": "ppc64le", "riscv64gc": "riscv64",
}

// MicrosoftOnly is what is wrong with a target that GNU has a fix for.
const MicrosoftOnly = ", and nvcc on Windows takes Microsoft's compiler only"

// GNU is the fix for a target of Windows that is not Microsoft's: nvcc's objects do not link there; empty: it is none.
func GNU(h buildenv.Host, target string) string {
	switch {
	case !strings.HasSuffix(target, "-windows-gnu") && !strings.HasSuffix(target, "-windows-gnullvm"):
		return ""
	case h.OS != buildenv.Windows: // rustup installs no toolchain of another system
		return "build on Windows, for x86_64-pc-windows-msvc"
	}
	return "rustup default stable-x86_64-pc-windows-msvc" // https://rust-lang.github.io/rustup/installation/windows.html
}

// Foreign reports whether a target is for another processor than the machine's own, for which everything here is chosen. A target of the
// user's own is not.
func Foreign(h buildenv.Host, target string) bool {
	arch, _, _ := strings.Cut(target, "-")
	its, known := processors[arch]
	return known && its != h.Arch
}
