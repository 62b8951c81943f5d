package fatbin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// Kinds and flags of fatbin entries.
const (
	kindPTX    = 1
	kindELF    = 2
	kindLTO    = 8
	kindConcat = 256 // several images of one kind, packed together (nvcc --concat)

	flagLZ4    = 0x2000
	flagZstd   = 0x8000
	flagArch   = 0x100000 // suffix a
	flagFamily = 0x200000 // suffix f

	headerBytes = 16
	entryBytes  = 64
	maxHeader   = 1 << 20 // bytes of an entry's header: 80 for each image of a concatenated one
)

// entry is the header of one image in a fatbin.
type entry struct {
	kind, version uint16
	header        uint32 // its own size
	payload       uint64 // padded
	compressed    uint32 // the part of the payload that counts, if it is compressed
	minor, major  uint16 // of the PTX version
	arch          uint32
	flags         uint64
	unpacked      uint64
}

func parseEntry(b []byte) entry {
	le := binary.LittleEndian
	return entry{
		kind:       le.Uint16(b),
		version:    le.Uint16(b[2:]),
		header:     le.Uint32(b[4:]),
		payload:    le.Uint64(b[8:]),
		compressed: le.Uint32(b[16:]),
		minor:      le.Uint16(b[24:]),
		major:      le.Uint16(b[26:]),
		arch:       le.Uint32(b[28:]),
		flags:      le.Uint64(b[40:]),
		unpacked:   le.Uint64(b[56:]),
	}
}

func (e entry) compression() string {
	switch {
	case e.flags&flagZstd != 0:
		return Zstd
	case e.flags&flagLZ4 != 0:
		return LZ4
	}
	return Raw
}

// image is what the header alone says.
func (e entry) image(off int64) Image {
	im := Image{Offset: off, Kind: fmt.Sprintf("kind %d", e.kind), Compression: e.compression(), Arch: archOf(int(e.arch))}
	switch {
	case e.flags&flagArch != 0:
		im.Arch.Suffix = "a"
	case e.flags&flagFamily != 0:
		im.Arch.Suffix = "f"
	}
	switch e.kind {
	case kindPTX:
		im.Kind, im.Arch.Virtual = PTX, true
		im.PTXVersion = fmt.Sprintf("%d.%d", e.major, e.minor)
	case kindELF:
		im.Kind = Cubin
	case kindLTO:
		im.Kind = LTO
	}
	return im
}

// archOf reads the number of an architecture: 90 is 9.0, 120 is 12.0.
func archOf(n int) gpu.Arch {
	if n < 10 || n > 999 {
		return gpu.Arch{}
	}
	return gpu.Arch{Capability: gpu.Capability{Major: n / 10, Minor: n % 10}}
}

// fatbin reads the fatbin whose magic number is at off, if it is one: programs that know the format hold the number, too.
// It returns where the fatbin ends, if what ends there was understood: in a program one stands behind the other.
func (s *scanner) fatbin(off int64) (next int64) {
	head := s.read(off, headerBytes)
	le := binary.LittleEndian
	if head == nil || le.Uint32(head) != 0xBA55ED50 {
		return -1
	}
	version, header, body := le.Uint16(head[4:]), int64(le.Uint16(head[6:])), le.Uint64(head[8:])
	if version != 1 || header < headerBytes || body == 0 {
		return -1
	}
	at := off + header
	end := s.size
	cut := body > uint64(max(0, s.size-at))
	if !cut {
		end = at + int64(body)
	}
	s.inside = off
	defer func() { s.inside = -1 }()
	found := 0
	for at < end {
		if len(s.report.Images) >= maxImages {
			s.note(at, "more than %d device images: the rest is left out", maxImages)
			s.understood(at, end)
			return -1
		}
		b := s.read(at, entryBytes)
		if b == nil || at+entryBytes > end {
			break
		}
		e := parseEntry(b)
		if e.kind == 0 && e.header == 0 {
			break // padding
		}
		if e.version>>8 != 1 || e.header < entryBytes || e.header > maxHeader {
			if found > 0 {
				s.note(at, "the fatbin at 0x%x goes on with something that is no entry", off)
			}
			break
		}
		from := at + int64(e.header)
		if from > end || e.payload > uint64(end-from) {
			if !cut || found > 0 {
				s.note(at, "an entry of the fatbin at 0x%x is cut off", off)
			}
			cut = false // said
			break
		}
		if found == 0 {
			s.understood(off, off+header)
		}
		found++
		to := from + int64(e.payload)
		if s.entry(e, at, from, to) {
			s.understood(at, to)
		} else {
			s.understood(at, from)
		}
		at = to
	}
	if cut && found > 0 {
		s.note(off, "a fatbin of %d bytes is cut off by the end of the file", body)
	}
	if found == 0 || at != end {
		return -1
	}
	return end
}

// entry reads one image, or several packed together; it says whether the payload was understood.
func (s *scanner) entry(e entry, off, from, to int64) bool {
	im := e.image(off)
	im.Size = to - from
	if e.compression() != Raw && int64(e.compressed) > 0 && int64(e.compressed) < im.Size {
		im.Size = int64(e.compressed)
	}
	if e.kind != kindPTX && e.kind != kindELF && e.kind != kindConcat {
		if e.kind != kindLTO {
			s.note(off, "a fatbin entry of unknown kind %d", e.kind)
		}
		s.add(im)
		return false
	}
	if im.Compression == Raw && e.kind != kindConcat {
		im.Unpacked = im.Size
		ok := s.inspect(&im, s.r, from, im.Size)
		s.add(im)
		return ok
	}
	data, err := s.unpack(im.Compression, from, im.Size, e.unpacked)
	if err != nil {
		s.note(off, "%s image cannot be unpacked: %v", im.Compression, err)
		s.add(im)
		return false
	}
	if e.kind == kindConcat {
		return s.pieces(off, from-off, im, data)
	}
	im.Unpacked = int64(len(data))
	ok := s.inspect(&im, bytes.NewReader(data), 0, im.Unpacked)
	s.add(im)
	return ok
}

// pieces takes several images out of one payload. Behind the header stand their number, the size of what follows, and a header for each.
func (s *scanner) pieces(off, header int64, whole Image, data []byte) bool {
	b := s.read(off, int(header))
	le := binary.LittleEndian
	malformed := func() bool {
		s.note(off, "malformed entry of concatenated images")
		s.add(whole)
		return false
	}
	if len(b) < entryBytes+8 {
		return malformed()
	}
	count, table := int64(le.Uint32(b[entryBytes:])), int64(le.Uint32(b[entryBytes+4:]))
	b = b[entryBytes+8:]
	table -= 8
	if count < 1 || table > int64(len(b)) || table/count < entryBytes {
		return malformed()
	}
	ok := true
	for i, stride := int64(0), table/count; i < count; i++ {
		e := parseEntry(b[i*stride:])
		im := e.image(off)
		if e.payload > uint64(len(data)) {
			return malformed()
		}
		im.Compression, im.Unpacked = whole.Compression, int64(e.payload)
		if i == 0 {
			im.Size = whole.Size // the others take no more
		}
		ok = s.inspect(&im, bytes.NewReader(data[:e.payload]), 0, im.Unpacked) && ok
		s.add(im)
		data = data[e.payload:]
	}
	return ok
}

// inspect completes an image by what its unpacked bytes say; false when they are not what its kind promises.
func (s *scanner) inspect(im *Image, r io.ReaderAt, off, size int64) bool {
	switch im.Kind {
	case Cubin:
		c, err := readCubin(r, off, size)
		if err != nil {
			s.note(im.Offset, "a cubin of a fatbin is malformed: %v", err)
			s.wasted(im.Offset)
			return false
		}
		c.complete(im)
		return true
	case PTX:
		m := readPTX(io.NewSectionReader(r, off, size))
		if m.version == "" && m.target == "" {
			s.note(im.Offset, "the PTX of a fatbin is malformed")
			return false
		}
		m.complete(im)
		return true
	}
	return false
}

// cubin reads a cubin at off that is in no container.
func (s *scanner) cubin(off int64) {
	head := s.read(off, 20)
	if head == nil || binary.LittleEndian.Uint16(head[18:]) != machineCUDA {
		return
	}
	c, err := readCubin(s.r, off, s.size-off)
	if err != nil {
		s.note(off, "a cubin is malformed: %v", err)
		s.wasted(off)
		return
	}
	im := Image{Offset: off, Kind: Cubin, Compression: Raw, Size: c.extent, Unpacked: c.extent}
	c.complete(&im)
	s.add(im)
	s.understood(off, off+c.extent)
}

// text reads PTX that stands as text around off, where a directive stands.
func (s *scanner) text(off int64) {
	m := readPTX(io.NewSectionReader(s.r, off, min(s.size-off, maxText)))
	s.textDone = off + max(1, m.stop)
	if m.marks() < 2 {
		return
	}
	if len(m.entries) == 0 {
		// What a program holds that writes its PTX at run time, or a module of functions that nothing can launch.
		s.note(off, "the beginning of PTX text without a whole kernel")
		return
	}
	if m.cut {
		s.note(off, "PTX text is cut off")
	}
	from := off - s.header(off)
	im := Image{Offset: from, Kind: PTXText, Compression: Raw, Size: off + m.extent - from}
	im.Unpacked = im.Size
	m.complete(&im)
	im.Toolkit = signature(s.read(from, int(off-from)))
	s.add(im)
	s.understood(off, off+m.extent)
}

// signed is what NVIDIA's compilers write of themselves: cicc at the beginning of its PTX text, ptxas into a cubin's note, each tool in
// its own file. A fatbin's PTX has lost it with all other comments (read off what nvcc 13.3.73 and 13.4.92 write).
var signed = lazyregexp.New(`Cuda compilation tools, release \d+\.\d+, V(\d+\.\d+(?:\.\d+)?)`)

// signature returns the version with which a compiler signed text, or nothing.
func signature(text []byte) string {
	if m := signed.FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return ""
}

// header counts the bytes of comment lines that stand directly before off.
func (s *scanner) header(off int64) int64 {
	n := min(off, 2048)
	b := s.read(off-n, int(n))
	start := len(b)
	for start > 0 && b[start-1] == '\n' {
		line := bytes.LastIndexByte(b[:start-1], '\n') + 1
		text := bytes.TrimSpace(b[line : start-1])
		if len(text) > 0 && !bytes.HasPrefix(text, []byte("//")) || bytes.IndexByte(text, 0) >= 0 {
			break
		}
		start = line
	}
	return int64(len(b) - start)
}

func quote(name []byte) string {
	if len(name) > maxNameBytes {
		return string(name[:maxNameBytes])
	}
	for _, c := range name {
		if c < 0x21 || c > 0x7e {
			return strconv.QuoteToASCII(string(name))
		}
	}
	return string(name)
}
