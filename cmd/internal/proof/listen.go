package proof

import (
	"errors"
	"fmt"
	"io"
	"os"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// Listener reads what a program writes, where that changes nothing for the program. A terminal is left alone: the program may draw on it
// and read from it. A file is read afterwards, from where it ended before. Through a pipe, which CI has, what the program writes passes
// through gpubuild; where stdout is the same pipe both do, in one, so that their order stays; what the program leaves running can no longer
// write to it when gpubuild has ended. /dev/null and the like are not read. stdout is read only of tests, which complain there: elsewhere
// it is the program's result.
type Listener struct {
	Stdout, Stderr io.Writer // what the program gets
	ears           []*ear
}

// ear is one stream that is read.
type ear struct {
	*explain.Tail
	file   *os.File // to be read when the program has ended
	before int64    // its size when the program began
	unread bool     // it could not be read
}

// Listen begins to listen. stdout is where the program's goes.
func Listen(m *session.Machine, stdout io.Writer, verb string) *Listener {
	l := &Listener{Stdout: stdout, Stderr: m.Shell.Err}
	l.Stderr = l.listen(m.Shell.Err)
	switch {
	case sameStream(stdout, m.Shell.Err):
		l.Stdout = l.Stderr // one writer: the child gets one pipe for both
	case cargo.PurposeOf(verb) == cargo.Tests:
		l.Stdout = l.listen(stdout)
	}
	return l
}

// listen returns what a child is to write to in place of a stream so that it is read.
func (l *Listener) listen(to io.Writer) io.Writer {
	e := &ear{Tail: &explain.Tail{}}
	if f, ok := to.(*os.File); ok {
		info, err := f.Stat()
		switch {
		case err != nil || info.Mode()&os.ModeCharDevice != 0: // a terminal, /dev/null
			return to
		case info.Mode().IsRegular():
			e.file, e.before = f, info.Size()
			l.ears = append(l.ears, e)
			return to
		}
	}
	l.ears = append(l.ears, e)
	return io.MultiWriter(to, e.Tail)
}

// NoteWords shows the line in which the program says that it goes on without the GPU, under a verdict that it seems to contradict. It is a
// note, and no evidence.
func (l *Listener) NoteWords(m *session.Machine, k verify.Kind) {
	if k == verify.NotUsed || k == verify.NoDevice {
		return
	}
	for _, e := range l.ears {
		if said := verify.LineAboutCPU(e.Text()); said != "" {
			m.Shell.Note("the program said: %.200q (this changes no verdict)", said)
			return
		}
	}
}

func sameStream(a, b io.Writer) bool {
	if a == b {
		return true
	}
	f, ok1 := a.(*os.File)
	g, ok2 := b.(*os.File)
	if !ok1 || !ok2 {
		return false
	}
	one, err1 := f.Stat()
	other, err2 := g.Stat()
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}

// End reads the files when the program has ended, before gpubuild writes to them what is not the program's.
func (l *Listener) End(h buildenv.Host) {
	for _, e := range l.ears {
		e.unread = e.file != nil && e.read(h) != nil
	}
}

// Match is what is known of the output of a program after End, and whether any could be read.
func (l *Listener) Match(rules *explain.Rules) (match explain.Match, heard bool) {
	for _, e := range l.ears {
		if e.unread {
			continue // what may not be read again is not known
		}
		heard = true
		if got := e.Tail.Match(rules); !match.Known() {
			match = got
		}
	}
	return match, heard
}

// read takes in what was added to the file. Our own handle may be for writing only; Linux opens the same file again by its number.
func (e *ear) read(h buildenv.Host) error {
	name := e.file.Name()
	if h.OS == buildenv.Linux {
		name = fmt.Sprintf("/proc/self/fd/%d", e.file.Fd())
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < e.before {
		return errors.Join(err, errors.New("the file was cut"))
	}
	_, err = io.Copy(e.Tail, io.NewSectionReader(f, e.before, info.Size()-e.before))
	return err
}
