package report

import (
	"cmp"
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
)

// What GitHub keeps of one step (docs.github.com, workflow commands; actions/toolkit docs/problem-matchers.md): more of one kind is dropped
// without a word.
const (
	annotationsOfAKind = 9       // of ten: a notice may say that there are more
	summaryLimit       = 1 << 20 // bytes of GITHUB_STEP_SUMMARY; a larger file is thrown away as a whole
	messageLimit       = 4 << 10
)

// escapeData and escapeProperty are the inverse of the runner's own reading (actions/runner, src/Runner.Common/ActionCommand.cs).
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

// Annotations renders findings as workflow commands, a line each, errors first; at most nine of a kind, and a notice if there are more,
// which the step summary lists. Paths are relative to the checkout, with slashes; a path outside it is part of the message.
func Annotations(findings []finding.Finding) (out string) {
	left := 0
	for _, severity := range []string{finding.Error, finding.Warning, finding.Note} {
		room := annotationsOfAKind
		for _, f := range findings {
			switch {
			case f.Severity != severity:
			case room == 0:
				left++
			default:
				room--
				out += annotation(f)
			}
		}
	}
	if left > 0 {
		out += fmt.Sprintf("::notice title=gpubuild::%d more in the step summary\n", left)
	}
	return out
}

// says is a finding as a text: its message, what it marks, and what to do.
func says(f finding.Finding) string {
	text := cmp.Or(SanitizeLines(f.Message), f.ID)
	if f.Label != "" {
		text += "\n" + SanitizeLines(f.Label)
	}
	if f.Fix != "" {
		text += "\nhint: " + SanitizeLines(f.Fix)
	}
	return text
}

func annotation(f finding.Finding) string {
	message, properties := says(f), []string{}
	switch {
	case f.Path == "":
	case Absolute(f.Path):
		message += "\nin " + place(f)
	default:
		properties = append(properties, "file="+escapeProperty(Sanitize(f.Path)))
		if f.Line > 0 {
			properties = append(properties, fmt.Sprintf("line=%d", f.Line))
			if f.Column > 0 {
				properties = append(properties, fmt.Sprintf("col=%d", f.Column))
			}
			if f.Width > 0 {
				properties = append(properties, fmt.Sprintf("endColumn=%d", f.Column+f.Width))
			}
		}
	}
	properties = append(properties, "title="+escapeProperty(Sanitize("gpubuild: "+f.ID)))
	kind := f.Severity
	if kind == finding.Note {
		kind = "notice"
	}
	return "::" + kind + " " + strings.Join(properties, ",") + "::" + escapeData(cut(message)) + "\n"
}

// Absolute says of a path in either system's form whether it begins at a root.
func Absolute(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\`) || len(path) > 2 && path[1] == ':' &&
		(path[2] == '\\' || path[2] == '/')
}

func place(f finding.Finding) string {
	if f.Line > 0 {
		return fmt.Sprintf("%s:%d", Sanitize(f.Path), f.Line)
	}
	return Sanitize(f.Path)
}

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
