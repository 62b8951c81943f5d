// Package fatbin finds the device code that a file holds: fatbins, cubins and PTX text, at any byte of it, in whatever section or in none.
// It owns the reading of these formats. It runs nothing and needs no GPU; what it finds is static evidence: code that is there need not be
// called, and code that is made at run time (NVRTC, built PTX) or lies in a library is not there.
//
// Files are read in pieces, in bounded memory; sizes that a file claims are never trusted. What is malformed becomes a note.
//
// Debug information and symbol tables of an ELF file are passed over: they are not loaded, and nothing in them can be launched.
//
// Not read: 32-bit cubins, fatbins in the style of CUDA 3 and before (magic
// 0x1EE55A01), device code inside compressed sections or packed executables.
//
// Sources: fatbin and entry headers DataDog/datadog-agent pkg/gpu/cuda/fatbin.go, vosen/ZLUDA cuda_types/src/dark_api.rs; e_flags LLVM
// llvm/BinaryFormat/ELF.h (EF_CUDA_*); concatenated entries, suffix flags, tkinfo: read off what nvcc 13.4.92 writes.
package fatbin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

type hitKind int

const (
	fatbinHit hitKind = iota
	elfHit
	ptxHit
)

type hit struct {
	off  int64
	kind hitKind
}

const (
	chunkSize = 256 << 10 // a piece of the file: it stays in a core's own cache between reading and searching
	overlap   = 64        // more than the longest pattern, and a whole line of the cache: what is copied stays aligned
)

type span struct{ from, to int64 }

// scanner is the state of one pass over a file.
type scanner struct {
	r        io.ReaderAt
	size     int64
	report   *Report
	sections []section
	skip     []span // of the file, ascending: what has been understood already
	unloaded []span // ascending: debug information and symbols, which no loader puts into memory
	textDone int64  // text up to here has been looked at
	last     hit    // the one looked at last
	bad      int    // malformed things that cost time
	names    int64  // bytes of kernel names
	unpacked int64
	inside   int64 // offset of the fatbin that is read; -1: none
	zstd     *zstd.Decoder
	packed   []byte // reused between images, as is the next
	plain    []byte
	dropped  int // notes
}

// refuse says that a file cannot be looked at at all.
func refuse(fix, format string, args ...any) error {
	return exit.Errorf(exit.Usage, fix, format, args...)
}

// ScanFile is Scan for a file of a host.
func ScanFile(h buildenv.Host, path string) (rep *Report, err error) {
	err = withFile(h, path, func(r io.ReaderAt, size int64) error {
		rep, err = Scan(r, size)
		return err
	})
	return rep, err
}

// asked has, for each library of NVIDIA's that programs open at run time, a function that these then ask for by its name.
var asked = [][2]string{{"libnvrtc", "nvrtcCompileProgram"}, {"libnvJitLink", "nvJitLinkCreate"}, {"libnvptxcompiler", "nvPTXCompilerCreate"},
	{"libcublas", "cublasCreate_v2"}, {"libcublasLt", "cublasLtCreate"}, {"libcudnn", "cudnnCreate"}, {"libcufft", "cufftPlan1d"},
	{"libcurand", "curandCreateGenerator"}, {"libcusolver", "cusolverDnCreate"}, {"libcusparse", "cusparseCreate"}, {"libnccl", "ncclCommInitRank"}}

// Opens lists the libraries that a file does not import, and of which it holds the name of a function: it opens them at run time, as cudarc
// does, or holds them.
func Opens(h buildenv.Host, path string, imports []string) (found []string, err error) {
	err = withFile(h, path, func(r io.ReaderAt, size int64) error {
		s := &scanner{r: r, size: size, report: &Report{}}
		s.describe()
		buf := make([]byte, chunkSize+overlap)
		for pos := int64(0); pos < size; pos += chunkSize {
			n, err := r.ReadAt(buf[:min(int64(len(buf)), size-pos)], pos)
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("at byte %d: %w", pos+int64(n), err)
			}
			for _, a := range asked {
				is := func(name string) bool { return strings.Contains(strings.ToLower(name), strings.ToLower(a[0][3:])) }
				if slices.Contains(found, a[0]) || slices.ContainsFunc(imports, is) {
					continue
				}
				for at := 0; ; at++ {
					next := bytes.Index(buf[at:n], []byte(a[1]))
					if at += next; next < 0 {
						break
					}
					if s.known(pos+int64(at)) == pos+int64(at) { // else in a section that is not loaded
						found = append(found, a[0])
						break
					}
				}
			}
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}

// withFile reads a file of a host.
func withFile(h buildenv.Host, path string, read func(r io.ReaderAt, size int64) error) error {
	unreadable := func(err error) error {
		var p *fs.PathError
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return refuse("build it first, or check the path", "%s: no such file", path)
		case errors.As(err, &p) && p.Path == path: // the path is said once
			err = p.Err
		}
		return refuse("check the path and its permissions", "%s: cannot be read: %w", path, err)
	}
	fi, err := h.Files.Stat(path)
	if err != nil {
		return unreadable(err)
	}
	switch {
	case fi.IsDir():
		return refuse("name the program or library itself, such as target/release/NAME", "%s: is a directory", path)
	case !fi.Mode().IsRegular():
		return refuse("name a program, a library or a fatbin", "%s: is not a regular file", path)
	case fi.Size() == 0:
		return refuse("build it again: a link that was interrupted leaves an empty file", "%s: is empty", path)
	}
	f, err := h.Files.Open(path)
	if err != nil {
		return unreadable(err)
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok { // a stored machine's file
		data, err := h.ReadFile(path, buildenv.Program)
		if err != nil {
			return unreadable(err)
		}
		r = bytes.NewReader(data)
	}
	if err := read(r, fi.Size()); err != nil {
		return unreadable(err)
	}
	return nil
}

// Scan looks through the size bytes of r. Its error is one of reading; whatever the bytes are, there is a report.
func Scan(r io.ReaderAt, size int64) (*Report, error) {
	s := &scanner{r: r, size: size, last: hit{off: -1}, inside: -1,
		report: &Report{Size: size, Format: Other, Images: []Image{}, Imports: []string{}}}
	s.describe()
	if err := s.pass(); err != nil {
		return nil, err
	}
	if s.zstd != nil {
		s.zstd.Close()
	}
	sort.SliceStable(s.report.Images, func(i, j int) bool { return s.report.Images[i].Offset < s.report.Images[j].Offset })
	for i := range s.report.Images {
		s.report.Images[i].Where = s.where(s.report.Images[i].Offset)
	}
	if s.dropped > 0 {
		s.report.Notes = append(s.report.Notes, fmt.Sprintf("%d more notes left out", s.dropped))
	}
	return s.report, nil
}

// pass reads the file once from its beginning to its end and looks at what may be device code. What was understood is not read again.
func (s *scanner) pass() error {
	buf := make([]byte, overlap+chunkSize)
	var hits []hit
	for pos, lead := int64(0), 0; pos < s.size; { // lead: bytes directly before pos that are searched again, for what lies across
		if to := s.known(pos); to-pos > chunkSize {
			pos, lead = to, 0
			continue
		}
		data := buf[:lead+int(min(chunkSize, s.size-pos))]
		n, err := s.r.ReadAt(data, pos-int64(lead))
		if n < len(data) {
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("at byte %d: %w", pos+int64(max(0, n-lead)), err)
			}
			s.size = pos + int64(max(0, n-lead))
			s.note(s.size, "the file ended here: it became shorter while it was read")
		}
		hits = find(data[:n], pos-int64(lead), hits[:0])
		for _, h := range hits {
			s.look(h)
		}
		pos, lead = pos+chunkSize, overlap
	}
	return nil
}

// look decides what a hit is.
func (s *scanner) look(h hit) {
	if h.off < s.last.off || h == s.last {
		return // found in the piece before
	}
	s.last = h
	for len(s.skip) > 0 && s.skip[0].to < h.off-overlap {
		s.skip = s.skip[1:]
	}
	if s.known(h.off) != h.off {
		return
	}
	if s.bad > maxBad {
		return
	}
	switch h.kind {
	case fatbinHit:
		for off := h.off; off >= 0; {
			off = s.fatbin(off)
		}
	case elfHit:
		s.cubin(h.off)
	case ptxHit:
		if h.off >= s.textDone {
			s.text(h.off)
		}
	}
}

// known returns the end of the understood span that holds off, or off itself. Hits come in ascending order but for the overlap.
func (s *scanner) known(off int64) int64 {
	i := sort.Search(len(s.skip), func(i int) bool { return s.skip[i].to > off })
	if i < len(s.skip) && s.skip[i].from <= off {
		return s.skip[i].to
	}
	i = sort.Search(len(s.unloaded), func(i int) bool { return s.unloaded[i].to > off })
	if i < len(s.unloaded) && s.unloaded[i].from <= off {
		return s.unloaded[i].to
	}
	return off
}

func (s *scanner) understood(from, to int64) {
	if n := len(s.skip); n > 0 && s.skip[n-1].to == from {
		s.skip[n-1].to = to
		return
	}
	s.skip = append(s.skip, span{from, to})
}

func (s *scanner) note(off int64, format string, args ...any) {
	if len(s.report.Notes) >= maxNotes {
		s.dropped++
		return
	}
	s.report.Notes = append(s.report.Notes, fmt.Sprintf("0x%x: ", off)+fmt.Sprintf(format, args...))
}

// add puts an image into the report.
func (s *scanner) add(im Image) {
	if len(s.report.Images) >= maxImages {
		s.note(im.Offset, "more than %d device images: this one is left out", maxImages)
		return
	}
	for i, k := range im.Kernels {
		if s.names += int64(len(k)) + 16; s.names > maxNames {
			s.note(im.Offset, "too many kernel names: %d are left out", len(im.Kernels)-i)
			im.Kernels, im.Resources = im.Kernels[:i], im.Resources[:min(i, len(im.Resources))]
			break
		}
	}
	if im.Fatbin = im.Offset; s.inside >= 0 {
		im.Fatbin = s.inside
	}
	s.report.Images = append(s.report.Images, im)
}

// wasted counts what was malformed, so that a file made of such things cannot cost hours.
func (s *scanner) wasted(off int64) {
	if s.bad++; s.bad == maxBad+1 {
		s.note(off, "more than %d malformed device images: what follows was not looked at", maxBad)
	}
}

// read returns n bytes of the file at off, or nil when they are not all there.
func (s *scanner) read(off int64, n int) []byte {
	if off < 0 || int64(n) > s.size-off {
		return nil
	}
	b := make([]byte, n)
	if m, _ := s.r.ReadAt(b, off); m < n {
		return nil
	}
	return b
}
