package fatbin

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"path"
	"strconv"
	"strings"
)

// maxLines is how many bytes of line information of one cubin are looked at.
const maxLines = 64 << 20

// kernelLines returns, by kernel, "FILE:LINE" of the first row of its sequence in a cubin's .debug_line, which nvcc -lineinfo writes: the
// line of the kernel itself, for templates and kernels of headers, too. nvcc 13.5 writes version 2 of DWARF. What is malformed ends the
// reading, and what was found so far counts.
func kernelLines(f *elf.File) (found map[string]string) {
	section := f.Section(".debug_line")
	if section == nil || section.Type == elf.SHT_NOBITS || section.FileSize > maxLines {
		return nil
	}
	defer func() { _ = recover() }() // hostile bytes end in an index that is out of range
	data, _ := section.Data()
	kernels := markSequences(f, data)
	// debug/dwarf wants a unit of .debug_info, which nvcc leaves out: one that holds nothing.
	d, err := dwarf.New([]byte{0}, nil, nil, []byte{8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 8, 0}, data, nil, nil, nil)
	for at, total := 0, 0; err == nil && at+6 < len(data) && binary.LittleEndian.Uint16(data[at+4:]) <= 4; { // 5 may claim any memory
		unit := dwarf.Entry{Offset: 11, Field: []dwarf.Field{{Attr: dwarf.AttrStmtList, Val: int64(at)}}}
		lines, wrong := d.LineReader(&unit)
		row, first := dwarf.LineEntry{}, true
		for wrong == nil {
			if wrong = lines.Next(&row); wrong != nil {
				break
			}
			if n := int(row.Address>>32) - 1; first && n >= 0 && n < len(kernels) && found[kernels[n]] == "" {
				name := path.Clean(row.File.Name)
				if total += len(name); total > maxLines {
					return found
				}
				if found == nil {
					found = map[string]string{}
				}
				found[kernels[n]] = quote([]byte(name[:min(len(name), maxNameBytes)])) + ":" + strconv.Itoa(row.Line)
			}
			first = row.EndSequence
		}
		at += int(binary.LittleEndian.Uint32(data[at:])) + 4
	}
	return found
}

// markSequences writes a number, from 1 on, into the upper half of each address of .debug_line that a relocation ties to a kernel, and
// returns the kernels.
func markSequences(f *elf.File, lines []byte) (kernels []string) {
	symbols, err := symbolsOf(f)
	if err != nil {
		return nil
	}
	for _, s := range f.Sections {
		stride := map[string]int{".rel.debug_line": 16, ".rela.debug_line": 24}[s.Name]
		if stride == 0 || s.FileSize > maxLines {
			continue
		}
		data, _ := s.Data()
		for ; len(data) >= stride; data = data[stride:] {
			if binary.LittleEndian.Uint32(data[8:]) != 2 { // R_CUDA_64: the others are no addresses
				continue
			}
			sym := symbols[binary.LittleEndian.Uint32(data[12:])-1] // the first one is left out
			name := sym.Name
			if name == "" {
				name = f.Sections[sym.Section].Name
			}
			kernels = append(kernels, quote([]byte(strings.TrimPrefix(name, kernelPrefix))))
			binary.LittleEndian.PutUint64(lines[binary.LittleEndian.Uint64(data):], uint64(len(kernels))<<32)
		}
	}
	return kernels
}
