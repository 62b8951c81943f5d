package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/local"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// fullCauses is how many causes are told in full; the others get a line each.
const fullCauses = 3

// runExplain reads a log, or looks a code up.
func runExplain(a *app, ctx context.Context, o Options, l cargo.Line) error {
	rules, err := explain.Default()
	if err != nil {
		return err
	}
	if len(l.Positional) > 1 {
		return &usageError{"explain takes one log or one code", "gpubuild explain build.log"}
	}
	name := "-"
	if len(l.Positional) == 1 {
		name = l.Positional[0]
	} else if terminalIn(a.Stdin) {
		return &usageError{"explain needs a log or a code", "gpubuild explain build.log, or gpubuild build … 2>&1 | gpubuild explain"}
	}
	if name == "-" {
		if a.Stdin == nil {
			return a.explainLog(ctx, o, rules, "-", strings.NewReader(""))
		}
		return a.explainLog(ctx, o, rules, "-", a.Stdin)
	}
	f, err := os.Open(a.Host.Abs(name))
	if err == nil {
		defer f.Close()
		return a.explainLog(ctx, o, rules, name, f)
	}
	known, codeErr := a.explainCode(o, rules, name)
	if known || codeErr != nil {
		return codeErr
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return &usageError{fmt.Sprintf("the log %s cannot be read: %v", name, err), "name a file that you may read, or - for standard input"}
	}
	fix := "give a log, - for standard input, an exit code of gpubuild, or a code such as LNK1181 or CUDA_ERROR_NO_DEVICE"
	if near := rules.Near(name); len(near) > 0 {
		fix = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return &usageError{fmt.Sprintf("%s is no file, and no code that is known", name), fix}
}

func terminalIn(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && local.Terminal(f)
}

// explained is the answer of `gpubuild explain` beside its findings.
type explained struct {
	Log   string `json:"log,omitempty"`
	Known bool   `json:"known"`
	explain.Answer
	Found []explainedCause `json:"found"` // in place of Answer's: with the texts filled in
}

type explainedCause struct {
	explain.Found
	explain.Words
}

// fillIn words what was found, with what is known here.
func fillIn(found []explain.Found, s situation) []explainedCause {
	out := make([]explainedCause, len(found))
	for i, f := range found {
		out[i] = explainedCause{f, s.words(f)}
	}
	return out
}

func (a *app) explainLog(ctx context.Context, o Options, rules *explain.Rules, name string, r io.Reader) error {
	answer, err := explain.Read(rules, r)
	if err != nil {
		return &usageError{fmt.Sprintf("reading the log %s: %v", name, err), "name a file that you may read, or - for standard input"}
	}
	causes := fillIn(answer.Found, a.lookAround(ctx, answer.Found))
	// A failure that nobody knows ends with 1: a script must not take "explained nothing" for an explanation.
	var end error
	if !answer.Known() && len(answer.Errors) > 0 {
		end = exit.Code(exit.Other)
	}
	if o.JSON != nil {
		var findings []finding.Finding
		for _, c := range causes {
			f := causeFinding(c.Found, c.Words)
			f.Path = logPath(name)
			findings = append(findings, f)
		}
		if err := a.answer(o, "explain", end == nil, findings, explained{name, answer.Known(), answer, causes}); err != nil {
			return err
		}
		return end
	}
	_, err = io.WriteString(a.Shell.Out, answerText(answer, causes))
	if err != nil {
		return err
	}
	return end
}

func logPath(name string) string {
	if name == "-" {
		return ""
	}
	return name
}

// answerText words what is known of a log.
func answerText(answer explain.Answer, causes []explainedCause) string {
	var b strings.Builder
	size := fmt.Sprintf("%d lines", answer.Lines)
	if answer.Lines == 1 {
		size = "1 line"
	}
	switch {
	case !answer.Known() && len(answer.Errors) == 0:
		fmt.Fprintf(&b, "nothing in %s looks like a failure of a GPU build\n", size)
	case !answer.Known():
		fmt.Fprintf(&b, "unknown: none of the failures that gpubuild knows is in these %s. The first lines that look like errors:\n", size)
		for _, e := range answer.Errors {
			fmt.Fprintf(&b, "%8d  %s\n", e.Line, e.Text)
		}
	}
	for i, f := range causes {
		if i > 0 || !answer.Known() {
			b.WriteByte('\n')
		}
		if i >= fullCauses || i > 0 && f.Kind != explain.Cause {
			fmt.Fprintf(&b, "also, %s: %s\n%8d  %s\n", f.Kind, f.ID, f.Line, f.Text)
			continue
		}
		times := ""
		if f.Count > 1 {
			times = fmt.Sprintf(", %d times", f.Count)
		}
		fmt.Fprintf(&b, "%s (%s%s)\n%8d  %s\n", f.ID, f.Stage, times, f.Line, f.Text)
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
		{"cause", w.Cause}, {"here", strings.Join(w.Here, "\n")}, {"fix", w.Fix}, {"command", w.Command}, {"source", strings.Join(source, "\n")},
	} {
		if part.text != "" {
			fmt.Fprintf(b, "%9s: %s\n", part.name, strings.ReplaceAll(part.text, "\n", "\n"+strings.Repeat(" ", 11)))
		}
	}
}

// explainCode tells what a code means: an exit code of ours, a rule's id, or a code that rules name.
func (a *app) explainCode(o Options, rules *explain.Rules, code string) (bool, error) {
	found := rules.Lookup(code)
	meaning := ""
	if n, err := strconv.Atoi(code); err == nil {
		for _, e := range exit.Codes {
			if e.Code == n {
				meaning = e.Meaning
			}
		}
	}
	if len(found) == 0 && meaning == "" {
		return false, nil
	}
	if o.JSON != nil {
		return true, a.answer(o, "explain", true, nil, struct {
			Code  string          `json:"code"`
			Exit  string          `json:"exit,omitempty"`
			Rules []*explain.Rule `json:"rules"`
		}{code, meaning, append([]*explain.Rule{}, found...)})
	}
	var b strings.Builder
	if meaning != "" {
		fmt.Fprintf(&b, "%s as an exit code of gpubuild: %s\n", code, meaning)
	}
	for i, r := range found {
		if i > 0 || meaning != "" {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s (%s)\n", r.ID, r.Stage)
		if len(r.Examples) > 0 {
			fmt.Fprintf(&b, "%9s: %s\n", "text", strings.ReplaceAll(strings.TrimSpace(r.Examples[0]), "\n", "\n"+strings.Repeat(" ", 11)))
		}
		writeRule(&b, r.Source, explain.Found{Rule: r}.Words(nil))
	}
	_, err := io.WriteString(a.Shell.Out, b.String())
	return true, err
}
