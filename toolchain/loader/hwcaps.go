package loader

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// levels are the sets of instructions for which x86-64 libraries may lie in directories glibc-hwcaps/NAME, the best first, with the words
// by which /proc/cpuinfo says that a processor has them. Each has those of the later ones, too. Source: the x86-64 psABI, table 3.1;
// glibc's sysdeps/x86_64/dl-hwcaps_subdirs.c; Linux' arch/x86/include/asm/cpufeatures.h for the words.
var levels = [...]struct{ name, flags string }{
	{"x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"},
	{"x86-64-v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"},
	{"x86-64-v2", "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"},
}

// hwcaps lists the directories' names that this machine's processor takes for a program, the best first. Where nothing says what it is,
// there are none.
func hwcaps(h buildenv.Host, main *object) (names []string) {
	if main.machine != elf.EM_X86_64 || strings.Contains(main.interp, "ld-musl-") {
		return nil
	}
	data, err := h.ReadFile("/proc/cpuinfo", 4<<20)
	if err != nil {
		return nil
	}
	var flags []string
	for _, line := range strings.Split(string(data), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			flags = strings.Fields(value)
			break
		}
	}
	for _, l := range slices.Backward(levels[:]) {
		if slices.ContainsFunc(strings.Fields(l.flags), func(f string) bool { return !slices.Contains(flags, f) }) {
			break
		}
		names = append([]string{l.name}, names...)
	}
	return names
}

const (
	hwcapExtension = 1 << 62 // an entry's hwcap is an index into the names of glibc-hwcaps
	extensionMagic = 0xeaa42174
	hwcapsSection  = 1
)

// cacheNames reads the names of glibc-hwcaps to which entries of a cache refer.
// Source: glibc's sysdeps/generic/dl-cache.h, struct cache_extension.
func cacheNames(data []byte, order binary.ByteOrder, text func(uint32) string) (names []string) {
	u32 := func(at uint64) (uint32, bool) {
		if at+4 > uint64(len(data)) {
			return 0, false
		}
		return order.Uint32(data[at:]), true
	}
	start, _ := u32(32)
	at := uint64(start)
	magic, ok := u32(at)
	count, more := u32(at + 4)
	if !ok || !more || at == 0 || magic != extensionMagic {
		return nil
	}
	for i := range uint64(min(count, 64)) {
		section := at + 8 + i*16
		tag, _ := u32(section)
		off, _ := u32(section + 8)
		size, ok := u32(section + 12)
		if !ok || tag != hwcapsSection {
			continue
		}
		for n := uint64(0); n+4 <= uint64(size) && len(names) < maxNames; n += 4 {
			s, ok := u32(uint64(off) + n)
			if !ok {
				return names
			}
			names = append(names, text(s))
		}
	}
	return names
}
