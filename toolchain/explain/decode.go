package explain

import (
	"bytes"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// decoder turns the bytes of a log into plain text, whatever wrote it: colours and other terminal sequences are taken out, and UTF-16,
// which PowerShell's > writes, becomes UTF-8. Line ends stay as they are.
type decoder struct {
	decided bool
	wide    *transform.Writer // of UTF-16, into text; nil: bytes as they are
	text    bytes.Buffer
	head    []byte // what came before the encoding was known
	esc     escape
	out     []byte
}

// escape is where in a terminal sequence the text is (ECMA-48).
type escape int

const (
	outside    escape = iota
	afterESC          // ESC was read
	inCSI             // ESC [ … until a byte from @ to ~
	inString          // ESC ] or ESC P … until BEL or ESC \
	inStringST        // ESC within such a string
)

// headSize is how much is looked at to know the encoding of a text without a byte-order mark.
const headSize = 256

// write answers the plain text of p; it is valid until the next call.
func (d *decoder) write(p []byte) []byte {
	if !d.decided {
		d.head = append(d.head, p...)
		if len(d.head) < headSize {
			return nil
		}
		return d.begin()
	}
	return d.decode(p)
}

// close answers the text that was held back.
func (d *decoder) close() []byte {
	if !d.decided {
		return d.begin()
	}
	return nil
}

func (d *decoder) begin() []byte {
	d.decided = true
	h := d.head
	d.head = nil
	order, wide := widthOf(h)
	switch {
	case bytes.HasPrefix(h, []byte{0xff, 0xfe}):
		order, wide, h = unicode.LittleEndian, true, h[2:]
	case bytes.HasPrefix(h, []byte{0xfe, 0xff}):
		order, wide, h = unicode.BigEndian, true, h[2:]
	case bytes.HasPrefix(h, []byte{0xef, 0xbb, 0xbf}):
		h = h[3:]
	}
	if wide {
		d.wide = transform.NewWriter(&d.text, unicode.UTF16(order, unicode.IgnoreBOM).NewDecoder())
	}
	return d.decode(h)
}

// widthOf knows UTF-16 without a mark by its zero bytes: in a log most letters are ASCII.
func widthOf(h []byte) (order unicode.Endianness, wide bool) {
	var zeros [2]int
	for i, b := range h {
		if b == 0 {
			zeros[i%2]++
		}
	}
	half := len(h) / 2
	if zeros[1] == 0 {
		return unicode.BigEndian, half > 1 && zeros[0] > half*3/4
	}
	return unicode.LittleEndian, half > 1 && zeros[1] > half*3/4 && zeros[0] == 0
}

func (d *decoder) decode(p []byte) []byte {
	if d.wide != nil {
		p = d.narrow(p)
	}
	if d.esc == outside && bytes.IndexByte(p, 0x1b) < 0 {
		return p
	}
	return d.strip(p)
}

// narrow makes UTF-8 of what came so far; half of a letter waits for the next write.
func (d *decoder) narrow(p []byte) []byte {
	d.text.Reset()
	_, _ = d.wide.Write(p) // into memory; what is no text becomes U+FFFD
	return d.text.Bytes()
}

func (d *decoder) strip(p []byte) []byte {
	out := d.out[:0]
	for len(p) > 0 {
		if d.esc == outside {
			n := bytes.IndexByte(p, 0x1b)
			if n < 0 {
				out = append(out, p...)
				break
			}
			out = append(out, p[:n]...)
			p = p[n+1:]
			d.esc = afterESC
			continue
		}
		b := p[0]
		if b == '\n' { // no sequence goes on in another line: a log that was cut must not be swallowed whole
			d.esc = outside
			continue
		}
		p = p[1:]
		switch d.esc {
		case afterESC:
			switch {
			case b == '[':
				d.esc = inCSI
			case b == ']' || b == 'P' || b == '_' || b == '^' || b == 'X':
				d.esc = inString
			case b >= 0x20 && b <= 0x2f: // intermediate byte: the final one follows
			case b == 0x1b:
			default:
				d.esc = outside
			}
		case inCSI:
			if b >= 0x40 && b <= 0x7e {
				d.esc = outside
			}
		case inString:
			switch b {
			case 0x07:
				d.esc = outside
			case 0x1b:
				d.esc = inStringST
			}
		case inStringST:
			if b != 0x1b {
				d.esc = outside
			}
		}
	}
	d.out = out
	return out
}
