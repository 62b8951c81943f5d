package fatbin

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"
	"gpubuild/buildenv/hosttest"
)

// Device code made here, so that tests need no toolkit. Compared with what nvcc 13.4.92 writes, only what is read is there.

type part struct {
	name string
	data []byte
}

// elfFile makes a 64-bit ELF file of sections.
func elfFile(machine uint16, flags uint32, parts ...part) []byte {
	le := binary.LittleEndian
	names := []byte("\x00.shstrtab\x00")
	out := make([]byte, elfHeader)
	table := make([]byte, elfSection) // the null section
	add := func(name uint32, kind uint32, data []byte) {
		h := make([]byte, elfSection)
		le.PutUint32(h, name)
		le.PutUint32(h[4:], kind)
		le.PutUint64(h[24:], uint64(len(out)))
		le.PutUint64(h[32:], uint64(len(data)))
		out, table = append(out, data...), append(table, h...)
	}
	for _, p := range parts {
		name := uint32(len(names))
		names = append(append(names, p.name...), 0)
		add(name, 1, p.data)
	}
	add(1, 3, names)
	copy(out, "\x7fELF\x02\x01\x01\x41\x08")
	le.PutUint16(out[16:], 2)
	le.PutUint16(out[18:], machine)
	le.PutUint32(out[20:], 1)
	le.PutUint64(out[40:], uint64(len(out)))
	le.PutUint32(out[48:], flags)
	le.PutUint16(out[52:], elfHeader)
	le.PutUint16(out[58:], elfSection)
	le.PutUint16(out[60:], uint16(len(parts)+2))
	le.PutUint16(out[62:], uint16(len(parts)+1))
	return append(out, table...)
}

// cubin makes machine code for an architecture such as "sm_90a"; note may be empty.
func cubin(sm uint32, note string, kernels ...string) []byte {
	parts := []part{{".text._Z6helperf", []byte("code of a device function")}}
	if note != "" {
		parts = append(parts, part{".note.nv.tkinfo", []byte("\x0c\x00\x00\x00NVIDIA Corp\x00" + note + "\x00")})
	}
	for _, k := range kernels {
		parts = append(parts, part{".text." + k, bytes.Repeat([]byte("code"), 99)}, part{".nv.constant0." + k, make([]byte, 16)}, part{".nv.info." + k, nil})
	}
	return elfFile(machineCUDA, 0x06000004|sm<<8, parts...)
}

const ptxas = "ptxas\x00Cuda compilation tools, release 13.4, V13.4.92\x00Build cuda_13.4.r13.4/compiler.38855100_0\x00-arch "

type packed struct {
	kind   uint16
	arch   uint32
	flags  uint64
	data   []byte
	pieces []packed // for kindConcat
}

// container makes a fatbin.
func container(entries ...packed) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, e := range entries {
		data, extra := e.data, []byte(nil)
		if e.kind == kindConcat {
			extra = make([]byte, 8)
			for _, p := range e.pieces {
				extra = append(extra, header(p, entryBytes, uint64(len(p.data)), 0, 0)...)
				data = append(data, p.data...)
			}
			le.PutUint32(extra, uint32(len(e.pieces)))
			le.PutUint32(extra[4:], uint32(len(extra)))
		}
		stored := data
		switch {
		case e.flags&flagZstd != 0:
			w, _ := zstd.NewWriter(nil)
			stored = w.EncodeAll(data, nil)
		case e.flags&flagLZ4 != 0:
			stored = lz4Literals(data)
		}
		count := len(stored)
		stored = append(bytes.Clone(stored), make([]byte, -len(stored)&7)...)
		h := header(e, uint32(entryBytes+len(extra)), uint64(len(stored)), uint32(count), uint64(len(data)))
		body = append(append(append(body, h...), extra...), stored...)
	}
	head := make([]byte, headerBytes)
	le.PutUint32(head, 0xBA55ED50)
	le.PutUint16(head[4:], 1)
	le.PutUint16(head[6:], headerBytes)
	le.PutUint64(head[8:], uint64(len(body)))
	return append(head, body...)
}

func header(e packed, size uint32, payload uint64, compressed uint32, unpacked uint64) []byte {
	le := binary.LittleEndian
	h := make([]byte, entryBytes)
	le.PutUint16(h, e.kind)
	le.PutUint16(h[2:], 0x101)
	le.PutUint32(h[4:], size)
	le.PutUint64(h[8:], payload)
	if e.flags&(flagZstd|flagLZ4) != 0 {
		le.PutUint32(h[16:], compressed)
		le.PutUint64(h[56:], unpacked)
	}
	le.PutUint16(h[24:], 4)
	le.PutUint16(h[26:], 9)
	le.PutUint32(h[28:], e.arch)
	le.PutUint64(h[40:], e.flags)
	return h
}

// lz4Literals packs without finding anything to pack.
func lz4Literals(data []byte) []byte {
	n := len(data)
	if n < 15 {
		return append([]byte{byte(n << 4)}, data...)
	}
	out := []byte{0xf0}
	for n -= 15; n >= 255; n -= 255 {
		out = append(out, 255)
	}
	return append(append(out, byte(n)), data...)
}

// ptx is PTX as nvcc writes it, for an architecture, with the kernels _Z5scaleIfEvPT_i and matmul. It stands in a file, so that this
// test program does not hold it.
func ptx(t testing.TB, target string) []byte {
	t.Helper()
	data := hosttest.Must(os.ReadFile("testdata/kernels.ptx"))(t)
	return bytes.ReplaceAll(data, []byte("sm_90a"), []byte(target))
}
