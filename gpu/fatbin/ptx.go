package fatbin

import (
	"bytes"
	"io"
	"slices"
	"sort"
	"strings"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// ptxModule is what one module of PTX text says.
type ptxModule struct {
	version string // of .version
	target  string // the first word of .target
	entries []string
	extent  int64 // bytes from the beginning to the end of the last thing understood
	stop    int64 // bytes that were looked at
	cut     bool  // it ended inside a body
	partial bool  // it uses what another module defines
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
	im.Kernels, im.Relocatable = m.entries, m.partial
}

// maxText is how much of a text is looked at as one module.
const maxText = 64 << 20

// noText reports whether a byte ends a text.
func noText(c byte) bool { return c < ' ' && (c < '\t' || c > '\r') || c == 0x7f }

// moduleText reads the text of the first module of r: up to what is no text, or to a directive that begins another module. Most text that
// looks like PTX is none, so the first piece is small and the next ones grow.
func moduleText(r io.Reader) (text []byte) {
	for size := int64(1 << 10); ; size *= 4 {
		piece, err := io.ReadAll(io.LimitReader(r, size))
		text = append(text, piece...)
		end := len(text)
		for _, directive := range []string{".version", ".target"} {
			if before, after, is := bytes.Cut(text[:end], []byte(directive)); is {
				if i := bytes.Index(after, []byte(directive)); i >= 0 {
					end = len(before) + len(directive) + i
				}
			}
		}
		for i, c := range text[:end] {
			if noText(c) {
				end = i
				break
			}
		}
		if err != nil || end < len(text) || int64(len(piece)) < size {
			return text[:end]
		}
	}
}

var (
	// ignored is replaced before braces are counted. In a program other strings stand directly behind a module, so one ends with its line.
	ignored     = lazyregexp.New(`//[^\n]*|(?s:/\*.*?\*/)|"[^"\n]*"`)
	ptxVersion  = lazyregexp.New(`\.version\s+(\d{1,3}\.\d{1,3})\b`)
	ptxTarget   = lazyregexp.New(`\.target\s+((?:sm|compute)_\w+)`)
	ptxExtern   = lazyregexp.New(`\.extern\s+\.(?:(?:global|const)\b|func\s*(?:\([^()]*\))?\s*([\w$%.]+))`)
	ptxFunction = lazyregexp.New(`\.entry\s+([A-Za-z0-9_$%.]+)\s*[({.][^{};]*[{;]`)
)

// readPTX reads the module with which r begins, by a directive. A kernel is one with a whole body that has a statement.
func readPTX(r io.Reader) *ptxModule {
	text := moduleText(r)
	m := &ptxModule{stop: int64(len(text))}
	if !bytes.Contains(text, []byte(".target")) { // most are not PTX: a word of a program
		return m
	}
	text = []byte(ignored.ReplaceAllStringFunc(string(text), func(s string) string { return strings.Repeat(" ", len(s)) }))
	if at := ptxVersion.FindSubmatchIndex(text); at != nil {
		m.version, m.extent = string(text[at[2]:at[3]]), int64(at[1])
	}
	if at := ptxTarget.FindSubmatchIndex(text); at != nil {
		if _, err := gpu.ParseArch(string(text[at[2]:at[3]])); err == nil {
			m.target, m.extent = string(text[at[2]:at[3]]), int64(at[1])
		}
	}
	for _, at := range ptxExtern.FindAllSubmatch(text, -1) {
		m.partial = m.partial || !slices.Contains([]string{"vprintf", "malloc", "free", "__assertfail"}, string(at[1])) // the driver's own
	}
	for from := 0; ; {
		at := ptxFunction.FindSubmatchIndex(text[from:])
		if at == nil {
			break
		}
		name, body := quote(text[from+at[2]:from+at[3]]), from+at[1]-1
		from = body + 1
		if text[body] == ';' { // only declared
			continue
		}
		end := closing(text[body:])
		if m.cut = end < 0; m.cut {
			break
		}
		if bytes.IndexByte(text[body:body+end], ';') >= 0 {
			m.entries, m.extent = append(m.entries, name), int64(body+end)
		}
		from = body + end
	}
	sort.Strings(m.entries)
	return m
}

// closing is where the brace with which a text begins is closed, or -1.
func closing(text []byte) int {
	open := 0
	for i, c := range text {
		switch c {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return -1
}
