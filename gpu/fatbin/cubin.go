package fatbin

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strings"

	"gpubuild/gpu"
)

const (
	machineCUDA = 190 // EM_CUDA

	elfHeader    = 64
	elfSection   = 64
	elfSegment   = 56
	maxNote      = 64 << 10
	kernelPrefix = ".text."
	// A kernel's parameters stand in a section of this prefix; a device function has none.
	paramPrefix = ".nv.constant0."
	entryPoint  = 0x10 // in a symbol's st_other: a kernel (STO_CUDA_ENTRY)
)

// cubinInfo is what a cubin says of itself.
type cubinInfo struct {
	extent  int64 // bytes from its beginning to its end
	arch    gpu.Arch
	noted   bool // arch comes from the compiler's note and is exact
	toolkit string
	kernels []string
	takes   []Resources // of each kernel
	partial bool        // a link must complete it
	lines   map[string]string
}

// complete puts what the cubin says into an image. A fatbin entry's own arch, with its suffix, is better than the one in e_flags.
func (c cubinInfo) complete(im *Image) {
	if c.noted || im.Arch == (gpu.Arch{}) {
		im.Arch = c.arch
	}
	im.Toolkit, im.Kernels, im.Resources, im.Relocatable, im.Lines = c.toolkit, c.kernels, c.takes, c.partial, c.lines
}

var errCut = errors.New("it is cut off")

// readCubin reads the 64-bit ELF file at off that is not longer than size.
func readCubin(r io.ReaderAt, off, size int64) (c cubinInfo, err error) {
	defer func() {
		if p := recover(); p != nil { // debug/elf is not made for hostile files
			err = fmt.Errorf("%v", p)
		}
	}()
	part := io.NewSectionReader(r, off, size)
	var h [elfHeader]byte
	if n, _ := part.ReadAt(h[:], 0); n < len(h) {
		return c, errCut
	}
	le := binary.LittleEndian
	if string(h[:6]) != "\x7fELF\x02\x01" || le.Uint16(h[18:]) != machineCUDA {
		return c, errors.New("it is no 64-bit cubin")
	}
	f, err := elf.NewFile(part)
	if err != nil {
		return c, err
	}
	if len(f.Sections) == 0 {
		return c, errors.New("it has no table of sections")
	}
	c.partial = f.Type == elf.ET_REL
	c.arch = flagsArch(f.ABIVersion, le.Uint32(h[48:]))
	end := le.Uint64(h[40:]) + uint64(len(f.Sections))*elfSection
	if n := len(f.Progs); n > 0 {
		end = max(end, le.Uint64(h[32:])+uint64(n)*elfSegment)
	}
	code, params := map[string]bool{}, map[string]bool{}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			if s.Offset > uint64(size) || s.FileSize > uint64(size)-s.Offset {
				return c, errCut
			}
			end = max(end, s.Offset+s.FileSize)
		}
		if name, is := strings.CutPrefix(s.Name, kernelPrefix); is {
			code[quote([]byte(name))] = true
		} else if name, is := strings.CutPrefix(s.Name, paramPrefix); is {
			params[quote([]byte(name))] = true
		} else if s.Name == ".note.nv.tkinfo" && s.FileSize <= maxNote {
			if note, err := s.Data(); err == nil {
				c.readNote(note)
			}
		}
	}
	if end > uint64(size) {
		return c, errCut
	}
	c.extent = int64(end)
	if len(params) == 0 { // device functions only, or an old compiler's
		symbols, err := symbolsOf(f)
		for _, sym := range symbols {
			params[quote([]byte(sym.Name))] = sym.Other&entryPoint != 0
		}
		if err != nil {
			params = code
		}
	}
	for name := range code {
		if params[name] {
			c.kernels = append(c.kernels, name)
		}
	}
	sort.Strings(c.kernels)
	if takes := resourcesOf(f); takes != nil {
		for _, name := range c.kernels {
			c.takes = append(c.takes, takes[name])
		}
	}
	c.lines = kernelLines(f)
	return c, nil
}

// resourcesOf reads what each function takes: from the sections of its name, and from the attributes in .nv.info. An attribute is a byte for
// its form (4: a half with the length, then so much), one for its kind, and a value. cuobjdump -res-usage of CUDA 13 says the same.
func resourcesOf(f *elf.File) map[string]Resources {
	info, symbols := f.Section(".nv.info"), f.SectionByType(elf.SHT_SYMTAB)
	if info == nil || symbols == nil || max(info.FileSize, symbols.FileSize) > maxNames || (info.Flags|symbols.Flags)&elf.SHF_COMPRESSED != 0 {
		return nil
	}
	attributes, err := info.Data()
	table, failed := symbols.Data()
	if err != nil || failed != nil {
		return nil
	}
	const form, registers, stack = 4, 0x2f, 0x12 // EIATTR_REGCOUNT, EIATTR_MIN_STACK_SIZE
	out, le := map[string]Resources{}, binary.LittleEndian
	set := func(section, prefix string, change func(*Resources)) {
		if name, is := strings.CutPrefix(section, prefix); is {
			r := out[quote([]byte(name))]
			change(&r)
			out[quote([]byte(name))] = r
		}
	}
	for _, s := range f.Sections {
		set(s.Name, ".nv.shared.", func(r *Resources) { r.Shared = s.Size })
		set(s.Name, paramPrefix, func(r *Resources) { r.Constant = s.Size })
	}
	for b := attributes; len(b) >= 4; {
		size := 0
		if b[0] == form {
			size = int(le.Uint16(b[2:]))
		}
		if size > len(b)-4 {
			break
		}
		if at, value := uint64(0), b[4:4+size]; size == 8 && (b[1] == registers || b[1] == stack) {
			if at = uint64(le.Uint32(value)) * elf.Sym64Size; at+elf.Sym64Size <= uint64(len(table)) {
				if in := int(le.Uint16(table[at+6:])); in < len(f.Sections) { // st_shndx
					set(f.Sections[in].Name, kernelPrefix, func(r *Resources) {
						switch n := le.Uint32(value[4:]); {
						case b[1] == registers:
							r.Registers = uint64(n)
						case n == math.MaxUint32: // cuobjdump: STACK:UNKNOWN
							r.StackUnknown = true
						default:
							r.Stack = uint64(n)
						}
					})
				}
			}
		}
		b = b[4+size:]
	}
	return out
}

// symbolsOf reads the symbols of a cubin, which compilers leave uncompressed.
func symbolsOf(f *elf.File) ([]elf.Symbol, error) {
	for _, s := range f.Sections {
		if (s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_STRTAB) && (s.Flags&elf.SHF_COMPRESSED != 0 || s.FileSize > maxNames) {
			return nil, errors.New("its symbols are compressed, or too many")
		}
	}
	return f.Symbols()
}

// flagsArch reads e_flags. ABI version 8 came with CUDA 13; before it the capability stood in the lowest byte. The suffix is not to be
// had from it in the newer one: sm_90 and sm_90a have the same flags.
func flagsArch(abi byte, flags uint32) gpu.Arch {
	if abi >= 8 {
		return archOf(int(flags >> 8 & 0xff))
	}
	a := archOf(int(flags & 0xff))
	if flags&0x800 != 0 && a != (gpu.Arch{}) {
		a.Suffix = "a"
	}
	return a
}

// readNote reads the words that ptxas left: "Cuda compilation tools, release 13.4, V13.4.92" and its arguments, "-arch sm_90a -m 64".
func (c *cubinInfo) readNote(note []byte) {
	words := strings.FieldsFunc(string(note), func(r rune) bool { return r <= ' ' || r > '~' })
	for i, w := range words {
		if v, ok := strings.CutPrefix(w, "V"); ok && c.toolkit == "" && strings.Count(v, ".") >= 1 {
			if _, err := gpu.ParseVersion(v); err == nil {
				c.toolkit = v
			}
		}
		if (w == "-arch" || w == "--gpu-name") && i+1 < len(words) && !c.noted {
			if a, err := gpu.ParseArch(words[i+1]); err == nil && !a.Virtual {
				c.arch, c.noted = a, true
			}
		}
	}
}
