package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/explain"
)

// programWatch reads along what a program says, where that changes nothing for it. A terminal is left alone: the program may draw on it and read from
// it. A file is read afterwards, from where it ended before. Through a pipe, which CI has, what the program writes passes through us; where stdout is
// the same pipe both do, in one, so that their order stays; what the program leaves running can no longer write to it when we have ended. /dev/null and
// the like hear nothing. stdout is read along only of tests, which complain
// there: elsewhere it is the program's result.
type programWatch struct {
	stdout, stderr io.Writer
	ears           []*ear
	rules          *explain.Rules
}

// ear is one stream that is heard.
type ear struct {
	*explain.Watcher
	file   *os.File // to be read when the program has ended
	before int64    // its size when the program began
}

// watchProgram never keeps a program from running: without usable rules nothing is explained. out is where its stdout goes.
func (a *app) watchProgram(out io.Writer, verb string) *programWatch {
	w := &programWatch{stdout: out, stderr: a.Shell.Err}
	var err error
	if w.rules, err = explain.Default(); err != nil {
		a.Shell.Detail("failures will not be explained: %v", err)
		return w
	}
	w.stderr = w.listen(a.Shell.Err)
	switch {
	case sameStream(out, a.Shell.Err):
		w.stdout = w.stderr // one writer: the child gets one pipe for both
	case verb == "test" || verb == "bench":
		w.stdout = w.listen(out)
	}
	return w
}

// listen answers what a child is to write to in place of a stream so that it is heard.
func (w *programWatch) listen(to io.Writer) io.Writer {
	e := &ear{Watcher: explain.NewWatcher(w.rules)}
	if f, ok := to.(*os.File); ok {
		info, err := f.Stat()
		switch {
		case err != nil || info.Mode()&os.ModeCharDevice != 0: // a terminal, /dev/null
			return to
		case info.Mode().IsRegular():
			e.file, e.before = f, info.Size()
			w.ears = append(w.ears, e)
			return to
		}
	}
	w.ears = append(w.ears, e)
	return io.MultiWriter(to, e.Watcher)
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

// answer is what is known of the words of a program that has ended, and whether any could be heard.
func (w *programWatch) answer(h buildenv.Host) (answer explain.Answer, heard bool) {
	for _, e := range w.ears {
		if e.file != nil && e.read(h) != nil {
			continue // what may not be read again is not known
		}
		heard = true
		if got := e.Answer(); !answer.Known() {
			answer = got
		}
	}
	return answer, heard
}

// read takes in what was added to the file. Our own handle may be for writing only; Linux opens the same file anew by its number.
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
	_, err = io.Copy(e.Watcher, io.NewSectionReader(f, e.before, info.Size()-e.before))
	return err
}

// ending is how a program ended, and what we know of it beside its words.
type ending struct {
	program string
	verb    string // run, test, bench, prove, build
	code    int
	signal  string   // that ended it, where nobody has said so yet
	onCPU   bool     // it ended well, and ran on the CPU
	missing []string // libraries that its loader finds nowhere
	lookAt  func(found []explain.Found) situation
}

// explainProgram says after a program's own words, and after the verdict, what its failure means, if that is known: by its words where we heard them,
// else by its exit status and what we found ourselves.
func (a *app) explainProgram(ctx context.Context, w *programWatch, e ending) []finding.Finding {
	if w.rules == nil || e.code == 0 && !e.onCPU {
		return nil
	}
	answer, heard := w.answer(a.Host)
	by := ""
	if e.code == 127 && !answer.Known() && len(e.missing) > 0 {
		// What glibc's ld.so would have written (elf/dl-load.c); that it ends with 127 is its own, too (elf/rtld.c).
		own := explain.NewWatcher(w.rules)
		for _, lib := range e.missing {
			_, _ = fmt.Fprintf(own, "%s: error while loading shared libraries: %s: cannot open shared object file: No such file or directory\n", e.program, lib)
		}
		answer, by = own.Answer(), "exit status 127, and "+strings.Join(e.missing, ", ")+" is found nowhere that the loader of "+e.program+" looks"
	}
	if answer.Known() {
		f := answer.Found[0]
		words := e.lookAt(answer.Found[:1]).words(f)
		if by == "" {
			by = f.Text
		}
		a.tellCause(by, answer, words)
		return []finding.Finding{causeFinding(f, words)}
	}
	if e.code == 0 {
		return nil
	}
	if why := a.uncovered(ctx, e.program); why != "" {
		a.Shell.Loud("Explaining", "%s may have failed because its device code does not run here: %s", e.program, why)
		return nil
	}
	if heard && e.signal != "" && e.verb == "run" { // of a test cargo says it
		a.Shell.Error("%s%s", e.program, cargorun.Ended(e.code))
	}
	if heard || !telling(e) {
		return nil
	}
	a.Shell.Note("%s%s; gpubuild leaves a program's terminal alone: with 2>&1 | gpubuild explain - behind the command its words are looked at", e.program, cargorun.Ended(e.code))
	return nil
}

// telling says whether an exit status is worth a word where nothing was heard: a test that fails says itself what was wrong.
func telling(e ending) bool {
	return e.verb != "test" && e.verb != "bench" || e.code == 127 || e.code > 128
}

// uncovered says why no device here runs what a file holds; empty when one does, or when nothing is known.
func (a *app) uncovered(ctx context.Context, path string) string {
	r, err := a.scan(a.Host.Abs(path))
	if err != nil || len(r.Images) == 0 {
		return ""
	}
	d, devices, _ := driver.Inventory(ctx, a.Host, a.Runner, a.Self)
	why := ""
	for _, dev := range devices {
		c := fatbin.Coverage(r.Images, dev.Capability, d.CUDA)
		if c.Runs || dev.Capability.IsZero() {
			return ""
		}
		why = dev.Name + ": " + c.Why
	}
	return why
}

// tellCause words the first cause of an answer; by is what it was known by.
func (a *app) tellCause(by string, answer explain.Answer, words explain.Words) {
	f := answer.Found[0]
	a.Shell.Loud("Explaining", "%s", by)
	a.Shell.Loud("", "%s [%s]", words.Cause, f.ID)
	if len(words.Here) > 0 {
		a.Shell.Loud("", "here: %s", strings.Join(words.Here, "; "))
	}
	if len(f.Source) > 0 {
		a.Shell.Detail("source: %s", strings.Join(f.Source, "\n"+strings.Repeat(" ", 13)+"source: "))
	}
	for _, more := range answer.Found[1:] {
		if more.Kind == explain.Cause {
			a.Shell.Loud("", "also possible: %s (gpubuild explain %s)", more.Text, more.ID)
		}
	}
	fix := words.Fix
	if words.Command != "" {
		fix += "\n      " + words.Command
	}
	a.Shell.Hint(fix)
}

// causeFinding is a cause as machines read it.
func causeFinding(f explain.Found, words explain.Words) finding.Finding {
	fix := words.Fix
	if words.Command != "" {
		fix += "\n" + words.Command
	}
	severity := finding.Error
	if f.Kind == explain.Note {
		severity = finding.Note
	}
	return finding.Finding{ID: "explain." + f.ID, Severity: severity, Message: sentence(words), Line: f.Line, Fix: fix, Evidence: f.Text}
}
