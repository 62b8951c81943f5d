package fatbin

import (
	"cmp"
	"debug/elf"
	"debug/pe"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gpubuild/buildenv/pefile"
)

// section is a named part of the file.
type section struct {
	name     string
	from, to int64
}

// describe reads what the file says of itself as an executable. What it does not say, or says wrongly, is no error.
func (s *scanner) describe() {
	defer func() {
		// debug/elf and debug/pe are not made for hostile files.
		if err := recover(); err != nil {
			s.note(0, "malformed %s file: %v", s.report.Format, err)
		}
	}()
	magic := s.read(0, min(4, int(s.size)))
	var err error
	switch {
	case string(magic) == elf.ELFMAG:
		s.report.Format = ELF
		err = s.elf()
	case len(magic) > 2 && string(magic[:2]) == "MZ":
		s.report.Format = PE
		err = s.pe()
	case string(magic) == "!<ar":
		s.archive()
	}
	if err != nil {
		s.note(0, "malformed %s file: %v", s.report.Format, err)
	}
	s.unloaded = ordered(s.unloaded)
	sort.SliceStable(s.sections, func(i, j int) bool { return s.sections[i].from < s.sections[j].from })
}

func (s *scanner) elf() error {
	f, err := elf.NewFile(io.NewSectionReader(s.r, 0, s.size))
	if err != nil {
		return err
	}
	switch f.Machine {
	case elf.EM_X86_64:
		s.report.Machine = "x86_64"
	case elf.EM_AARCH64:
		s.report.Machine = "aarch64"
	case machineCUDA:
		s.report.Machine = "cuda"
		return nil // the image lists its sections
	default:
		s.report.Machine = strings.ToLower(strings.TrimPrefix(f.Machine.String(), "EM_"))
	}
	for _, sec := range f.Sections {
		if sec.Type != elf.SHT_NOBITS && sec.Type != elf.SHT_NULL {
			s.section(sec.Name, sec.Offset, sec.FileSize)
			if notLoaded(sec.SectionHeader) && sec.Offset <= uint64(s.size) && sec.FileSize <= uint64(s.size)-sec.Offset {
				s.unloaded = append(s.unloaded, span{int64(sec.Offset), int64(sec.Offset + sec.FileSize)})
			}
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil {
		return fmt.Errorf("its imports: %w", err)
	} else if libs != nil {
		s.report.Imports = libs
	}
	return nil
}

// notLoaded reports whether a section is debug information or a table for the linker: often most of a file, and never in the program's
// memory, where a driver could be handed it. Other sections that are not loaded are searched, as a program may read itself.
func notLoaded(h elf.SectionHeader) bool {
	if h.Flags&elf.SHF_ALLOC != 0 || h.FileSize == 0 {
		return false
	}
	return h.Type == elf.SHT_SYMTAB || h.Type == elf.SHT_STRTAB ||
		h.Type == elf.SHT_PROGBITS && (strings.HasPrefix(h.Name, ".debug_") || strings.HasPrefix(h.Name, ".zdebug_"))
}

// ordered brings spans into order and joins those that overlap: a hostile file's sections may.
func ordered(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out []span
	for _, s := range list {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (s *scanner) pe() error {
	f, err := pefile.NewFile(io.NewSectionReader(s.r, 0, s.size))
	if err != nil {
		return err
	}
	switch f.Machine {
	case pe.IMAGE_FILE_MACHINE_AMD64:
		s.report.Machine = "x86_64"
	case pe.IMAGE_FILE_MACHINE_ARM64:
		s.report.Machine = "aarch64"
	default:
		s.report.Machine = fmt.Sprintf("0x%x", f.Machine)
	}
	for _, sec := range f.Sections {
		s.section(sec.Name, uint64(sec.Offset), uint64(sec.Size))
	}
	libs, err := pefile.ReadImports(f)
	if err != nil {
		return err
	}
	s.report.Imports = append(s.report.Imports, libs.Needed...)
	s.report.Delayed = append(s.report.Delayed, libs.Delayed...)
	return nil
}

// archive takes the members of an ar file for its sections. Source: ar(5); long names stand in a member "//" (GNU) or behind the header (BSD).
func (s *scanner) archive() {
	var long []byte
	for at := int64(8); ; {
		head := s.read(at, 60)
		if head == nil {
			return
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(head[48:58])), 10, 64)
		if err != nil || size < 0 {
			return
		}
		at += int64(len(head))
		name := strings.TrimRight(string(head[:16]), " ")
		number := func(prefix string, most int) (int, bool) {
			digits, is := strings.CutPrefix(name, prefix)
			n, err := strconv.ParseUint(digits, 10, 31)
			return int(n), is && err == nil && int(n) < most
		}
		if n, is := number("#1/", maxNameBytes); is {
			name = strings.TrimRight(string(s.read(at, n)), "\x00")
		} else if n, is := number("/", len(long)); is {
			name, _, _ = strings.Cut(string(long[n:min(len(long), n+maxNameBytes)]), "\n")
		} else if name == "//" && size <= maxNames {
			long = s.read(at, int(size))
		}
		s.section(strings.TrimSuffix(name, "/"), uint64(at), uint64(size))
		s.report.Members = append(s.report.Members, Member{at, size})
		at += size + size%2
	}
}

func (s *scanner) section(name string, off, size uint64) {
	if size == 0 || off > uint64(s.size) || size > uint64(s.size)-off {
		return
	}
	s.sections = append(s.sections, section{name, int64(off), int64(off + size)})
}

// where returns the section that holds off.
func (s *scanner) where(off int64) string {
	i := sort.Search(len(s.sections), func(i int) bool { return s.sections[i].from > off })
	if i > 0 && off < s.sections[i-1].to {
		return s.sections[i-1].name
	}
	return ""
}
