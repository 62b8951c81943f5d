package fatbin

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// ErrFormat is the error of Names about a file that is none of ELF, PE and Mach-O, such as WebAssembly.
var ErrFormat = errors.New("not an executable of a known format")

// Names lists which of some words stand in what a program has in its memory when it starts: an ELF file's loaded segments without the names
// of what it exports, a PE file's sections and a Mach-O file's segments without debug information and symbol tables. A debug build has the
// names of functions in those that it never calls. within are functions and libraries that stand only in a longer word, and libraries without
// the ending of one: that may be another one, or a text that begins where Rust let another one end. A zero ends a text.
func Names(h buildenv.Host, path string, words, functions []string) (found, within []string, err error) {
	f, err := h.Files.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, nil, fmt.Errorf("%s cannot be read in parts", path)
	}
	parts, imports, err := loaded(r)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", path, ErrFormat, err)
	}
	longest, heads := 0, map[string][]string{} // one search for all that begin alike
	for _, w := range slices.Concat(words, functions) {
		head := w[:min(len(w), 3)]
		longest, heads[head] = max(longest, len(w)), append(heads[head], w)
	}
	seen := map[string]bool{} // whether it is a word of its own
	look := func(text []byte, whole bool) {
		for head, words := range heads {
			for at := 0; ; at++ {
				next := bytes.Index(text[at:], []byte(head))
				if next < 0 {
					break
				}
				at += next
				for _, w := range words {
					if end := at + len(w); bytes.HasPrefix(text[at:], []byte(w)) && (at > 0 || whole) {
						before, behind := byte(0), text[end:]
						if at > 0 {
							before = text[at-1]
						}
						switch {
						case slices.Contains(functions, w):
							seen[w] = seen[w] || len(behind) == 0 || behind[0] == 0 || !letter(before) && !letter(behind[0])
						case strings.HasPrefix(w, "lib"):
							seen[w] = seen[w] || before != '_' && before != '-' && (strings.Contains(w, ".") || endsAsLibrary(behind))
						default:
							seen[w] = true
						}
					}
				}
			}
		}
	}
	const step = 1 << 20
	overlap := longest + 64 // with what stands before and behind a word
	buffer := make([]byte, step+overlap)
	for _, part := range parts {
		for at := part.from; at < part.to; at += step { // the parts overlap, for a word may lie across a border
			n, err := r.ReadAt(buffer[:min(int64(len(buffer)), part.to-at)], at)
			if err != nil && err != io.EOF {
				return nil, nil, fmt.Errorf("%s: %w", path, err)
			}
			look(buffer[:n], at == part.from)
		}
	}
	for _, name := range imports {
		look([]byte(name), true)
	}
	for w, own := range seen {
		if own {
			found = append(found, w)
		} else {
			within = append(within, w)
		}
	}
	slices.Sort(found)
	slices.Sort(within)
	return found, within, nil
}

// endsAsLibrary reports whether a text goes on as the name of a library does.
func endsAsLibrary(text []byte) bool {
	rest := bytes.TrimLeftFunc(text, func(c rune) bool { return c == '_' || c == '-' || c >= '0' && c <= '9' || c < 0x80 && letter(byte(c)) })
	return bytes.HasPrefix(rest, []byte(".so")) || bytes.HasPrefix(rest, []byte(".dylib"))
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// Needs lists the libraries with which an executable is loaded, and the directories that it names for them.
func Needs(h buildenv.Host, path string) (libs, dirs []string) {
	f, err := h.Files.Open(path)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	defer func() { _ = recover() }() // as in loaded
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, nil
	}
	if f, err := elf.NewFile(r); err == nil { // what is not readable names none
		libs, _ = f.ImportedLibraries()
		for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
			lists, _ := f.DynString(tag)
			dirs = append(dirs, strings.Split(strings.Join(lists, ":"), ":")...)
		}
	} else if f, err := pe.NewFile(r); err == nil {
		symbols, _ := f.ImportedSymbols()
		for _, s := range symbols {
			if lib := s[strings.LastIndexByte(s, ':')+1:]; !slices.Contains(libs, lib) {
				libs = append(libs, lib)
			}
		}
	} else if f, err := macho.NewFile(r); err == nil {
		libs, _ = f.ImportedLibraries()
		for _, l := range f.Loads {
			if s, is := l.(*macho.Rpath); is {
				dirs = append(dirs, s.Path)
			}
		}
	}
	for i, dir := range dirs {
		dirs[i] = strings.NewReplacer("$ORIGIN", h.Dir(path), "${ORIGIN}", h.Dir(path), "@loader_path", h.Dir(path)).Replace(dir)
	}
	return libs, slices.DeleteFunc(dirs, func(dir string) bool { return !h.IsAbs(dir) })
}

// loaded lists the parts of an executable that are in its memory, without the names of what it exports; those of what it imports are apart.
func loaded(r io.ReaderAt) (parts []span, imports []string, err error) {
	defer func() {
		if broken := recover(); broken != nil { // debug/elf and the like are not made for hostile files
			parts, err = nil, fmt.Errorf("malformed executable: %v", broken)
		}
	}()
	if f, err := elf.NewFile(r); err == nil {
		var names span
		symbols, symbolsErr := f.ImportedSymbols()
		if s := f.SectionByType(elf.SHT_DYNSYM); s != nil && symbolsErr == nil && int(s.Link) < len(f.Sections) {
			names = span{int64(f.Sections[s.Link].Offset), int64(f.Sections[s.Link].Offset + f.Sections[s.Link].FileSize)}
			imports, _ = f.ImportedLibraries()
		}
		for _, s := range symbols {
			imports = append(imports, s.Name)
		}
		for _, p := range f.Progs {
			if from, to := int64(p.Off), int64(p.Off+p.Filesz); p.Type == elf.PT_LOAD && names.from >= from && names.to <= to && names.to > 0 {
				parts = append(parts, span{from, names.from}, span{names.to, to})
			} else if p.Type == elf.PT_LOAD {
				parts = append(parts, span{from, to})
			}
		}
		return parts, imports, nil
	}
	if f, err := pe.NewFile(r); err == nil {
		for _, s := range f.Sections {
			if !strings.HasPrefix(s.Name, ".debug") && !strings.HasPrefix(s.Name, "/") {
				parts = append(parts, span{int64(s.Offset), int64(s.Offset) + int64(s.Size)})
			}
		}
		return parts, nil, nil
	}
	f, err := macho.NewFile(r)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range f.Loads {
		if s, is := l.(*macho.Segment); is && s.Name != "__DWARF" && s.Name != "__LINKEDIT" {
			parts = append(parts, span{int64(s.Offset), int64(s.Offset + s.Filesz)})
		}
	}
	return parts, nil, nil
}
