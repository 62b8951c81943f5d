package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"gpubuild/gpu"
)

const (
	machineCUDA = 190 // EM_CUDA

	elfHeader    = 64
	elfSection   = 64
	elfSegment   = 56
	sectionNone  = 8 // SHT_NOBITS
	maxSections  = 1 << 18
	maxStrings   = 64 << 20
	maxNote      = 64 << 10
	kernelPrefix = ".text."
	// A kernel's parameters stand in a section of this prefix; a device function has none.
	paramPrefix = ".nv.constant0."
)

// cubinInfo is what a cubin says of itself.
type cubinInfo struct {
	extent  int64 // bytes from its beginning to its end
	arch    gpu.Arch
	noted   bool // arch comes from the compiler's note and is exact
	toolkit string
	kernels []string
}

// complete puts what the cubin says into an image. A fatbin entry's own arch, with its suffix, is better than the one in e_flags.
func (c cubinInfo) complete(im *Image) {
	if c.noted || im.Arch == (gpu.Arch{}) {
		im.Arch = c.arch
	}
	im.Toolkit, im.Kernels = c.toolkit, c.kernels
}

var errCut = errors.New("it is cut off")

// readCubin reads the 64-bit ELF file at off that is not longer than size.
func readCubin(r io.ReaderAt, off, size int64) (cubinInfo, error) {
	var c cubinInfo
	at := func(pos, n uint64) ([]byte, error) {
		if pos > uint64(size) || n > uint64(size)-pos {
			return nil, errCut
		}
		b := make([]byte, n)
		if m, _ := r.ReadAt(b, off+int64(pos)); m < len(b) {
			return nil, errCut
		}
		return b, nil
	}
	h, err := at(0, elfHeader)
	if err != nil {
		return c, err
	}
	le := binary.LittleEndian
	if string(h[:6]) != "\x7fELF\x02\x01" || le.Uint16(h[18:]) != machineCUDA {
		return c, errors.New("it is no 64-bit cubin")
	}
	c.arch = flagsArch(h[8], le.Uint32(h[48:]))
	segments, sections := le.Uint64(h[32:]), le.Uint64(h[40:])
	count, names := uint64(le.Uint16(h[60:])), uint64(le.Uint16(h[62:]))
	if sections == 0 || sections >= uint64(size) || le.Uint16(h[58:]) != elfSection {
		return c, errors.New("it has no table of sections")
	}
	first, err := at(sections, elfSection)
	if err != nil {
		return c, err
	}
	if count == 0 { // more than 65279 sections: the numbers stand in the first one
		count = le.Uint64(first[32:])
	}
	if names == 0xffff {
		names = uint64(le.Uint32(first[40:]))
	}
	if count > maxSections || names >= count {
		return c, fmt.Errorf("it claims %d sections", count)
	}
	table, err := at(sections, count*elfSection)
	if err != nil {
		return c, err
	}
	end := sections + count*elfSection
	if n := uint64(le.Uint16(h[56:])); n > 0 {
		if segments > uint64(size) || n*elfSegment > uint64(size)-segments {
			return c, errCut
		}
		end = max(end, segments+n*elfSegment)
	}
	section := func(i uint64) (kind uint32, pos, n uint64) {
		b := table[i*elfSection:]
		return le.Uint32(b[4:]), le.Uint64(b[24:]), le.Uint64(b[32:])
	}
	_, pos, n := section(names)
	if n > maxStrings {
		return c, fmt.Errorf("its section names take %d bytes", n)
	}
	strtab, err := at(pos, n)
	if err != nil {
		return c, err
	}
	code, params, taken := map[string]bool{}, map[string]bool{}, 0
	for i := uint64(0); i < count; i++ {
		kind, pos, n := section(i)
		if kind != sectionNone && i > 0 {
			if pos > uint64(size) || n > uint64(size)-pos {
				return c, errCut
			}
			end = max(end, pos+n)
		}
		name := stringAt(strtab, le.Uint32(table[i*elfSection:]))
		if taken += len(name); taken > maxStrings {
			return c, errors.New("its section names overlap")
		}
		switch {
		case bytes.HasPrefix(name, []byte(kernelPrefix)):
			code[quote(name[len(kernelPrefix):])] = true
		case bytes.HasPrefix(name, []byte(paramPrefix)):
			params[quote(name[len(paramPrefix):])] = true
		case string(name) == ".note.nv.tkinfo" && n <= maxNote:
			if note, err := at(pos, n); err == nil {
				c.readNote(note)
			}
		}
	}
	c.extent = int64(end)
	for name := range code {
		if len(params) == 0 || params[name] {
			c.kernels = append(c.kernels, name)
		}
	}
	sort.Strings(c.kernels)
	return c, nil
}

func stringAt(table []byte, off uint32) []byte {
	if uint64(off) >= uint64(len(table)) {
		return nil
	}
	s := table[off:min(uint64(len(table)), uint64(off)+maxNameBytes)]
	if i := bytes.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return nil
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
