package explain

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

const (
	block   = 256 << 10 // how much is gathered before it is searched
	reach   = 8 << 10   // how far the lines around a line go at most, to each side
	around  = 12        // how many lines that are
	manyHit = 1000      // where counting ends
	maxText = 400       // letters of a line that are kept
)

// errorSigns bring lines to be looked at that may be pointed to when no rule knows the failure.
var errorSigns = []string{
	"error: ", "error[E0", "ERROR: ", "rror   : ", " panicked at ", "nvcc fatal", "fatal error",
	"undefined reference", "CMake Error", "Traceback (most",
}

// looksLikeError confirms such a line. rustc, cargo, clang and MSVC write
// "error" before a colon, at a line's beginning or behind a place.
var looksLikeError = regexp.MustCompile(
	`(^|[\s:)\]])(fatal )?(error|ERROR)(\[E\d{4}\]| [A-Z]+\d+)?\s*: |thread '[^']*'( \(\d+\))? panicked at |` +
		`^nvcc fatal\b|fatal error|undefined reference to |CMake Error (at|in|:)|^Traceback \(most recent`,
)

// maxErrors is how many such lines are kept.
const maxErrors = 3

// Watcher looks at a text while it is written: it is an io.Writer that keeps at
// most a few hundred kilobytes of it. Writes may come from several goroutines.
type Watcher struct {
	mu     sync.Mutex
	rules  *Rules
	decode decoder
	buf    []byte
	done   int // what stands before it in buf was searched
	lines  int // line ends before buf
	bytes  int64
	last   byte // the last byte of the text
	hits   map[int]*hit
	errors []Place
	// errorsTo is the end of the last line that was looked at for them, in buf.
	errorsTo int
	// While one block is searched lines are counted as it goes.
	countedTo, counted int
	closed             bool
}

// hit is what was seen of one rule.
type hit struct {
	Found
	seenTo int // the end of the last line that was looked at, in buf
}

// NewWatcher answers a Watcher for a text that begins now.
func NewWatcher(rules *Rules) *Watcher { return &Watcher{rules: rules, hits: map[int]*hit{}} }

// Write takes the next part of the text. It never fails: what looks at a build must not stop it.
func (w *Watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if w.closed {
		return n, nil
	}
	w.bytes += int64(n)
	for len(p) > 0 {
		part := p[:min(len(p), block)]
		p = p[len(part):]
		w.take(w.decode.write(part))
	}
	return n, nil
}

func (w *Watcher) take(text []byte) {
	if len(text) > 0 {
		w.last = text[len(text)-1]
	}
	w.buf = append(w.buf, text...)
	if len(w.buf)-w.done >= block {
		w.search(false)
	}
}

// Answer ends the text and says what is known of it.
func (w *Watcher) Answer() Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.take(w.decode.close())
		w.search(true)
		w.closed = true
	}
	a := Answer{Found: []Found{}, Errors: w.errors, Lines: w.lines, Bytes: w.bytes}
	if w.last != 0 && w.last != '\n' {
		a.Lines++
	}
	if a.Errors == nil {
		a.Errors = []Place{}
	}
	for i := range w.rules.All { // in the table's order, so that equal places have a fixed order
		if h := w.hits[i]; h != nil && h.Count > 0 {
			a.Found = append(a.Found, h.Found)
		}
	}
	sortFound(a.Found)
	return a
}

// Read watches a whole text.
func Read(rules *Rules, r io.Reader) (Answer, error) {
	w := NewWatcher(rules)
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, block))
	return w.Answer(), err
}

// search looks at what was gathered. Unless the text is at its end, the last lines wait for those that follow them.
func (w *Watcher) search(end bool) {
	limit := len(w.buf)
	if !end {
		floor := max(w.done, len(w.buf)-2*reach)
		for n := 0; n <= around && limit > floor; n++ {
			limit = max(floor, bytes.LastIndexByte(w.buf[:limit], '\n'))
		}
	}
	w.countedTo, w.counted = 0, 0
	text := w.buf[:min(len(w.buf), limit+w.rules.search.longest)]
	w.rules.search.each(text, w.done, func(literal, at int) {
		if at < limit {
			w.look(w.rules.owner[literal], at)
		}
	})
	// Keep what the next lines may need before them.
	keep := max(0, limit-2*reach)
	w.lines += bytes.Count(w.buf[:keep], []byte{'\n'})
	if end {
		w.lines += bytes.Count(w.buf[keep:], []byte{'\n'})
		w.buf = nil
		return
	}
	w.errorsTo = max(0, w.errorsTo-keep)
	for _, h := range w.hits {
		h.seenTo = max(0, h.seenTo-keep)
	}
	w.done = limit - keep
	w.buf = w.buf[:copy(w.buf, w.buf[keep:])]
}

// look asks a rule about the line around a place in buf.
func (w *Watcher) look(owner, at int) {
	if owner < 0 {
		if len(w.errors) < maxErrors && at >= w.errorsTo {
			w.lookAtError(w.line(at))
		}
		return
	}
	r := w.rules.All[owner]
	h := w.hits[owner]
	if h == nil {
		h = &hit{Found: Found{Rule: r}}
		w.hits[owner] = h
	}
	if at < h.seenTo || h.Count >= manyHit {
		return
	}
	from, to := w.line(at)
	h.seenTo = to
	line := plain(w.buf[from:to])
	m := r.confirm.FindSubmatch(line)
	if m == nil || r.not != nil && r.not.Match(line) {
		return
	}
	if r.near != nil && !r.near.Match(w.neighbours(from, to)) {
		return
	}
	h.Count++
	if h.Count > 1 {
		return
	}
	h.Line, h.Text = w.lineNumber(from), words(line)
	for i, name := range r.confirm.SubexpNames() {
		if name != "" && len(m[i]) > 0 {
			if h.Values == nil {
				h.Values = map[string]string{}
			}
			h.Values[name] = words(m[i])
		}
	}
}

func (w *Watcher) lookAtError(from, to int) {
	w.errorsTo = to
	n := w.lineNumber(from)
	if len(w.errors) > 0 && w.errors[len(w.errors)-1].Line == n {
		return
	}
	if line := w.buf[from:to]; looksLikeError.Match(line) {
		w.errors = append(w.errors, Place{n, words(line)})
	}
}

// line answers the bounds of the line at a place. A carriage return ends one, too: progress bars overwrite themselves with it.
func (w *Watcher) line(at int) (from, to int) {
	back, fore := max(0, at-reach), min(len(w.buf), at+reach)
	from = back + bytes.LastIndexByte(w.buf[back:at], '\n') + 1
	from += bytes.LastIndexByte(w.buf[from:at], '\r') + 1
	to = fore
	for _, end := range []byte{'\n', '\r'} {
		if n := bytes.IndexByte(w.buf[at:to], end); n >= 0 {
			to = at + n
		}
	}
	return from, to
}

// lineNumber counts from 1. Places come nearly in order; what was counted is not counted again.
func (w *Watcher) lineNumber(at int) int {
	if at < w.countedTo {
		w.countedTo, w.counted = 0, 0
	}
	w.counted += bytes.Count(w.buf[w.countedTo:at], []byte{'\n'})
	w.countedTo = at
	return w.lines + w.counted + 1
}

// neighbours is the text of a line and of those around it.
func (w *Watcher) neighbours(from, to int) []byte {
	lo, hi := max(0, from-reach), min(len(w.buf), to+reach)
	at := from
	for n := 0; n <= around && at > lo; n++ {
		at = max(lo, bytes.LastIndexByte(w.buf[:at], '\n'))
	}
	end := to
	for n := 0; n < around && end < hi; n++ {
		if i := bytes.IndexByte(w.buf[end+1:hi], '\n'); i >= 0 {
			end += 1 + i
		} else {
			end = hi
		}
	}
	return plain(w.buf[at:end])
}

// plain undoes what JSON and Rust's debug form do to quotes.
func plain(text []byte) []byte {
	if bytes.Contains(text, []byte(`\"`)) {
		return bytes.ReplaceAll(text, []byte(`\"`), []byte(`"`))
	}
	return text
}

// words makes a text of foreign bytes fit to be shown: valid, without control characters, not too long.
func words(text []byte) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(text[:min(len(text), 4*maxText)]), "\uFFFD"))
	s = strings.TrimSpace(s)
	if n := 0; len(s) > maxText {
		for i := range s {
			if n == maxText {
				return s[:i] + "…"
			}
			n++
		}
	}
	return s
}
