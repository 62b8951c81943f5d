package verify

import (
	"debug/elf"
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// runs says which ELF machines a processor runs by itself: its 32-bit programs, too.
var runs = map[string][]elf.Machine{"amd64": {elf.EM_X86_64, elf.EM_386}, "arm64": {elf.EM_AARCH64, elf.EM_ARM}}

// CheckMachine refuses a program for another processor before anything is run. Under an emulator that the kernel starts for it, it would
// run; but no driver of this machine could load a probe into it. Files that are no ELF files are left to the kernel.
func CheckMachine(h buildenv.Host, path string) error {
	f, err := h.Files.Open(path)
	if err != nil {
		return nil // whoever runs it says so best
	}
	defer f.Close()
	head := make([]byte, 20)
	if _, err := io.ReadFull(f, head); err != nil || string(head[:4]) != elf.ELFMAG {
		return nil
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
		order = binary.BigEndian
	}
	machine, known := elf.Machine(order.Uint16(head[18:])), runs[h.Arch]
	if slices.Contains(known, machine) {
		return nil
	}
	if len(known) == 0 {
		return nil
	}
	name := strings.ToLower(strings.TrimPrefix(machine.String(), "EM_"))
	return exit.Errorf(exit.Usage, "run it on such a machine, or build it for this one: leave --target out, or give one that fits",
		"%s: is a program for %s, and this machine is %s", path, name, strings.ToLower(strings.TrimPrefix(known[0].String(), "EM_")))
}
