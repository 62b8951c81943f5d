package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"path"
	"strconv"
	"strings"
)

// maxLines is how many bytes of line information of one cubin are looked at.
const maxLines = 64 << 20

// kernelLines returns, by kernel, "FILE:LINE" of the first row of its sequence in a cubin's .debug_line, which nvcc -lineinfo writes: the
// line of the kernel itself, for templates and kernels of headers, too. Format: DWARF 4, 6.2; nvcc 13.5 writes version 2. What is
// malformed ends the reading, and what was found so far counts.
func kernelLines(f *elf.File) (found map[string]string) {
	section := f.Section(".debug_line")
	if section == nil || section.Type == elf.SHT_NOBITS || section.FileSize > maxLines {
		return nil
	}
	defer func() { _ = recover() }() // hostile bytes end in an index that is out of range
	data, _ := section.Data()
	at, total := sequenceKernels(f), 0
	for len(data) > 4 && len(at) > 0 {
		size := int(binary.LittleEndian.Uint32(data)) + 4
		u := lineUnit{data: data[:size], base: int(section.FileSize) - len(data), kernels: at}
		u.read(func(kernel, place string) {
			if found == nil {
				found = map[string]string{}
			}
			if total += len(place); total > maxLines {
				panic("too many names of files")
			}
			if found[kernel] == "" {
				found[kernel] = place
			}
		})
		data = data[size:]
	}
	return found
}

// sequenceKernels are the kernels to which the relocations of .debug_line tie its addresses, by the offset there.
func sequenceKernels(f *elf.File) map[int]string {
	symbols, err := symbolsOf(f)
	if err != nil {
		return nil
	}
	out := map[int]string{}
	for _, s := range f.Sections {
		stride := map[string]int{".rel.debug_line": 16, ".rela.debug_line": 24}[s.Name]
		if stride == 0 || s.FileSize > maxLines {
			continue
		}
		data, _ := s.Data()
		for ; len(data) >= stride; data = data[stride:] {
			sym := symbols[binary.LittleEndian.Uint32(data[12:])-1] // the first one is left out
			name := sym.Name
			if name == "" {
				name = f.Sections[sym.Section].Name
			}
			out[int(binary.LittleEndian.Uint64(data))] = quote([]byte(strings.TrimPrefix(name, kernelPrefix)))
		}
	}
	return out
}

// lineUnit is one program of line numbers.
type lineUnit struct {
	data    []byte
	base    int // of data in the section
	kernels map[int]string
	pos     int
}

func (u *lineUnit) byte() byte {
	u.pos++
	return u.data[u.pos-1]
}

func (u *lineUnit) string() string {
	s := string(u.data[u.pos : u.pos+bytes.IndexByte(u.data[u.pos:], 0)])
	u.pos += len(s) + 1
	return s[:min(len(s), maxNameBytes)]
}

// number reads a LEB128.
func (u *lineUnit) number(signed bool) int {
	out, shift := int64(0), 0
	for {
		b := u.byte()
		out |= int64(b&0x7f) << shift
		if shift += 7; b < 0x80 {
			if signed && b&0x40 != 0 && shift < 64 {
				out -= 1 << shift
			}
			return int(out)
		}
	}
}

// read gives found the first row of each sequence.
func (u *lineUnit) read(found func(kernel, place string)) {
	const (
		extended, copied, advancePC, advanceLine, setFile, fixedAdvance = 0, 1, 2, 3, 4, 9
		endSequence, setAddress                                         = 1, 2
	)
	le := binary.LittleEndian
	version := le.Uint16(u.data[4:])
	if version < 2 || version > 4 {
		return
	}
	program := 10 + int(le.Uint32(u.data[6:]))
	if u.pos = 11; version == 4 {
		u.pos++
	}
	u.byte() // default_is_stmt
	lineBase, lineRange, opcodes := int(int8(u.byte())), int(u.byte()), int(u.byte())
	operands := u.data[u.pos : u.pos+opcodes-1]
	u.pos += opcodes - 1
	dirs, files, in := []string{""}, []string{""}, []int{0}
	for u.data[u.pos] != 0 {
		dirs = append(dirs, u.string())
	}
	for u.pos++; u.data[u.pos] != 0; {
		files = append(files, u.string())
		in = append(in, u.number(false))
		u.number(false) // time
		u.number(false) // length
	}
	kernel, file, line := "", 1, 1
	row := func() {
		if kernel != "" {
			name := files[file]
			if dir := dirs[in[file]]; dir != "" && !path.IsAbs(name) {
				name = path.Join(dir, name)
			}
			found(kernel, quote([]byte(name))+":"+strconv.Itoa(line))
		}
		kernel = "" // the rows behind it are of no interest
	}
	for u.pos = program; u.pos < len(u.data); {
		switch op := int(u.byte()); {
		case op >= opcodes:
			line += lineBase + (op-opcodes)%lineRange
			row()
		case op == extended:
			size := max(0, u.number(false))
			next := u.pos + size
			switch u.byte() {
			case endSequence:
				kernel, file, line = "", 1, 1
			case setAddress:
				kernel = u.kernels[u.base+u.pos]
			}
			u.pos = next
		case op == copied:
			row()
		case op == advanceLine:
			line += u.number(true)
		case op == setFile:
			file = u.number(false)
		case op == fixedAdvance:
			u.pos += 2
		case op == advancePC:
			u.number(false)
		default:
			for range operands[op-1] {
				u.number(false)
			}
		}
	}
}
