// Package console is the one place that prints, in the form that cargo has. What is quoted of others cannot steer a terminal: see
// Visible. It decides nothing.
package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// Shell writes messages as cargo does: the verb bold and right-aligned to 12 columns on stderr, results on stdout.
type Shell struct {
	Out, Err io.Writer
	Colour   bool // of stderr
	Quiet    bool // status lines are left out; warnings and errors are not
	Verbose  bool // Detail lines are written
	// OutTerminal and ErrTerminal: a person reads stdout, stderr.
	OutTerminal, ErrTerminal bool
	Columns                  int // of the terminal behind stdout; 0: none
	OutColour                bool
	Home                     string // the user's home directory, which messages show as ~; empty: not known
	// FetchHint is the user's command line with the flag that downloads a toolkit, for the hints that hold toolchain.Fetch.
	FetchHint string
	// OnLine is given every line that is written; nil: nobody listens.
	OnLine  func(line string)
	Guarded bool // a step of GitHub Actions reads along: quoted text must not be taken for its commands
}

const (
	green  = "\x1b[1m\x1b[32m"
	yellow = "\x1b[1m\x1b[33m"
	red    = "\x1b[1m\x1b[31m"
	cyan   = "\x1b[1m\x1b[36m"
	reset  = "\x1b[0m"
)

func (s *Shell) paint(colour, text string) string {
	if !s.Colour {
		return text
	}
	return colour + text + reset
}

// line writes one whole message at once, so that it is not cut by a child's
// output. Nothing can be done about a stderr that cannot be written to.
func (s *Shell) line(head, text string, most int) {
	text = head + Visible(text)
	if s.Guarded {
		text = Disarmed(text)
	}
	text = cut(text, most)
	if s.OnLine != nil {
		s.OnLine(text + "\n")
	}
	_, _ = io.WriteString(s.Err, text+"\n")
}

// Reprint writes lines that OnLine was given in an earlier run.
func (s *Shell) Reprint(lines string) { _, _ = io.WriteString(s.Err, lines) }

// longest is how many bytes of a message's line are shown. Text of a file that somebody else wrote is quoted with %.200q where it is put
// into a message; this is for what comes in another way, such as in an error of a library.
const longest = 1000

// longestAnswer is that of a line of an answer, where names of kernels are as long, and of a hint, which is pasted.
const longestAnswer = 8 << 10

// Short cuts long lines of a message.
func Short(text string) string { return cut(text, longest) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if len(line) > most {
			end := fmt.Sprintf("… (%d bytes)", len(line))
			lines[i] = strings.ToValidUTF8(line[:most-len(end)], "") + end
		}
	}
	return strings.Join(lines, "\n")
}

// home words a message that is read and not pasted.
func (s *Shell) home(format string, args ...any) string {
	return tilde(fmt.Sprintf(format, args...), s.Home)
}

// Status writes what was done or found, behind a verb of at most 12 letters.
func (s *Shell) Status(verb, format string, args ...any) {
	if !s.Quiet {
		s.line(s.paint(green, fmt.Sprintf("%12s", verb))+" ", s.home(format, args...), longest)
	}
}

// Alert is Status in the colour of a warning, and is written even when quiet: what must not be missed.
func (s *Shell) Alert(verb, format string, args ...any) {
	s.line(s.paint(yellow, fmt.Sprintf("%12s", verb))+" ", s.home(format, args...), longest)
}

// Detail writes a line below a status, only when verbose.
func (s *Shell) Detail(format string, args ...any) {
	if s.Verbose && !s.Quiet {
		s.line(strings.Repeat(" ", 13), s.home(format, args...), longest)
	}
}

// Warning, Note and Error write a message of that weight.
func (s *Shell) Warning(format string, args ...any) {
	s.line(s.paint(yellow, "warning")+": ", s.home(format, args...), longest)
}

// Note writes what is worth knowing and needs no action.
func (s *Shell) Note(format string, args ...any) {
	if !s.Quiet {
		s.line(s.paint(cyan, "note")+": ", s.home(format, args...), longest)
	}
}

// Error writes why it goes no further.
func (s *Shell) Error(format string, args ...any) {
	s.line(s.paint(red, "error")+": ", s.home(format, args...), longest)
}

// Failure writes the error that something ended with and what can be done about it, where nobody has said it yet.
func (s *Shell) Failure(err error) {
	var code exit.Code
	var refused *cargo.RefusedError
	exited, isExit := err.(*buildenv.ExitError)
	switch {
	case err == nil, errors.As(err, &code): // a code alone: what it means was printed already
	case errors.Is(err, context.Canceled):
		s.Error("interrupted")
	case errors.As(err, &refused): // cargo's own words, once, as they are
		s.Cargo(string(refused.Stderr))
		s.Hint(refused.Fix)
	case isExit && len(exited.Result.Stderr) == 0: // the program had our stderr and said itself what was wrong
	default:
		s.Error("%v", err)
		s.Hint(exit.Hint(err))
	}
}

// Hint writes what to do, on a line of its own behind a blank one.
func (s *Shell) Hint(text string) {
	if text != "" {
		s.line("\n"+s.paint(cyan, "hint")+": ", s.Pasteable(text), longestAnswer)
	}
}

// Pasteable is a hint with the user's own command line in place of toolchain.Fetch.
func (s *Shell) Pasteable(hint string) string {
	return strings.ReplaceAll(hint, toolchain.Fetch, cmp.Or(s.FetchHint, "gpubuild toolchain install"))
}

// Finding writes a finding: its message, the place, the evidence when verbose, and the fix.
func (s *Shell) Finding(f finding.Finding) {
	switch f.Severity {
	case finding.Error:
		s.Error("%s [%s]", f.Message, f.ID)
	case finding.Warning:
		s.Warning("%s [%s]", f.Message, f.ID)
	default:
		if s.Quiet {
			return
		}
		s.Note("%s [%s]", f.Message, f.ID)
	}
	if f.Path != "" {
		place := f.Path
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", f.Path, f.Line)
		}
		s.line("  --> ", place, longest)
	}
	if f.Evidence != "" && s.Verbose {
		for _, l := range strings.Split(f.Evidence, "\n") {
			s.line("   = ", l, longestAnswer)
		}
	}
	fix := f.Fix
	if f.Brief != "" && !s.Verbose {
		fix = f.Brief
	}
	s.Hint(strings.ReplaceAll(fix, "\n", "\n      "))
}

// Colour decides whether messages are coloured. The order is cargo's and uv's: the flag, CARGO_TERM_COLOR, NO_COLOR, CLICOLOR_FORCE,
// CLICOLOR, then whether stderr is a terminal that is not dumb.
func Colour(flag string, lookup func(string) (string, bool), terminal bool) bool {
	if flag == "" {
		flag, _ = lookup("CARGO_TERM_COLOR")
	}
	switch flag {
	case "always":
		return true
	case "never":
		return false
	}
	if v, _ := lookup("NO_COLOR"); v != "" {
		return false
	}
	if v, _ := lookup("CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	if v, _ := lookup("CLICOLOR"); v == "0" {
		return false
	}
	term, _ := lookup("TERM")
	return terminal && term != "dumb"
}

// Disarmed breaks what GitHub's runner would take for a command at the beginning of a line, or behind ##[ anywhere, in text that quotes
// others: an invisible space stands inside the marks.
func Disarmed(text string) string {
	if !strings.Contains(text, "::") && !strings.Contains(text, "##[") {
		return text
	}
	lines := strings.Split(strings.ReplaceAll(text, "##[", "##\u200b["), "\n")
	for i, l := range lines {
		// The runner trims what .NET calls white space, and takes a carriage return for a line's end.
		parts := strings.Split(l, "\r")
		for n, p := range parts {
			if trimmed := strings.TrimSpace(p); strings.HasPrefix(trimmed, "::") {
				parts[n] = strings.Replace(p, "::", ":\u200b:", 1)
			}
		}
		lines[i] = strings.Join(parts, "\r")
	}
	return strings.Join(lines, "\n")
}

// Width is the number of columns that a page has where the terminal has as many.
const Width = 100

var (
	// hanging is what the further lines of a broken one stand behind: a sign and a name, a table's first column, "cause: ".
	hanging = lazyregexp.New(`^( *\S+( \S+)* {2,}| {1,10}[a-z]+: |[✓✗⚠-] \S+ +| *)`)
	// whole are lines to paste from: a command, an example of a file.
	whole = lazyregexp.New(`^ +(command: |gpubuild )\S+( \S+)*$|^ {17}fix: |\S +# `)
)

// Fold breaks the lines of a text that are too long between words; a longer word stays whole.
func Fold(text string, width int) string {
	var out []string
	for full := range strings.SplitSeq(text, "\n") {
		if utf8.RuneCountInString(full) <= width || whole.MatchString(full) {
			out = append(out, full)
			continue
		}
		line := hanging.FindString(full)
		rest, indent := full[len(line):], utf8.RuneCountInString(line)
		if indent > width/2 { // a wide first column has a line of its own
			out = append(out, strings.TrimRight(line, " "))
			line, indent = strings.Repeat(" ", 8), 8
		}
		empty := line
		for _, word := range strings.Fields(rest) {
			if line != empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				out = append(out, line)
				empty = strings.Repeat(" ", indent)
				line = empty
			}
			if line != empty {
				word = " " + word
			}
			line += word
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// Page writes an answer that is read as a text: help, doctor's, an explanation. It fits into the terminal.
func (s *Shell) Page(text string) error {
	width := Width
	if s.Columns >= 20 {
		width = min(width, s.Columns)
	}
	return s.Print(Fold(text, width))
}

// signs colour a line of an answer for people by what it begins with.
var signs = []struct{ sign, colour string }{
	{"✓ ", green}, {"✗ ", red}, {"⚠ ", yellow}, {"? ", yellow}, {"  on ", green}, {"  off ", red},
	{"  warning: ", yellow}, {"  note: ", cyan},
}

// painted colours the signs and the headings of an answer for people.
func painted(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		for _, s := range signs {
			if rest, ok := strings.CutPrefix(l, s.sign); ok {
				lines[i] = s.colour + strings.TrimRight(s.sign, " ") + reset + s.sign[len(strings.TrimRight(s.sign, " ")):] + rest
			}
		}
		if strings.HasSuffix(l, ":") && l[0] >= 'A' && l[0] <= 'Z' { // a heading, as cargo's help has them
			lines[i] = green + l + reset
		}
	}
	return strings.Join(lines, "\n")
}

// tilde shows the user's home directory as ~, where a path begins with it.
func tilde(text, home string) string {
	if len(home) < 2 || !strings.Contains(text, home) {
		return text
	}
	paths := regexp.MustCompile("(^|[ \t\n(\"'`=])" + regexp.QuoteMeta(home) + "($|[/\\\\ ,:;)\"'`\n])")
	once := paths.ReplaceAllString(text, "$1~$2")
	return paths.ReplaceAllString(once, "$1~$2") // two paths may share the space between them
}

// Download shows how far downloads of a total size are: on a terminal one bar with size, speed and time left, elsewhere nothing. end
// removes the bar.
func (s *Shell) Download(total int64) (set func(done int64), end func()) {
	if !s.ErrTerminal || s.Quiet || total <= 0 {
		return func(int64) {}, func() {}
	}
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(s.Err), progressbar.OptionSetDescription("    Fetching"), progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(25), progressbar.OptionUseANSICodes(false),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "=", SaucerHead: ">", SaucerPadding: " ", BarStart: "[", BarEnd: "]"}),
	)
	// A bar that cannot be drawn stops no download. The library divides by the time since its first line; a speed over less than its
	// own interval would be nonsense, so nothing is shown before.
	bar.StartWithoutRender()
	began := time.Now()
	set = func(done int64) {
		if time.Since(began) > 500*time.Millisecond {
			_ = bar.Set64(done)
		}
	}
	return set, func() { _ = bar.Clear(); _, _ = io.WriteString(s.Err, "\r") }
}
