package buildenv

import (
	"errors"
	"io"
)

// Pieces reads a file piece by piece, each with the end of the one before it, until enough has been seen.
func Pieces(f io.Reader, overlap int, enough func(piece []byte) bool) error {
	buf := make([]byte, 1<<20+overlap)
	for kept := 0; ; {
		n, err := io.ReadFull(f, buf[kept:])
		piece := buf[:kept+n]
		if enough(piece) || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kept = copy(buf, piece[len(piece)-overlap:])
	}
}
