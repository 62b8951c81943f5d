package toolchain

import (
	"strings"

	"gpubuild/buildenv"
)

// processors are the first words of rustc's targets for which there is a CUDA toolkit or a 32-bit twin of one, by the name that Go has
// for the processor (rustc --print target-list).
var processors = map[string]string{
	"x86_64": "amd64", "x86_64h": "amd64", "aarch64": "arm64", "arm64ec": "arm64", "arm64e": "arm64",
	"i586": "386", "i686": "386", "armv7": "arm", "thumbv7a": "arm", "thumbv7neon": "arm", "powerpc64le": "ppc64le", "riscv64gc": "riscv64",
}

// Foreign says whether a target is for another processor than the machine's own, for which everything here is chosen. A target of the
// user's own is not.
func Foreign(h buildenv.Host, target string) bool {
	arch, _, _ := strings.Cut(target, "-")
	its, known := processors[arch]
	return known && its != h.Arch
}
