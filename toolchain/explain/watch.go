package explain

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"gpubuild/buildenv/lazyregexp"
)

const (
	block   = 256 << 10 // how much is gathered before it is searched
	reach   = 8 << 10   // how far the lines around a line go at most, to each side
	around  = 12        // how many lines that are
	manyHit = 1000      // where counting ends
	maxText = 400       // letters of a line that are kept

	// Matching a line with regular expressions takes a hundred times as long as finding the literal that leads to it. Each rule may match
	// its first lines; what follows must stay within a share of the text, or a text made of literals would take hours.
	lineReach = 2 << 10 // how far a line goes at most, to each side of the literal
	always    = 50      // lines of each rule that are looked at in any case
	spend     = 2 << 20 // bytes that are looked at beyond these
	share     = 512     // and one byte for so many of the text
)

// errorSigns bring lines to be looked at that may be pointed to when no rule knows the failure.
var errorSigns = append([]string{
	"error: ", "Error: ", "error[E0", "ERROR: ", "rror   : ", "atal   : ", "panicked at", "nvcc fatal", "fatal error",
	"undefined reference", "undefined symbol",
	"CMake Error", "Traceback (most", " error LNK", "nvlink error", "nvlink fatal", "ptxas fatal", "ptxas error", "relocation R_",
	"cannot open shared object", "cannot find -l", "unable to find library", "error response from daemon", "Error response from daemon",
	"Failed to initialize", "configuration file provided by", "died due to signal", "DriverError(", "RuntimeError(", "CUDA error",
	"cannot find library", "could not find native", "libdevice not found", " could not be located in ", "Library not loaded: ",
	"terminate called after throwing", "multiple definition of ", "error occurred: ", "ailed to initialize CUDA",
	"make: ***", "]: *** [", "Segmentation fault", "GetProcAddress {", "cuBLAS error ",
	"GGML_ASSERT", "driver shutting down",
}, statusPrefixes...)

// looksLikeError confirms such a line. rustc, cargo, clang and MSVC write
// "error" before a colon, at a line's beginning or behind a place.
var looksLikeError = lazyregexp.New(
	`(^|[\s:)\]])(fatal )?(error|ERROR)(\[E\d{4}\]| [A-Z]+\d+)?\s*: |^Error: |(^|thread '[^']*'( \(\d+\))? )panicked at( |$)|` +
		`^nvcc fatal\b|fatal error|undefined reference to |undefined symbol: |CMake Error (at|in|:)|CMake Error: |` +
		`^Traceback \(most recent|` +
		`\berror LNK\d{4}|\b(nvlink|ptxas|cicc|nvcc|fatbinary)(\.exe)? (error|fatal)\s*:|` +
		`^ptxas .*; (error|fatal)\s*:|relocation R_\w+|cannot open shared object file|` +
		`(cannot find|unable to find library) -l|[Ee]rror response from daemon|^Failed to initialize NVML|died due to signal|` +
		`CUDA error\b|could not find native static library|asked CMake to find a package configuration file|` +
		`libdevice not found at|entry point .* could not be located in |^dyld(\[\d+\])?: Library not loaded: |` +
		`terminate called after throwing an instance of |multiple definition of |\berror occurred: |[Ff]ailed to initialize CUDA\b|` +
		`\bg?make(\.exe)?(\[\d+\])?: \*\*\* |^Segmentation fault\b|GetProcAddress \{ source|\bcuBLAS error \d|` +
		`\bGGML_ASSERT(: |\(.*\) failed)|\bdriver shutting down\b`,
)

// innocent are lines that name a failure and report none: a test that passed or expects it, a retry that went well, the source of an error
// type, source that a compiler quotes or grep prints, and what instructions say.
var innocent = lazyregexp.New(
	`^ *\d+ +\| +[^# ]|^\s*(\S+:\d+:\s*)?// |` +
		`^\s*test .* \.\.\. ok\b|\((as )?expected\)|\bretrying after\b.*\b(done|ok|succeeded)\b|#\[error\(|` +
		`\b[Ii]f you (get|see|encounter|hit|run into)\b|\bError \d+ \(ignored\)|Compiler family detection failed|` +
		`^\s*(#{1,6}|[-*|>]) .*` + "`(CUDA_ERROR_|cudaError|CUBLAS_STATUS_|CUDNN_STATUS_)\\w+`",
)

var (
	logPrefix = lazyregexp.New(`^((#\d+ )?\d+\.\d+ |\d{4}-\d\d-\d\dT\S+ |\[\w[^\]]*\] )? *`) // of docker, GitHub, cargo -vv
	panicHead = lazyregexp.New(`panicked at( \S+:\d+:\d+:)?$`)
)

const (
	maxErrors = 3  // how many such lines are kept
	minWrap   = 40 // the least width at which a text is believed to have been wrapped
)

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
	last   byte   // the last byte of the text
	hits   []*hit // by rule; nil: no literal of it was seen
	errors []Place
	base   int    // bytes of the text before buf
	spent  int    // bytes that were looked at
	signs  int    // lines that were looked at for errors
	start  []byte // of the text, at most a block
	joined bool   // the text is one whose wrapped lines were joined
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
	looked int // lines that were
}

// NewWatcher answers a Watcher for a text that begins now.
func NewWatcher(rules *Rules) *Watcher {
	return &Watcher{rules: rules, hits: make([]*hit, len(rules.All))}
}

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
	w.start = append(w.start, text[:min(len(text), block-len(w.start))]...)
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
	a := w.answer()
	if a.Known() || len(w.start) == block || w.joined {
		return a
	}
	text, at := unwrap(w.start)
	if text == nil {
		return a
	}
	again := NewWatcher(w.rules)
	again.joined = true
	_, _ = again.Write(text)
	b := again.Answer()
	for i := range b.Found {
		b.Found[i].Line = at[b.Found[i].Line-1]
	}
	for i := range b.Errors {
		b.Errors[i].Line = at[b.Errors[i].Line-1]
	}
	if b.Known() {
		a.Found = b.Found
	}
	if b.Known() || len(a.Errors) == 0 {
		a.Errors = b.Errors
	}
	return a
}

func (w *Watcher) answer() Answer {
	a := Answer{Found: []Found{}, Errors: w.errors, Lines: w.lines, Bytes: w.bytes, Start: w.start}
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
	// A general rule adds nothing to a line that a special one explains.
	a.Found = slices.DeleteFunc(a.Found, func(f Found) bool {
		return f.Kind == Consequence && slices.ContainsFunc(a.Found, func(o Found) bool {
			return o.Kind == Cause && o.Line == f.Line && o.Count >= f.Count
		})
	})
	return a
}

// unwrap joins the lines of a paste that a terminal or a form broke at its width; at says where in whole, from 1, each line of text
// begins. nil: nothing was joined.
func unwrap(whole []byte) (text []byte, at []int) {
	lines := bytes.Split(bytes.ReplaceAll(whole, []byte("\r"), nil), []byte("\n"))
	for from, to := 0, 0; from < len(lines); from = to {
		for to++; to < len(lines) && len(lines[from]) > 0 && len(lines[to]) > 0; to++ {
		}
		end := "\n"
		for i, next := range lineEnds(lines[from:to]) {
			l := lines[from+i]
			switch end {
			case "\n":
				at = append(at, from+i+1)
			case " ":
				l = bytes.TrimSpace(l)
			}
			text, end = append(append(text, l...), next...), next
		}
	}
	if len(at) == len(lines) {
		return nil, nil
	}
	return text, at
}

// lineEnds answers what stands behind each line of a paragraph: nothing, where it and others have the greatest length; a space, where
// it had no room for the first word of the next one; else, and unless that is so at two places, the line's end.
func lineEnds(paragraph [][]byte) []string {
	longest, full, width, joined := minWrap, 0, minWrap, 0
	for _, l := range paragraph {
		n := utf8.RuneCount(l)
		if n > longest {
			longest, full = n, 0
		}
		if n == longest {
			full++
		}
		if len(bytes.Fields(l)) > 1 {
			width = max(width, n)
		}
	}
	end := " "
	if full > 1 {
		end, width = "", longest
	}
	ends := slices.Repeat([]string{"\n"}, len(paragraph))
	for i, l := range paragraph[:len(paragraph)-1] {
		n := utf8.RuneCount(l)
		word, _, _ := bytes.Cut(bytes.TrimSpace(paragraph[i+1]), []byte(" "))
		if n == width && end == "" || end == " " && n+1+utf8.RuneCount(word) > width {
			ends[i] = end
			joined++
		}
	}
	if joined < 2 {
		return slices.Repeat([]string{"\n"}, len(paragraph))
	}
	return ends
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
		if h != nil {
			h.seenTo = max(0, h.seenTo-keep)
		}
	}
	w.base += keep
	w.done = limit - keep
	w.buf = w.buf[:copy(w.buf, w.buf[keep:])]
}

// look asks a rule about the line around a place in buf.
func (w *Watcher) look(owner, at int) {
	if owner < 0 {
		if len(w.errors) < maxErrors && at >= w.errorsTo && w.affords(at, &w.signs, &w.errorsTo) {
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
	if at < h.seenTo || h.Count >= manyHit || !w.affords(at, &h.looked, &h.seenTo) {
		return
	}
	from, to := w.line(at)
	h.seenTo = to
	w.spent += to - from
	line := plain(w.buf[from:to])
	m := r.confirm.FindSubmatch(line)
	if m == nil || r.not != nil && r.not.Match(line) || innocent.Match(line) {
		return
	}
	if r.near != nil || r.notNear != nil {
		around := w.neighbours(from, to)
		w.spent += len(around)
		if r.near != nil && !r.near.Match(around) || r.notNear != nil && r.notNear.Match(around) {
			return
		}
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

// affords says whether a line may be looked at. looked is how many were for the same rule; seenTo moves where none may.
func (w *Watcher) affords(at int, looked, seenTo *int) bool {
	if *looked++; *looked > always && w.spent > spend+(w.base+at)/share {
		*seenTo = at + lineReach
		return false
	}
	return true
}

func (w *Watcher) lookAtError(from, to int) {
	w.errorsTo = to
	w.spent += to - from
	n := w.lineNumber(from)
	if len(w.errors) > 0 && w.errors[len(w.errors)-1].Line == n {
		return
	}
	line := w.buf[from:to]
	place := Place{Line: n, Text: words(line), Status: statusIn(line)}
	if (place.Status != nil || looksLikeError.Match(line)) && !innocent.Match(line) {
		w.addBody(&place, line, to)
		w.errors = append(w.errors, place)
	}
}

// addBody adds the lines that complete an error: what CMake indents below its heading, cargo's chain of causes, a panic's message.
func (w *Watcher) addBody(place *Place, head []byte, to int) {
	prefix := len(logPrefix.FindString(string(head)))
	head = bytes.TrimRight(head, " \r")
	panics, chain := panicHead.Match(head), bytes.HasPrefix(head[prefix:], []byte("error: "))
	if !panics && !chain && !bytes.HasPrefix(head[prefix:], []byte("CMake Error")) {
		return
	}
	rest := w.buf[to:min(len(w.buf), to+lineReach)]
	for n := 0; n < around && len(rest) > 1; n++ {
		line := rest[1:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		rest = rest[1+len(line):]
		line = bytes.TrimRight(line[min(len(line), prefix):], " \r")
		text := bytes.TrimSpace(line)
		switch {
		case len(text) == 0, chain && bytes.HasPrefix(text, []byte("note: ")):
			continue
		case string(text) == "Caused by:":
			chain = false
			continue
		case chain, len(text) == len(line) && !(panics && len(place.More) == 0), bytes.HasPrefix(text, []byte("--- ")):
			return
		}
		place.More = append(place.More, words(line))
		if place.Status == nil {
			place.Status = statusIn(line)
		}
		w.errorsTo = min(len(w.buf), to+lineReach) - len(rest)
	}
}

// line answers the bounds of the line at a place. A carriage return ends one, too: progress bars overwrite themselves with it.
func (w *Watcher) line(at int) (from, to int) {
	back, fore := max(0, at-lineReach), min(len(w.buf), at+lineReach)
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
