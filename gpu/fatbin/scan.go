package fatbin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"sort"

	"github.com/klauspost/compress/zstd"

	"gpubuild/buildenv"
)

// What the search looks for. Of the fatbin's magic number, 50 ED 55 BA, the last three bytes: the first one is a common instruction.
var patterns = [...]struct {
	bytes []byte
	kind  hitKind
	back  int64 // bytes of the thing before the pattern
}{
	{[]byte("\xed\x55\xba"), fatbinHit, 1},
	{[]byte("\x7fELF\x02\x01"), elfHit, 0},
	{[]byte(".version"), ptxHit, 0},
	{[]byte(".target"), ptxHit, 0},
}

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
	chunkSize = 1 << 20
	blockSize = 64 << 10 // each pattern goes over a block while it is in the processor's cache
	overlap   = 16       // more than the longest pattern
)

type span struct{ from, to int64 }

// scanner is the state of one pass over a file.
type scanner struct {
	r        io.ReaderAt
	size     int64
	hashed   bool
	report   *Report
	sections []section
	skip     []span // of the file, ascending: what has been understood already
	textDone int64  // text up to here has been looked at
	last     hit    // the one looked at last
	bad      int    // malformed things that cost time
	names    int64  // bytes of kernel names
	unpacked int64
	zstd     *zstd.Decoder
	packed   []byte // reused between images, as are the next two
	plain    []byte
	ptx      []byte
	dropped  int // notes
}

// ScanFile is Scan for a file of a host.
func ScanFile(h buildenv.Host, path string, options ...Option) (*Report, error) {
	unreadable := func(err error) error {
		e := &FileError{Path: path, What: "cannot be read", Err: err, Fix: "check the path and its permissions"}
		if errors.Is(err, fs.ErrNotExist) {
			e.What, e.Err, e.Fix = "no such file", err, "build it first, or check the path"
		}
		return e
	}
	fi, err := h.Files.Stat(path)
	if err != nil {
		return nil, unreadable(err)
	}
	switch {
	case fi.IsDir():
		return nil, &FileError{Path: path, What: "is a directory", Fix: "name the program or library itself, such as target/release/NAME"}
	case !fi.Mode().IsRegular():
		return nil, &FileError{Path: path, What: "is not a regular file", Fix: "name a program, a library or a fatbin"}
	case fi.Size() == 0:
		return nil, &FileError{Path: path, What: "is empty", Fix: "build it again: a link that was interrupted leaves an empty file"}
	}
	f, err := h.Files.Open(path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok { // a stored machine's file
		data, err := h.ReadFile(path, maxImage)
		if err != nil {
			return nil, unreadable(err)
		}
		r = bytes.NewReader(data)
	}
	rep, err := Scan(r, fi.Size(), options...)
	if err != nil {
		return nil, unreadable(err)
	}
	return rep, nil
}

// Scan looks through the size bytes of r. Its error is one of reading; whatever the bytes are, there is a report.
func Scan(r io.ReaderAt, size int64, options ...Option) (*Report, error) {
	s := &scanner{r: r, size: size, last: hit{off: -1},
		report: &Report{Size: size, Format: Other, Images: []Image{}, Imports: []string{}}}
	for _, o := range options {
		o(s)
	}
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

// pass reads the file once from its beginning to its end.
func (s *scanner) pass() error {
	var sum hash.Hash
	if s.hashed {
		sum = sha256.New()
	}
	buf := make([]byte, overlap+min(chunkSize, s.size))
	var hits []hit
	kept := 0 // bytes of the piece before, at the beginning of buf
	for pos := int64(0); pos < s.size; {
		if sum == nil && kept > 0 {
			if to := s.known(pos); to-pos > chunkSize { // no need to read what has been understood
				pos, kept = to, 0
				continue
			}
		}
		want := int(min(chunkSize, s.size-pos))
		n, err := s.r.ReadAt(buf[kept:kept+want], pos)
		if n < want {
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("at byte %d: %w", pos+int64(n), err)
			}
			s.note(pos+int64(n), "the file ended here: it became shorter while it was read")
			s.size = pos + int64(n)
		}
		fresh := buf[kept : kept+n]
		hashing := make(chan struct{})
		if sum != nil {
			go func() { sum.Write(fresh); close(hashing) }()
		}
		hits = find(buf[:kept+n], pos-int64(kept), hits[:0])
		for _, h := range hits {
			s.look(h)
		}
		if sum != nil {
			<-hashing
		}
		pos += int64(n)
		tail := min(overlap-1, kept+n)
		copy(buf, buf[kept+n-tail:kept+n])
		kept = tail
	}
	if sum != nil {
		s.report.SHA256 = hex.EncodeToString(sum.Sum(nil))
	}
	return nil
}

// find appends where the patterns begin in data, which lies at base, in order. A hit in the overlap of two pieces is found twice at most.
func find(data []byte, base int64, hits []hit) []hit {
	for at := 0; at < len(data); at += blockSize {
		block := data[at:min(at+blockSize+overlap-1, len(data))]
		for _, p := range patterns {
			for i := 0; ; {
				n := bytes.Index(block[i:], p.bytes)
				if n < 0 {
					break
				}
				if off := base + int64(at+i+n) - p.back; off >= 0 {
					hits = append(hits, hit{off, p.kind})
				}
				i += n + 1
			}
		}
	}
	if len(hits) > 1 {
		slices.SortFunc(hits, func(a, b hit) int {
			if a.off != b.off {
				return int(max(-1, min(1, a.off-b.off)))
			}
			return int(a.kind - b.kind)
		})
		hits = slices.Compact(hits)
	}
	return hits
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
		s.fatbin(h.off)
	case elfHit:
		s.cubin(h.off)
	case ptxHit:
		if h.off >= s.textDone {
			s.text(h.off)
		}
	}
}

// known answers the end of the understood span that holds off, or off itself. Hits come in ascending order but for the overlap.
func (s *scanner) known(off int64) int64 {
	i := sort.Search(len(s.skip), func(i int) bool { return s.skip[i].to > off })
	if i < len(s.skip) && s.skip[i].from <= off {
		return s.skip[i].to
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
			im.Kernels = im.Kernels[:i]
			break
		}
	}
	s.report.Images = append(s.report.Images, im)
}

// wasted counts what was malformed, so that a file made of such things cannot cost hours.
func (s *scanner) wasted(off int64) {
	if s.bad++; s.bad == maxBad+1 {
		s.note(off, "more than %d malformed device images: what follows was not looked at", maxBad)
	}
}

// read answers n bytes of the file at off, or nil when they are not all there.
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
