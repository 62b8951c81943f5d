package diagnose

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/toolchain/explain"
)

// fullCauses is how many causes are printed in full; the others get a line each.
const fullCauses = 3

// Log is what is known of the failures in a log.
type Log struct {
	Name  string `json:"log,omitempty"`
	Known bool   `json:"known"`
	explain.Match
	Found []Cause `json:"found"` // in place of Match's: with the texts filled in
}

// Cause is a known cause with its texts filled in.
type Cause struct {
	explain.Found
	explain.Words
}

// ReadLog looks for known causes in a log; name is how the user called it, - for standard input. It says nothing of this machine: a log may
// be of another one.
func ReadLog(rules *explain.Rules, name string, r io.Reader) (Log, error) {
	match, err := explain.Read(rules, r)
	if errors.Is(err, explain.ErrBinary) {
		return Log{}, exit.Usagef("give what the build or the program printed", "the log %s cannot be read: %v", name, err)
	}
	if err != nil {
		return Log{}, &exit.UsageError{
			What: fmt.Sprintf("reading the log %s: %v", name, err), Fix: "name a file that you may read, or - for standard input",
		}
	}
	l := Log{Name: name, Known: match.Known() || match.Own(), Match: match, Found: []Cause{}}
	for _, f := range match.Found {
		l.Found = append(l.Found, Cause{f, f.Words(explain.Facts{explain.Again: "gpubuild --features cuda"})})
	}
	return l, nil
}

// Findings are the causes as machines read them.
func (l Log) Findings() []finding.Finding {
	var out []finding.Finding
	for _, c := range l.Found {
		f := causeFinding(c.Found, c.Words)
		if l.Name != "-" {
			f.Path = l.Name
		}
		out = append(out, f)
	}
	return out
}

// Text words what is known of a log.
func (l Log) Text() string {
	match, causes := l.Match, l.Found
	var b strings.Builder
	size := fmt.Sprintf("%d lines", match.Lines)
	if match.Lines == 1 {
		size = "1 line"
	}
	switch {
	case len(match.Found) == 0 && len(match.Errors) == 0 && !match.Succeeded:
		fmt.Fprintf(&b, "unknown: nothing in this log (%s) looks like an error, "+
			"and nothing shows that the build or the run went well\n", size)
	case len(match.Errors) == 0 && (len(match.Found) == 0 || match.Found[0].Kind == explain.Note):
		fmt.Fprintf(&b, "gpubuild recognises no failure in %s; that does not show that the build or the run went well\n", size)
	case !match.Known():
		head := "unknown: gpubuild does not know the cause of the failure in this log (%s). The first lines that look like errors:\n"
		switch {
		case len(match.Errors) == 0:
			head = "unknown: gpubuild does not know the cause of the failure in this log (%s)\n"
		case match.Own():
			head = "gpubuild itself ended with an error (%s):\n"
		case match.Quoted():
			head = "unknown: no rule of gpubuild knows this failure (%s). Its first error says:\n"
		}
		fmt.Fprintf(&b, head, size)
		for i, e := range match.Errors {
			fmt.Fprintf(&b, "%8d  %s\n", e.Line, e.Text)
			for _, l := range e.More {
				if l != "hint: "+e.Next {
					fmt.Fprintf(&b, "            %s\n", l)
				}
			}
			if e.Status != nil {
				fmt.Fprintf(&b, "          %s\n", statusSentence(*e.Status))
			}
			if i == 0 && e.Said != "" {
				for _, part := range [][2]string{{"said by", e.Said}, {"cause", e.Cause}, {"next", e.Next}} {
					if part[1] != "" {
						fmt.Fprintf(&b, "%8s: %s\n", part[0], part[1])
					}
				}
			}
		}
	}
	for i, f := range causes {
		if i > 0 || !match.Known() {
			b.WriteByte('\n')
		}
		if i >= fullCauses || i > 0 && f.Kind != explain.Cause {
			fmt.Fprintf(&b, "also seen: %s\n%8d  %s\n", f.ID, f.Line, f.Text)
			continue
		}
		times := ""
		if f.Count > 1 {
			times = fmt.Sprintf(", %d times", f.Count)
		}
		fmt.Fprintf(&b, "%s (%s%s)\n%8d  %s\n", f.ID, explain.Stages[f.Stage], times, f.Line, f.Text)
		writeRule(&b, f.Source, f.Words)
	}
	return b.String()
}

// sentence is a cause with what makes it so here.
func sentence(w explain.Words) string {
	if len(w.Here) == 0 {
		return w.Cause
	}
	return w.Cause + " Here: " + strings.Join(w.Here, "; ") + "."
}

func writeRule(b *strings.Builder, source []string, w explain.Words) {
	for _, part := range []struct{ name, text string }{
		{"cause", w.Cause},
		{"here", strings.Join(w.Here, "\n")},
		{"fix", w.Fix},
		{"command", w.Command},
		{"source", strings.Join(source, "\n")},
	} {
		if part.text != "" {
			fmt.Fprintf(b, "%9s: %s\n", part.name, strings.ReplaceAll(part.text, "\n", "\n"+strings.Repeat(" ", 11)))
		}
	}
}

// statusSentence says what a status code means, with the header that says so.
func statusSentence(s explain.Status) string {
	if s.Meaning == "" {
		return fmt.Sprintf("%s is code %d of %s", s.Name, s.Code, s.Header)
	}
	return fmt.Sprintf("%s (%d, %s): %s", s.Name, s.Code, s.Header, s.Meaning)
}

// Meaning is what is known of a code.
type Meaning struct {
	Code    string          `json:"code"`
	Exit    string          `json:"exit,omitempty"`    // as an exit code of gpubuild
	Finding string          `json:"finding,omitempty"` // as the id of a finding of gpubuild
	Status  *explain.Status `json:"status,omitempty"`  // as a status of CUDA or one of its libraries
	Rules   []*explain.Rule `json:"rules"`
}

// MeaningOf returns what a code means: an exit code of gpubuild, a status of CUDA, a rule's id, or a code that rules name.
func MeaningOf(rules *explain.Rules, code string) (Meaning, bool) {
	m := Meaning{Code: code, Status: explain.LookupStatus(code), Rules: append([]*explain.Rule{}, rules.Lookup(code)...)}
	if n, err := strconv.Atoi(code); err == nil {
		for _, e := range exit.Codes {
			if e.Code == n {
				m.Exit = e.Meaning
			}
		}
	}
	return m, len(m.Rules) > 0 || m.Exit != "" || m.Status != nil
}

// Text words what a code means.
func (m Meaning) Text() string {
	var b strings.Builder
	if m.Exit != "" {
		fmt.Fprintf(&b, "%s as an exit code of gpubuild: %s\n", m.Code, m.Exit)
	}
	if m.Finding != "" {
		fmt.Fprintf(&b, "%s is a finding of gpubuild. %s\n", m.Code, m.Finding)
	}
	if m.Status != nil {
		fmt.Fprintf(&b, "%s\n", statusSentence(*m.Status))
	}
	for i, r := range m.Rules {
		if i > 0 || m.Exit != "" || m.Status != nil {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s (%s)\n", r.ID, explain.Stages[r.Stage])
		if len(r.Examples) > 0 {
			fmt.Fprintf(&b, "%9s: %s\n", "text", strings.ReplaceAll(strings.TrimSpace(r.Examples[0]), "\n", "\n"+strings.Repeat(" ", 11)))
		}
		writeRule(&b, r.Source, explain.Found{Rule: r}.Words(nil))
	}
	return b.String()
}
