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
	if !b.tail {
		if room := b.limit - int64(len(b.data)); int64(n) > room {
			p, b.cut = p[:room], true
		}
		b.data = append(b.data, p...)
		return n, nil
	}
	if int64(n) > b.limit {
		p, b.cut = p[int64(n)-b.limit:], true
	}
	b.data = append(b.data, p...)
	if int64(len(b.data)) > 2*b.limit { // now and then, so that a long stream is not copied at each write
		b.shorten()
	}
	return n, nil
}

func (b *buffer) shorten() {
	if over := int64(len(b.data)) - b.limit; over > 0 {
		b.data = append(b.data[:0], b.data[over:]...)
		b.cut = true
	}
}

func (b *buffer) bytes() (data []byte, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shorten()
	return bytes.Clone(b.data), b.cut
}
