package loader

import (
	"cmp"
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

// ErrScript is what is the matter with a file that names its interpreter.
var ErrScript = errors.New("it is a script")

// notELF says that a file is not one that this package can read.
func notELF(path string, err error) error {
	return exit.Errorf(exit.Usage,
		"name the program that cargo built, such as target/release/app; for a script name the program that it starts",
		"%s: not an ELF file that can be read: %w", path, err)
}

// object is what matters of one ELF file.
type object struct {
	path    string
	asked   string // the file about which the loader is asked
	class   elf.Class
	machine elf.Machine
	interp  string
	needed  []string
	audited bool // the loader would run a library of the file's choice
}

func (o *object) kind() string {
	return strings.TrimPrefix(o.machine.String(), "EM_") + ", " + strings.TrimPrefix(o.class.String(), "ELFCLASS") + " bit"
}

func open(h buildenv.Host, path string) (*object, error) {
	r, err := openAt(h, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return parse(path, r)
}

type readAtCloser interface {
	io.ReaderAt
	io.Closer
}

// openAt opens a file for reading at any place.
func openAt(h buildenv.Host, path string) (readAtCloser, error) {
	f, err := h.Files.Open(path)
	if err != nil {
		return nil, err
	}
	if r, ok := f.(readAtCloser); ok {
		return r, nil
	}
	return nil, errors.Join(fmt.Errorf("%s cannot be read at any place", path), f.Close()) // a directory of a stored machine
}

// parse reads what a file says that it needs.
func parse(path string, r io.ReaderAt) (*object, error) {
	var magic [2]byte
	n, err := r.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch string(magic[:n]) {
	case "#!":
		return nil, notELF(path, ErrScript)
	case "MZ":
		return nil, notELF(path, errors.New("it is a Windows program; what that loads only Windows knows"))
	}
	f, err := elf.NewFile(r)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it is cut off")
	}
	if err != nil {
		return nil, notELF(path, err)
	}
	if f.Type == elf.ET_REL {
		return nil, notELF(path, errors.New("it is an object file, which is not linked yet"))
	}
	o := &object{path: path, asked: path, class: f.Class, machine: f.Machine}
	for _, p := range f.Progs {
		switch {
		case p.Type == elf.PT_LOAD && !reaches(r, p.Off, p.Filesz):
			return nil, notELF(path, errors.New("it is cut off: a segment ends behind the end of the file"))
		case p.Type == elf.PT_INTERP && p.Filesz < 4096:
			text, _ := io.ReadAll(io.LimitReader(p.Open(), 4096)) // an unreadable one is none
			o.interp = strings.TrimRight(string(text), "\x00")
		}
	}
	o.audited = audited(f)
	o.needed, err = f.ImportedLibraries()
	if err != nil {
		return nil, notELF(path, err)
	}
	return o, nil
}

// audited reports whether glibc's loader would run an audit library that the file names (DT_AUDIT, DT_DEPAUDIT), which it does even where
// it only lists. It reads the dynamic section as the loader does, by its address (elf/rtld.c): section headers can say something else. A
// layout that no linker makes, so that the loader could read other bytes, counts as one.
func audited(f *elf.File) bool {
	var dynamic, in *elf.Prog
	for _, p := range f.Progs {
		if p.Type == elf.PT_DYNAMIC && dynamic != nil {
			return true
		} else if p.Type == elf.PT_DYNAMIC {
			dynamic = p
		}
	}
	if dynamic == nil {
		return false
	}
	page := cmp.Or(map[elf.Machine]uint64{elf.EM_X86_64: 4 << 10}[f.Machine], 64<<10) // the most that aarch64 has
	for _, p := range f.Progs {
		begin, end := p.Vaddr/page*page, (p.Vaddr+p.Memsz+page-1)/page*page
		if p.Type == elf.PT_LOAD && dynamic.Vaddr < end && dynamic.Vaddr+max(dynamic.Memsz, dynamic.Filesz) > begin {
			if in != nil {
				return true
			}
			in = p
		}
	}
	if in == nil || dynamic.Off-in.Off != dynamic.Vaddr-in.Vaddr || dynamic.Filesz > 1<<20 {
		return true
	}
	entry := make([]byte, 16)
	for r := dynamic.Open(); ; {
		if _, err := io.ReadFull(r, entry); err != nil {
			return true // it has no end
		}
		switch elf.DynTag(f.ByteOrder.Uint64(entry)) {
		case elf.DT_NULL:
			return false
		case elf.DT_AUDIT, elf.DT_DEPAUDIT:
			return true
		}
	}
}

// reaches reports whether a file has all bytes of a part.
func reaches(r io.ReaderAt, start, size uint64) bool {
	end := start + size
	n, _ := r.ReadAt(make([]byte, 1), int64(end-1))
	return size == 0 || n == 1 && end > start
}

// stubProblem says that a file is a link stub; empty where it is none.
func stubProblem(h buildenv.Host, file string) string {
	for _, p := range []string{file, h.Real(file)} {
		if IsStubDir(h, h.Dir(p)) {
			return "a link stub (in " + h.Dir(p) + "): every call of it fails"
		}
	}
	if isOwnStub(h, file) {
		return "a link stub that gpubuild made: every call of it fails"
	}
	return ""
}

// isOwnStub looks for our own mark, in libraries that there are stubs of only: reading every symbol of every library would take long.
func isOwnStub(h buildenv.Host, file string) bool {
	switch name, _, _ := strings.Cut(h.Base(file), ".so"); name {
	case "libcuda", "libcublas", "libcublasLt", "libcurand", "libnvrtc", "libcudnn":
	default:
		return false
	}
	r, err := openAt(h, file)
	if err != nil {
		return false
	}
	defer r.Close()
	f, err := elf.NewFile(r)
	if err != nil {
		return false
	}
	if s := f.Section(".dynsym"); s == nil || s.Size > 1<<20 {
		return false
	}
	symbols, err := f.DynamicSymbols()
	return err == nil && slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == stubMark })
}
