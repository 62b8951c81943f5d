package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
)

// The words in which programs say that they do without the GPU. They are data that ages: silence means nothing. testdata/fallback has
// the lines that they were made for.
var (
	// What a terminal does not show: colours, links, titles. Source: ECMA-48, 5.4 and 8.3.89.
	unshown = lazyregexp.New(
		`\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[@-Z\\-_]|\x08`)
	// The program does something on the CPU, or has a fallback: what stands before and behind it can turn that round.
	onCPU = lazyregexp.New(`\b(fall(s|ing)?|fell|fallback|revert(s|ed|ing)?|switch(es|ed|ing)?|default(s|ed|ing)?|us(e|es|ing)|` +
		`(re)?run(s|ning)?|ran|execut(e|es|ed|ing)|encoded|continu(e|es|ing)|proceed(s|ing)?|train(s|ing)?|comput(e|es|ed|ing)|inference|` +
		`begin|resort(s|ing|ed)?|retry(ing)?|calculat(ed|ing)|process(ed|ing)|multipl(ied|ying)|perform(ed|ing)|done|select(ed|ing)|` +
		`ch(ose|oosing)|tak(es|ing|en))( (back|only|entirely|it|this|them|everything))*( (to|on|with|in|onto|by))?` +
		`( (the|a|\(?(very )?slow(er)?\)?|host))* ["'\x60]?cpu\b|` +
		`\bcpu[ -]fallback\b|\bcpu (path )?(is|was|will be) (used|taken)\b|\bcpu path taken\b|` +
		`\b(fall(s|ing)?|fell|fallback|revert(s|ed|ing)?) ?(back )?to (the )?` +
		`(host( (implementation|path|code|execution|processor))?\W*$|non gpu\b)|` +
		`(fail(s|ed|ure)?|unavailable|error|\d\)) *(->|=>|→) *cpu\b`)
	// Of these verbs the CPU may be the object of a comparison: only the others say by themselves that it is in the GPU's place.
	plainVerb = lazyregexp.New(`^(us|run|ran|execut|comput|calculat|multipl|perform|process|done|cpu)`)
	comparing = lazyregexp.New(`\b(reference|expected|verif\w*|checked|compar\w*|against|baseline|speed ?up|golden|` +
		`max(imum)? (abs\w* )?(err|diff)\w*|match(es|ed)?|versus|vs)\b`)
	joined = lazyregexp.New(`([a-z])[-_=]([a-z])`) // falling-back, fallback_to=cpu
	turned = lazyregexp.New(`(\b(no|not|never|without|rather than|avoid(s|ing)?|refus(e|es|ing)|can|could|should|must|or|to)|` +
		`n't|--)( (a|any|the|be|silent(ly)?))* ?$`)
	forced   = lazyregexp.New(`\b(had|has|have|forced|going|needs?|needed|about) to $`) // to use the CPU
	partOnly = lazyregexp.New(
		`^[ _-](threads?|cores?|time|usage|count|affinity|mask|map|memory|features|sampler|reference|accessible|` +
			`for (token|pre|post|decod|load|sampl|data|io))|^[^.;,]* (if|unless|when)\b|^[ :=]+(disabled|off|false|none|no|0)\b`)
	inPart = lazyregexp.New(`\b(buffer type|buft|sampling|tokenizer)\b`) // of one tensor, of another step
	named  = lazyregexp.New(`cpu-only mode|cuda will be disabled|gpu-layers option will be ignored|offloaded 0/\d+ layers|` +
		`(^|[\]:>|] *|\b(using|selected|compute|inference|default|info) )(device|backend)[ :=]+["'\x60]?cpu["'\x60]?[.!]?\s*$`)
	// The same as a value among others: JSON, logfmt, Rust's Debug. Not in a line about both.
	asValue = lazyregexp.New(`(^|[\s{,(\[])["']?(selected_|compute_)?(device|backend|ran_on|executed_on|accelerator)["']?` +
		`( ?[:=] ?|::)["']?cpu["']?([\s,})\]]|$)|\busing \W*cpuexecutionprovider\b|\bproviders?\W+cpuexecutionprovider\W*$`)
	otherToo = lazyregexp.New(`\b(cuda|gpu)(\b|:|_)`)
	oneOnly  = lazyregexp.New(`\b(integrated|discrete|virtual|second|other|additional|on) $`) // kind of device; an operation on it
	// There is no GPU for it. One that then fails says so, too.
	noGPU = lazyregexp.New(
		`\bno ((usable|available|compatible|suitable|supported|nvidia|gpu|cuda([ -](capable|compatible|enabled))?) )*` +
			`(gpus?|cuda|accelerators?)( (execution|devices?|providers?|backends?|support))*( (was|were|is|are))?` +
			` (found|detected|available|visible)|` +
			`\b(cuda|gpu)( (devices?|acceleration|support|backend|runtime|driver|feature|execution|initiali[sz]ation))*` +
			`( is| was|s? are| *[:—-])* ?(not (available|found|detected|supported|enabled|usable)|unavailable|disabled|failed)\b|` +
			`\b(could not|cannot|can't|unable to|failed to) (find|use|initiali[sz]e|init|detect|open)( (an?|the|any|available))*` +
			` (gpu|cuda)( (devices?|context|backend|driver|runtime))?(\W*$|[^\w ]| on\b)|` +
			`(compiled|built|run|runs|running) without (the |support for )?['"\x60]?(cuda|gpu)\b|` +
			`\bnot (compiled|built) with (the )?['"\x60]?(cuda|gpu)\b|\b(cuda|gpu) support (is )?not (compiled|built)|` +
			`\b(gpu|cuda) (is |was )?not (being )?used\b|` +
			`(^|[\].:;,>—] *)no (gpu|cuda)( (device|here|on this (machine|host|system)))?\s*([.,;!—]|$)|` +
			`\bcuda_?error_?no_?device\b|\bcuda driver version is insufficient\b|` +
			`(^|[\s{,(\[])["']?(use_|has_)?(cuda|gpu)([_ ](is_)?(available|enabled|used|present|support|acceleration))?["']?` +
			` ?[:=] ?["']?(false|no|off|none|unavailable|disabled)\b`,
	)
)

// FellBack answers the first line in which a program says that it goes on without the GPU, shortened, or nothing.
func FellBack(output []byte) string { return firstLine(output, goesOn) }

// conflicting answers the first line that does not go with a kernel of the program's: it goes on without the GPU, or there is none.
func conflicting(output []byte) string {
	return firstLine(output, func(line string) bool { return goesOn(line) || lacksGPU(line) })
}

func firstLine(output []byte, says func(lower string) bool) string {
	if bytes.IndexByte(output, 0) >= 0 { // UTF-16, as far as it is ASCII
		output = bytes.ReplaceAll(output, []byte{0}, nil)
	}
	for len(output) > 0 {
		var line []byte
		line, output, _ = bytes.Cut(output, []byte{'\n'})
		if lower := bytes.ToLower(line); !bytes.Contains(lower, []byte("cpu")) && !bytes.Contains(lower, []byte("gpu")) &&
			!bytes.Contains(lower, []byte("cuda")) && !bytes.Contains(lower, []byte("accel")) && !bytes.Contains(lower, []byte("back")) &&
			!bytes.Contains(line, []byte{0x1b}) {
			continue
		}
		said := strings.TrimSpace(strings.ToValidUTF8(string(unshown.ReplaceAll(line, nil)), "?"))
		if says(strings.ToLower(said)) {
			return said[:min(len(said), 160)]
		}
	}
	return ""
}

func lacksGPU(line string) bool {
	m := noGPU.FindStringIndex(line)
	return m != nil && !oneOnly.MatchString(line[:m[0]])
}

func goesOn(line string) bool {
	if inPart.MatchString(line) {
		return false
	}
	if asValue.MatchString(line) && !otherToo.MatchString(line) && !comparing.MatchString(line) {
		return true
	}
	line = joined.ReplaceAllString(line, "$1 $2")
	for _, m := range onCPU.FindAllStringIndex(line, -1) {
		before, behind := line[:m[0]], line[m[1]:]
		if plainVerb.MatchString(line[m[0]:]) && comparing.MatchString(line) {
			continue
		}
		if (!turned.MatchString(before) || forced.MatchString(before)) && !partOnly.MatchString(behind) {
			return true
		}
	}
	return named.MatchString(line)
}

// heard is a program's output, read along where that changes nothing for it: a file is read afterwards, a pipe passes through us, and in
// place of a terminal the program gets another one that passes on what it writes.
type heard struct {
	stdout, stderr io.Writer
	ears           []*ear
}

// ear is one stream.
type ear struct {
	to       io.Writer // where it is passed on
	lost     error     // why not all of it could be
	said     string
	rest     []byte // of a line that has not ended
	file     *os.File
	before   int64     // the file's size when the program began
	terminal *terminal // what the program has in place of a terminal
}

var errNoTerminal = errors.New("no terminal")

const longestLine = 64 << 10

func hear(stdout, stderr io.Writer) *heard {
	x := &heard{}
	x.stderr = x.listen(stderr)
	if x.stdout = x.stderr; !sameWriter(stdout, stderr) {
		x.stdout = x.listen(stdout)
	}
	return x
}

func sameWriter(a, b io.Writer) bool {
	f, ok1 := a.(*os.File)
	g, ok2 := b.(*os.File)
	if !ok1 || !ok2 {
		return a == b
	}
	one, err1 := f.Stat()
	other, err2 := g.Stat()
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}

func (x *heard) listen(to io.Writer) io.Writer {
	if to == nil {
		return nil
	}
	e := &ear{to: to}
	x.ears = append(x.ears, e)
	if f, ok := to.(*os.File); ok {
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() {
			e.file, e.before = f, info.Size()
			return to
		}
		switch e.terminal, err = relay(f, e); {
		case err == nil:
			return e.terminal.Program
		case !errors.Is(err, errNoTerminal):
			return to // one that cannot be doubled is left alone
		}
	}
	return e
}

// Write passes on what the program writes, and hears it.
func (e *ear) Write(p []byte) (int, error) {
	if n, err := e.to.Write(p); err != nil {
		e.lost = err
		return n, err // the program's next write fails, too
	}
	return e.hear(p)
}

// lost is why not all that the program wrote could be passed on. Who closes the other end of a pipe wants no more.
func (x *heard) lost() error {
	for _, e := range x.ears {
		if e.lost != nil && !errors.Is(e.lost, syscall.EPIPE) {
			return exit.Errorf(0, "make room there, or send its output elsewhere: nothing is said of a run that this ended",
				"the program's output cannot be passed on: %w", e.lost)
		}
	}
	return nil
}

// hear reads whole lines.
func (e *ear) hear(p []byte) (int, error) {
	if e.said == "" {
		e.rest = append(e.rest, p...)
		if end := bytes.LastIndexByte(e.rest, '\n'); end >= 0 || len(e.rest) > longestLine {
			e.said = conflicting(e.rest)
			e.rest = append(e.rest[:0], e.rest[end+1:]...)
			e.rest = e.rest[max(0, len(e.rest)-longestLine):]
		}
	}
	return len(p), nil
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// end waits for what the program has written to be passed on.
func (x *heard) end() {
	for _, e := range x.ears {
		if e.terminal != nil {
			e.terminal.close()
		}
	}
}

// fellBack answers what was heard when the program has ended.
func (x *heard) fellBack(h buildenv.Host) string {
	for _, e := range x.ears {
		if e.file != nil {
			name := e.file.Name()
			if h.OS == buildenv.Linux { // our handle may be for writing only
				name = fmt.Sprintf("/proc/self/fd/%d", e.file.Fd())
			}
			if f, err := os.Open(name); err == nil {
				_, _ = io.Copy(writer(e.hear), io.NewSectionReader(f, e.before, 1<<40)) // what cannot be read is not heard
				f.Close()
			}
		}
		if e.said == "" {
			e.said = conflicting(e.rest)
		}
		if e.said != "" {
			return e.said
		}
	}
	return ""
}
