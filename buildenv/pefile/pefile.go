// Package pefile reads which libraries a Windows program or DLL imports, at once and delayed. debug/pe answers neither: its
// ImportedLibraries is empty for every PE file, its ImportedSymbols leaves out a DLL that is imported by ordinals only, and it does not
// know delay-load imports.
package pefile

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bounds of what is read of one file: real programs import from some hundred DLLs, and a file name has at most 255 characters.
const (
	maxLibraries = 4096
	maxName      = 512
)

// NewFile is debug/pe's, which reads a symbol table, as GNU linkers write it, in pieces of 18 bytes. Here each is no call of the system.
func NewFile(r io.ReaderAt) (*pe.File, error) { return pe.NewFile(&buffered{r: r}) }

// buffered reads 64 KiB at once and keeps them for what is read next.
type buffered struct {
	r    io.ReaderAt
	at   int64 // where data begins
	data []byte
}

func (b *buffered) ReadAt(p []byte, off int64) (int, error) {
	const block = 64 << 10
	if len(p) > block {
		return b.r.ReadAt(p, off)
	}
	if off < b.at || off+int64(len(p)) > b.at+int64(len(b.data)) {
		data := make([]byte, block)
		n, err := b.r.ReadAt(data, off)
		if n < len(p) {
			return copy(p, data[:n]), err
		}
		b.at, b.data = off, data[:n]
	}
	return copy(p, b.data[off-b.at:]), nil
}

// Imports are the names of libraries as a PE file writes them, each once.
type Imports struct {
	Needed  []string // loaded before the program starts
	Delayed []string // loaded at the first call of one of their functions
}

// ReadImports reads the import and delay-load directories of f. A file without them imports nothing. A malformed one is an error.
// Source: "PE Format", Microsoft Learn: Import Directory Table, Delay-Load Directory Table.
func ReadImports(f *pe.File) (Imports, error) {
	var (
		out  Imports
		dirs []pe.DataDirectory
		base uint64
	)
	switch h := f.OptionalHeader.(type) {
	case *pe.OptionalHeader64:
		dirs, base = h.DataDirectory[:min(h.NumberOfRvaAndSizes, 16)], h.ImageBase
	case *pe.OptionalHeader32:
		dirs, base = h.DataDirectory[:min(h.NumberOfRvaAndSizes, 16)], uint64(h.ImageBase)
	default:
		return out, nil // an object file
	}
	var err error
	if out.Needed, err = table(f, dirs, pe.IMAGE_DIRECTORY_ENTRY_IMPORT, 20, func(e []byte) uint64 {
		return uint64(binary.LittleEndian.Uint32(e[12:]))
	}); err != nil {
		return out, fmt.Errorf("import directory: %w", err)
	}
	if out.Delayed, err = table(f, dirs, pe.IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT, 32, func(e []byte) uint64 {
		name := uint64(binary.LittleEndian.Uint32(e[4:]))
		if e[0]&1 == 0 && name != 0 {
			// dlattrRva is not set: Visual C++ 6 wrote addresses (delayimp.h). Below the base it wraps, and is in no section.
			name -= base
		}
		return name
	}); err != nil {
		return out, fmt.Errorf("delay-load directory: %w", err)
	}
	return out, nil
}

// table reads the names of a directory whose entries have a size of step; an entry without a name ends it.
func table(f *pe.File, dirs []pe.DataDirectory, which, step int, name func([]byte) uint64) ([]string, error) {
	if which >= len(dirs) || dirs[which].VirtualAddress == 0 {
		return nil, nil
	}
	var out []string
	entry := make([]byte, step)
	for i := 0; ; i++ {
		if i == maxLibraries {
			return nil, fmt.Errorf("more than %d entries", maxLibraries)
		}
		if err := readAt(f, uint64(dirs[which].VirtualAddress)+uint64(i*step), entry); err != nil {
			return nil, err
		}
		at := name(entry)
		if at == 0 {
			return out, nil
		}
		s, err := text(f, at)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o string) bool { return strings.EqualFold(o, s) }) {
			out = append(out, s)
		}
	}
}

var errOutside = errors.New("points out of the file")

// section returns the section that holds an address, and how far in.
func section(f *pe.File, rva uint64) (*pe.Section, uint64) {
	for _, s := range f.Sections {
		from := uint64(s.VirtualAddress)
		if rva >= from && rva-from < uint64(s.Size) {
			return s, rva - from
		}
	}
	return nil, 0
}

func readAt(f *pe.File, rva uint64, into []byte) error {
	s, off := section(f, rva)
	if s == nil {
		return errOutside
	}
	if _, err := s.ReadAt(into, int64(off)); err != nil {
		if errors.Is(err, io.EOF) {
			return errOutside
		}
		return err
	}
	return nil
}

func text(f *pe.File, rva uint64) (string, error) {
	s, off := section(f, rva)
	if s == nil {
		return "", errOutside
	}
	buf := make([]byte, maxName)
	n, err := s.ReadAt(buf, int64(off))
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	end := bytes.IndexByte(buf[:n], 0)
	if end <= 0 {
		return "", errors.New("a library's name is empty or has no end")
	}
	return string(buf[:end]), nil
}
