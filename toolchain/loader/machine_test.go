package loader

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io/fs"
	"path"
	"strings"
	"testing/fstest"

	"gpubuild/buildenv"
)

// lib describes an ELF file that image makes.
type lib struct {
	soname  string
	needed  []string
	rpath   string
	runpath string
	machine elf.Machine // zero: x86-64
	noDef   bool
	symbols []string
	interp  string
}

// image makes a 64-bit ELF file that holds what a loader reads, and no code.
func image(l lib) []byte {
	if l.machine == 0 {
		l.machine = elf.EM_X86_64
	}
	order := binary.LittleEndian
	str := []byte{0}
	name := func(s string) uint64 {
		at := len(str)
		str = append(append(str, s...), 0)
		return uint64(at)
	}
	var dyn, sym bytes.Buffer
	tag := func(t elf.DynTag, v uint64) { _ = binary.Write(&dyn, order, elf.Dyn64{Tag: int64(t), Val: v}) }
	for _, n := range l.needed {
		tag(elf.DT_NEEDED, name(n))
	}
	if l.soname != "" {
		tag(elf.DT_SONAME, name(l.soname))
	}
	if l.rpath != "" {
		tag(elf.DT_RPATH, name(l.rpath))
	}
	if l.runpath != "" {
		tag(elf.DT_RUNPATH, name(l.runpath))
	}
	if l.noDef {
		tag(elf.DT_FLAGS_1, uint64(elf.DF_1_NODEFLIB))
	}
	_ = binary.Write(&sym, order, elf.Sym64{})
	for _, s := range l.symbols {
		_ = binary.Write(&sym, order, elf.Sym64{Name: uint32(name(s)), Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_OBJECT), Shndx: 1})
	}
	tag(elf.DT_STRTAB, 64) // behind the header; the file is loaded as it is
	tag(elf.DT_STRSZ, uint64(len(str)))
	tag(elf.DT_NULL, 0)
	const header = 64
	parts := [][]byte{str, dyn.Bytes(), sym.Bytes(), []byte("\x00.dynstr\x00.dynamic\x00.dynsym\x00.shstrtab\x00")}
	sections := []elf.Section64{{}}
	var body bytes.Buffer
	for i, p := range parts {
		s := elf.Section64{Off: uint64(header + body.Len()), Size: uint64(len(p))}
		switch i {
		case 0:
			s.Name, s.Type = 1, uint32(elf.SHT_STRTAB)
		case 1:
			s.Name, s.Type, s.Link, s.Entsize = 9, uint32(elf.SHT_DYNAMIC), 1, 16
		case 2:
			s.Name, s.Type, s.Link, s.Entsize = 18, uint32(elf.SHT_DYNSYM), 1, 24
		case 3:
			s.Name, s.Type = 26, uint32(elf.SHT_STRTAB)
		}
		sections = append(sections, s)
		body.Write(p)
	}
	at := uint64(header + body.Len())
	progs := []elf.Prog64{{Type: uint32(elf.PT_LOAD), Filesz: at, Memsz: at}}
	if len(l.needed)+len(l.soname)+len(l.rpath)+len(l.runpath) > 0 || l.noDef {
		progs = append(progs, elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: sections[2].Off, Filesz: sections[2].Size,
			Vaddr: sections[2].Off})
	}
	if l.interp != "" {
		progs = append(progs, elf.Prog64{Type: uint32(elf.PT_INTERP), Off: at, Filesz: uint64(len(l.interp) + 1)})
		body.WriteString(l.interp + "\x00")
	}
	var out bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(l.machine), Version: 1, Ehsize: header, Shoff: uint64(header + body.Len()),
		Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 4,
		Phoff: uint64(header+body.Len()) + uint64(len(sections))*64, Phentsize: 56, Phnum: uint16(len(progs))}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	_ = binary.Write(&out, order, h)
	out.Write(body.Bytes())
	_ = binary.Write(&out, order, sections)
	_ = binary.Write(&out, order, progs)
	return out.Bytes()
}

// ldCache makes an /etc/ld.so.cache of soname and file pairs.
func ldCache(pairs ...string) []byte {
	order := binary.LittleEndian
	head := make([]byte, 48)
	copy(head, "glibc-ld.so.cache1.1")
	n := len(pairs) / 2
	order.PutUint32(head[20:], uint32(n))
	text, entries := []byte{}, []byte{}
	at := 48 + n*24
	for i := 0; i < n; i++ {
		e := make([]byte, 24)
		order.PutUint32(e[4:], uint32(at+len(text)))
		text = append(append(text, pairs[2*i]...), 0)
		order.PutUint32(e[8:], uint32(at+len(text)))
		text = append(append(text, pairs[2*i+1]...), 0)
		entries = append(entries, e...)
	}
	return append(append(head, entries...), text...)
}

// machine is a host of files in memory: absolute path and content; "-> target" makes a link.
type machine map[string][]byte

func (m machine) host(env ...string) buildenv.Host {
	files := fstest.MapFS{}
	for p, data := range m {
		files[strings.TrimPrefix(p, "/")] = &fstest.MapFile{Data: data, Mode: 0o755}
	}
	return buildenv.Host{OS: buildenv.Linux, Arch: "amd64", Cwd: "/proj", Env: buildenv.NewEnv(buildenv.Linux, env),
		Files: memory{m, files}}
}

type memory struct {
	m  machine
	fs fstest.MapFS
}

// real follows links in every element of a path, as often as a small machine needs.
func (f memory) real(p string) string {
	for i := 0; i < 8; i++ {
		for link, data := range f.m {
			if to, ok := strings.CutPrefix(string(data), "-> "); ok && (p == link || strings.HasPrefix(p, link+"/")) {
				if !path.IsAbs(to) {
					to = path.Join(path.Dir(link), to)
				}
				p = to + strings.TrimPrefix(p, link)
			}
		}
	}
	return p
}

func (f memory) inner(p string) string {
	if p = strings.TrimPrefix(path.Clean(f.real(p)), "/"); p == "" {
		p = "."
	}
	return p
}
func (f memory) Stat(p string) (fs.FileInfo, error)      { return fs.Stat(f.fs, f.inner(p)) }
func (f memory) ReadDir(p string) ([]fs.DirEntry, error) { return fs.ReadDir(f.fs, f.inner(p)) }
func (f memory) Open(p string) (fs.File, error)          { return f.fs.Open(f.inner(p)) }
func (f memory) EvalSymlinks(p string) (string, error) {
	_, err := f.Stat(p)
	return path.Clean(f.real(p)), err
}
