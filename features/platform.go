package features

import (
	"strings"

	"gpubuild/buildenv"
)

// platform is what target tables are evaluated for, in rustc's words. What is empty is not known.
type platform struct {
	triple, arch, vendor, os, env, width, endian string
}

// platformOf reads a target triple. Only those are known whose cfgs follow from their parts; a target specification file is not.
// Source: `rustc --print cfg --target …` (TestPlatformsAgainstRustc).
func platformOf(triple string) (platform, bool) {
	parts := strings.Split(triple, "-")
	if len(parts) < 3 {
		return platform{}, false
	}
	known := map[string][3]string{ // arch, pointer width, endianness
		"x86_64": {"x86_64", "64", "little"}, "aarch64": {"aarch64", "64", "little"}, "i686": {"x86", "32", "little"},
		"armv7": {"arm", "32", "little"}, "riscv64gc": {"riscv64", "64", "little"}, "powerpc64le": {"powerpc64", "64", "little"},
	}
	cpu, ok := known[parts[0]]
	p := platform{triple: triple, arch: cpu[0], width: cpu[1], endian: cpu[2], vendor: parts[1]}
	switch rest := strings.Join(parts[1:], "-"); rest {
	case "unknown-linux-gnu", "unknown-linux-musl":
		p.os, p.env = "linux", parts[3]
	case "pc-windows-msvc", "pc-windows-gnu":
		p.os, p.env = "windows", parts[3]
	case "apple-darwin":
		p.os, p.env = "macos", " " // it has none
	case "unknown-linux-gnueabihf":
		p.os, p.env = "linux", "gnu"
	default:
		return platform{}, false
	}
	return p, ok
}

// hostPlatform is what is known of the machine without its triple.
func hostPlatform(h buildenv.Host) platform {
	return platform{os: map[string]string{"linux": "linux", "windows": "windows", "darwin": "macos"}[h.OS]}
}

// applies says whether a target table is that of the platform.
func (p platform) applies(table string) truth {
	expr, ok := strings.CutPrefix(table, "cfg(")
	if ok {
		return evalWith(strings.TrimSuffix(expr, ")"), p.cfg, 0)
	}
	if p.triple != "" {
		return truthOf(table == p.triple)
	}
	if other, known := platformOf(table); known && p.os != "" && other.os != p.os {
		return no
	}
	return maybe
}

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (p platform) cfg(key, value string, named bool) truth {
	is := func(have string) truth {
		if have == "" {
			return maybe
		}
		return truthOf(strings.TrimSpace(have) == value)
	}
	family := ""
	switch p.os {
	case "windows":
		family = "windows"
	case "linux", "macos":
		family = "unix"
	}
	if !named {
		if key != "unix" && key != "windows" || family == "" {
			return maybe
		}
		return truthOf(key == family)
	}
	switch key {
	case "target_os":
		return is(p.os)
	case "target_family":
		return is(family)
	case "target_arch":
		return is(p.arch)
	case "target_env":
		return is(p.env)
	case "target_vendor":
		return is(p.vendor)
	case "target_pointer_width":
		return is(p.width)
	case "target_endian":
		return is(p.endian)
	}
	return maybe
}

// hostTriple finds the triple of the rustc that cargo will call, from the files that rustup or a distribution keep; empty when it cannot be told
// without running it. With rustup it is told only if whichever toolchain is chosen has the same one.
func hostTriple(h buildenv.Host) string {
	for _, name := range []string{"RUSTC", "CARGO_BUILD_RUSTC"} { // another compiler, of which nothing is known
		if v, ok := h.Env.Lookup(name); ok && v != "" {
			return ""
		}
	}
	rustup, ok := h.Env.Lookup("RUSTUP_HOME")
	if !ok || rustup == "" {
		rustup = h.Join(h.Home, ".rustup")
	}
	rustc, err := h.LookPath(h.Exe("rustc"))
	entries, dirErr := h.Files.ReadDir(h.Join(rustup, "toolchains"))
	proxied := err != nil || h.IsFile(h.Join(h.Dir(rustc), h.Exe("rustup")))
	if dirErr == nil && len(entries) > 0 && proxied {
		found := ""
		for _, e := range entries {
			t := tripleIn(e.Name())
			if t == "" || found != "" && t != found {
				return "" // a toolchain of the user's own, or two kinds
			}
			found = t
		}
		return found
	}
	if err != nil {
		return ""
	}
	// a distribution's rustc: <prefix>/bin/rustc and <prefix>/lib/rustlib/<triple>
	found := ""
	libs, err := h.Files.ReadDir(h.Join(h.Dir(h.Dir(h.Real(rustc))), "lib", "rustlib"))
	if err != nil {
		return ""
	}
	for _, e := range libs {
		if _, known := platformOf(e.Name()); !known {
			continue
		}
		if found != "" {
			return ""
		}
		found = e.Name()
	}
	return found
}

// tripleIn answers the triple at the end of a toolchain's name: 1.95.0-x86_64-unknown-linux-gnu.
func tripleIn(name string) string {
	for i := 0; i < len(name); i++ {
		if i == 0 || name[i-1] == '-' {
			if _, ok := platformOf(name[i:]); ok {
				return name[i:]
			}
		}
	}
	return ""
}
