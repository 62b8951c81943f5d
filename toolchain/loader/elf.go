package loader

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"strings"

	"gpubuild/buildenv"
)

// stubMark is exported by every link stub that toolchain/install makes.
const stubMark = "gpubuild_link_stub"

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

func (e *NotELFError) Unwrap() error { return e.Err }

// Hint says what a user can do about it.
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
	return strings.TrimPrefix(o.machine.String(), "EM_") + ", " + strings.TrimPrefix(strings.ToLower(o.class.String()), "elfclass") + " bit"
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
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, &NotELFError{Path: path, Err: err}
	}
	o := &object{path: path, class: f.Class, data: f.Data, machine: f.Machine}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			text, _ := io.ReadAll(io.LimitReader(p.Open(), 4096)) // an unreadable one is none
			o.interp = strings.TrimRight(string(text), "\x00")
		}
	}
	if f.SectionByType(elf.SHT_DYNAMIC) == nil {
		for _, p := range f.Progs {
			if p.Type == elf.PT_DYNAMIC {
				return nil, &NotELFError{Path: path, Err: errors.New("its section headers were stripped")}
			}
		}
		return o, nil // linked statically
	}
	text := func(tag elf.DynTag) []string {
		s, e := f.DynString(tag)
		if e != nil && err == nil {
			err = e
		}
		return s[:min(len(s), maxNames)]
	}
	o.needed = text(elf.DT_NEEDED)
	if s := text(elf.DT_SONAME); len(s) > 0 {
		o.soname = s[0]
	}
	o.rpath, o.runpath = split(text(elf.DT_RPATH)), split(text(elf.DT_RUNPATH))
	if err != nil {
		return nil, &NotELFError{Path: path, Err: err}
	}
	if flags, e := f.DynValue(elf.DT_FLAGS_1); e == nil {
		for _, v := range flags {
			o.noDef = o.noDef || v&uint64(elf.DF_1_NODEFLIB) != 0
		}
	}
	o.stub = isStub(f, o.soname)
	return o, nil
}

// isStub looks for our own mark, in libraries that there are stubs of only: reading every symbol of every library would take long.
func isStub(f *elf.File, soname string) bool {
	name, _, _ := strings.Cut(soname, ".so")
	switch name {
	case "libcuda", "libcublas", "libcublasLt", "libcurand", "libnvrtc", "libcudnn":
	default:
		return false
	}
	if s := f.Section(".dynsym"); s == nil || s.Size > 1<<20 {
		return false
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return false
	}
	for _, s := range symbols {
		if s.Name == stubMark {
			return true
		}
	}
	return false
}

// split takes path lists apart. An empty entry would mean the current directory; no linker writes one, so it is left out.
func split(lists []string) []string {
	var out []string
	for _, l := range lists {
		for _, d := range strings.Split(l, ":") {
			if d != "" && len(out) < maxNames {
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
		return "a script"
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
