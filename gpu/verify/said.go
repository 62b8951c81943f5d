package verify

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"gpubuild/buildenv"
)

// fellBack finds the words in which programs say that they do without the GPU. It is data that ages: silence means nothing.
var fellBack = regexp.MustCompile(`(?i)(fall(s|ing)? ?back to (the )?cpu|fell back to (the )?cpu|cpu fallback|running on (the )?cpu|` +
	`using (the )?cpu|no usable gpu found|no gpu found|no cuda devices found, cuda will be disabled|gpu-layers option will be ignored|` +
	`offloaded 0/\d+ layers|registered successfully; may fall back to cpu)`)

// FellBack answers the first line in which a program says that it does without the GPU, shortened, or nothing.
func FellBack(output []byte) string {
	for len(output) > 0 {
		var line []byte
		if line, output, _ = bytes.Cut(output, []byte{'\n'}); fellBack.Match(line) {
			said := strings.TrimSpace(strings.ToValidUTF8(string(line), "?"))
			return said[:min(len(said), 160)]
		}
	}
	return ""
}

// heard is a program's output, read along where that changes nothing for it: a terminal is left alone, a file is read afterwards, and a
// pipe passes through us.
type heard struct {
	stdout, stderr io.Writer
	ears           []*ear
}

// ear is one stream.
type ear struct {
	said   string
	rest   []byte // of a line that has not ended
	file   *os.File
	before int64 // the file's size when the program began
}

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
	e := &ear{}
	if f, ok := to.(*os.File); ok {
		info, err := f.Stat()
		switch {
		case err != nil || info.Mode()&os.ModeCharDevice != 0:
			return to
		case info.Mode().IsRegular():
			e.file, e.before = f, info.Size()
			x.ears = append(x.ears, e)
			return to
		}
	}
	x.ears = append(x.ears, e)
	return io.MultiWriter(to, e)
}

// Write hears whole lines.
func (e *ear) Write(p []byte) (int, error) {
	if e.said == "" {
		e.rest = append(e.rest, p...)
		if end := bytes.LastIndexByte(e.rest, '\n'); end >= 0 || len(e.rest) > longestLine {
			e.said = FellBack(e.rest)
			e.rest = append(e.rest[:0], e.rest[end+1:]...)
			e.rest = e.rest[max(0, len(e.rest)-longestLine):]
		}
	}
	return len(p), nil
}

// fellBack answers what was heard.
func (x *heard) fellBack(h buildenv.Host) string {
	for _, e := range x.ears {
		if e.file != nil {
			name := e.file.Name()
			if h.OS == buildenv.Linux { // our handle may be for writing only
				name = fmt.Sprintf("/proc/self/fd/%d", e.file.Fd())
			}
			if f, err := os.Open(name); err == nil {
				_, _ = io.Copy(e, io.NewSectionReader(f, e.before, 1<<40)) // what cannot be read is not heard
				f.Close()
			}
		}
		if e.said == "" {
			e.said = FellBack(e.rest)
		}
		if e.said != "" {
			return e.said
		}
	}
	return ""
}
