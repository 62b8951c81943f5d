package proc

import (
	"bytes"
	"sync"
)

// buffer keeps the first or the last bytes of what is written to it. It can be read while something still writes.
type buffer struct {
	limit int64
	tail  bool // the end is worth more than the beginning

	mu   sync.Mutex
	data []byte
	cut  bool
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	b.data = append(b.data, p...)
	if !b.tail || int64(len(b.data)) > 2*b.limit { // now and then, so that a long stream is not copied at each write
		b.shorten()
	}
	return n, nil
}

func (b *buffer) shorten() {
	switch over := int64(len(b.data)) - b.limit; {
	case over <= 0:
		return
	case b.tail:
		b.data = append(b.data[:0], b.data[over:]...)
	default:
		b.data = b.data[:b.limit]
	}
	b.cut = true
}

func (b *buffer) bytes() (data []byte, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shorten()
	return bytes.Clone(b.data), b.cut
}
