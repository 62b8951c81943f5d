package fatbin

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// unpack returns n bytes of the file at off, unpacked. The answer is good until the next call. claimed is what the header promises; more
// than that is malformed, and memory is taken for what is really there.
func (s *scanner) unpack(how string, off, n int64, claimed uint64) ([]byte, error) {
	switch {
	case claimed > maxImage:
		return nil, fmt.Errorf("it claims %d bytes, more than %d", claimed, maxImage)
	case n > maxImage:
		return nil, fmt.Errorf("it takes %d bytes, more than %d", n, maxImage)
	case s.unpacked+int64(claimed) > maxUnpacked:
		return nil, fmt.Errorf("more than %d bytes were unpacked before", int64(maxUnpacked))
	case how == Raw && uint64(n) < claimed:
		return nil, errCut
	}
	s.unpacked += int64(claimed)
	if int64(cap(s.packed)) < n {
		s.packed = make([]byte, n)
	}
	packed := s.packed[:n]
	if m, err := s.r.ReadAt(packed, off); int64(m) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = errCut
		}
		return nil, err
	}
	var err error
	switch how {
	case Zstd:
		s.plain, err = s.unzstd(s.plain[:0], packed, int(claimed))
	case LZ4:
		s.plain, err = unlz4(s.plain[:0], packed, int(claimed))
	default:
		return packed[:claimed], nil
	}
	if err == nil && uint64(len(s.plain)) != claimed {
		err = fmt.Errorf("%d bytes instead of %d", len(s.plain), claimed)
	}
	return s.plain, err
}

func (s *scanner) unzstd(dst, src []byte, limit int) ([]byte, error) {
	if s.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxImage))
		if err != nil {
			return dst, err
		}
		s.zstd = d
	}
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return dst, err
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return dst, fmt.Errorf("it holds %d bytes instead of %d", h.FrameContentSize, limit)
	}
	return s.zstd.DecodeAll(src, dst)
}

var errLZ4 = errors.New("it is no LZ4 block")

// unlz4 unpacks an LZ4 block of at most limit bytes behind dst. Format: lz4/lz4 doc/lz4_Block_format.md.
func unlz4(dst, src []byte, limit int) ([]byte, error) {
	begin := len(dst)
	length := func(n int) (int, bool) { // of a literal or a match: 15 means that more follows
		if n < 15 {
			return n, true
		}
		for len(src) > 0 {
			b := int(src[0])
			src = src[1:]
			if n += b; n > limit+19 {
				return 0, false
			}
			if b < 255 {
				return n, true
			}
		}
		return 0, false
	}
	for len(src) > 0 {
		token := int(src[0])
		src = src[1:]
		n, ok := length(token >> 4)
		if !ok || n > len(src) || len(dst)-begin+n > limit {
			return dst, errLZ4
		}
		dst = append(dst, src[:n]...)
		src = src[n:]
		if len(src) == 0 {
			return dst, nil // the last sequence has no match
		}
		if len(src) < 2 {
			return dst, errLZ4
		}
		back := int(src[0]) | int(src[1])<<8
		src = src[2:]
		n, ok = length(token & 15)
		n += 4
		if !ok || back == 0 || back > len(dst)-begin || len(dst)-begin+n > limit {
			return dst, errLZ4
		}
		for n > 0 { // a match may reach into what it makes
			from := dst[len(dst)-back:]
			from = from[:min(n, back)]
			dst = append(dst, from...)
			n -= len(from)
			back += len(from)
		}
	}
	return dst, errLZ4
}
