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

// Names lists which of some words stand in what a program has in its memory when it starts: an ELF file's loaded segments, a PE file's
// sections and a Mach-O file's segments without debug information and symbol tables. A debug build has the names of functions in those that
// it never calls.
func Names(h buildenv.Host, path string, words []string) (found []string, err error) {
	f, err := h.Files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("%s cannot be read in parts", path)
	}
	parts, err := loaded(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrFormat, err)
	}
	longest, heads := 0, map[string][]string{} // one search for all that begin alike
	for _, w := range words {
		head := w[:min(len(w), 3)]
		longest, heads[head] = max(longest, len(w)), append(heads[head], w)
	}
	const step = 1 << 20
	buffer := make([]byte, step+longest)
	for _, part := range parts {
		for at := part.from; at < part.to; at += step { // the parts overlap, for a word may lie across a border
			n, err := r.ReadAt(buffer[:min(int64(len(buffer)), part.to-at)], at)
			if err != nil && err != io.EOF {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			for head, words := range heads {
				for rest := buffer[:n]; ; rest = rest[1:] {
					start := bytes.Index(rest, []byte(head))
					if start < 0 {
						break
					}
					rest = rest[start:]
					for _, w := range words {
						if bytes.HasPrefix(rest, []byte(w)) && !slices.Contains(found, w) {
							found = append(found, w)
						}
					}
				}
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

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

// loaded lists the parts of an executable that are in its memory.
func loaded(r io.ReaderAt) (parts []span, err error) {
	defer func() {
		if broken := recover(); broken != nil { // debug/elf and the like are not made for hostile files
			parts, err = nil, fmt.Errorf("malformed executable: %v", broken)
		}
	}()
	if f, err := elf.NewFile(r); err == nil {
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD {
				parts = append(parts, span{int64(p.Off), int64(p.Off + p.Filesz)})
			}
		}
		return parts, nil
	}
	if f, err := pe.NewFile(r); err == nil {
		for _, s := range f.Sections {
			if !strings.HasPrefix(s.Name, ".debug") && !strings.HasPrefix(s.Name, "/") {
				parts = append(parts, span{int64(s.Offset), int64(s.Offset) + int64(s.Size)})
			}
		}
		return parts, nil
	}
	f, err := macho.NewFile(r)
	if err != nil {
		return nil, err
	}
	for _, l := range f.Loads {
		if s, is := l.(*macho.Segment); is && s.Name != "__DWARF" && s.Name != "__LINKEDIT" {
			parts = append(parts, span{int64(s.Offset), int64(s.Offset + s.Filesz)})
		}
	}
	return parts, nil
}
