package fatbin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
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

// unlz4 unpacks an LZ4 block of limit bytes behind dst, as an S2 block with its length and tags. Format: lz4/lz4 doc/lz4_Block_format.md.
func unlz4(dst, src []byte, limit int) ([]byte, error) {
	block := binary.AppendUvarint(make([]byte, 0, 2*len(src)+64), uint64(limit))
	block, n, err := new(s2.LZ4Converter).ConvertBlock(block, src)
	if err != nil || n != limit || len(src) == 0 {
		return dst, errLZ4
	}
	plain, err := s2.Decode(dst[len(dst):cap(dst)], block)
	return append(dst, plain...), err
}
