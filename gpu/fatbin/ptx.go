package fatbin

import (
	"bytes"
	"io"
	"sort"
	"strings"

	"gpubuild/gpu"
)

// ptxModule is what one module of PTX text says.
type ptxModule struct {
	version string // of .version
	target  string // the first word of .target
	entries []string
	extent  int64 // bytes from the beginning to the end of the last thing understood
	stop    int64 // bytes until what follows could not be it any more
	cut     bool  // it ended inside a body
}

func (m *ptxModule) marks() int {
	n := 0
	for _, has := range []bool{m.version != "", m.target != "", len(m.entries) > 0} {
		if has {
			n++
		}
	}
	return n
}

// complete puts what the module says into an image.
func (m *ptxModule) complete(im *Image) {
	if m.version != "" {
		im.PTXVersion = m.version
	}
	if a, err := gpu.ParseArch(m.target); err == nil {
		a.Virtual = true
		im.Arch = a
	}
	im.Kernels = m.entries
}

// Classes of bytes in PTX text. Everything else is passed over fast.
const (
	plain = iota
	end   // no text
	mark  // has a meaning
)

var classes = func() (t [256]byte) {
	for c := range t {
		if c < ' ' && !strings.ContainsRune("\t\n\v\f\r", rune(c)) || c == 0x7f {
			t[c] = end
		}
	}
	for _, c := range []byte("\n./\"(){};") {
		t[c] = mark
	}
	return t
}()

// ptxReader reads text in pieces.
type ptxReader struct {
	r    io.Reader
	buf  []byte
	pos  int   // next byte in buf
	base int64 // bytes before buf
	done bool
}

// ahead answers up to n bytes from the current place without passing them.
func (p *ptxReader) ahead(n int) []byte {
	for len(p.buf)-p.pos < n && !p.done {
		p.fill()
	}
	return p.buf[p.pos:min(len(p.buf), p.pos+n)]
}

// fill reads more. Most text that looks like PTX is none, so the first piece is small and the next ones grow.
func (p *ptxReader) fill() {
	rest := len(p.buf) - p.pos
	want := min(chunkSize, 1<<10+4*(len(p.buf)))
	buf := p.buf[:0]
	if cap(buf) < rest+want {
		buf = make([]byte, 0, rest+want)
	}
	copy(buf[:rest], p.buf[p.pos:])
	p.base += int64(p.pos)
	p.pos = 0
	n, err := io.ReadFull(p.r, buf[rest:rest+want])
	p.buf = buf[:rest+n]
	p.done = err != nil
}

func (p *ptxReader) offset() int64 { return p.base + int64(p.pos) }

// next passes bytes without meaning and answers the one then reached; 0 at the end of the text.
func (p *ptxReader) next() byte {
	for {
		i, b := p.pos, p.buf
		for i < len(b) && classes[b[i]] == plain {
			i++
		}
		p.pos = i
		if i < len(b) {
			if classes[b[i]] == end {
				return 0
			}
			return b[i]
		}
		if p.done {
			return 0
		}
		p.fill()
	}
}

// past passes everything up to and including s; false when it does not come before limit, which may be empty, or before the text ends.
func (p *ptxReader) past(s, limit string) bool {
	for {
		rest := p.buf[p.pos:]
		i := bytes.Index(rest, []byte(s))
		stop := bytes.IndexByte(rest[:max(i, 0)], 0)
		if i < 0 {
			stop = bytes.IndexByte(rest, 0)
		}
		if limit != "" && stop < 0 {
			if n := bytes.Index(rest, []byte(limit)); n >= 0 && (i < 0 || n < i) {
				stop = n
			}
		}
		switch {
		case stop >= 0:
			p.pos += stop
			return false
		case i >= 0:
			p.pos += i + len(s)
			return true
		case p.done:
			p.pos = len(p.buf)
			return false
		}
		p.pos = max(p.pos, len(p.buf)-len(s)+1)
		p.fill()
	}
}

func (p *ptxReader) space() {
	for {
		b := p.ahead(1)
		if len(b) == 0 || !isSpace(b[0]) {
			return
		}
		p.pos++
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// word answers the longest run of a name's bytes at the current place and passes it.
func (p *ptxReader) word() []byte {
	n := 0
	for n < maxNameBytes {
		b := p.ahead(n + 1)
		if n >= len(b) || !isAlnum(b[n]) && strings.IndexByte("_$%.", b[n]) < 0 {
			break
		}
		n++
	}
	p.pos += n
	return p.buf[p.pos-n : p.pos]
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// module reads the module with which the text begins, by a directive. It ends where something follows that is no PTX: in a Rust program
// other strings stand directly behind it. Comments and strings may hold anything, bodies anything but another .version.
func (p *ptxReader) module() *ptxModule {
	m := &ptxModule{}
	var (
		braces, parens int
		entry          string // the kernel whose body comes, or is being read
		body           bool   // the body being read has a statement
		fresh          = true // at a place where a statement begins
	)
	finish := func() *ptxModule {
		m.cut = braces > 0
		m.stop = p.offset()
		sort.Strings(m.entries)
		return m
	}
	for {
		if fresh && braces == 0 && parens == 0 {
			p.space()
			b := p.ahead(1)
			if len(b) == 0 || !bytes.ContainsAny(b, "./(){};,") {
				return finish()
			}
			fresh = false
		}
		c := p.next()
		switch c {
		case 0:
			return finish()
		case '\n':
			p.pos++
			fresh = true
			continue
		case '/':
			if b := p.ahead(2); string(b) == "//" {
				if !p.past("\n", "") {
					return finish()
				}
				fresh = true
				continue
			} else if string(b) == "/*" {
				if !p.past("*/", "") {
					return finish()
				}
				continue
			}
			p.pos++
		case '"':
			p.pos++
			if !p.past(`"`, "\n") && len(p.ahead(1)) == 0 {
				return finish()
			}
		case '(':
			parens++
			p.pos++
		case ')':
			parens = max(0, parens-1)
			p.pos++
		case '{':
			if braces == 0 {
				body = false
				if parens > 0 {
					entry = "" // a template of a program that writes PTX
				}
			}
			braces++
			p.pos++
		case '}':
			p.pos++
			if braces == 0 {
				return finish()
			}
			if braces--; braces == 0 {
				fresh = true
				m.extent = p.offset()
				if entry != "" && body {
					m.entries = append(m.entries, entry)
				}
				entry = ""
			}
		case ';':
			p.pos++
			body = true
			if braces == 0 && parens == 0 {
				fresh, entry = true, "" // a kernel that is only declared
				m.extent = p.offset()
			}
		case '.':
			if braces > 0 || parens > 0 {
				if b := p.ahead(9); len(b) == 9 && string(b[:8]) == ".version" && isSpace(b[8]) {
					return finish()
				}
				p.pos++
				break
			}
			name, ok := m.directive(p)
			if !ok {
				return finish()
			}
			if name != "" {
				entry = name
			}
		}
	}
}

// directive reads a directive at module level and answers the name of the kernel if it is .entry; false when the module ends before it.
func (m *ptxModule) directive(p *ptxReader) (string, bool) {
	b := p.ahead(10)
	switch {
	case bytes.HasPrefix(b, []byte(".version")):
		if m.version != "" || m.target != "" || len(m.entries) > 0 {
			return "", false
		}
		p.pos += len(".version")
		p.space()
		v := string(p.word())
		major, minor, dotted := strings.Cut(v, ".")
		if !dotted || !digits(major) || !digits(minor) {
			return "", false
		}
		m.version, m.extent = v, p.offset()
	case bytes.HasPrefix(b, []byte(".target")):
		if m.target != "" {
			return "", false
		}
		p.pos += len(".target")
		p.space()
		t := string(p.word())
		if _, err := gpu.ParseArch(t); err != nil || !strings.Contains(t, "_") {
			return "", false
		}
		m.target, m.extent = t, p.offset()
	case bytes.HasPrefix(b, []byte(".entry")):
		p.pos += len(".entry")
		p.space()
		name := quote(p.word())
		p.space()
		if next := p.ahead(1); name == "" || len(next) == 0 || !bytes.ContainsAny(next, "({.") {
			return "", false
		}
		return name, true
	default:
		p.pos++
		if len(p.word()) == 0 {
			return "", false
		}
	}
	return "", true
}

func digits(s string) bool {
	return s != "" && len(s) < 4 && strings.Trim(s, "0123456789") == ""
}
