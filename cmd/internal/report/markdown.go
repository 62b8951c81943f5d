package report

import (
	"cmp"
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
)

// markdown escapes foreign text for the inside of a line of GitHub-flavoured Markdown. A backslash
// before any ASCII punctuation makes it literal (CommonMark 0.31, 2.4); the colon and the at sign
// keep bare addresses from becoming links, the dollar keeps GitHub from setting formulas.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range Sanitize(s) {
		if strings.ContainsRune("\\`*_{}[]<>()#!|~&:@$^+-.", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "<code>" + markdown(s) + "</code>"
}

// sign is a state's mark, which does not rest on colour.
func sign(state string) string {
	return cmp.Or(map[string]string{Passed: "✓", Failed: "✗"}[state], "○")
}

// Summary renders a result as a section of a step summary, in at most room bytes: what does not fit is left out by whole lines, and
// counted.
func (r Result) Summary(room int) string {
	end, state := "done", Passed
	if !r.OK() {
		end, state = fmt.Sprintf("exit code %d", r.Code), Failed
	}
	title := strings.Join(words([]fact{{"gpubuild ", r.Verb}, {"", r.Row}}), ", ") + ": " + end
	head := "### " + sign(state) + " " + markdown(title) + "\n"
	var rows []string
	table := func(head string, more []string) {
		if len(more) > 0 {
			rows = append(append(rows, head), more...)
		}
	}
	var checks, facts, findings []string
	for _, c := range r.Checks {
		checks = append(checks, fmt.Sprintf(
			"| %s | %s %s | %s |\n", markdown(c.Title()), sign(c.State), c.State, markdown(cut(c.Message))))
	}
	for _, f := range r.facts() {
		facts = append(facts, fmt.Sprintf("| %s | %s |\n", f.name, markdown(f.value)))
	}
	for _, severity := range []string{finding.Error, finding.Warning, finding.Note} {
		for _, f := range r.Findings {
			if f.Severity == severity {
				what := markdown(cut(f.Message)) + " " + code(f.ID)
				if f.Fix != "" {
					what += "<br>hint: " + markdown(cut(f.Fix))
				}
				findings = append(findings, fmt.Sprintf("| %s | %s | %s |\n", severity, code(place(f)), what))
			}
		}
	}
	table("\n| check | | what |\n| --- | --- | --- |\n", checks)
	table("\n| | |\n| --- | --- |\n", facts)
	table("\n| | where | what |\n| --- | --- | --- |\n", findings)
	const spare = 64 // for the line that counts what was left out
	if len(head)+spare > room {
		return ""
	}
	var b strings.Builder
	b.WriteString(head)
	for i, row := range rows {
		if b.Len()+len(row)+spare > room {
			fmt.Fprintf(&b, "\n%s more, for which there is no room\n", Count(len(rows)-i, "line"))
			break
		}
		b.WriteString(row)
	}
	return b.String() + "\n"
}
