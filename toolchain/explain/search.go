package explain

import (
	"bytes"
	"cmp"
	"errors"
	"index/suffixarray"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode"

	xunicode "golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"gpubuild/buildenv/lazyregexp"
)

const (
	keep        = 16 << 20 // how much of a text's end is read
	headSize    = 256      // how much is looked at to know the encoding of a text without a byte-order mark
	reach       = 8 << 10  // how far the lines around a line go at most, to each side
	around      = 12       // how many lines that are
	endLines    = 1000     // how many lines at the end may say that all went well
	retryLines  = 3        // how many lines below a failure say that it is tried again
	lineReach   = 2 << 10  // how far a line goes at most, to each side of the literal
	manyHit     = 1000     // where counting ends
	manyLooks   = 5000     // how many lines are matched with a rule's regular expression
	maxText     = 400      // letters of a line that are shown
	shortBroken = 40       // letters from which on a line may be one that was broken
	maxErrors   = 3        // how many lines are shown that look like errors
	looksErrors = 12       // how many are looked at: the first may say only that a part failed
)

// errorWords are in every line that looksLikeError matches or that names a status: most lines have none and need no regular expression.
var errorWords = bytes.Split([]byte("rror|err: |RROR|xception|FAILED|ailed|ailure|fatal|panicked|undefined|cannot |an't |ould not|unable|"+
	"Traceback|relocation|package config|not found|not loaded|died due|illed|borted|terminate called|multiple definition|*** |"+
	"egmentation|GetProcAddress|GGML_ASSERT|shutting down|_STATUS_|CUFFT_|possible adapter|line is too long|current GPU|"+
	"::unwrap()|suggested alternative|nccl"), []byte("|"))

// looksLikeError confirms such a line. rustc, cargo, clang and MSVC write "error" before a colon, at a line's beginning or behind a place.
var looksLikeError = lazyregexp.New(
	`(^|[\s:)\]])(fatal )?(error|ERROR)(\[E\d{4}\]| [A-Z]+\d+)?\s*: |^Error: |(^|thread '[^']*'( \(\d+\))? |\.js:\d+ )panicked at( |$)|` +
		`^nvcc fatal\b|fatal error|undefined reference to |undefined symbol: |CMake Error (at|in|:)|CMake Error: |` +
		`^Traceback \(most recent|^[\w.]*(Error|Exception)(_\w+)?: |^(\w+\.)+\w*Error\w*$|^FAILED: |` +
		`\b[Kk]illed( out of memory)?\s*$|\bfailed (with|\(exit)\b|\berror LNK\d{4}|` +
		`\b(nvlink|ptxas|cicc|nvcc|fatbinary)(\.exe)? (error|fatal)\s*:|` +
		`^ptxas .*; (error|fatal)\s*:|relocation R_\w+|cannot open shared object file|` +
		`(cannot find|unable to find library) -l|[Ee]rror response from daemon|^Failed to initialize NVML|died due to signal|` +
		`CUDA error\b|could not find native static library|asked CMake to find a package configuration file|` +
		`libdevice not found at|entry point .* could not be located in |^dyld(\[\d+\])?: Library not loaded: |` +
		`terminate called after throwing an instance of |multiple definition of |\berror occurred: |[Ff]ailed to initialize CUDA\b|` +
		`\bg?make(\.exe)?(\[\d+\])?: \*\*\* |(^|: )[Ss]egmentation fault\b|GetProcAddress \{ source|\bcuBLAS error \d|` +
		`\bGGML_ASSERT(: |\(.*\) failed)|\bdriver shutting down\b|\berror C\d{4}\b|\b(Failed to|[Cc]ould not) (load|locate)\b|` +
		"called `(Result|Option)::unwrap\\(\\)` on an? `|" + `No possible adapter|The input line is too long|` +
		`compiled without support for the current GPU|has no device code compatible|: note: suggested alternative`,
)

// A program reports a failure in its own words, and at its end: failureWords are looked for in the last lines where no line looks like an
// error and nothing says that all went well; crashWords also where another line says so, as cargo does before the program starts.
const (
	crashWords   = `died|crash(es|ed)|panicked|access.violation|sig(abrt|segv|ill|bus|kill)|core dumped|what\(\):|this is a bug`
	failureWords = crashWords + `|error|fail(ed|ure)?|fatal|cannot|can't|could not|not found|unable|aborted|` +
		`too many|(exceed(s|ed|ing)?|over|beyond|above)\b.*\b(limit|max(imum)?)|limit\b.*\bexceeded|out of (memory|range|bounds)|` +
		`exit(ed)? (with )?((status )?code|status):? [1-9]\d*`
)

var (
	speaksOfFailure = lazyregexp.New(`(?i)(^|[^-\w])(` + failureWords + `)($|\W)`)
	speaksOfCrash   = lazyregexp.New(`(?i)(^|[^-\w])(` + crashWords + `)($|\W)`)
	speaksOfLack    = lazyregexp.New(`(?i)\b(disabled|unavailable|missing|unsupported|incompatible|mismatch\w*|denied|refused|invalid|` +
		`rejected|no (matching|such|valid|suitable)|not (available|supported|installed|enabled|compatible|detected))\b|[❌✗✘]`)
	windowsPath = lazyregexp.New(`\b[A-Z]:\\+\w|\\[\w.-]+\.(rs|exe|dll|cu|lib)\b|-INCLUDE:\?`) // the last is libtorch's own words there
	describes   = lazyregexp.New(`^\s*--?[A-Za-z]|^\s{12}|\bby default\b`)                     // of a help text
	couldNot    = lazyregexp.New(`\b(Failed to|[Cc]ould not) (load|locate)\b`)                 // which a line that informs may say of what is optional
	informs     = lazyregexp.New(`^(\S+ +){0,3}\[?(INFO|DEBUG|TRACE)\b|^-- (Looking for|Performing Test|Check\w*|Could NOT find) `)

	// built is printed before a program starts; a summary, or the end of a line, is believed about the lines above it.
	built   = lazyregexp.New("Finished `|(?m:^-- Configuring done|^\\[100%)")
	summary = lazyregexp.New(`(?i)\btest result: ok\b|\b(\d+|all|100% tests) (\w+ )?(ok|passed)\b|\b0 (failed|failures|errors?)\b|` +
		`\[  PASSED  \]|(^|[^\w-])(ok|passed|succeeded|success(fully)?|ready)\W*$|\b([Ll]istening|[Ss]erving) (on|at) \S+:\d+\b|^\[\d\d:\d\d:[\d.]+ --> |\bexit(ed)?\b.* (code|status):? 0\b`)
	noSummary = lazyregexp.New(`(?i)\b(not|never|no|without) (\w+ )?(ok|passed|succe\w+|ready)`)
	completed = lazyregexp.New(`(?i)\b(done|finished|completed?)(\W*$|, )`) // with a retry above it
	retries   = lazyregexp.New(`(?i)\bretr(y|ies|ied|ying)\b|\btrying (again|with|batch|an?|half|\d+)\b|` +
		`\btries (left|remaining)\b|\b(reduc|halv|lower)(ed|ing) (the )?(batch|context|tile)|(?m:\bfailed: .*\D (skipped|ignored)\W*$)`)

	// Where all tests of a run passed (the first group), what they printed is no failure: libtest, nextest, GoogleTest, CTest, pytest.
	testWords = bytes.Split([]byte("unning |Starting |Test project|test session|Finished `|passed|PASSED|FAILED"), []byte("|"))
	testRun   = lazyregexp.New(`(\btest result: ok\.|` +
		`\bSummary \[[^\]]*\] +\d+ tests? run: \d+ passed( \([^)]*\))?(, \d+ skipped)?\s*$|` +
		`\[  PASSED  \] \d+ tests?\.|\b100% tests passed, 0 tests failed\b|` +
		`=+ \d+ passed(, \d+ (skipped|deselected|warnings?|x\w+))* in \d)|` +
		"\\bFAILED\\b|\\b[Rr]unning \\d+ tests? *(from |$)|\\bStarting \\d+ tests? |Test project |test session starts|Finished `")
)

// innocent are lines that name a failure and report none: a test that passed or expects it, a retry that went well, the source of an error
// type, source that a compiler quotes or grep prints, and what instructions say.
var innocent = lazyregexp.New(
	`^ *\d+ +\| +[^# ]|^\s*(\S+:\d+:\s*)?// |` +
		`^\s*test .* \.\.\. ok\b|\((as )?expected\)|\bretrying after\b.*\b(done|ok|succeeded)\b|` +
		`(?i:^\W*warn(ing)?\b.*\bretrying\b)|#\[error\(|` +
		`\b[Ii]f you (get|see|encounter|hit|run into)\b|\bError \d+ \(ignored\)|Compiler family detection failed|\bfailed to mlock\b|` +
		`(?i:^[\w ()/-]*(fail\w*|errors?)\b[\w ()/-]*[:\s]\s*0\s*$)|` + // a count
		`^\s*(#{1,6}|[-*|>]) .*` + "`(CUDA_ERROR_|cudaError|CUBLAS_STATUS_|CUDNN_STATUS_)\\w+`",
)

// warning begins what a compiler or a build script warns of, and its notes.
var warning = lazyregexp.New(`^((#\d+ )?\d+\.\d+ |\d{4}-\d\d-\d\dT\S+ )? *(\S+: )?warning: |^ +(= (note|help): |--> |::: |\| )`)

var (
	logPrefix = lazyregexp.New(`^((#\d+ )?\d+\.\d+ |\d{4}-\d\d-\d\dT\S+ |\[\w[^\]]*\] )? *`) // of docker, GitHub, cargo -vv
	rustError = lazyregexp.New(`^error(: |\[E)`)
	panicHead = lazyregexp.New(`panicked at( \S+:\d+:\d+:)?$`)
)

// Tail is the end of a text, at most 16 MiB of it. Writes may come from several goroutines.
type Tail struct {
	mu    sync.Mutex
	head  []byte // the first bytes of the text, which show its encoding
	text  []byte
	bytes int64 // of the whole text
	lines int   // line ends before text
}

// Write takes the next part of the text. It never fails: what looks at a build must not stop it.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head = append(t.head, p[:min(len(p), headSize-len(t.head))]...)
	t.bytes += int64(len(p))
	t.text = append(t.text, p...)
	if len(t.text) > keep+keep/4 {
		t.cut()
	}
	return len(p), nil
}

// cut drops what is too much, in steps of the two bytes of a UTF-16 letter.
func (t *Tail) cut() {
	extra := max(0, len(t.text)-keep)
	extra += extra & 1
	t.lines += bytes.Count(t.text[:extra], []byte{'\n'})
	t.text = t.text[:copy(t.text, t.text[extra:])]
}

// Text is the text so far.
func (t *Tail) Text() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut()
	return decode(t.head, t.text)
}

// Match says what is known of the text so far.
func (t *Tail) Match(rules *Rules) Match {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut()
	text := decode(t.head, t.text)
	a := rules.search(text, t.lines)
	a.Bytes = t.bytes
	return a
}

// ErrBinary is of what is no text.
var ErrBinary = errors.New("it is a program, an archive or another binary, not a text")

// Read reads a whole text; with a reader's error comes what is known of the text until then.
func Read(rules *Rules, r io.Reader) (Match, error) {
	t := &Tail{}
	_, err := io.Copy(t, r)
	_, wide := utf16Order(t.head)
	if !wide && bytes.Count(t.head, []byte{0}) > len(t.head)/10 || bytes.HasPrefix(t.head, []byte("\x1f\x8b")) ||
		bytes.HasPrefix(t.head, []byte("PK\x03\x04")) { // gzip, zip
		return Match{}, ErrBinary
	}
	return t.Match(rules), err
}

// escapes are the sequences that a terminal gets (ECMA-48); none goes on in another line.
var escapes = lazyregexp.New(`\x1b(\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\n]*(\x07|\x1b\\)?|[ -/]*[0-~]?)`)

// decode makes plain UTF-8 of a text, whatever wrote it: PowerShell's > writes UTF-16.
func decode(head, text []byte) []byte {
	if order, wide := utf16Order(head); wide {
		// Into memory; what is no letter becomes U+FFFD.
		text, _, _ = transform.Bytes(xunicode.UTF16(order, xunicode.IgnoreBOM).NewDecoder(), text)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.IndexByte(text, 0x1b) < 0 {
		return text
	}
	return escapes.ReplaceAll(text, nil)
}

// utf16Order knows UTF-16 by its mark, or by its zero bytes: in a log most letters are ASCII.
func utf16Order(head []byte) (order xunicode.Endianness, wide bool) {
	var zeros [2]int
	for i, b := range head {
		if b == 0 {
			zeros[i%2]++
		}
	}
	most := len(head) / 2 * 3 / 4
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), zeros[1] > most && zeros[0] == 0 && len(head) > 3:
		return xunicode.LittleEndian, true
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}), zeros[0] > most && zeros[1] == 0 && len(head) > 3:
		return xunicode.BigEndian, true
	}
	return xunicode.LittleEndian, false
}

// text is a text and its lines.
type text struct {
	all      []byte
	lines    []line
	passed   []bool                // by line: whether it is of a test run that passed
	wentWell func() int            // the last line that shows so with nothing failed below it, or -1
	excused  func() (from, to int) // the lines of a build that cargo finished, with no error among them or below
}

type line struct{ from, to, number int }

// split finds the lines; before is the number of those that came earlier. A carriage return ends one, too: progress bars overwrite
// themselves with it.
func split(all []byte, before int) text {
	t := text{all: all}
	t.wentWell = sync.OnceValue(func() int {
		at := t.last(func(l []byte) bool { return sums(l) || built.Match(l) || completed.Match(l) })
		below := t // what fails there is excused by nothing
		below.wentWell, below.excused = func() int { return -1 }, nothing
		if at >= 0 && len(below.errors(looksLikeError, at+1))+len(below.errors(speaksOfCrash, at+1)) > 0 {
			return -1
		}
		return at
	})
	t.excused = sync.OnceValues(func() (from, to int) {
		to = t.last(func(l []byte) bool { return bytes.Contains(l, []byte("Finished `")) })
		all := t
		all.wentWell, all.excused = func() int { return -1 }, nothing
		if to < 0 || len(all.errors(looksLikeError, to+1))+len(all.errors(speaksOfCrash, to+1)) > 0 {
			return nothing()
		}
		for from = to; from > 0; from-- {
			if all.lines = t.lines[:from]; !warning.Match(t.start(from-1)) && len(all.errors(looksLikeError, from-1)) > 0 {
				break
			}
		}
		return from, to
	})
	for from, number := 0, before+1; from < len(all); {
		l := line{from, len(all), number}
		if n := bytes.IndexAny(all[from:], "\r\n"); n >= 0 {
			l.to = from + n
		}
		t.lines = append(t.lines, l)
		from = l.to
		if from < len(all) && all[from] == '\r' {
			from++
		}
		if from < len(all) && all[from] == '\n' && (from == l.to || all[from-1] == '\r') {
			from++
			number++
		}
	}
	t.passed = make([]bool, len(t.lines))
	for run, i := 0, 0; i < len(t.lines); i++ { // run is where the tests begin that are summed up next
		if l := t.start(i); hasAny(l, testWords) && testRun.Match(l) {
			for all := testRun.FindSubmatch(l)[1] != nil; run < i; run++ {
				t.passed[run] = all
			}
			run = i + 1
		}
	}
	return t
}

func nothing() (from, to int) { return 0, 0 }

// warned reports whether a line is a warning of a build that went well.
func (t text) warned(i int) bool {
	if !warning.Match(t.start(i)) {
		return false
	}
	from, to := t.excused()
	return from <= i && i < to
}

// of is the text of a line.
func (t text) of(l line) []byte { return t.all[l.from:l.to] }

// at returns which line a place is in.
func (t text) at(place int) int {
	return sort.Search(len(t.lines), func(i int) bool { return t.lines[i].from > place }) - 1
}

// last is the last line that is so, of those at the end, or -1.
func (t text) last(is func([]byte) bool) int {
	for i := len(t.lines) - 1; i >= max(0, len(t.lines)-endLines); i-- {
		if is(t.start(i)) {
			return i
		}
	}
	return -1
}

// start is as much of a line as is looked at.
func (t text) start(i int) []byte {
	return t.all[t.lines[i].from:min(t.lines[i].to, t.lines[i].from+2*lineReach)]
}

// sums reports whether a line says at its end, or as a summary, that something went well.
func sums(line []byte) bool { return summary.Match(line) && !noSummary.Match(line) }

// recovered reports whether what failed in a line was tried again, and the text ends well, or was printed by tests that passed.
func (t text) recovered(i int) bool {
	next := t.lines[min(len(t.lines)-1, i+retryLines)]
	return t.passed[i] || next.to-t.lines[i].from < reach && retries.Match(t.all[t.lines[i].from:next.to]) && t.wentWell() > i
}

// near is the text of a line and of those around it.
func (t text) near(i int) []byte {
	from := max(t.lines[max(0, i-around)].from, t.lines[i].from-reach)
	to := min(t.lines[min(len(t.lines)-1, i+around)].to, t.lines[i].to+reach)
	return plain(t.all[from:to])
}

// unwrapped is a line and the next as one, where it goes on there as a terminal or a mail program breaks it; else nil.
func (t text) unwrapped(i int) []byte {
	if i < 0 || i+1 >= len(t.lines) || t.lines[i+1].to-t.lines[i].from > lineReach {
		return nil
	}
	first, next := bytes.TrimRight(t.of(t.lines[i]), " "), bytes.TrimLeft(t.of(t.lines[i+1]), " ")
	if len(first) < shortBroken || len(next) == 0 || next[0] < 'a' || next[0] > 'z' || bytes.ContainsAny(first[len(first)-1:], ".;!?`})") {
		return nil
	}
	return plain(bytes.Join([][]byte{first, next}, []byte(" ")))
}

// search asks every rule about the lines that hold one of its literals.
func (rs *Rules) search(all []byte, before int) Match {
	t := split(all, before)
	a := Match{Found: []Found{}, Errors: t.errors(looksLikeError, 0), Lines: before}
	if len(t.lines) > 0 {
		a.Lines = t.lines[len(t.lines)-1].number
	}
	if len(a.Errors) == 0 {
		like, end := speaksOfFailure, max(0, len(t.lines)-around)
		good, sum := built.Match(all), t.last(sums)
		if good = good || sum >= 0 && len(t.errors(like, max(end, sum+1))) == 0; good {
			like = speaksOfCrash
		}
		a.Errors = t.errors(like, end)
		a.Succeeded = len(a.Errors) == 0 && (good || len(t.lines) == 0 || t.harmless())
	}
	if len(a.Errors) == 0 && !a.Succeeded {
		a.Errors = t.errors(speaksOfLack, 0)
	}
	for i := range a.Errors {
		rs.attribute(&a.Errors[i])
	}
	if why := slices.IndexFunc(a.Errors, func(p Place) bool { return !p.part }); why > 0 {
		a.Errors = a.Errors[why:]
	}
	a.Errors = a.Errors[:min(len(a.Errors), maxErrors)]
	asked := t
	if named := driverNames(all); !bytes.Equal(named, all) {
		asked = split(named, before)
	}
	index := suffixarray.New(asked.all)
	for _, r := range rs.All { // in the table's order, so that equal places have a fixed order
		var places []int
		for _, literal := range r.On {
			places = append(places, index.Lookup([]byte(literal), -1)...)
		}
		if f, ok := r.in(asked, t, places); ok {
			a.Found = append(a.Found, f)
		}
	}
	sortFound(a.Found)
	// A general rule adds nothing where a special one knows the failure, or to a line that a special one explains.
	known := len(a.Found) > 0 && a.Found[0].Kind.order() < General.order()
	windows := windowsPath.Match(all)
	for i := range a.Found {
		a.Found[i].onWindows = windows
	}
	own := 0 // the line of gpubuild's own finding, which no other rule explains
	if i := slices.IndexFunc(a.Found, func(f Found) bool { return f.ID == "gpubuild-finding" }); i >= 0 {
		own = a.Found[i].Line
	}
	a.Found = slices.DeleteFunc(a.Found, func(f Found) bool {
		return f.Kind == General && known || f.Line == own && f.ID != "gpubuild-finding" || f.Kind == Consequence && slices.ContainsFunc(a.Found, func(o Found) bool {
			return o.Kind == Cause && o.Line == f.Line && o.Count >= f.Count
		})
	})
	return a
}

// attribute says of an error line who says it.
func (rs *Rules) attribute(p *Place) {
	text := strings.Join(append([]string{p.Text}, p.More...), "\n")
	for _, s := range rs.speakers {
		if m := s.Says.FindStringSubmatchIndex(text); m != nil {
			fill := func(template string) string {
				return strings.Join(strings.Fields(string(s.Says.ExpandString(nil, template, text, m))), " ")
			}
			p.own, p.part, p.Said, p.Next, p.Cause = s.Own, s.Part, fill(s.Is), fill(s.Next), fill(s.Cause)
			if strings.HasSuffix(p.Cause, ":") { // the log ends before the words
				p.Cause = ""
			}
			return
		}
	}
}

// in finds a rule in a text: its literals are at the places; shown has the same lines as they were written.
func (r *Rule) in(t, shown text, places []int) (Found, bool) {
	slices.Sort(places)
	f := Found{Rule: r}
	seenTo := -1 // the end of the last line that was looked at
	for looks := 0; len(places) > 0 && looks < manyLooks && f.Count < manyHit; places = places[1:] {
		if places[0] < seenTo {
			continue
		}
		looks++
		i := t.at(places[0])
		l := t.lines[i]
		l.from, l.to = max(l.from, places[0]-lineReach), min(l.to, places[0]+lineReach)
		seenTo = l.to
		text := plain(t.of(l))
		m := r.Confirm.FindSubmatch(text)
		for first := i - 1; m == nil && first <= i; first++ {
			if text = t.unwrapped(first); text != nil {
				m = r.Confirm.FindSubmatch(text)
			}
		}
		if m == nil || r.Not != nil && r.Not.Match(text) || innocent.Match(text) || t.recovered(i) || r.Stage != "silent-cpu" && r.Kind != Note && t.warned(i) ||
			r.Near != nil && !r.Near.Match(t.near(i)) || r.NotNear != nil && r.NotNear.Match(t.near(i)) {
			continue
		}
		owned := r.owned(m)
		if r.Of != "" && owned == nil {
			continue
		}
		if f.Count++; f.Count > 1 {
			continue
		}
		f.Line, f.Text = l.number, words(text)
		if as := shown.lines[i]; as.to-as.from <= lineReach {
			f.Text = words(plain(shown.of(as)))
		}
		for i, name := range r.Confirm.SubexpNames() {
			if name != "" && len(m[i]) > 0 {
				if f.Values == nil {
					f.Values = map[string]string{}
				}
				f.Values[name] = words(m[i])
			}
		}
		maps.Copy(f.Values, owned)
	}
	return f, f.Count > 0
}

// owned says whose the thing is that a line names, in the first group of confirm that matched and whose name begins so; nil: nobody's.
func (r *Rule) owned(groups [][]byte) map[string]string {
	for i, group := range r.Confirm.SubexpNames() {
		for _, o := range r.owners {
			if name := o.Names[r.Of]; name != nil && strings.HasPrefix(group, "thing") && len(groups[i]) > 0 && name.Match(groups[i]) {
				thing := words(groups[i])
				get := strings.ReplaceAll(o.Get, "{thing}", cmp.Or(forShell(thing), "THING"))
				return map[string]string{"thing": thing, "is": o.Is, "get": get}
			}
		}
	}
	return nil
}

func hasAny(line []byte, words [][]byte) bool {
	return slices.ContainsFunc(words, func(w []byte) bool { return bytes.Contains(line, w) })
}

// harmless reports whether a line names a failure and reports none.
func (t text) harmless() bool {
	for i := range t.lines {
		if l := t.start(i); hasAny(l, errorWords) && (innocent.Match(l) || t.recovered(i) || t.warned(i)) {
			return true
		}
	}
	return false
}

// errors are the first lines, from one on, that look like errors, with the lines that complete each.
func (t text) errors(like *lazyregexp.Regexp, from int) []Place {
	out := []Place{}
	for i := from; i < len(t.lines) && len(out) < looksErrors; i++ {
		line := t.start(i)
		if like == looksLikeError && !hasAny(line, errorWords) {
			continue
		}
		place := Place{Line: t.lines[i].number, Text: words(line), Status: statusIn(line)}
		if place.Status == nil && !like.Match(line) || innocent.Match(line) || like == speaksOfCrash && sums(line) ||
			like == speaksOfLack && describes.Match(line) || (like != looksLikeError || couldNot.Match(line)) && informs.Match(line) || t.recovered(i) || t.warned(i) {
			continue
		}
		i += t.addBody(&place, i)
		out = append(out, place)
	}
	return out
}

// addBody adds the lines that complete an error: what CMake indents below its heading, cargo's chain of causes, a panic's message, the hint
// behind a blank line that gpubuild ends an error with. It returns how many lines these are.
func (t text) addBody(place *Place, at int) (used int) {
	head := t.of(t.lines[at])
	prefix := len(logPrefix.FindString(string(head)))
	head = bytes.TrimRight(head, " \r")
	panics, chain := panicHead.Match(head), rustError.Match(head[min(len(head), prefix):])
	if !panics && !chain && !bytes.HasPrefix(head[min(len(head), prefix):], []byte("CMake Error")) {
		return 0
	}
	blank := false
	for n := 1; n <= around && at+n < len(t.lines); n++ {
		line := t.of(t.lines[at+n])
		if strings.TrimSpace(logPrefix.FindString(string(line))) != "" || len(bytes.TrimSpace(head[:min(len(head), prefix)])) == 0 {
			line = line[min(len(line), prefix):] // else this line has none of the log's prefix
		}
		line = bytes.TrimRight(line, " \r")
		text, behind := bytes.TrimSpace(line), blank
		blank = len(text) == 0
		switch {
		case blank, chain && bytes.HasPrefix(text, []byte("note: ")):
			continue
		case chain && behind && bytes.HasPrefix(line, []byte("hint: ")):
			place.More = append(place.More, words(line))
			return n
		case chain && bytes.HasPrefix(text, []byte("--> ")): // rustc's place
			place.More = append(place.More, words(line))
			return n
		case string(text) == "Caused by:":
			chain = false
			continue
		case chain && !behind && len(text) < len(line): // of an error of several lines
			continue
		case chain, len(text) == len(line) && !(panics && len(place.More) == 0), bytes.HasPrefix(text, []byte("--- ")):
			return used
		}
		place.More = append(place.More, words(line))
		if place.Status == nil {
			place.Status = statusIn(line)
		}
		used = n
	}
	return used
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
