package loader

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// stubMark is exported by every link stub that toolchain/install makes.
const stubMark = "gpubuild_link_stub"

// Script is what a NotELFError says of a file that names its interpreter.
const Script = "a script"

// NotELFError says that a file is not one that this package can read.
type NotELFError struct {
	Path string
	What string // what it looks like instead; empty when it is nothing known
	Err  error
}

func (e *NotELFError) Error() string {
	if e.What != "" {
		return e.Path + ": not an ELF file but " + e.What
	}
	return fmt.Sprintf("%s: not an ELF file that can be read: %v", e.Path, e.Err)
}

func (e *NotELFError) ExitCode() int { return exit.Usage }
func (e *NotELFError) Unwrap() error { return e.Err }

func (e *NotELFError) Hint() string {
	if e.What == windowsProgramWords {
		return "what a Windows program loads depends on the Windows that it is started on: ask there"
	}
	return "name the program that cargo built, such as target/release/app; for a script name the program that it starts"
}

// object is what matters of one ELF file.
type object struct {
	path    string
	class   elf.Class
	data    elf.Data
	machine elf.Machine
	interp  string
	soname  string
	needed  []string
	rpath   []string
	runpath []string
	noDef   bool // DF_1_NODEFLIB: neither the cache nor default directories
	stub    bool
	parent  *object // whose need brought it in
}

// fits says whether b can be loaded into a process that a was started as.
func (a *object) fits(b *object) bool {
	return a.class == b.class && a.data == b.data && a.machine == b.machine
}

func (o *object) kind() string {
	machine := strings.TrimPrefix(o.machine.String(), "EM_")
	class := strings.TrimPrefix(strings.ToLower(o.class.String()), "elfclass")
	return machine + ", " + class + " bit"
}

const maxNames = 4096 // of one file

func open(h buildenv.Host, path string) (*object, error) {
	r, done, err := readerAt(h, path)
	if err != nil {
		return nil, err
	}
	defer done()
	return parse(path, r)
}

// readerAt opens a file for reading at any place; done must be called in the end.
func readerAt(h buildenv.Host, path string) (io.ReaderAt, func(), error) {
	f, err := h.Files.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if r, ok := f.(io.ReaderAt); ok {
		return r, func() { _ = f.Close() }, nil // it was read only
	}
	defer f.Close()
	data, err := h.ReadFile(path, 1<<30)
	if err != nil {
		return nil, nil, err
	}
	return strings.NewReader(string(data)), func() {}, nil
}

// parse reads an ELF file's dynamic section.
func parse(path string, r io.ReaderAt) (*object, error) {
	var magic [8]byte
	n, err := r.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if what := other(magic[:n]); what != "" {
		return nil, &NotELFError{Path: path, What: what}
	}
	f, err := elf.NewFile(sectionless{r})
	if err != nil {
		return nil, &NotELFError{Path: path, Err: err}
	}
	if f.Type == elf.ET_REL {
		return nil, &NotELFError{Path: path, Err: errors.New("it is an object file, which is not linked yet")}
	}
	o := &object{path: path, class: f.Class, data: f.Data, machine: f.Machine}
	var dynamic []byte
	for _, p := range f.Progs {
		switch {
		case p.Type == elf.PT_LOAD && !reaches(r, p.Off, p.Filesz):
			return nil, &NotELFError{Path: path, Err: errors.New("it is cut off: a segment ends behind the end of the file")}
		case p.Type == elf.PT_INTERP && p.Filesz < 4096:
			text, _ := io.ReadAll(io.LimitReader(p.Open(), 4096)) // an unreadable one is none
			o.interp = strings.TrimRight(string(text), "\x00")
		case p.Type == elf.PT_DYNAMIC:
			if dynamic, err = io.ReadAll(io.LimitReader(p.Open(), maxDynamic)); err != nil {
				return nil, &NotELFError{Path: path, Err: err}
			}
		}
	}
	if dynamic == nil {
		return o, nil // linked statically
	}
	d := table{f: f}
	d.read(dynamic)
	o.needed = d.strings(elf.DT_NEEDED)
	if s := d.strings(elf.DT_SONAME); len(s) > 0 {
		o.soname = s[0]
	}
	o.rpath, o.runpath = split(d.strings(elf.DT_RPATH)), split(d.strings(elf.DT_RUNPATH))
	if d.err != nil {
		return nil, &NotELFError{Path: path, Err: d.err}
	}
	for _, v := range d.values[elf.DT_FLAGS_1] {
		o.noDef = o.noDef || v&uint64(elf.DF_1_NODEFLIB) != 0
	}
	o.stub = isStub(r, o.soname)
	return o, nil
}

// reaches says whether a file has all bytes of a part.
func reaches(r io.ReaderAt, start, size uint64) bool {
	end := start + size
	if size == 0 {
		return true
	}
	n, _ := r.ReadAt(make([]byte, 1), int64(end-1))
	return n == 1 && end > start
}

// sectionless is a file whose header says that there are no section headers. A loader reads none, so that a file that lost them, or has
// damaged ones, is as good as another. Source: the ELF specification, "ELF Header".
type sectionless struct{ io.ReaderAt }

func (s sectionless) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, off)
	var class [1]byte
	if off >= 0x40 {
		return n, err
	}
	if _, e := s.ReaderAt.ReadAt(class[:], elf.EI_CLASS); e != nil {
		return n, err
	}
	fields := [][2]int64{{0x28, 0x30}, {0x3c, 0x40}} // e_shoff; e_shnum and e_shstrndx
	if elf.Class(class[0]) == elf.ELFCLASS32 {
		fields = [][2]int64{{0x20, 0x24}, {0x30, 0x34}}
	}
	for _, field := range fields {
		for at := max(field[0], off); at < min(field[1], off+int64(n)); at++ {
			p[at-off] = 0
		}
	}
	return n, err
}

const (
	maxDynamic = 1 << 20
	maxText    = 64 << 10 // of one list of directories
)

// table is a dynamic section as its segment has it.
type table struct {
	f      *elf.File
	values map[elf.DynTag][]uint64
	err    error
}

func (d *table) read(data []byte) {
	d.values = map[elf.DynTag][]uint64{}
	size := 8
	if d.f.Class == elf.ELFCLASS64 {
		size = 16
	}
	for ; len(data) >= size; data = data[size:] {
		tag, value := uint64(d.f.ByteOrder.Uint32(data)), uint64(d.f.ByteOrder.Uint32(data[4:]))
		if size == 16 {
			tag, value = d.f.ByteOrder.Uint64(data), d.f.ByteOrder.Uint64(data[8:])
		}
		if tag == uint64(elf.DT_NULL) {
			return
		}
		if t := elf.DynTag(tag); len(d.values[t]) < maxNames {
			d.values[t] = append(d.values[t], value)
		}
	}
}

// strings reads the texts that a tag names, where the string table will lie in memory.
func (d *table) strings(tag elf.DynTag) (out []string) {
	for _, at := range d.values[tag] {
		s, err := d.text(at)
		if err != nil {
			d.err = err
			return out
		}
		out = append(out, s)
	}
	return out
}

func (d *table) text(at uint64) (string, error) {
	base, size := d.values[elf.DT_STRTAB], d.values[elf.DT_STRSZ]
	if len(base) == 0 || len(size) == 0 || at >= size[0] {
		return "", errors.New("a name lies outside of its string table")
	}
	addr := base[0] + at
	for _, p := range d.f.Progs {
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr-p.Vaddr >= p.Filesz {
			continue
		}
		off := addr - p.Vaddr
		text := make([]byte, min(p.Filesz-off, size[0]-at, maxText))
		n, err := p.ReadAt(text, int64(off))
		if end := bytes.IndexByte(text[:n], 0); end >= 0 {
			return string(text[:end]), nil
		}
		if err == nil {
			err = errors.New("a name in its string table has no end")
		}
		return "", err
	}
	return "", errors.New("its string table is in no segment that is loaded")
}

// isStub looks for our own mark, in libraries that there are stubs of only: reading every symbol of every library would take long.
func isStub(r io.ReaderAt, soname string) bool {
	name, _, _ := strings.Cut(soname, ".so")
	switch name {
	case "libcuda", "libcublas", "libcublasLt", "libcurand", "libnvrtc", "libcudnn":
	default:
		return false
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return false // a stub of ours has its sections
	}
	if s := f.Section(".dynsym"); s == nil || s.Size > 1<<20 {
		return false
	}
	symbols, err := f.DynamicSymbols()
	return err == nil && slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == stubMark })
}

// split takes path lists apart. An empty entry is kept: to glibc it is the current directory (elf/dl-load.c, fillin_rpath).
func split(lists []string) []string {
	var out []string
	for _, l := range lists {
		for _, d := range strings.Split(l, ":") {
			if l != "" && len(out) < maxNames {
				out = append(out, d)
			}
		}
	}
	return out
}

const windowsProgramWords = "a Windows program (PE)"

// other names what a file is by its first bytes when that is not ELF.
func other(magic []byte) string {
	s := string(magic)
	switch {
	case strings.HasPrefix(s, "\x7fELF"):
		return ""
	case s == "":
		return "an empty file"
	case strings.HasPrefix(s, "MZ"):
		return windowsProgramWords
	case strings.HasPrefix(s, "#!"):
		return Script
	case strings.HasPrefix(s, "!<arch>"):
		return "a static library"
	case strings.HasPrefix(s, "\xcf\xfa\xed\xfe"), strings.HasPrefix(s, "\xca\xfe\xba\xbe"):
		return "a macOS program (Mach-O)"
	}
	for _, b := range magic {
		if b < 0x20 && b != '\n' && b != '\t' && b != '\r' {
			return "something else"
		}
	}
	return "text"
}
