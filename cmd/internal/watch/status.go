package watch

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
)

// statusLine shows the GPUs in the terminal's last row while a program prints into the others. The row is taken out of what scrolls, as apt
// does for its progress, so that the program's output stays whole. A nil statusLine shows nothing.
type statusLine struct {
	to     io.Writer
	size   func() (columns, rows int)
	rows   int // of the terminal, when the last row was reserved; 0: it is not
	latest []gpu.Sample
}

// newStatusLine is nil if stderr is no terminal that can do this.
func newStatusLine(m *session.Machine) *statusLine {
	f, isFile := m.Shell.Err.(*os.File)
	if !isFile || !m.Shell.ErrTerminal || m.Shell.Quiet || m.Host.Env.Get("TERM") == "dumb" {
		return nil
	}
	return &statusLine{to: f, size: func() (int, int) {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return columns, rows
	}}
}

func (l *statusLine) show(s gpu.Sample) {
	if l == nil {
		return
	}
	if i := slices.IndexFunc(l.latest, func(o gpu.Sample) bool { return o.Index == s.Index }); i < 0 {
		l.latest = append(l.latest, s)
	} else {
		l.latest[i] = s
	}
	columns, rows := l.size()
	if rows < 3 {
		return
	}
	var b strings.Builder
	if rows != l.rows { // the first time, or the window has another size now
		fmt.Fprintf(&b, "\n\x1b7\x1b[1;%dr\x1b8\x1b[1A", rows-1)
		l.rows = rows
	}
	var texts []string
	for _, s := range l.latest {
		texts = append(texts, strings.Join(strings.Fields(Row(s, max(60, columns/len(l.latest)))), " "))
	}
	line := []rune(console.Visible(strings.Join(texts, " | ")))
	fmt.Fprintf(&b, "\x1b7\x1b[%d;1H\x1b[2K%s\x1b8", rows, string(line[:min(len(line), max(columns-1, 0))]))
	_, _ = io.WriteString(l.to, b.String()) // nothing depends on it; one write, so that the program's output does not come between
}

// end gives the row back.
func (l *statusLine) end() {
	if l == nil || l.rows == 0 {
		return
	}
	_, _ = fmt.Fprintf(l.to, "\x1b7\x1b[r\x1b[%d;1H\x1b[2K\x1b8", l.rows) // as above
	l.rows = 0
}
